// core/methods/calibration.c -- the kinds of calibrations, and their files.
#include "core/methods/calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/files/checkpoint.h"
#include "core/files/safetensors.h"
#include "core/model/model.h"
#include "core/settings/settings.h"
#include "kernels/tensor.h"

static const struct calibration_kind *const *kinds; // NULL-terminated

void calibration_kinds_register(const struct calibration_kind *const *all)
{
    kinds = all;
}

const struct calibration_kind *calibration_kind_at(int index)
{
    for (int i = 0; i < index; i++)
        if (!kinds[i]) return NULL;
    return index >= 0 ? kinds[index] : NULL;
}

const struct calibration_kind *calibration_kind_find(const char *name, struct err *err)
{
    struct buf b = { 0 };
    const struct calibration_kind *kind;
    for (int i = 0; (kind = calibration_kind_at(i)); i++) {
        if (!strcmp(kind->name, name)) break;
        buf_printf(&b, "%s%s", i ? ", " : "", kind->name);
    }
    if (!kind) err_set(err, "no calibration kind '%s': choose one of %s", name, b.data);
    buf_release(&b);
    return kind;
}

const struct calibration_kind *calibration_kind_of(const struct calibration *c)
{
    const struct calibration_kind *kind;
    for (int i = 0; (kind = calibration_kind_at(i)); i++)
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): an open calibration has its file
        for (int64_t t = 0; t < c->file->count; t++)
            if (!strncmp(c->file->tensors[t].name, kind->prefix, strlen(kind->prefix))) return kind;
    return NULL;
}

// Refuses files with a NaN or infinity in any f32 tensor, including tensors that only /calibration
// show and /calibrate merge read.
static int check_finite(const struct safetensors *file, struct err *err)
{
    float value;
    for (int64_t k = 0; k < file->count; k++) {
        const struct safetensor *t = &file->tensors[k];
        for (uint64_t i = 0; t->dtype == DTYPE_F32 && i < t->bytes / sizeof value; i++) {
            memcpy(&value, (const char *)t->data + i * sizeof value, sizeof value);
            if (!isfinite(value))
                return err_set(err, "%s of '%s' has a NaN or infinity (element %llu)", t->name,
                               file->path, (unsigned long long)i);
        }
    }
    return 0;
}

// Reads a count of samples or tokens from the metadata; -1 if it is missing or invalid.
static int64_t read_count(const struct calibration *c, const char *key)
{
    const char *text = safetensors_metadata(c->file, key);
    char *end;
    if (!text || !*text) return -1;
    const long long count = strtoll(text, &end, 10);
    return *end || count < 0 || count > CALIBRATION_MOST ? -1 : count;
}

int calibration_open(struct calibration *c, const char *path, struct err *err)
{
    *c = (struct calibration){ .count = -1 };
    c->file = safetensors_open(path, err);
    if (!c->file) return -1;
    if (!calibration_kind_of(c)) {
        calibration_close(c);
        return err_set(err,
                       "'%s' is not a calibration: it has no tensor named ffn.*, norms.*, "
                       "sinks.*, phases.* or lens.* (see /calibrate)",
                       path);
    }
    struct err why;
    if (safetensors_check_hash(c->file, &why) < 0 || check_finite(c->file, &why) < 0) {
        calibration_close(c);
        return err_set(err,
                       strcmp(why.text, "cancelled") ? "%s; make it again with /calibrate" : "%s",
                       why.text);
    }
    c->model = safetensors_metadata(c->file, "model");
    c->files = safetensors_metadata(c->file, "model files");
    c->data = safetensors_metadata(c->file, "data");
    c->arithmetic = safetensors_metadata(c->file, "arithmetic");
    c->count = read_count(c, "count");
    return 0;
}

void calibration_close(struct calibration *c)
{
    if (c->file) safetensors_close(c->file);
    *c = (struct calibration){ .count = -1 };
}

// Returns " (different files: a, b)", or "" if the records lack the names; the caller frees it.
static char *files_in_brackets(const char *were, const char *are)
{
    char *which = checkpoint_files_differ(were, are);
    char *text = which ? xasprintf(" (different files: %s)", which) : xstrdup("");
    free(which);
    return text;
}

