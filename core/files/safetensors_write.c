// core/files/safetensors_write.c -- the safetensors writer: header from the declarations, data in
// pieces.
//
// Everything goes into PATH.XXXXXX beside the target, which is synced and renamed at the end, so a
// file under its final name is always complete. The first failure is kept: later calls return it.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/files/safetensors.h"

struct safetensors_writer {
    char *path, *temporary; // temporary: NULL until the file is there
    int fd;
    struct buf metadata, tensors; // members of the JSON objects, each with a comma after it
    uint64_t declared, written;   // bytes of data
    bool begun, failed;
    struct err why;
};

// Data begins at a multiple of this in the file, so that rows of weights are aligned for the CPU.
enum { WRITER_ALIGN = 64 };

struct safetensors_writer *safetensors_writer_new(const char *path)
{
    struct safetensors_writer *w = xcalloc(1, sizeof *w);
    w->path = xstrdup(path);
    w->fd = -1;
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

static int fail(struct safetensors_writer *w, const char *what)
{
    w->failed = true;
    return err_set(&w->why, "cannot %s '%s': %s", what, w->path, strerror(errno));
}

static int put(struct safetensors_writer *w, const void *bytes, uint64_t size)
{
    for (const char *at = bytes; size;) {
        ssize_t n = write(w->fd, at, size < (1 << 30) ? size : (1 << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(w, "write");
        at += n;
        size -= (uint64_t)n;
    }
    return 0;
}

// {"__metadata__":{...},"NAME":{...},...} and blanks up to the alignment.
static void compose_header(const struct safetensors_writer *w, struct buf *header)
{
    buf_putc(header, '{');
    if (w->metadata.length) {
        buf_puts(header, "\"__metadata__\":{");
        buf_add(header, w->metadata.data, w->metadata.length - 1);
        buf_puts(header, "},");
    }
    buf_add(header, w->tensors.data, w->tensors.length);
    if (header->data[header->length - 1] == ',') header->data[--header->length] = 0;
    buf_putc(header, '}');
    while ((8 + header->length) % WRITER_ALIGN) buf_putc(header, ' ');
}

static int begin(struct safetensors_writer *w)
{
    w->begun = true;
    char *temporary = xasprintf("%s.XXXXXX", w->path);
    w->fd = mkostemp(temporary, O_CLOEXEC);
    if (w->fd < 0) {
        free(temporary);
        return fail(w, "create");
    }
    w->temporary = temporary;
    struct buf header = { 0 };
    compose_header(w, &header);
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header.length >> (8 * i));
    int status = put(w, length, sizeof length);
    if (status == 0) status = put(w, header.data, header.length);
    buf_release(&header);
    return status;
}

int safetensors_writer_data(struct safetensors_writer *w, const void *bytes, uint64_t size,
                            struct err *err)
{
    if (!w->begun) begin(w);
    if (w->written + size > w->declared) BUG("safetensors writer: more data than declared");
    if (!w->failed && put(w, bytes, size) == 0) w->written += size;
    return w->failed ? err_set(err, "%s", w->why.text) : 0;
}

int safetensors_writer_zeros(struct safetensors_writer *w, uint64_t size, struct err *err)
{
    if (!w->begun) begin(w);
    if (w->written + size > w->declared) BUG("safetensors writer: more data than declared");
    const off_t end = w->failed ? -1 : lseek(w->fd, (off_t)size, SEEK_CUR);
    if (!w->failed && (end < 0 || ftruncate(w->fd, end) < 0)) fail(w, "write");
    if (!w->failed) w->written += size;
    return w->failed ? err_set(err, "%s", w->why.text) : 0;
}

// The rename survives a power cut only when the folder is on disk too; a folder that cannot be
// synced (some network file systems) is no reason to fail.
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

static int complete(struct safetensors_writer *w)
{
    if (!w->begun) begin(w);
    if (w->failed) return -1;
    if (w->written != w->declared) {
        w->failed = true;
        return err_set(&w->why, "'%s' is incomplete: %llu of %llu bytes were written", w->path,
                       (unsigned long long)w->written, (unsigned long long)w->declared);
    }
    // mkostemp gives 0600; a written file has the permissions any new file would have.
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(w->fd, 0666 & ~mask) < 0) return fail(w, "set the permissions of");
    if (fsync(w->fd) < 0) return fail(w, "write");
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) < 0) return fail(w, "write");
    if (rename(w->temporary, w->path) < 0) return fail(w, "rename the finished file to");
    sync_folder(w->path);
    free(w->temporary);
    w->temporary = NULL;
    return 0;
}

int safetensors_writer_finish(struct safetensors_writer *w, struct err *err)
{
    int status = complete(w);
    if (status < 0) err_set(err, "%s", w->why.text);
    safetensors_writer_abandon(w);
    return status;
}

void safetensors_writer_abandon(struct safetensors_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->temporary) unlink(w->temporary);
    free(w->temporary);
    free(w->path);
    buf_release(&w->metadata);
    buf_release(&w->tensors);
    free(w);
}
