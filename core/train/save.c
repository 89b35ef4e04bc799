// core/train/save.c -- writes and reads checkpoints.
#include "core/train/save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/base/options.h"
#include "core/base/unfinished.h"
#include "core/files/checkpoint.h"
#include "core/files/safetensors.h"
#include "core/model/model.h"
#include "core/ranks/ranks.h"
#include "core/train/result.h"
#include "kernels/backend.h"

static const char part[] = ".part"; // suffix of an unfinished checkpoint's name

// --- values --------------------------------------------------------------------------------------

// "w.NAME", "m.NAME", "v.NAME" in a checkpoint; "NAME" in a file of masters only.
enum what { MASTER, MEAN, SQUARE, WHATS };

static float *values_of(const struct param *p, enum what what)
{
    return what == MASTER ? p->tensor->data : what == MEAN ? p->m : p->v;
}

static char *tensor_name(const struct param *p, enum what what, int whats)
{
    return whats == 1 ? xstrdup(p->name) : xasprintf("%c.%s", "wmv"[what], p -> name);
}

// If the moments are sharded over the ranks, all ranks call this; only rank 0 passes a writer.
static int put_values(struct safetensors_writer *w, const struct params *p, int whats,
                      struct err *err)
{
    enum { PIECE = 1 << 20 }; // elements
    float *host = xreallocarray(NULL, PIECE, sizeof *host);
    int status = 0;
    for (int what = 0; what < whats; what++)
        for (size_t i = 0; i < p->count; i++) {
            const struct param *one = &p->list[i];
            const float *from = values_of(one, (enum what)what);
            const bool shared = p->shared_out && what != MASTER;
            for (int64_t at = 0; at < one->count && status == 0; at += PIECE) {
                const int64_t left = one->count - at, n = left < PIECE ? left : PIECE;
                const size_t bytes = (size_t)n * sizeof *host;
                if (from) one->where->download(host, from + at, bytes);
                if (shared) ranks_share(p->ranks, host, bytes, one->owner);
                if (w) status = safetensors_writer_data(w, host, bytes, err);
            }
        }
    free(host);
    return status;
}

static int write_values(struct safetensors_writer *w, const struct params *p, int whats,
                        struct err *err)
{
    for (int what = 0; what < whats; what++)
        for (size_t i = 0; i < p->count; i++) {
            const struct tensor *t = p->list[i].tensor;
            char *name = tensor_name(&p->list[i], (enum what)what, whats);
            safetensors_writer_declare(w, name, DTYPE_F32, t->rank, t->shape);
            free(name);
        }
    if (put_values(w, p, whats, err) < 0) {
        safetensors_writer_abandon(w);
        return -1;
    }
    return safetensors_writer_finish(w, err);
}

static int read_values(const struct safetensors *f, struct params *p, int whats, struct err *err)
{
    for (int what = 0; what < whats; what++)
        for (size_t i = 0; i < p->count; i++) {
            const struct param *one = &p->list[i];
            char *name = tensor_name(one, (enum what)what, whats);
            const struct safetensor *t = safetensors_find(f, name);
            const bool fits = t && t->dtype == DTYPE_F32 && t->bytes == (uint64_t)one->count * 4;
            free(name);
            if (!fits) return err_set(err, "'%s' lacks the parameter '%s'", f->path, one->name);
        }
    for (int what = 0; what < whats; what++)
        for (size_t i = 0; i < p->count; i++) {
            char *name = tensor_name(&p->list[i], (enum what)what, whats);
            const struct safetensor *t = safetensors_find(f, name);
            float *to = values_of(&p->list[i], (enum what)what);
            if (to) p->list[i].where->upload(to, t->data, t->bytes);
            free(name);
        }
    if (whats == WHATS) params_mark_reached(p);
    model_weights_changed(p->model);
    return 0;
}

// --- the best ------------------------------------------------------------------------------------

static char *best_path(const char *out, int64_t step)
{
    return xasprintf("%s/best-%lld.safetensors", out, (long long)step);
}

int save_best(const char *out, const struct params *p, int64_t step, struct err *err)
{
    char *path = best_path(out, step);
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_hash(w);
    free(path);
    return write_values(w, p, 1, err);
}

static struct safetensors *best_open(const char *out, int64_t step, struct err *err)
{
    char *path = best_path(out, step);
    struct safetensors *f = safetensors_open(path, err);
    free(path);
    if (!f || safetensors_check_hash(f, err) == 0) return f;
    safetensors_close(f);
    return NULL;
}

int save_best_check(const char *out, int64_t step, struct err *err)
{
    struct safetensors *f = best_open(out, step, err);
    safetensors_close(f);
    return f ? 0 : -1;
}

