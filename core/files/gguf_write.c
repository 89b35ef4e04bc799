// core/files/gguf_write.c -- the GGUF writer (ggml's docs/gguf.md): a header of metadata and tensor
// records, then the tensors' bytes, each aligned to ALIGN.
#include "core/files/gguf_write.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/files/gguf.h"
#include "core/files/whole_file.h"
#include "kernels/blocks.h"

enum { VERSION_3 = 3, ALIGN = 32 };

struct gguf_writer {
    struct whole_file *file;
    const char *prefix;          // of keys
    struct buf entries, records; // bytes of the header
    uint64_t entry_count;
    uint64_t *bytes; // of each tensor
    size_t count;
    size_t tensor;    // index of the tensor that is being written
    uint64_t written; // bytes of that tensor written so far
    bool begun;
};

// --- types ---------------------------------------------------------------------------------------

static const struct gguf_kind kinds[] = {
    { "q8_0", DTYPE_Q8_0, DTYPE_Q8_0, 7 },
    { "q4_k", DTYPE_Q4_K, DTYPE_Q6_K, 15 },
    { "f16", DTYPE_F16, DTYPE_F16, 1 },
    { "bf16", DTYPE_BF16, DTYPE_BF16, 32 },
    { 0 },
};

const struct gguf_kind *gguf_kind_find(const char *name)
{
    for (const struct gguf_kind *k = kinds; k->name; k++)
        if (!strcmp(k->name, name)) return k;
    return NULL;
}

char *gguf_kind_names(void)
{
    struct buf names = { 0 };
    for (const struct gguf_kind *k = kinds; k->name; k++)
        buf_printf(&names, "%s%s", k == kinds ? "" : ", ", k->name);
    return buf_take(&names);
}

enum dtype gguf_fitting_dtype(enum dtype first, int64_t width)
{
    const enum dtype order[] = { first, DTYPE_Q8_0, DTYPE_F16 };
    int i = 0;
    while (i < 2 && width % dtype_form(order[i]).numbers) i++;
    return order[i];
}

// --- header --------------------------------------------------------------------------------------

struct gguf_writer *gguf_writer_new(const char *path)
{
    struct gguf_writer *w = xcalloc(1, sizeof *w);
    w->file = whole_file_new(path);
    return w;
}

void gguf_writer_prefix(struct gguf_writer *w, const char *prefix)
{
    w->prefix = prefix;
}

// Numbers are little-endian, as on all machines that this program runs on.
static void put_u32(struct buf *b, uint32_t x)
{
    buf_add(b, &x, sizeof x);
}

static void put_u64(struct buf *b, uint64_t x)
{
    buf_add(b, &x, sizeof x);
}

static void put_text(struct buf *b, const char *text, size_t length)
{
    put_u64(b, length);
    buf_add(b, text, length);
}

static void put_key(struct gguf_writer *w, const char *key, enum gguf_type type)
{
    if (w->begun) BUG("gguf writer: metadata after data");
    const char *prefix = *key == '.' && w->prefix ? w->prefix : "";
    put_u64(&w->entries, strlen(prefix) + strlen(key));
    buf_printf(&w->entries, "%s%s", prefix, key);
    put_u32(&w->entries, (uint32_t)type);
    w->entry_count++;
}

void gguf_writer_text(struct gguf_writer *w, const char *key, const char *value)
{
    put_key(w, key, GGUF_TEXT);
    put_text(&w->entries, value, strlen(value));
}

void gguf_writer_u32(struct gguf_writer *w, const char *key, int64_t value)
{
    put_key(w, key, GGUF_U32);
    put_u32(&w->entries, (uint32_t)value);
}

void gguf_writer_f32(struct gguf_writer *w, const char *key, double value)
{
    const float number = (float)value;
    put_key(w, key, GGUF_F32);
    buf_add(&w->entries, &number, sizeof number);
}

void gguf_writer_bool(struct gguf_writer *w, const char *key, bool value)
{
    put_key(w, key, GGUF_BOOL);
    buf_putc(&w->entries, (char)value);
}

static void put_list(struct gguf_writer *w, const char *key, enum gguf_type item,
                     const void *values, size_t count, size_t bytes)
{
    put_key(w, key, GGUF_LIST);
    put_u32(&w->entries, (uint32_t)item);
    put_u64(&w->entries, count);
    buf_add(&w->entries, values, bytes);
}

void gguf_writer_i32s(struct gguf_writer *w, const char *key, const int32_t *values, size_t count)
{
    put_list(w, key, GGUF_I32, values, count, count * sizeof *values);
}

void gguf_writer_bools(struct gguf_writer *w, const char *key, const bool *values, size_t count)
{
    put_list(w, key, GGUF_BOOL, values, count, count * sizeof *values);
}

void gguf_writer_f32s(struct gguf_writer *w, const char *key, const float *values, size_t count)
{
    put_list(w, key, GGUF_F32, values, count, count * sizeof *values);
}

void gguf_writer_texts(struct gguf_writer *w, const char *key, size_t count)
{
    put_list(w, key, GGUF_TEXT, NULL, count, 0);
}

