// core/files/safetensors.c -- the safetensors reader: maps the file, reads the header and checks
// the layout of the tensors.
//
//   8 bytes: length n of the header (little-endian) | n bytes: JSON | data, without gap or overlap
//   {"__metadata__":{"key":"text"},"NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}, ...}
// A special reader parses the header without building a JSON tree: whole numbers stay exact up to
// 2^63, memory stays proportional to the number of tensors in any file, and each error can name the
// tensor. Opening reads the header only. Facts on the format: the README of
// huggingface/safetensors.
#include "core/files/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

enum { HEADER_LIMIT = 100 * 1000 * 1000 };

// --- the header ----------------------------------------------------------------------------------

struct cursor {
    const char *start, *at, *end;
    struct err *err;
};

// All types of the format; dtype -1: valid, but not supported in computations.
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

// Skips white space and returns the next character without consuming it; 0 at the end.
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

// Reads the four hex digits of \uXXXX.
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

// Reads an escape after its backslash. Refuses NUL: names are C strings.
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
    utf8_put(text, (int32_t)code);
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

// Reads a whole number from 0 to 2^63-1.
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

// Reads [n, n, ...], at most `limit` numbers.
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

struct reading {
    struct safetensors *f;
    size_t capacity; // of f->tensors
    char **pairs;    // key, value, key, value, ... NULL
    size_t pair_count, pair_capacity;
    bool metadata_seen;
};

static int metadata_member(struct cursor *c, const char *key, void *self)
{
    struct reading *r = self;
    struct buf value = { 0 };
    if (read_text(c, &value) < 0) {
        buf_release(&value);
        return err_in(c->err, "metadata '%.200s'", key);
    }
    if (r->pair_count + 3 > r->pair_capacity) {
        r->pair_capacity = r->pair_capacity ? r->pair_capacity * 2 : 16;
        r->pairs = xreallocarray(r->pairs, r->pair_capacity, sizeof *r->pairs);
    }
    r->pairs[r->pair_count++] = xstrdup(key);
    r->pairs[r->pair_count++] = buf_take(&value);
    r->pairs[r->pair_count] = NULL;
    return 0;
}

struct entry {
    struct safetensor *t;
    int64_t span[2];
    const struct type *type;
    bool shape, offsets;
};