int save_best_read(const char *out, struct params *p, int64_t step, struct err *err)
{
    struct safetensors *f = best_open(out, step, err);
    int status = f ? read_values(f, p, 1, err) : -1;
    safetensors_close(f);
    return status < 0 ? err_in(err, "the weights of the best validation") : 0;
}

void save_best_trim(const char *out, int64_t step)
{
    char *path = best_path(out, step), *kept = strrchr(path, '/') + 1;
    DIR *d = opendir(out);
    for (struct dirent *e; d && (e = readdir(d));) {
        const size_t unfinished = unfinished_base(e->d_name);
        char *whole = xstrndup(e->d_name, unfinished ? unfinished : strlen(e->d_name));
        if (checkpoint_is_best(whole) && strcmp(e->d_name, kept) != 0)
            unlinkat(dirfd(d), e->d_name, 0);
        free(whole);
    }
    if (d) closedir(d);
    free(path);
}

// --- folders -------------------------------------------------------------------------------------

static int descending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

// Removes unfinished checkpoints and lists the steps of the others, newest first. The caller frees
// the list.
static int64_t *list_steps(const char *out, size_t *count)
{
    int64_t *steps = NULL;
    DIR *d = opendir(out);
    *count = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        bool unfinished;
        const int64_t step = checkpoint_step(e->d_name, &unfinished);
        if (step < 0) continue;
        if (unfinished) {
            char *path = xasprintf("%s/%s", out, e->d_name);
            folder_remove(path);
            free(path);
            continue;
        }
        steps = xreallocarray(steps, *count + 1, sizeof *steps);
        steps[(*count)++] = step;
    }
    if (d) closedir(d);
    if (steps) qsort(steps, *count, sizeof *steps, descending);
    return steps;
}

void save_trim(const char *out, int64_t keep)
{
    size_t count;
    int64_t *steps = list_steps(out, &count);
    for (size_t i = (size_t)keep; i < count; i++) {
        char *path = xasprintf("%s/checkpoint-%lld", out, (long long)steps[i]);
        folder_remove(path);
        free(path);
    }
    free(steps);
}

int64_t save_newest(const char *out)
{
    size_t count;
    int64_t *steps = list_steps(out, &count);
    const int64_t newest = count ? steps[0] : -1;
    free(steps);
    return newest;
}

// --- checkpoints ---------------------------------------------------------------------------------

