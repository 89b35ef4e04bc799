// core/files/safetensors_write.c -- the safetensors writer: makes the header from the declarations,
// and writes the data in pieces. Keeps the first failure; later calls return it.
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/files/content.h"
#include "core/files/safetensors.h"
#include "core/files/whole_file.h"

struct safetensors_writer {
    struct whole_file *file;
    struct buf metadata, tensors; // members of the JSON objects, each with a comma after it
    uint64_t declared, written;   // bytes of data
    bool begun, hashed;
};

// The data begins at a multiple of this many bytes in the file, so that rows of weights are aligned
// for the CPU.
enum { WRITER_ALIGN = 64 };

struct safetensors_writer *safetensors_writer_new(const char *path)
{
    struct safetensors_writer *w = xcalloc(1, sizeof *w);
    w->file = whole_file_new(path);
    return w;
}

void safetensors_writer_metadata(struct safetensors_writer *w, const char *key, const char *value)
{
    if (w->begun) BUG("safetensors writer: metadata after data");
    json_put_text(&w->metadata, key);
    buf_putc(&w->metadata, ':');
    json_put_text(&w->metadata, value);
    buf_putc(&w->metadata, ',');
}

// "hash" is the first metadata entry, so its offset in the file is known.
static const char before_hash[] = "{\"__metadata__\":{\"hash\":\"";

enum { HASH_AT = 8 + sizeof before_hash - 1 };

void safetensors_writer_hash(struct safetensors_writer *w)
{
    char zeros[HASH_HEX];
    if (w->metadata.length) BUG("safetensors writer: the hash must come first");
    memset(zeros, '0', sizeof zeros - 1);
    zeros[sizeof zeros - 1] = 0;
    safetensors_writer_metadata(w, "hash", zeros);
    w->hashed = true;
}

int safetensors_check_hash(const struct safetensors *f, struct err *err)
{
    const char *was = safetensors_metadata(f, "hash");
    char is[HASH_HEX];
    // If another program has rewritten the file, the hash may be elsewhere; it is then not checked.
    if (!was || strlen(was) != HASH_HEX - 1 || f->size < HASH_AT + HASH_HEX ||
        memcmp((const char *)f->map + HASH_AT, was, HASH_HEX - 1) != 0)
        return 0;
    if (content_hash_blank(f->path, HASH_AT, &content_watched, is, err) < 0) return -1;
    return strcmp(was, is)
               ? err_set(err, "'%s' is damaged: its content differs from what was written", f->path)
               : 0;
}

void safetensors_writer_declare(struct safetensors_writer *w, const char *name, enum dtype dtype,
                                int rank, const int64_t *shape)
{
    static const char *const type[] = { "F32", "F16", "BF16", "I32", "U8" };
    if (dtype_in_blocks(dtype)) BUG("safetensors writer: blocks in '%s'", name);
    safetensors_writer_declare_type(w, name, type[dtype], dtype_size(dtype), rank, shape);
}

void safetensors_writer_declare_type(struct safetensors_writer *w, const char *name,
                                     const char *type, size_t size, int rank, const int64_t *shape)
{
    if (w->begun) BUG("safetensors writer: declaration after data");
    uint64_t bytes = size;
    json_put_text(&w->tensors, name);
    buf_printf(&w->tensors, ":{\"dtype\":\"%s\",\"shape\":[", type);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes))
            BUG("safetensors writer: shape of '%s'", name);
        buf_printf(&w->tensors, "%s%lld", i ? "," : "", (long long)shape[i]);
    }
    buf_printf(&w->tensors, "],\"data_offsets\":[%llu,%llu]},", (unsigned long long)w->declared,
               (unsigned long long)(w->declared + bytes));
    w->declared += bytes;
}

// Writes {"__metadata__":{...},"NAME":{...},...} padded with spaces up to the alignment.
static void begin(struct safetensors_writer *w)
{
    struct buf header = { 0 };
    w->begun = true;
    buf_putc(&header, '{');
    if (w->metadata.length) {
        buf_puts(&header, "\"__metadata__\":{");
        buf_add(&header, w->metadata.data, w->metadata.length - 1);
        buf_puts(&header, "},");
    }
    buf_add(&header, w->tensors.data, w->tensors.length);
    if (header.data[header.length - 1] == ',') header.data[--header.length] = 0;
    buf_putc(&header, '}');
    while ((8 + header.length) % WRITER_ALIGN) buf_putc(&header, ' ');
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header.length >> (8 * i));
    whole_file_put(w->file, length, sizeof length);
    whole_file_put(w->file, header.data, header.length);
    buf_release(&header);
}

// Begins the file if necessary, and checks that `size` more bytes were declared.
static void expect(struct safetensors_writer *w, uint64_t size)
{
    if (!w->begun) begin(w);
    if (w->written + size > w->declared) BUG("safetensors writer: more data than declared");
    w->written += size;
}

static int answer(const struct safetensors_writer *w, int status, struct err *err)
{
    return status < 0 ? err_set(err, "%s", w->file->why.text) : 0;
}

int safetensors_writer_data(struct safetensors_writer *w, const void *bytes, uint64_t size,
                            struct err *err)
{
    expect(w, size);
    return answer(w, whole_file_put(w->file, bytes, size), err);
}

int safetensors_writer_zeros(struct safetensors_writer *w, uint64_t size, struct err *err)
{
    expect(w, size);
    return answer(w, whole_file_skip(w->file, size), err);
}

static void release(struct safetensors_writer *w)
{
    buf_release(&w->metadata);
    buf_release(&w->tensors);
    free(w);
}

int safetensors_writer_finish(struct safetensors_writer *w, struct err *err)
{
    char hex[HASH_HEX];
    int status = 0;
    if (!w->begun) begin(w);
    const bool good = !w->file->failed; // else whole_file_finish reports the failure
    if (good && w->written != w->declared)
        status = err_set(err, "'%s' is incomplete: %llu of %llu bytes were written", w->file->path,
                         (unsigned long long)w->written, (unsigned long long)w->declared);
    else if (good && w->hashed)
        status = content_hash_blank(w->file->temporary, HASH_AT, NULL, hex, err);
    if (status == 0 && good && w->hashed) whole_file_replace(w->file, HASH_AT, hex, sizeof hex - 1);
    if (status == 0)
        status = whole_file_finish(w->file, err);
    else
        whole_file_abandon(w->file);
    release(w);
    return status;
}

void safetensors_writer_abandon(struct safetensors_writer *w)
{
    if (!w) return;
    whole_file_abandon(w->file);
    release(w);
}