int calibration_fits(const struct calibration *c, const struct model *m, struct err *err)
{
    if (!c->model) return 0;
    if (checkpoint_identify(m->checkpoint, NULL, err) < 0)
        return err_in(err, "hashing the files of '%s'", m->name);
    if (!strcmp(c->model, m->checkpoint->weights) ||
        checkpoint_matches_earlier(m->checkpoint, c->model))
        return 0;
    char *which = files_in_brackets(c->files, m->checkpoint->files);
    err_set(err,
            "'%s' was calibrated for different weights than '%s'%s: calibrate this model with "
            "/calibrate",
            c->file->path, m->name, which);
    free(which);
    return -1;
}

int calibration_of_setting(struct calibration *c, const struct settings *s, const char *key,
                           const struct model *m, struct err *err)
{
    *c = (struct calibration){ .count = -1 };
    if (settings_is(s, key, "none")) return 0;
    if (calibration_open(c, settings_text(s, key), err) < 0) return -1;
    if (calibration_fits(c, m, err) == 0) return 0;
    calibration_close(c);
    return -1;
}

static void shape_text(struct buf *b, int rank, const int64_t *shape)
{
    buf_puts(b, "[");
    for (int i = 0; i < rank; i++) buf_printf(b, i ? ",%lld" : "%lld", (long long)shape[i]);
    buf_puts(b, "]");
}

float *calibration_numbers(const struct calibration *c, const char *name, int rank,
                           const int64_t *shape, struct err *err)
{
    const struct safetensor *t = safetensors_find(c->file, name);
    if (!t) {
        err_set(err, "'%s' has no tensor %s", c->file->path, name);
        return NULL;
    }
    bool same = t->dtype == DTYPE_F32 && t->rank == rank;
    for (int i = 0; same && i < rank; i++) same = t->shape[i] == shape[i];
    if (!same) {
        struct buf b = { 0 };
        buf_printf(&b, "%s of '%s' is ", name, c->file->path);
        shape_text(&b, t->rank, t->shape);
        buf_printf(&b, " %s, but this model needs ", t->type);
        shape_text(&b, rank, shape);
        err_set(err, "%s F32", b.data);
        buf_release(&b);
        return NULL;
    }
    float *numbers = xmalloc(t->bytes);
    memcpy(numbers, t->data, t->bytes);
    return numbers;
}

float *calibration_indices(const struct calibration *c, const char *name, int rank,
                           const int64_t *shape, int64_t limit, const char *what, struct err *err)
{
    float *numbers = calibration_numbers(c, name, rank, shape, err);
    int64_t count = 1;
    for (int i = 0; i < rank; i++) count *= shape[i];
    for (int64_t i = 0; numbers && i < count; i++) {
        if (numbers[i] >= 0 && numbers[i] < (float)limit) continue;
        err_set(err, "'%s' names %s %g, which the model does not have", c->file->path, what,
                (double)numbers[i]);
        free(numbers);
        numbers = NULL;
    }
    return numbers;
}

// --- writing -------------------------------------------------------------------------------------

int calibration_write_doubles(struct safetensors_writer *w, const double *numbers, int64_t count,
                              struct err *err)
{
    float *halves = xreallocarray(NULL, (size_t)count * 2 + 1, sizeof *halves);
    for (int64_t i = 0; i < count; i++) {
        halves[i] = (float)numbers[i];
        halves[count + i] = (float)(numbers[i] - (double)halves[i]);
    }
    int status = safetensors_writer_data(w, halves, (uint64_t)count * 2 * sizeof *halves, err);
    free(halves);
    return status;
}

struct safetensors_writer *calibration_writer(const char *path,
                                              const struct calibration_source *source)
{
    char count[32];
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_hash(w);
    snprintf(count, sizeof count, "%lld", (long long)source->count);
    safetensors_writer_metadata(w, "made_by", "vlmsh /calibrate");
    safetensors_writer_metadata(w, "model", source->model);
    if (source->files) safetensors_writer_metadata(w, "model files", source->files);
    safetensors_writer_metadata(w, "data", source->data);
    safetensors_writer_metadata(w, "count", count);
    if (source->arithmetic) safetensors_writer_metadata(w, "arithmetic", source->arithmetic);
    return w;
}

