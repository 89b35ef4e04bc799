// core/files/safetensors_header.c -- the header of a safetensors file: one JSON object of a fixed
// form.
//
//   {"__metadata__":{"key":"text"},"NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}, ...}
//
// Read by a small reader of its own rather than into a JSON tree: whole numbers stay exact up to
// 2^64, memory stays in proportion to the number of tensors whatever the file holds, and each
// complaint can name the tensor. Facts on the format: the README of huggingface/safetensors.
#include "core/files/safetensors_header.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/base/mem.h"

struct cursor {
    const char *start, *at, *end;
    struct err *err;
};

// All types of the format; those without an enum dtype can lie in a file but not be computed with.
static const struct type {
    const char *name;
    int bits, dtype;
} types[] = {
    { "F32", 32, DTYPE_F32 }, { "F16", 16, DTYPE_F16 }, { "BF16", 16, DTYPE_BF16 },
    { "I32", 32, DTYPE_I32 }, { "U8", 8, DTYPE_U8 },    { "F64", 64, -1 },
    { "I64", 64, -1 },        { "U64", 64, -1 },        { "U32", 32, -1 },
    { "I16", 16, -1 },        { "U16", 16, -1 },        { "I8", 8, -1 },
    { "BOOL", 8, -1 },        { "C64", 64, -1 },        { "F8_E4M3", 8, -1 },
    { "F8_E5M2", 8, -1 },     { "F8_E8M0", 8, -1 },     { "F8_E4M3FNUZ", 8, -1 },
    { "F6_E2M3", 6, -1 },     { "F8_E5M2FNUZ", 8, -1 }, { "F6_E3M2", 6, -1 },
    { "F4", 4, -1 },
};

static int fail(struct cursor *c, const char *expected)
{
    return err_set(c->err, "header, byte %zu: expected %s", (size_t)(c->at - c->start), expected);
}

static void skip_blank(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

// The next character that is not blank, 0 at the end; not taken.
static char peek(struct cursor *c)
{
    skip_blank(c);
    return c->at < c->end ? *c->at : 0;
}

static int take(struct cursor *c, char wanted, const char *expected)
{
    if (peek(c) != wanted || c->at == c->end) return fail(c, expected);
    c->at++;
    return 0;
}

// Four hex digits of \uXXXX.
static int read_hex(struct cursor *c, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        int digit = c->at < c->end ? *c->at : 0;
        if (digit >= '0' && digit <= '9')
            digit -= '0';
        else if (digit >= 'a' && digit <= 'f')
            digit -= 'a' - 10;
        else if (digit >= 'A' && digit <= 'F')
            digit -= 'A' - 10;
        else
            return fail(c, "four hex digits");
        *code = *code * 16 + (uint32_t)digit;
    }
    return 0;
}

// What follows the backslash. A NUL is refused: names are C strings here.
static int read_escape(struct cursor *c, struct buf *text)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char kind = c->at < c->end ? *c->at++ : 0;
    const char *found = kind ? strchr(from, kind) : NULL;
    if (found) {
        buf_putc(text, to[found - from]);
        return 0;
    }
    uint32_t code, low;
    if (kind != 'u') return fail(c, "a valid JSON escape");
    if (read_hex(c, &code) < 0) return -1;
    if (code >= 0xd800 && code < 0xdc00) {
        if (c->end - c->at < 2 || c->at[0] != '\\' || c->at[1] != 'u')
            return fail(c, "the second half of a surrogate pair");
        c->at += 2;
        if (read_hex(c, &low) < 0) return -1;
        if (low < 0xdc00 || low > 0xdfff) return fail(c, "the second half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code == 0 || (code >= 0xdc00 && code <= 0xdfff)) {
        return fail(c, "a character");
    }
    utf8proc_uint8_t utf8[4];
    buf_add(text, utf8, (size_t)utf8proc_encode_char((utf8proc_int32_t)code, utf8));
    return 0;
}

static int read_text(struct cursor *c, struct buf *text)
{
    buf_clear(text);
    buf_puts(text, "");
    if (take(c, '"', "a string in double quotes") < 0) return -1;
    while (c->at < c->end && *c->at != '"') {
        const char *plain = c->at;
        while (c->at < c->end && *c->at != '"' && *c->at != '\\' && (unsigned char)*c->at >= 0x20)
            c->at++;
        buf_add(text, plain, (size_t)(c->at - plain));
        if (c->at == c->end || *c->at == '"') break;
        if (*c->at != '\\') return fail(c, "no control characters in a string");
        c->at++;
        if (read_escape(c, text) < 0) return -1;
    }
    if (c->at == c->end) return fail(c, "the closing quote of a string");
    c->at++;
    return 0;
}

