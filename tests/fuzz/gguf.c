// tests/fuzz/gguf.c -- any bytes as a GGUF file: refused, or every promise of core/files/gguf.h
// holds.
#include <stdlib.h>
#include <string.h>

#include "core/files/gguf.h"

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
    gguf_close(f);
    return 0;
}