// --- sums ----------------------------------------------------------------------------------------

// Sets a tensor's shape from the model sizes in `s`, and returns its number of elements.
static int64_t shape_of(const struct calibration_sums *s, const struct calibration_tensor *t,
                        int *rank, int64_t *shape)
{
    const int64_t sizes[] = { [-OF_LAYERS] = s->layers,
                              [-OF_WIDTH] = s->width,
                              [-OF_STATES] = s->layers + 1 };
    int64_t count = 1;
    for (*rank = 0; t->shape[*rank]; ++*rank) {
        const int n = t->shape[*rank];
        count *= shape[*rank] = n < 0 ? sizes[-n] : n;
    }
    return count;
}

static struct calibration_sums *sums_new(const struct calibration_kind *kind, int64_t layers,
                                         int64_t width)
{
    struct calibration_sums *s = xcalloc(1, sizeof *s);
    int64_t count[CALIBRATION_TENSORS] = { 0 }, shape[4];
    int rank;
    *s = (struct calibration_sums){ .kind = kind, .layers = layers, .width = width };
    for (int i = 0; kind->sums[i].name; i++)
        s->count += (size_t)(count[i] = shape_of(s, &kind->sums[i], &rank, shape));
    double *at = s->data = xcalloc(s->count, sizeof *s->data);
    for (int i = 0; kind->sums[i].name; at += count[i++]) s->part[i] = at;
    return s;
}

struct calibration_sums *calibration_start(const struct calibration_kind *kind,
                                           const struct model *m)
{
    struct calibration_sums *s = sums_new(kind, m->decoder.config.layers, m->decoder.config.hidden);
    s->model = m;
    return s;
}

void calibration_free(struct calibration_sums *s)
{
    if (!s) return;
    free(s->data);
    free(s->rows);
    free(s->there);
    free(s);
}

static bool wants(void *self, const struct site *site, int layer)
{
    const struct calibration_sums *s = self;
    for (const struct site *const *at = s->kind->sites; *at; at++)
        if (*at == site) return true;
    return false;
}

struct hook calibration_hook(struct calibration_sums *s)
{
    return (struct hook){ .wants = wants, .run = s->kind->run, .take = s->kind->take, .self = s };
}

void calibration_rows(struct calibration_sums *s, int64_t rows)
{
    if (rows <= s->capacity) return;
    s->capacity = rows;
    s->rows = xreallocarray(s->rows, (size_t)(rows * s->width), sizeof *s->rows);
    s->there = xreallocarray(s->there, (size_t)rows, sizeof *s->there);
}

void calibration_add(struct calibration_sums *s, const struct calibration_sums *other)
{
    if (s->kind->merge) {
        s->kind->merge(s, other);
        return;
    }
    for (size_t i = 0; i < s->count; i++) s->data[i] += other->data[i];
}

static int read_sums(struct calibration_sums *s, const struct calibration *c, struct err *err)
{
    const char *path = c->file->path;
    double *part = s->data;
    int64_t count;
    if (s->kind->former && safetensors_find(c->file, s->kind->former))
        return err_set(
            err,
            "'%s' was written by an earlier version, whose sums cannot be merged: calibrate again",
            path);
    for (const struct calibration_tensor *t = s->kind->sums; t->name; t++, part += count) {
        int64_t halves[5] = { 2 };
        int rank;
        count = shape_of(s, t, &rank, halves + 1);
        if (!rank) {
            const int64_t tokens = read_count(c, t->name);
            *part = (double)tokens;
            if (tokens >= 0) continue;
            return err_set(err, "'%s' does not record its number of tokens", path);
        }
        if (!safetensors_find(c->file, t->name) && t > s->kind->sums)
            return err_set(
                err,
                "'%s' lacks %s: it was written by an earlier version, whose sums cannot be "
                "merged: calibrate again",
                path, t->name);
        float *numbers = calibration_numbers(c, t->name, rank + 1, halves, err);
        if (!numbers) return -1;
        for (int64_t k = 0; k < count; k++)
            part[k] = (double)numbers[k] + (double)numbers[count + k];
        free(numbers);
    }
    if (!s->kind->valid || s->kind->valid(s)) return 0;
    return err_set(err, "%s of '%s' is damaged: calibrate again", s->kind->sums->name, path);
}