// A whole number from 0 to 2^63-1, as JSON writes it.
static int read_whole(struct cursor *c, int64_t *value)
{
    char first = peek(c);
    const char *start = c->at;
    *value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, *c->at - '0', value))
            return fail(c, "a number below 2^63");
    bool more = c->at < c->end && (*c->at == '.' || *c->at == 'e' || *c->at == 'E');
    if (c->at == start || more || (first == '0' && c->at - start > 1))
        return fail(c, "a non-negative whole number");
    return 0;
}

// [n, n, ...]: at most `limit` numbers.
static int read_list(struct cursor *c, int64_t *values, int limit, int *count)
{
    *count = 0;
    if (take(c, '[', "a list") < 0) return -1;
    if (peek(c) == ']') return c->at++, 0;
    for (;;) {
        if (*count == limit)
            return err_set(c->err, "header, byte %zu: a list of more than %d numbers",
                           (size_t)(c->at - c->start), limit);
        if (read_whole(c, &values[(*count)++]) < 0) return -1;
        if (peek(c) == ']') return c->at++, 0;
        if (take(c, ',', "',' or ']'") < 0) return -1;
    }
}

// Calls member(key) for each member of the object at the cursor.
static int read_object(struct cursor *c,
                       int (*member)(struct cursor *c, const char *key, void *self), void *self)
{
    struct buf key = { 0 };
    int status = take(c, '{', "an object");
    bool more = status == 0 && peek(c) != '}';
    if (status == 0 && !more) c->at++;
    while (status == 0 && more) {
        if ((status = read_text(c, &key)) < 0) break;
        if ((status = take(c, ':', "':'")) < 0) break;
        if ((status = member(c, key.data, self)) < 0) break;
        more = peek(c) == ',';
        status = more ? take(c, ',', "','") : take(c, '}', "',' or '}'");
    }
    buf_release(&key);
    return status;
}

struct metadata {
    char **pairs;
    size_t count, capacity;
};

static int metadata_member(struct cursor *c, const char *key, void *self)
{
    struct metadata *m = self;
    struct buf value = { 0 };
    if (read_text(c, &value) < 0) {
        buf_release(&value);
        return err_in(c->err, "metadata '%.200s'", key);
    }
    if (m->count + 3 > m->capacity) {
        m->capacity = m->capacity ? m->capacity * 2 : 16;
        m->pairs = xreallocarray(m->pairs, m->capacity, sizeof *m->pairs);
    }
    m->pairs[m->count++] = xstrdup(key);
    m->pairs[m->count++] = buf_take(&value);
    m->pairs[m->count] = NULL;
    return 0;
}

struct entry {
    struct safetensor *t;
    int64_t span[2];
    const struct type *type;
    bool shape, offsets;
};

static int type_member(struct cursor *c, struct entry *e)
{
    struct buf name = { 0 };
    int status = read_text(c, &name);
    for (size_t i = 0; status == 0 && i < sizeof types / sizeof *types; i++)
        if (!strcmp(name.data, types[i].name)) e->type = &types[i];
    if (status == 0 && !e->type) status = err_set(c->err, "unknown type '%.40s'", name.data);
    buf_release(&name);
    return status;
}

static int entry_member(struct cursor *c, const char *key, void *self)
{
    struct entry *e = self;
    int count;
    if (!strcmp(key, "dtype") && !e->type) return type_member(c, e);
    if (!strcmp(key, "shape") && !e->shape) {
        e->shape = true;
        return read_list(c, e->t->shape, SAFETENSORS_MAX_RANK, &e->t->rank);
    }
    if (!strcmp(key, "data_offsets") && !e->offsets) {
        e->offsets = true;
        if (read_list(c, e->span, 2, &count) < 0) return -1;
        return count == 2 ? 0 : err_set(c->err, "\"data_offsets\" needs two numbers");
    }
    return err_set(c->err, "key '%.100s' is duplicate or unknown", key);
}

