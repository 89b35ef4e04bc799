// core/probes/dump.c -- the probe behind /dump.
//
// Copies tensors to host memory as they occur and writes the file after the answer. After the
// prompt's pass it adds only the logits of generated tokens.
#include "core/probes/dump.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/files/safetensors.h"
#include "core/graph/graph.h"
#include "core/graph/readback.h"
#include "core/probes/taps.h"

struct caught {
    char name[TAP_NAME_SIZE];
    struct tensor tensor; // owned data in host memory
};

struct dump {
    char *path;
    char **patterns;
    size_t pattern_count;
    struct caught *caught;
    size_t count, capacity;
    bool prompt_done; // the prompt's pass has ended
    bool stepping;    // logits of generated tokens have arrived
};

static bool wanted(const struct dump *d, const char *name)
{
    for (size_t i = 0; i < d->pattern_count; i++)
        if (tap_match(d->patterns[i], name)) return true;
    return false;
}

// Numbers of layers and pictures to try in a tap's name.
enum { LAYERS_TRIED = 1001, PICTURES_TRIED = 100 };

// Returns whether a pattern agrees with the tap's name up to its first number, so that most taps
// need no list of a hundred thousand names.
static bool start_wanted(const struct dump *d, const struct tap *tap)
{
    for (size_t i = 0; i < d->pattern_count; i++) {
        const char *p = d->patterns[i], *n = tap->name;
        while (*n && *n != '%' && *p != '*' && (*p == *n || *p == '?')) p++, n++;
        if (!*n || *n == '%' || *p == '*') return true;
    }
    return false;
}

// True if a pattern matches a tensor of this tap, at this layer (-1: any) and any picture.
static bool tap_wanted(const struct dump *d, const struct tap *tap, int layer)
{
    if (!start_wanted(d, tap)) return false;
    bool layers = strstr(tap->name, "%L") && layer < 0, pictures = strstr(tap->name, "%I");
    char name[TAP_NAME_SIZE];
    for (int l = layers ? tap_lowest(tap) : 0; l < (layers ? LAYERS_TRIED : 1); l++)
        for (int p = 0; p < (pictures ? PICTURES_TRIED : 1); p++) {
            tap_name(tap, layer < 0 ? l : layer, p, name);
            if (wanted(d, name)) return true;
        }
    return false;
}

// Marks a file as a dump, in its metadata.
static const char mark_key[] = "made_by", mark_value[] = "vlmsh /dump";

// Checks that the file can be written, before a long answer starts. Only an earlier dump or an
// empty file may be overwritten, never a model's weights.
static int check_path(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    const int status = access(folder, W_OK | X_OK);
    struct stat st;
    if (status < 0) err_set(err, "cannot write '%s': %s", path, strerror(errno));
    free(folder);
    if (status < 0 || stat(path, &st) < 0 || (S_ISREG(st.st_mode) && !st.st_size)) return status;
    struct safetensors *f = safetensors_open(path, NULL);
    const char *mark = f ? safetensors_metadata(f, mark_key) : NULL;
    const bool ours = mark && !strcmp(mark, mark_value);
    safetensors_close(f);
    return ours ? 0
                : err_set(err, "'%s' already exists and is not a dump: choose another name", path);
}

struct dump *dump_new(const char *patterns, const char *path, struct err *err)
{
    struct dump *d = xcalloc(1, sizeof *d);
    d->path = xstrdup(path);
    for (const char *p = patterns; *p;) {
        size_t length = strcspn(p, ", \t");
        if (length) {
            d->patterns = xreallocarray(d->patterns, d->pattern_count + 1, sizeof *d->patterns);
            d->patterns[d->pattern_count++] = xstrndup(p, length);
        }
        p += length + (p[length] != 0);
    }
    int status = d->pattern_count ? 0 : err_set(err, "name a tensor (/help taps lists the names)");
    for (size_t i = 0; i < d->pattern_count && status == 0; i++) {
        const struct dump one = { .patterns = &d->patterns[i], .pattern_count = 1 };
        bool some = false;
        for (int t = 0; tap_at(t) && !some; t++) some = tap_wanted(&one, tap_at(t), -1);
        if (!some)
            status = err_set(err, "no tensor '%s' (/help taps lists the names)", d->patterns[i]);
    }
    if (status == 0 && check_path(path, err) == 0) return d;
    dump_free(d);
    return NULL;
}