// True if the file's tensors that grow with the square of the width have that size. The first
// tensor, which may be small, must not alone decide how much memory the sums take.
static bool sums_fit(const struct calibration_kind *kind, const struct calibration_sums *size,
                     const struct safetensors *file)
{
    for (const struct calibration_tensor *t = kind->results; t->name; t++) {
        double count = 1;
        for (int i = 0; t->shape[i]; i++)
            count *= t->shape[i] == OF_LAYERS   ? (double)size->layers
                     : t->shape[i] == OF_WIDTH  ? (double)size->width
                     : t->shape[i] == OF_STATES ? (double)size->layers + 1
                                                : (double)t->shape[i];
        const struct safetensor *there = safetensors_find(file, t->name);
        const bool square = t->shape[0] && t->shape[1] == OF_WIDTH && t->shape[2] == OF_WIDTH;
        if (square && (!there || (double)there->bytes != count * sizeof(float))) return false;
    }
    return true;
}

// Makes zeroed sums, sized by the file's first result tensor.
static struct calibration_sums *sums_for(const struct calibration *c, struct err *err)
{
    const struct calibration_kind *kind = calibration_kind_of(c);
    const struct calibration_tensor *first = kind->results;
    const struct safetensor *t = safetensors_find(c->file, first->name);
    const bool states = first->shape[0] == OF_STATES;
    const int64_t least = states ? 2 : 1, most = DECODER_LAYERS + states;
    if (t && t->dtype == DTYPE_F32 && t->rank == (states ? 1 : 2) && t->shape[0] >= least &&
        t->shape[0] <= most && (states || t->shape[1] >= 1)) {
        const struct calibration_sums size = { .layers = t->shape[0] - states,
                                               .width = states ? 0 : t->shape[1] };
        if (sums_fit(kind, &size, c->file)) return sums_new(kind, size.layers, size.width);
    }
    if (t && t->dtype != DTYPE_F32)
        err_set(err, "'%s': %s has the type %s; only F32 is supported: calibrate again",
                c->file->path, first->name, t->type);
    else if (t && t->rank > 0 && t->shape[0] > most)
        err_set(err, "'%s': %s has %lld layers; a model has at most %d", c->file->path, first->name,
                (long long)(t->shape[0] - states), DECODER_LAYERS);
    else
        err_set(err, "'%s' has no tensor %s %s", c->file->path, first->name,
                states ? "[layers + 1]" : "[layers, hidden size]");
    return NULL;
}

struct calibration_sums *calibration_read(const struct calibration *c, struct err *err)
{
    struct calibration_sums *s = sums_for(c, err);
    if (!s || read_sums(s, c, err) == 0) return s;
    calibration_free(s);
    return NULL;
}

int calibration_write(const struct calibration_sums *s, const struct calibration_source *source,
                      const char *path, struct err *err)
{
    const struct calibration_tensor *results = s->kind->results, *sums = s->kind->sums;
    struct safetensors_writer *w = calibration_writer(path, source);
    float *numbers[CALIBRATION_TENSORS];
    int64_t shape[4];
    int rank, status = 0;
    for (int i = 0; sums[i].name; i++) {
        char count[32];
        snprintf(count, sizeof count, "%.0f", *s->part[i]);
        if (!sums[i].shape[0]) safetensors_writer_metadata(w, sums[i].name, count);
    }
    for (int i = 0; results[i].name; i++) {
        const int64_t count = shape_of(s, &results[i], &rank, shape);
        numbers[i] = xcalloc((size_t)count, sizeof *numbers[i]);
        safetensors_writer_declare(w, results[i].name, DTYPE_F32, rank, shape);
    }
    for (int i = 0; sums[i].name; i++) {
        int64_t halves[5] = { 2 };
        shape_of(s, &sums[i], &rank, halves + 1);
        if (rank) safetensors_writer_declare(w, sums[i].name, DTYPE_F32, rank + 1, halves);
    }

    s->kind->compute(s, numbers);
    for (int i = 0; results[i].name; i++) {
        const int64_t count = shape_of(s, &results[i], &rank, shape);
        if (status == 0)
            status = safetensors_writer_data(w, numbers[i], (size_t)count * sizeof(float), err);
        free(numbers[i]);
    }
    for (int i = 0; sums[i].name && status == 0; i++)
        if (sums[i].shape[0])
            status =
                calibration_write_doubles(w, s->part[i], shape_of(s, &sums[i], &rank, shape), err);
    if (status == 0) return safetensors_writer_finish(w, err);
    safetensors_writer_abandon(w);
    return -1;
}