// Bytes of shape x type. Dimensions of 0 are left out of the overflow check's product, so that a
// zero cannot hide two others whose product wraps.
static int entry_check(const struct entry *e, struct err *err)
{
    int64_t elements = 1, bits;
    bool empty = false;
    for (int i = 0; i < e->t->rank; i++) {
        int64_t n = e->t->shape[i];
        empty |= n == 0;
        if (__builtin_mul_overflow(elements, n ? n : 1, &elements))
            return err_set(err, "its shape has more than 2^63 elements");
    }
    if (__builtin_mul_overflow(elements, (int64_t)e->type->bits, &bits))
        return err_set(err, "its shape needs more than 2^63 bits");
    if (empty) bits = 0;
    if (bits % 8) return err_set(err, "its %s elements do not fill whole bytes", e->type->name);
    if (e->span[1] < e->span[0])
        return err_set(err, "its data ends (%lld) before it starts (%lld)", (long long)e->span[1],
                       (long long)e->span[0]);
    if (e->span[1] - e->span[0] != bits / 8)
        return err_set(err, "its shape and type need %lld bytes, its offsets give %lld",
                       (long long)(bits / 8), (long long)(e->span[1] - e->span[0]));
    return 0;
}

struct reading {
    struct safetensors *f;
    struct metadata metadata;
    int64_t capacity;
    bool metadata_seen;
};

static int tensor_member(struct cursor *c, const char *key, void *self)
{
    struct reading *r = self;
    struct safetensors *f = r->f;
    if (!strcmp(key, "__metadata__")) {
        if (r->metadata_seen) return err_set(c->err, "\"__metadata__\" appears twice");
        r->metadata_seen = true;
        return read_object(c, metadata_member, &r->metadata);
    }
    if (f->count == r->capacity) {
        r->capacity = r->capacity ? r->capacity * 2 : 64;
        f->tensors = xreallocarray(f->tensors, (size_t)r->capacity, sizeof *f->tensors);
    }
    struct safetensor *t = &f->tensors[f->count++];
    *t = (struct safetensor){ .name = xstrdup(key) };
    struct entry e = { .t = t };
    if (read_object(c, entry_member, &e) < 0) return err_in(c->err, "tensor '%.200s'", key);
    if (!e.type || !e.shape || !e.offsets)
        return err_set(c->err, "tensor '%.200s': \"%s\" is missing", key,
                       !e.type    ? "dtype"
                       : !e.shape ? "shape"
                                  : "data_offsets");
    if (entry_check(&e, c->err) < 0) return err_in(c->err, "tensor '%.200s'", key);
    t->type = e.type->name;
    t->dtype = e.type->dtype;
    t->offset = (uint64_t)e.span[0];
    t->bytes = (uint64_t)(e.span[1] - e.span[0]);
    return 0;
}

static int utf8_check(const char *text, size_t size, struct err *err)
{
    for (size_t i = 0; i < size;) {
        utf8proc_int32_t code;
        if ((unsigned char)text[i] < 0x80) {
            i++;
            continue;
        }
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                              (utf8proc_ssize_t)(size - i), &code);
        if (n <= 0) return err_set(err, "header, byte %zu: not UTF-8", i);
        i += (size_t)n;
    }
    return 0;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int metadata_check(const struct metadata *m, struct err *err)
{
    size_t n = m->count / 2;
    if (n < 2) return 0;
    const char **keys = xreallocarray(NULL, n, sizeof *keys);
    for (size_t i = 0; i < n; i++) keys[i] = m->pairs[2 * i];
    qsort(keys, n, sizeof *keys, compare_text);
    int status = 0;
    for (size_t i = 1; i < n && status == 0; i++)
        if (!strcmp(keys[i - 1], keys[i]))
            status = err_set(err, "metadata '%.200s' appears twice", keys[i]);
    free(keys);
    return status;
}

int safetensors_header_read(struct safetensors *f, const char *text, size_t size, struct err *err)
{
    struct cursor c = { text, text, text + size, err };
    if (!size || *text != '{') return fail(&c, "'{' as its first byte");
    if (utf8_check(text, size, err) < 0) return -1;
    struct reading r = { .f = f };
    int status = read_object(&c, tensor_member, &r);
    f->metadata = r.metadata.pairs;
    if (status == 0) status = metadata_check(&r.metadata, err);
    skip_blank(&c);
    if (status == 0 && c.at < c.end) status = fail(&c, "nothing after the closing '}'");
    return status;
}