void dump_free(struct dump *d)
{
    if (!d) return;
    for (size_t i = 0; i < d->count; i++) free(d->caught[i].tensor.data);
    for (size_t i = 0; i < d->pattern_count; i++) free(d->patterns[i]);
    free(d->caught);
    free(d->patterns);
    free(d->path);
    free(d);
}

bool dump_wants_all_logits(const struct dump *d)
{
    return wanted(d, "logits");
}

static struct caught *find(const struct dump *d, const char *name)
{
    for (size_t i = 0; i < d->count; i++)
        if (!strcmp(d->caught[i].name, name)) return &d->caught[i];
    return NULL;
}

// Allocates a tensor under that name; replaces an earlier one (from a stopped answer that is
// generated again). NULL: out of memory.
static struct tensor *keep(struct dump *d, const char *name, enum dtype dtype, int rank,
                           const int64_t *shape)
{
    struct caught *c = find(d, name);
    if (!c) {
        d->caught = xgrow(d->caught, &d->capacity, d->count, sizeof *d->caught);
        c = &d->caught[d->count++];
        *c = (struct caught){ 0 };
        snprintf(c->name, sizeof c->name, "%s", name);
    }
    free(c->tensor.data);
    c->tensor = (struct tensor){ .dtype = dtype, .rank = rank };
    memcpy(c->tensor.shape, shape, (size_t)rank * sizeof *shape);
    size_t bytes = tensor_bytes(&c->tensor);
    c->tensor.data = malloc(bytes ? bytes : 1);
    return c->tensor.data ? &c->tensor : NULL;
}

void dump_sequence(void *self, const struct sequence *s)
{
    struct dump *d = self;
    d->prompt_done = d->stepping = false;
    struct tensor *t;
    if (wanted(d, "ids") && (t = keep(d, "ids", DTYPE_I32, 1, &s->n)))
        memcpy(t->data, s->ids, tensor_bytes(t));
    // Positions of one axis are [N], those of several [axes,N].
    int64_t shape[2] = { s->axes, s->n };
    int skip = s->axes == 1;
    if (wanted(d, "positions") && (t = keep(d, "positions", DTYPE_I32, 2 - skip, shape + skip)))
        memcpy(t->data, s->positions, tensor_bytes(t));
}

// --- at the sites --------------------------------------------------------------------------------

static bool dump_wants(void *self, const struct site *site, int layer)
{
    const struct dump *d = self;
    if (site == SITE_STEP_LOGITS) return true; // marks the end of the prompt's pass
    if (d->prompt_done) return false;
    for (int t = 0; tap_at(t); t++)
        if (tap_at(t)->site == site && tap_wanted(d, tap_at(t), layer)) return true;
    return false;
}

// Appends the rows of x to the rows stored under this name since the prompt.
static bool keep_rows(struct dump *d, const char *name, const struct tensor *x)
{
    struct caught *c = find(d, name);
    const size_t have = c && d->stepping ? tensor_bytes(&c->tensor) : 0, more = tensor_bytes(x);
    if (!have) {
        d->stepping = true;
        struct tensor *t = keep(d, name, x->dtype, x->rank, x->shape);
        if (t) memcpy(t->data, x->data, more);
        return t;
    }
    void *data = realloc(c->tensor.data, have + more);
    if (!data) return false;
    c->tensor.data = data;
    memcpy((char *)data + have, x->data, more);
    c->tensor.shape[0] += x->shape[0];
    return true;
}

static bool keep_one(struct dump *d, const struct tap *tap, const char *name,
                     const struct site_args *args)
{
    const struct tensor *x = args->x;
    if (tap->source == TAP_ROWS) return keep_rows(d, name, x);
    struct tensor *t = keep(d, name, x->dtype, x->rank, x->shape);
    if (!t) return false;
    if (tap->source != TAP_HEADS_FIRST) {
        memcpy(t->data, x->data, tensor_bytes(x));
        return true;
    }
    // [P,Hkv,d] to [Hkv,P,d].
    const int64_t rows = x->shape[0], heads = x->shape[1], width = x->shape[2];
    const float *from = x->data;
    float *to = t->data;
    t->shape[0] = heads, t->shape[1] = rows;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < rows; i++)
            memcpy(to + (h * rows + i) * width, from + (i * heads + h) * width,
                   (size_t)width * sizeof *to);
    return true;
}

