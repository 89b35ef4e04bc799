// tests/core/files/gguf_out.h -- composes valid or invalid GGUF files byte by byte.
//
//   struct gguf_out o = { .version = 3, .alignment = 32 };
//   out_text(&o, "general.architecture", "llama");
//   out_tensor(&o, "a", 0, 2, (uint64_t[]){ 3, 2 }, numbers, 24);   // F32, [2, 3]
//   struct buf file = out_file(&o);
#ifndef TESTS_CORE_FILES_GGUF_OUT_H
#define TESTS_CORE_FILES_GGUF_OUT_H

#include <string.h>

#include "core/base/mem.h"

enum out_type { OUT_U8, OUT_U32 = 4, OUT_I32, OUT_F32, OUT_BOOL, OUT_TEXT, OUT_LIST, OUT_U64 };

struct gguf_out {
    uint32_t version;
    uint64_t alignment;
    struct buf pairs, tensors, data;
    uint64_t pair_count, tensor_count;
};

static inline void put_number(struct buf *b, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) buf_putc(b, (char)(value >> 8 * i));
}

static inline void put_text(struct buf *b, const char *text)
{
    put_number(b, strlen(text), 8);
    buf_add(b, text, strlen(text));
}

static inline void out_key(struct gguf_out *o, const char *key, uint32_t type)
{
    put_text(&o->pairs, key);
    put_number(&o->pairs, type, 4);
    o->pair_count++;
}

static inline void out_text(struct gguf_out *o, const char *key, const char *text)
{
    out_key(o, key, OUT_TEXT);
    put_text(&o->pairs, text);
}

static inline void out_u32(struct gguf_out *o, const char *key, uint32_t value)
{
    out_key(o, key, OUT_U32);
    put_number(&o->pairs, value, 4);
}

static inline void out_real(struct gguf_out *o, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    out_key(o, key, OUT_F32);
    put_number(&o->pairs, bits, 4);
}

static inline void out_bool(struct gguf_out *o, const char *key, bool value)
{
    out_key(o, key, OUT_BOOL);
    buf_putc(&o->pairs, value);
}

static inline void out_list(struct gguf_out *o, const char *key, uint32_t item, uint64_t count)
{
    out_key(o, key, OUT_LIST);
    put_number(&o->pairs, item, 4);
    put_number(&o->pairs, count, 8);
}

static inline void out_tensor(struct gguf_out *o, const char *name, uint32_t type, uint32_t rank,
                              const uint64_t *shape, const void *bytes, size_t size)
{
    while (o->data.length % o->alignment) buf_putc(&o->data, 0);
    put_text(&o->tensors, name);
    put_number(&o->tensors, rank, 4);
    for (uint32_t i = 0; i < rank; i++) put_number(&o->tensors, shape[i], 8);
    put_number(&o->tensors, type, 4);
    put_number(&o->tensors, o->data.length, 8);
    buf_add(&o->data, bytes, size);
    o->tensor_count++;
}

// Returns the whole file; releases the parts.
static inline struct buf out_file(struct gguf_out *o)
{
    struct buf b = { 0 };
    buf_add(&b, "GGUF", 4);
    put_number(&b, o->version, 4);
    put_number(&b, o->tensor_count, 8);
    put_number(&b, o->pair_count, 8);
    if (o->pairs.length) buf_add(&b, o->pairs.data, o->pairs.length);
    if (o->tensors.length) buf_add(&b, o->tensors.data, o->tensors.length);
    while (o->data.length && b.length % o->alignment) buf_putc(&b, 0);
    if (o->data.length) buf_add(&b, o->data.data, o->data.length);
    buf_release(&o->pairs);
    buf_release(&o->tensors);
    buf_release(&o->data);
    return b;
}

#endif
