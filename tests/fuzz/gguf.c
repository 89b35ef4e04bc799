// tests/fuzz/gguf.c -- reads arbitrary bytes as a GGUF file, which is refused; or its keys are
// found by name, its lists and tensors lie in the file, and the tensors have the sizes of their
// shapes. Also reads it as the file of a decoder and of an encoder.
#include <stdlib.h>
#include <string.h>

#include "core/files/gguf_parts.h"

static void check(int promise)
{
    if (!promise) abort();
}

static void check_entry(const struct gguf *f, const struct gguf_entry *e)
{
    volatile double sum = 0;
    struct err err;
    const struct gguf_entry *list;
    check(gguf_entry(f, e->key) == e && (e->type == GGUF_TEXT) == (e->text != NULL));
    if (gguf_list(f, e->key, false, UINT64_MAX, &list, &err) == 0)
        for (uint64_t i = 0; i < list->count; i++) sum += gguf_number(list, i);
    if (gguf_list(f, e->key, true, UINT64_MAX, &list, &err) < 0) return;
    const unsigned char *at = list->data, *end = (const unsigned char *)f->map + f->size;
    for (uint64_t i = 0; i < list->count; i++) {
        size_t length;
        const char *text = gguf_next(&at, &length);
        check(at <= end);
        if (length) sum += text[0] + text[length - 1];
    }
}

static void check_tensors(const struct gguf *f, struct renamed *r)
{
    volatile unsigned sum = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct safetensor *t = &r->list[i];
        int64_t count = 1;
        for (int k = 0; k < t->rank; k++) count *= t->shape[k];
        check(t->dtype < 0 || dtype_bytes((enum dtype)t->dtype, count) == t->bytes);
        if (t->bytes) sum += *(const uint8_t *)t->data + ((const uint8_t *)t->data)[t->bytes - 1];
        free(t->name);
    }
    for (size_t i = 0; i < r->made_count; i++) free(r->made[i]);
    free(r->made);
    free(r->list);
}

static void as_model(const struct gguf *f)
{
    static const struct gguf_prefixes prefixes = { "model.", "" };
    struct err err;
    struct renamed text = { 0 }, encoder = { 0 };
    cJSON *config = cJSON_CreateObject(), *preprocessor = NULL;
    cJSON_Delete(gguf_tokenizer_config(f, &err));
    size_t named;
    cJSON_Delete(gguf_generation_config(f, &named, &err));
    tokenizer_free(gguf_tokenizer(f, &err));
    (void)gguf_text_config(f, config, &err);
    (void)gguf_text_tensors(f, config, &prefixes, &text, &err);
    const struct gguf_encoder *e = gguf_encoder_find(f, f, &err);
    if (e) {
        (void)gguf_encoder_fits(e, f, f, &err);
        (void)gguf_encoder_config(e, f, f, &config, &preprocessor, &err);
        (void)gguf_encoder_tensors(e, f, &encoder, &err);
    }
    check_tensors(f, &text);
    check_tensors(f, &encoder);
    cJSON_Delete(config);
    cJSON_Delete(preprocessor);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct err err;
    volatile unsigned sum = 0;
    struct gguf *f = gguf_parse(bytes, size, "fuzz", &err);
    if (!f) return 0;
    for (uint64_t i = 0; i < f->tensor_count; i++) {
        const struct safetensor *t = &f->tensors[i];
        const unsigned char *data = t->data;
        check(t->rank >= 1 && t->bytes > 0 && t->bytes <= size && gguf_find(f, t->name) == t);
        check(data >= bytes + f->header && data + t->bytes <= bytes + size);
        sum += data[0] + data[t->bytes - 1];
        int64_t count = 1;
        for (int k = 0; k < t->rank; k++) count *= t->shape[k];
        check(t->dtype < 0 || dtype_bytes((enum dtype)t->dtype, count) == t->bytes);
    }
    for (uint64_t i = 0; i < f->entry_count; i++) check_entry(f, &f->entries[i]);
    as_model(f);
    gguf_close(f);
    return 0;
}