static const char out_of_memory[] = "out of memory: cannot keep %s for the dump";

static int dump_take(void *self, const struct site *site, const struct site_args *args,
                     struct err *err)
{
    struct dump *d = self;
    char name[TAP_NAME_SIZE];
    for (int t = 0; tap_at(t); t++) {
        if (tap_at(t)->site != site || tap_at(t)->source == TAP_ALIVE) continue;
        tap_name(tap_at(t), args->layer, args->picture, name);
        if (wanted(d, name) && !keep_one(d, tap_at(t), name, args))
            return err_set(err, out_of_memory, name);
    }
    return 0;
}

static int dump_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct dump *d = self;
    const struct tensor *x = NULL; // the tensor that the site's taps read
    char name[TAP_NAME_SIZE];
    if (site == SITE_STEP_LOGITS) d->prompt_done = true;
    for (int t = 0; tap_at(t); t++) {
        const struct tap *tap = tap_at(t);
        if (tap->site != site || (tap->source == TAP_CHANGED && args->x == args->v)) continue;
        tap_name(tap, args->layer, args->picture, name);
        if (!wanted(d, name)) continue;
        if (tap->source != TAP_ALIVE) {
            x = tap->source == TAP_HEADS_FIRST ? args->v : args->x;
            continue;
        }
        struct tensor *rows = keep(d, name, DTYPE_I32, 1, args->x->shape);
        if (!rows) {
            graph_fail(g, out_of_memory, name);
            return -1;
        }
        for (int64_t i = 0; i < args->x->shape[0]; i++)
            ((int32_t *)rows->data)[i] = (int32_t)site_row(args, i);
    }
    return x ? readback(g, x, site, args, dump_take, d) : 0;
}

struct hook dump_hook(struct dump *d)
{
    return (struct hook){ .wants = dump_wants, .run = dump_run, .self = d };
}

// --- the file ------------------------------------------------------------------------------------

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct caught *)a)->name, ((const struct caught *)b)->name);
}

const char *dump_path(const struct dump *d)
{
    return d->path;
}

// Names the patterns for which the pass computed no tensor.
static void report_lacking(const struct dump *d, const struct sinks *sinks)
{
    struct buf lacking = { 0 };
    for (size_t i = 0; i < d->pattern_count; i++) {
        const struct dump one = { .patterns = &d->patterns[i], .pattern_count = 1 };
        size_t k = 0;
        while (k < d->count && !wanted(&one, d->caught[k].name)) k++;
        if (k == d->count) buf_printf(&lacking, "%s%s", lacking.length ? ", " : "", d->patterns[i]);
    }
    if (lacking.length)
        sinks_notice(sinks, "'%s' lacks %s: this pass computed no such tensor", d->path,
                     lacking.data);
    buf_release(&lacking);
}

int dump_finish(struct dump *d, const struct sinks *sinks, struct err *err)
{
    int status = 0;
    if (!d->count) {
        status = err_set(err, "no requested tensor was computed in this pass");
        dump_free(d);
        return status;
    }
    qsort(d->caught, d->count, sizeof *d->caught, by_name);
    struct safetensors_writer *w = safetensors_writer_new(d->path);
    safetensors_writer_metadata(w, mark_key, mark_value);
    for (size_t i = 0; i < d->count; i++) {
        const struct tensor *t = &d->caught[i].tensor;
        safetensors_writer_declare(w, d->caught[i].name, t->dtype, t->rank, t->shape);
    }
    for (size_t i = 0; i < d->count && status == 0; i++) {
        const struct tensor *t = &d->caught[i].tensor;
        status = safetensors_writer_data(w, t->data, tensor_bytes(t), err);
    }
    if (status == 0)
        status = safetensors_writer_finish(w, err);
    else
        safetensors_writer_abandon(w);
    if (status == 0) {
        sinks_written(sinks, "tensors", d->path, NULL);
        sinks_notice(sinks, "wrote %zu tensor%s to '%s'", d->count, d->count == 1 ? "" : "s",
                     d->path);
        report_lacking(d, sinks);
    }
    dump_free(d);
    return status;
}