static void put_metadata(struct safetensors_writer *w, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put_metadata(struct safetensors_writer *w, const char *key, const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    safetensors_writer_metadata(w, key, b.data ? b.data : "");
    buf_release(&b);
}

static void put_one(void *self, const char *name, const char **at)
{
    if (*at) safetensors_writer_metadata(self, name, *at);
}

static int write_state(const char *folder, const struct params *p, const struct save_point *at,
                       const struct identity *id, struct err *err)
{
    char *path = xasprintf("%s/state.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_hash(w);
    put_metadata(w, "step", "%lld", (long long)at->step);
    put_metadata(w, "loss", "%a", at->loss);
    put_metadata(w, "validation", "%a", at->validation);
    put_metadata(w, "score", "%a", at->score);
    for (int i = 0; i < SAVE_SETS; i++) {
        char key[24];
        if (isnan(at->sets[i])) continue;
        snprintf(key, sizeof key, "score.%d", i);
        put_metadata(w, key, "%a", at->sets[i]);
    }
    put_metadata(w, "best_value", "%a", at->best);
    put_metadata(w, "best_loss", "%a", at->best_loss);
    put_metadata(w, "best_step", "%lld", (long long)at->best_step);
    if (p->backend->own_memory && params_have_table(p))
        put_metadata(w, "embedding", p->moves_tables ? "gpu" : "host");
    struct identity copy = *id;
    identity_each(&copy, put_one, w);
    free(path);
    return write_values(w, p, WHATS, err);
}

int save_write(const char *out, const struct params *p, const struct adapter *base,
               const struct save_point *at, const struct identity *id, int64_t keep,
               struct err *err)
{
    bool there;
    if (ranks_number(p->ranks) > 0) { // sends its moments to rank 0, if rank 0 writes them
        ranks_share(p->ranks, &there, sizeof there, 0);
        if (!there && p->shared_out) put_values(NULL, p, WHATS, NULL);
        return 0;
    }
    char *path = xasprintf("%s/checkpoint-%lld", out, (long long)at->step);
    char *unfinished = xasprintf("%s%s", path, part);
    const char *what;
    struct stat st;
    int status = 0;
    there = stat(path, &st) == 0;
    ranks_share(p->ranks, &there, sizeof there, 0);
    if (!there) {
        folder_remove(unfinished);
        if (mkdir(unfinished, 0777) < 0)
            status = err_set(err, "cannot create '%s': %s", unfinished, strerror(errno));
        if (status == 0 && keep > 0) status = result_write_into(unfinished, p, base, &what, err);
        if (status == 0) status = write_state(unfinished, p, at, id, err);
        if (status == 0 && rename(unfinished, path) < 0)
            status = err_set(err, "cannot rename '%s': %s", unfinished, strerror(errno));
        const int fd = status == 0 ? open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (fd >= 0) {
            fsync(fd);
            close(fd);
        }
        if (status < 0) folder_remove(unfinished);
    }
    if (status == 0) save_trim(out, keep > 1 ? keep : 1);
    free(path);
    free(unfinished);
    return status < 0 ? err_in(err, "checkpoint of step %lld", (long long)at->step) : 0;
}

static void take_one(void *self, const char *name, const char **at)
{
    *at = safetensors_metadata(self, name);
}

// Requires only the fields that all versions have recorded.
static int check_identity(struct safetensors *f, const struct identity *id, struct err *err)
{
    struct identity was = { 0 };
    identity_each(&was, take_one, f);
    if (!was.settings || !was.model || !was.data || !was.samples)
        return err_set(err, "'%s' is not a checkpoint of a training run", f->path);
    return identity_same(&was, id, err);
}

// Returns NaN if the checkpoint lacks the key: older versions recorded fewer keys.
static double read_number(const struct safetensors *f, const char *key)
{
    const char *text = safetensors_metadata(f, key);
    return text ? strtod(text, NULL) : NAN;
}

static int read_point(const struct safetensors *f, struct save_point *at, struct err *err)
{
    const char *step = safetensors_metadata(f, "step"),
               *best = safetensors_metadata(f, "best_value");
    const char *best_step = safetensors_metadata(f, "best_step");
    const char *best_loss = safetensors_metadata(f, "best_loss");
    if (!step || !best || !best_step || !best_loss ||
        option_integer(step, 0, INT64_MAX, &at->step, "step", err) < 0 ||
        option_integer(best_step, -1, INT64_MAX, &at->best_step, "best_step", err) < 0)
        return err_set(err, "'%s' is damaged, or from an earlier version", f->path);
    at->loss = read_number(f, "loss");
    at->validation = read_number(f, "validation");
    at->score = read_number(f, "score");
    for (int i = 0; i < SAVE_SETS; i++) {
        char key[24];
        snprintf(key, sizeof key, "score.%d", i);
        at->sets[i] = read_number(f, key);
    }
    at->best = strtod(best, NULL);
    at->best_loss = strtod(best_loss, NULL);
    return 0;
}

// `whole`: reads the whole file, and checks its hash.
static struct safetensors *open_newest(const char *out, bool whole, struct err *err)
{
    size_t count;
    int64_t *steps = list_steps(out, &count);
    char *folder = xasprintf("%s/checkpoint-%lld", out, count ? (long long)steps[0] : -1);
    char *path = xasprintf("%s/state.safetensors", folder);
    struct safetensors *f = safetensors_open(path, err);
    struct stat st;
    if (f && whole && safetensors_check_hash(f, err) < 0) {
        safetensors_close(f);
        f = NULL;
    }
    if (!f && err) { // the advice for model files, to download them again, does not apply
        const bool empty = stat(path, &st) == 0 && !st.st_size;
        const struct err why = *err;
        err_set(err, "%s; without the folder '%s' the run %s",
                empty ? "the newest checkpoint is empty" : why.text, folder,
                count > 1 ? "continues from the checkpoint before it" : "starts again");
    }
    free(steps);
    free(path);
    free(folder);
    return f;
}

int save_check(const char *out, const struct identity *id, struct err *err)
{
    struct safetensors *f = open_newest(out, false, err);
    int status = f ? check_identity(f, id, err) : -1;
    safetensors_close(f);
    return status < 0 ? err_in(err, "cannot continue from '%s'", out) : 0;
}

int save_read(const char *out, struct params *p, struct save_point *at, const struct identity *id,
              struct err *err)
{
    struct safetensors *f = open_newest(out, true, err);
    int status = f ? check_identity(f, id, err) : -1;
    if (status == 0) status = read_point(f, at, err);
    if (status == 0) status = read_values(f, p, WHATS, err);
    safetensors_close(f);
    return status < 0 ? err_in(err, "cannot continue from '%s'", out) : 0;
}

enum table_place save_table_place(const char *out)
{
    struct err err;
    struct safetensors *f = save_newest(out) >= 0 ? open_newest(out, false, &err) : NULL;
    const char *text = f ? safetensors_metadata(f, "embedding") : NULL;
    enum table_place place = TABLE_AS_SET;
    if (text) place = !strcmp(text, "gpu") ? TABLE_ON_GPU : TABLE_ON_HOST;
    safetensors_close(f);
    return place;
}