static int entry_member(struct cursor *c, const char *key, void *self)
{
    struct entry *e = self;
    int count;
    if (!strcmp(key, "dtype") && !e->type) {
        struct buf name = { 0 };
        int status = read_text(c, &name);
        for (size_t i = 0; status == 0 && i < sizeof types / sizeof *types; i++)
            if (!strcmp(name.data, types[i].name)) e->type = &types[i];
        if (status == 0 && !e->type) status = err_set(c->err, "unknown type '%.40s'", name.data);
        buf_release(&name);
        return status;
    }
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

// Compares shape x type with the span. The product skips dimensions of 0, so that a zero cannot
// hide an overflow of the others.
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

static int tensor_member(struct cursor *c, const char *key, void *self)
{
    struct reading *r = self;
    struct safetensors *f = r->f;
    if (!strcmp(key, "__metadata__")) {
        if (r->metadata_seen) return err_set(c->err, "\"__metadata__\" appears twice");
        r->metadata_seen = true;
        return read_object(c, metadata_member, r);
    }
    f->tensors = xgrow(f->tensors, &r->capacity, f->count, sizeof *f->tensors);
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

static int read_header(struct safetensors *f, const char *text, size_t size, struct err *err)
{
    struct cursor c = { text, text, text + size, err };
    if (!size || *text != '{') return fail(&c, "'{' as its first byte");
    const size_t bad = text_bad_byte(text, size);
    if (bad < size) return err_set(err, "header, byte %zu: not UTF-8", bad);
    struct reading r = { .f = f };
    int status = read_object(&c, tensor_member, &r);
    f->metadata = r.pairs;
    // Sorts a copy of the pairs by key, to find a key that occurs twice.
    const size_t bytes = r.pair_count * sizeof *r.pairs;
    char **sorted = xmalloc(bytes);
    if (bytes) memcpy(sorted, r.pairs, bytes);
    const char *twice = text_sort(sorted, r.pair_count / 2, 2 * sizeof *sorted);
    if (status == 0 && twice) status = err_set(err, "metadata '%.200s' appears twice", twice);
    free(sorted);
    skip_blank(&c);
    if (status == 0 && c.at < c.end) status = fail(&c, "nothing after the closing '}'");
    return status;
}

// --- layout --------------------------------------------------------------------------------------

static int by_offset(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

// Each tensor must begin at the end of the previous one, and the last must end with the file.
static int layout_check(struct safetensors *f, uint64_t data_size, struct err *err)
{
    uint64_t end = 0;
    if (f->count) qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, by_offset);
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        if (t->offset != end)
            return err_set(err, "tensor '%.200s': its data starts at %llu, %s %llu", t->name,
                           (unsigned long long)t->offset,
                           t->offset > end ? "leaving a gap after"
                                           : "overlapping data that ends at",
                           (unsigned long long)end);
        end += t->bytes; // both below 2^63
        if (end > data_size)
            return err_set(err,
                           "tensor '%.200s': its data ends at %llu, beyond the file's %llu data "
                           "bytes: the file is truncated, download it again",
                           t->name, (unsigned long long)end, (unsigned long long)data_size);
    }
    if (end != data_size)
        return err_set(err, "%llu bytes at the end belong to no tensor",
                       (unsigned long long)(data_size - end));
    return 0;
}

static int parse(struct safetensors *f, struct err *err)
{
    const unsigned char *bytes = f->map;
    if (f->size < 8) return err_set(err, "it has only %llu bytes", (unsigned long long)f->size);
    if (!memcmp(bytes, "version ", 8))
        return err_set(err, "it is a Git LFS pointer, not the weights: run 'git lfs pull' in its "
                            "folder");
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
    if (length > HEADER_LIMIT)
        return err_set(err, "its header claims %llu bytes; the format allows %d",
                       (unsigned long long)length, HEADER_LIMIT);
    if (length > f->size - 8)
        return err_set(err, "its header of %llu bytes is longer than the file: is it truncated?",
                       (unsigned long long)length);
    f->header = 8 + length;
    if (read_header(f, (const char *)bytes + 8, length, err) < 0) return -1;
    if (layout_check(f, f->size - f->header, err) < 0) return -1;
    const char *twice = text_sort(f->tensors, (size_t)f->count, sizeof *f->tensors);
    if (twice) return err_set(err, "tensor '%.200s' appears twice", twice);
    for (int64_t i = 0; i < f->count; i++)
        f->tensors[i].data = bytes + f->header + f->tensors[i].offset;
    return 0;
}

static struct safetensors *open_bytes(const void *bytes, uint64_t size, const char *path,
                                      bool borrowed, struct err *err)
{
    struct safetensors *f = xcalloc(1, sizeof *f);
    f->path = xstrdup(path);
    f->map = (void *)(uintptr_t)bytes;
    f->size = size;
    f->borrowed = borrowed;
    if (parse(f, err) == 0) return f;
    err_in(err, "'%s' is not a valid safetensors file", path);
    safetensors_close(f);
    return NULL;
}

struct safetensors *safetensors_parse(const void *bytes, uint64_t size, const char *name,
                                      struct err *err)
{
    return open_bytes(bytes, size, name, true, err);
}

struct safetensors *safetensors_open(const char *path, struct err *err)
{
    uint64_t size;
    void *map = file_map(path, &size, err);
    return map ? open_bytes(map, size, path, false, err) : NULL;
}

void safetensors_close(struct safetensors *f)
{
    if (!f) return;
    if (f->map && !f->borrowed) munmap(f->map, f->size);
    for (int64_t i = 0; i < f->count; i++) free(f->tensors[i].name);
    for (char **m = f->metadata; m && *m; m++) free(*m);
    free(f->metadata);
    free(f->tensors);
    free(f->path);
    free(f);
}

uint64_t safetensors_resident(const struct safetensors *f)
{
    enum { PAGES = 4096 };
    unsigned char there[PAGES];
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), step = PAGES * page;
    uint64_t bytes = 0;
    if (f->borrowed) return f->size;
    for (uint64_t at = 0; at < f->size; at += step) {
        const uint64_t size = f->size - at < step ? f->size - at : step;
        if (mincore((char *)f->map + at, size, there) < 0) return bytes;
        for (uint64_t i = 0; i * page < size; i++)
            if (there[i] & 1) bytes += size - i * page < page ? size - i * page : page;
    }
    return bytes;
}

bool safetensor_is_float(const struct safetensor *t)
{
    return t->dtype == DTYPE_F32 || t->dtype == DTYPE_F16 || t->dtype == DTYPE_BF16;
}

int64_t safetensor_count(const struct safetensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

const struct safetensor *safetensors_find(const struct safetensors *f, const char *name)
{
    struct safetensor key = { .name = (char *)(uintptr_t)name };
    if (!f->count) return NULL;
    return bsearch(&key, f->tensors, (size_t)f->count, sizeof key, text_compare);
}

const char *safetensors_metadata(const struct safetensors *f, const char *key)
{
    for (char **m = f->metadata; m && *m; m += 2)
        if (!strcmp(m[0], key)) return m[1];
    return NULL;
}
