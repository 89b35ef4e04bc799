// tests/fuzz/safetensors.c -- any bytes as a safetensors file: it is refused, or keeps every
// promise of core/files/safetensors.h.
#include <stdlib.h>
#include <string.h>

#include "core/files/safetensors.h"

static void check(int promise)
{
    if (!promise) abort();
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
    safetensors_close(f);
    return 0;
}
