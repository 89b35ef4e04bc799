// core/files/safetensors.c -- the safetensors reader: maps the file and checks how its tensors lie.
//
//   8 bytes: length n of the header (little-endian) | n bytes: JSON | data, without hole or overlap
//
// Opening reads the header only; the data is touched by whoever uses it.
#include "core/files/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/files/safetensors_header.h"

enum { HEADER_LIMIT = 100 * 1000 * 1000 };

static int by_offset(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensor *)a)->name, ((const struct safetensor *)b)->name);
}

// In the order of their data, each tensor must begin where the one before it ends, and the last
// must end with the file.
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

static int names_check(struct safetensors *f, struct err *err)
{
    if (f->count) qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, by_name);
    for (int64_t i = 1; i < f->count; i++)
        if (!strcmp(f->tensors[i - 1].name, f->tensors[i].name))
            return err_set(err, "tensor '%.200s' appears twice", f->tensors[i].name);
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
    if (safetensors_header_read(f, (const char *)bytes + 8, length, err) < 0) return -1;
    if (layout_check(f, f->size - f->header, err) < 0 || names_check(f, err) < 0) return -1;
    for (int64_t i = 0; i < f->count; i++)
        f->tensors[i].data = bytes + f->header + f->tensors[i].offset;
    return 0;
}

static struct safetensors *parsed(struct safetensors *f, struct err *err)
{
    if (parse(f, err) == 0) return f;
    err_in(err, "'%s' is not a valid safetensors file", f->path);
    safetensors_close(f);
    return NULL;
}

struct safetensors *safetensors_parse(const void *bytes, uint64_t size, const char *name,
                                      struct err *err)
{
    struct safetensors *f = xcalloc(1, sizeof *f);
    f->path = xstrdup(name);
    f->map = (void *)(uintptr_t)bytes;
    f->size = size;
    f->borrowed = true;
    return parsed(f, err);
}

struct safetensors *safetensors_open(const char *path, struct err *err)
{
    uint64_t size;
    void *map = file_map(path, &size, err);
    if (!map) return NULL;
    struct safetensors *f = xcalloc(1, sizeof *f);
    f->path = xstrdup(path);
    f->map = map;
    f->size = size;
    return parsed(f, err);
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
    return bsearch(&key, f->tensors, (size_t)f->count, sizeof key, by_name);
}

const char *safetensors_metadata(const struct safetensors *f, const char *key)
{
    for (char **m = f->metadata; m && *m; m += 2)
        if (!strcmp(m[0], key)) return m[1];
    return NULL;
}