void gguf_writer_text_of(struct gguf_writer *w, const char *text, size_t length)
{
    put_text(&w->entries, text, length);
}

// --- tensors -------------------------------------------------------------------------------------

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void gguf_writer_declare(struct gguf_writer *w, const char *name, enum dtype dtype, int rank,
                         const int64_t *shape)
{
    if (w->begun) BUG("gguf writer: declaration after data");
    uint64_t numbers = 1, offset = 0;
    for (int i = 0; i < rank; i++)
        if (shape[i] <= 0 || __builtin_mul_overflow(numbers, (uint64_t)shape[i], &numbers) ||
            numbers > INT64_MAX / 8)
            BUG("gguf writer: shape of '%s'", name);
    if (!rank || shape[rank - 1] % dtype_form(dtype).numbers)
        BUG("gguf writer: rows of '%s' are not whole blocks", name);
    for (size_t i = 0; i < w->count; i++) offset += aligned(w->bytes[i]);
    put_text(&w->records, name, strlen(name));
    put_u32(&w->records, (uint32_t)rank);
    for (int i = rank - 1; i >= 0; i--) put_u64(&w->records, (uint64_t)shape[i]);
    put_u32(&w->records, (uint32_t)gguf_type_id(dtype));
    put_u64(&w->records, offset);
    w->bytes = xreallocarray(w->bytes, w->count + 1, sizeof *w->bytes);
    w->bytes[w->count++] = dtype_bytes(dtype, (int64_t)numbers);
}

static void begin(struct gguf_writer *w)
{
    struct buf header = { 0 };
    w->begun = true;
    buf_puts(&header, "GGUF");
    put_u32(&header, VERSION_3);
    put_u64(&header, w->count);
    put_u64(&header, w->entry_count);
    buf_add(&header, w->entries.data, w->entries.length);
    buf_add(&header, w->records.data, w->records.length);
    while (header.length % ALIGN) buf_putc(&header, 0);
    whole_file_put(w->file, header.data, header.length);
    buf_release(&header);
}

// Pads a complete tensor and starts the next.
static void pad(struct gguf_writer *w)
{
    static const char zeros[ALIGN];
    while (w->tensor < w->count && w->written == w->bytes[w->tensor]) {
        whole_file_put(w->file, zeros, aligned(w->written) - w->written);
        w->tensor++;
        w->written = 0;
    }
}

int gguf_writer_data(struct gguf_writer *w, const void *bytes, uint64_t size, struct err *err)
{
    const char *at = bytes;
    if (!w->begun) begin(w);
    for (pad(w); size; pad(w)) {
        if (w->tensor == w->count) BUG("gguf writer: more data than declared");
        const uint64_t left = w->bytes[w->tensor] - w->written, some = size < left ? size : left;
        if (whole_file_put(w->file, at, some) < 0) return err_set(err, "%s", w->file->why.text);
        at += some;
        size -= some;
        w->written += some;
    }
    return 0;
}

int gguf_writer_floats(struct gguf_writer *w, const char *tensor, enum dtype dtype, float *floats,
                       int64_t n, int64_t width, struct err *err)
{
    const size_t bytes = dtype_bytes(dtype, n);
    const int64_t row = (int64_t)dtype_bytes(dtype, width);
    char *packed = xmalloc(bytes);
    int status = 0;
    if (!floats_finite(floats, (size_t)n))
        status = err_set(err, "tensor '%s' has values that are not finite", tensor);
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < n / width; i++) {
        if (dtype_in_blocks(dtype))
            blocks_pack(packed + i * row, dtype, floats + i * width, width);
        else
            floats_to(packed + i * row, dtype, floats + i * width, (size_t)width);
    }
    floats_from(floats, packed, dtype, (size_t)n);
    if (status == 0 && !floats_finite(floats, (size_t)n))
        status =
            err_set(err, "tensor '%s' has values that overflow %s", tensor, dtype_form(dtype).name);
    if (status == 0) status = gguf_writer_data(w, packed, bytes, err);
    free(packed);
    return status;
}

static void release(struct gguf_writer *w)
{
    buf_release(&w->entries);
    buf_release(&w->records);
    free(w->bytes);
    free(w);
}

int gguf_writer_seal(struct gguf_writer *w, struct whole_file **file, struct err *err)
{
    int status;
    if (!w->begun) begin(w);
    pad(w);
    if (w->tensor < w->count && !w->file->failed)
        status = err_set(err, "'%s' is incomplete: %zu of %zu tensors were written", w->file->path,
                         w->tensor, w->count);
    else
        status = whole_file_seal(w->file, err);
    *file = w->file;
    if (status < 0) {
        whole_file_abandon(w->file);
        *file = NULL;
    }
    release(w);
    return status;
}

int gguf_writer_finish(struct gguf_writer *w, struct err *err)
{
    struct whole_file *file;
    return gguf_writer_seal(w, &file, err) < 0 ? -1 : whole_file_finish(file, err);
}

void gguf_writer_abandon(struct gguf_writer *w)
{
    if (!w) return;
    whole_file_abandon(w->file);
    release(w);
}
