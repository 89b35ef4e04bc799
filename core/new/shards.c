// core/new/shards.c -- distributes tensors over files, writes the files and their index.
#include "core/new/shards.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/files/safetensors.h"
#include "core/new/shapes.h"
#include "kernels/tensor.h"

static const uint64_t LIMIT = 5000000000u; // bytes of a file

struct plan {
    int *file_of; // [count]
    int files;
    uint64_t bytes;
};

// Starts a new file where a tensor would exceed the limit.
static struct plan make_plan(const struct shards *s)
{
    struct plan p = { .files = 1,
                      .file_of = xreallocarray(NULL, (size_t)s->count, sizeof *p.file_of) };
    uint64_t bytes = 0;
    for (int i = 0; i < s->count; i++) {
        const uint64_t more = (uint64_t)shape_tensor_count(&s->tensors[i]) * sizeof(uint16_t);
        if (bytes && bytes + more > LIMIT) {
            p.files++;
            bytes = 0;
        }
        bytes += more;
        p.bytes += more;
        p.file_of[i] = p.files - 1;
    }
    return p;
}

static void file_name(const struct plan *p, int file, char name[64])
{
    if (p->files == 1)
        snprintf(name, 64, "model.safetensors");
    else
        snprintf(name, 64, "model-%05d-of-%05d.safetensors", file + 1, p->files);
}

static int write_file(const struct shards *s, const struct plan *p, int file, struct err *err)
{
    char name[64];
    file_name(p, file, name);
    char *path = xasprintf("%s/%s", s->folder, name);
    struct safetensors_writer *w = safetensors_writer_new(path);
    free(path);
    safetensors_writer_metadata(w, "format", "pt");
    for (int i = 0; i < s->count; i++)
        if (p->file_of[i] == file)
            safetensors_writer_declare(w, s->tensors[i].name, DTYPE_BF16, s->tensors[i].rank,
                                       s->tensors[i].size);
    for (int i = 0; i < s->count; i++)
        if (p->file_of[i] == file && s->put(s->self, w, i, err) < 0) {
            safetensors_writer_abandon(w);
            return -1;
        }
    return safetensors_writer_finish(w, err);
}

static int write_index(const struct shards *s, const struct plan *p, struct err *err)
{
    struct buf b = { 0 };
    char name[64];
    buf_printf(&b, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {\n",
               (unsigned long long)p->bytes);
    for (int i = 0; i < s->count; i++) {
        file_name(p, p->file_of[i], name);
        buf_printf(&b, "    \"%s\": \"%s\"%s\n", s->tensors[i].name, name,
                   i + 1 < s->count ? "," : "");
    }
    buf_puts(&b, "  }\n}\n");
    const int status =
        folder_write(s->folder, "model.safetensors.index.json", b.data, b.length, err);
    buf_release(&b);
    return status;
}

int shards_write(const struct shards *s, struct err *err)
{
    struct plan p = make_plan(s);
    int status = 0;
    for (int file = 0; file < p.files && status == 0; file++) status = write_file(s, &p, file, err);
    if (status == 0 && p.files > 1) status = write_index(s, &p, err);
    free(p.file_of);
    return status;
}
