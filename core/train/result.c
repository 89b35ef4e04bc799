// core/train/result.c -- writes trained weights: a model folder, or the trained tensors alone.
//
// A model folder keeps the original's files one by one: the same shards with the same names, dtypes
// and order, so that an index file stays true; only the bytes of weights that the model's structs
// hold elsewhere now are other ones.
#include "core/train/result.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/families/family.h"
#include "core/narrow.h"
#include "core/train/save.h"

enum { PIECE = 1 << 20 }; // numbers, or bytes, at a time

// --- one tensor ----------------------------------------------------------------------------------

// What the model computes with under a tensor's name in the file; NULL: it does not use it, or
// still as the file has it.
static const struct tensor *current(const struct model *m, const struct safetensor *t)
{
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        if (!strcmp(w->name, t->name)) return w->tensor;
    }
    // A tied head that the file holds all the same follows the embedding.
    const bool tied = m->decoder.config.tied && m->family->part(t->name) == PART_HEAD;
    return tied ? &m->decoder.embed : NULL;
}

static int put_current(struct safetensors_writer *w, const struct safetensor *t,
                       const struct tensor *now, const struct backend *b, struct err *err)
{
    const int64_t count = (int64_t)(t->bytes / dtype_size((enum dtype)t->dtype));
    float *host = xreallocarray(NULL, PIECE, sizeof *host);
    char *stored = xmalloc(PIECE * sizeof *host);
    int status = tensor_count(now) == count ? 0 : err_set(err, "'%s' changed its shape", t->name);
    for (int64_t at = 0; at < count && status == 0; at += PIECE) {
        const int64_t n = count - at < PIECE ? count - at : PIECE;
        b->download(host, (const float *)now->data + at, (size_t)n * sizeof *host);
        narrow(stored, (enum dtype)t->dtype, host, n);
        status =
            safetensors_writer_data(w, stored, (uint64_t)n * dtype_size((enum dtype)t->dtype), err);
    }
    free(host);
    free(stored);
    return status;
}

// Only what is f32 now can differ from the file; a gain widened when it was loaded rounds back to
// the same bits.
static int put_tensor(struct safetensors_writer *w, const struct model *m,
                      const struct safetensor *t, const struct backend *b, struct err *err)
{
    const struct tensor *now = current(m, t);
    const bool stored_float =
        t->dtype == DTYPE_F32 || t->dtype == DTYPE_F16 || t->dtype == DTYPE_BF16;
    if (now && now->dtype == DTYPE_F32 && stored_float) return put_current(w, t, now, b, err);
    return safetensors_writer_data(w, t->data, t->bytes, err);
}

// --- files ---------------------------------------------------------------------------------------