void calibration_show(const struct calibration *c, const struct sinks *sinks)
{
    struct err err;
    float *results[CALIBRATION_TENSORS];
    struct table_builder b;
    int rank;
    int64_t shape[4];
    struct calibration_sums *s = sums_for(c, &err);
    if (!s) {
        sinks_notice(sinks, "%s", err.text);
        return;
    }
    table_begin(&b, "calibration", s->kind->columns);
    for (int i = 0; s->kind->results[i].name; i++) {
        shape_of(s, &s->kind->results[i], &rank, shape);
        results[i] = calibration_numbers(c, s->kind->results[i].name, rank, shape, &err);
    }
    for (int64_t l = 0; l < s->layers + s->kind->states; l++) {
        table_add(&b, "%lld", (long long)l);
        s->kind->show(s, results, l, &b);
    }
    table_emit(&b, sinks);
    for (int i = 0; s->kind->results[i].name; i++) free(results[i]);
    calibration_free(s);
}

// --- merging -------------------------------------------------------------------------------------

struct merging {
    struct calibration_sums *sums; // NULL: none yet
    char *model, *files;           // of the first file
    char *data;                    // hashes of the data sets, joined by "+"
    char *arithmetic;              // NULL: a file lacks it
    int64_t count;
};

// Adds one more open file to the merge.
static int merge_file(struct merging *m, const struct calibration *c, struct err *err)
{
    const struct calibration_kind *kind = calibration_kind_of(c);
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): an open calibration has its file
    const char *path = c->file->path, *model = c->model ? c->model : "";
    if (m->sums && kind != m->sums->kind)
        return err_set(err, "'%s' is a calibration of kind %s; the others are of kind %s", path,
                       kind->name, m->sums->kind->name);
    if (m->sums && strcmp(model, m->model) != 0) {
        char *which = files_in_brackets(m->files, c->files);
        err_set(err, "'%s' was made with a different model than the others%s", path, which);
        free(which);
        return -1;
    }
    struct calibration_sums *sums = calibration_read(c, err);
    if (!sums) return -1;
    if (!m->sums) {
        m->sums = sums;
        m->model = xstrdup(model);
        m->files = c->files ? xstrdup(c->files) : NULL;
        m->arithmetic = c->arithmetic ? xstrdup(c->arithmetic) : NULL;
    } else {
        const bool same = sums->layers == m->sums->layers && sums->width == m->sums->width;
        if (same) calibration_add(m->sums, sums);
        calibration_free(sums);
        if (!same)
            return err_set(
                err, "'%s' has different tensors than the others: is it from another model?", path);
        const bool both = m->arithmetic && c->arithmetic;
        if (!both || strcmp(m->arithmetic, c->arithmetic) != 0) {
            free(m->arithmetic);
            m->arithmetic = both ? xstrdup("mixed") : NULL;
        }
    }
    const char *data = c->data ? c->data : "?";
    char *joined = m->data ? xasprintf("%s+%s", m->data, data) : xstrdup(data);
    free(m->data);
    m->data = joined;
    m->count += c->count > 0 ? c->count : 0;
    return 0;
}

int calibration_merge(const char *const *paths, size_t count, const char *out, struct err *err)
{
    struct merging m = { 0 };
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        struct calibration c;
        status = calibration_open(&c, paths[i], err);
        if (status == 0) status = merge_file(&m, &c, err);
        calibration_close(&c);
    }
    const struct calibration_source source = { m.model, m.data, m.count, m.arithmetic, m.files };
    if (m.sums && status == 0) status = calibration_write(m.sums, &source, out, err);
    calibration_free(m.sums);
    free(m.model);
    free(m.files);
    free(m.arithmetic);
    free(m.data);
    return status;
}
