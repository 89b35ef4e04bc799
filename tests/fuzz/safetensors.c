// tests/fuzz/safetensors.c -- reads arbitrary bytes as a safetensors file, which is refused; or its
// tensors and metadata are found by name, and the tensors fill the file and have the sizes of their
// shapes. If its metadata have config.json under "config", also reads it as a folder of quantised
// weights.
#include <stdlib.h>
#include <string.h>

#include "core/files/checkpoint.h"
#include "core/files/quantised/quantised.h"
#include "core/files/safetensors.h"

static void check(int promise)
{
    if (!promise) abort();
}

// Unpacks the matrices to numbers, and to the form in which they are kept.
static void unpack(const struct safetensor *t)
{
    const int64_t n = t->quantised ? t->shape[0] * t->shape[1] : 0;
    if (!n || n > 1 << 20) return;
    float *numbers = xreallocarray(NULL, (size_t)n, sizeof *numbers);
    char *kept = xmalloc(t->bytes);
    quantised_rows(t, 0, t->shape[0], numbers);
    check(quantised_unpack(t, kept, NULL, NULL) && quantised_same(t, t));
    free(kept);
    free(numbers);
}

static void join(struct safetensors *f)
{
    const char *text = safetensors_metadata(f, "config");
    cJSON *config = text ? json_parse(text, strlen(text), "fuzz", NULL) : NULL;
    struct checkpoint c = { .folder = (char *)"fuzz", .config = config, .shards = &f };
    struct err err;
    if (cJSON_IsObject(config) && f->count) {
        c.shard_count = 1;
        c.tensors = xcalloc((size_t)f->count, sizeof *c.tensors);
        for (; c.tensor_count < f->count; c.tensor_count++)
            c.tensors[c.tensor_count] = &f->tensors[c.tensor_count];
        if (quantised_join(&c, &err) == 0) {
            for (int64_t i = 0; i < c.tensor_count; i++) unpack(c.tensors[i]);
            free(quantised_text(&c));
        }
        quantised_free(c.quantised);
        for (size_t i = 0; i < c.made_count; i++) free(c.made[i]);
        free(c.made);
        free(c.tensors);
        free(c.notice);
    }
    cJSON_Delete(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct err err;
    volatile unsigned sum = 0;
    struct safetensors *f = safetensors_parse(bytes, size, "fuzz", &err);
    if (!f) return 0;
    uint64_t total = f->header;
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        const unsigned char *data = t->data;
        total += t->bytes;
        check(t->rank >= 0 && t->rank <= SAFETENSORS_MAX_RANK && t->bytes <= size);
        check(data >= bytes && data + t->bytes <= bytes + size);
        if (t->bytes) sum += data[0] + data[t->bytes - 1];
        check(safetensors_find(f, t->name) == t);
        if (t->dtype < 0) continue;
        uint64_t expected = dtype_size((enum dtype)t->dtype);
        for (int k = 0; k < t->rank; k++) expected *= (uint64_t)t->shape[k];
        check(expected == t->bytes);
    }
    check(total == size);
    for (char **m = f->metadata; m && *m; m += 2) check(safetensors_metadata(f, m[0]) == m[1]);
    join(f);
    safetensors_close(f);
    return 0;
}