static int by_place(const void *a, const void *b)
{
    const struct safetensor *x = *(const struct safetensor *const *)a;
    const struct safetensor *y = *(const struct safetensor *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static size_t element_size(const struct safetensor *t)
{
    uint64_t count = 1;
    for (int r = 0; r < t->rank; r++) count *= (uint64_t)t->shape[r];
    return count ? (size_t)(t->bytes / count) : 1;
}

static int write_shard(const char *path, const struct safetensors *shard, const struct model *m,
                       const struct backend *b, struct err *err)
{
    const struct safetensor **list =
        xreallocarray(NULL, (size_t)shard->count + 1, sizeof(struct safetensor *));
    for (int64_t i = 0; i < shard->count; i++) list[i] = &shard->tensors[i];
    qsort(list, (size_t)shard->count, sizeof(struct safetensor *), by_place);

    struct safetensors_writer *w = safetensors_writer_new(path);
    bool format = false;
    for (char **key = shard->metadata; key && *key; key += 2) {
        safetensors_writer_metadata(w, key[0], key[1]);
        format |= !strcmp(key[0], "format");
    }
    if (!format) safetensors_writer_metadata(w, "format", "pt"); // transformers asks for it
    for (int64_t i = 0; i < shard->count; i++)
        safetensors_writer_declare_type(w, list[i]->name, list[i]->type, element_size(list[i]),
                                        list[i]->rank, list[i]->shape);
    int status = 0;
    for (int64_t i = 0; i < shard->count && status == 0; i++)
        status = put_tensor(w, m, list[i], b, err);
    free(list);
    if (status == 0) return safetensors_writer_finish(w, err);
    safetensors_writer_abandon(w);
    return -1;
}

static int copy_bytes(int from, int to, const char *name, struct err *err)
{
    char *block = xmalloc(PIECE);
    ssize_t n;
    int status = 0;
    while (status == 0 && (n = read(from, block, PIECE)) != 0) {
        if (n < 0 && errno != EINTR)
            status = err_set(err, "cannot read '%s': %s", name, strerror(errno));
        for (ssize_t at = 0; at < n && status == 0;) {
            const ssize_t k = write(to, block + at, (size_t)(n - at));
            if (k < 0 && errno != EINTR)
                status = err_set(err, "cannot write a copy of '%s': %s", name, strerror(errno));
            at += k > 0 ? k : 0;
        }
    }
    free(block);
    return status;
}

static int copy_file(const char *folder, const char *name, const char *out, struct err *err)
{
    char *source = xasprintf("%s/%s", folder, name), *target = xasprintf("%s/%s", out, name);
    struct stat st;
    int status = 0;
    const int from = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (from < 0) {
        status = err_set(err, "cannot read '%s': %s", source, strerror(errno));
    } else if (fstat(from, &st) == 0 && S_ISREG(st.st_mode)) {
        const int to = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        status = to < 0 ? err_set(err, "cannot create '%s': %s", target, strerror(errno))
                        : copy_bytes(from, to, source, err);
        if (to >= 0 && close(to) < 0 && status == 0)
            status = err_set(err, "cannot write '%s': %s", target, strerror(errno));
    }
    if (from >= 0) close(from);
    free(source);
    free(target);
    return status;
}

// Weights in any format (they would contradict ours), hidden files, and our own record.
static bool is_copied(const char *name)
{
    static const char *const others[] = { ".safetensors", ".bin",  ".pt",   ".pth",    ".gguf",
                                          ".h5",          ".onnx", ".ckpt", ".msgpack" };
    if (name[0] == '.' || !strcmp(name, "training.json")) return false;
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const size_t tail = strlen(others[i]);
        if (length > tail && !strcmp(name + length - tail, others[i])) return false;
    }
    return true;
}

static int copy_others(const char *folder, const char *out, struct err *err)
{
    DIR *d = opendir(folder);
    if (!d) return err_set(err, "cannot read '%s': %s", folder, strerror(errno));
    int status = 0;
    for (struct dirent *e; status == 0 && (e = readdir(d));)
        if (is_copied(e->d_name)) status = copy_file(folder, e->d_name, out, err);
    closedir(d);
    return status;
}

int result_model(const char *out, const struct model *m, const struct backend *b, struct err *err)
{
    const struct checkpoint *c = m->checkpoint;
    int status = copy_others(c->folder, out, err);
    for (int i = 0; i < c->shard_count && status == 0; i++) {
        const char *slash = strrchr(c->shards[i]->path, '/');
        char *path = xasprintf("%s/%s", out, slash ? slash + 1 : c->shards[i]->path);
        status = write_shard(path, c->shards[i], m, b, err);
        free(path);
    }
    return status;
}

// Only the parameters of methods: a copy of the list with these.
static int write_extras(const char *out, const struct params *p, struct err *err)
{
    struct params extras = { .backend = p->backend, .model = p->model };
    extras.list = xreallocarray(NULL, p->count + 1, sizeof *extras.list);
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i].kind == PARAM_EXTRA) extras.list[extras.count++] = p->list[i];
    char *path = xasprintf("%s/extra.safetensors", out);
    int status = extras.count ? save_values(path, &extras, err) : 0;
    free(path);
    free(extras.list);
    return status;
}

int result_write(const char *out, const struct params *p, const char **what, struct err *err)
{
    *what = p->whole ? "model" : "trained tensors";
    if (p->whole) {
        if (result_model(out, p->model, p->backend, err) < 0) return -1;
        return write_extras(out, p, err);
    }
    char *path = xasprintf("%s/trained.safetensors", out);
    int status = save_values(path, p, err);
    free(path);
    return status;
}
