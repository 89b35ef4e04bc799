// core/probes/calibration_norms.c -- the calibration `norms`: norms of both modalities and cosines
// between layers over a data set (methods page, section 1, Figs. 2 and 3).
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/files/safetensors.h"
#include "core/methods/calibration.h"
#include "core/model/model.h"
#include "core/probes/kit.h"
#include "core/probes/results.h"
#include "kernels/tensor.h"

// Of a modality, [KINDS, L+1]: what struct tally keeps of the norms, and the sum of the cosines.
enum { MEAN, SQUARES, COUNT, COSINES, KINDS };

struct norms_sums {
    int64_t layers; // L
    double *sums;   // [2, KINDS, L+1]: visual, text
    float *before;  // [N, D] h[l-1] by row of the sequence
    int64_t room;   // rows there is room for
    bool *there;    // [room]
    int64_t width;
};

static struct norms_sums *sums_new(int64_t layers)
{
    struct norms_sums *s = xcalloc(1, sizeof *s);
    s->layers = layers;
    s->sums = xcalloc((size_t)(2 * KINDS * (layers + 1)), sizeof *s->sums);
    return s;
}

static void *norms_start(const struct model *m)
{
    struct norms_sums *s = sums_new(m->decoder.config.layers);
    s->width = m->decoder.config.hidden;
    return s;
}

static void norms_release(void *sums)
{
    struct norms_sums *s = sums;
    free(s->sums);
    free(s->before);
    free(s->there);
    free(s);
}

static double *place(const struct norms_sums *s, bool text, int kind, int64_t layer)
{
    return &s->sums[(text * KINDS + kind) * (s->layers + 1) + layer];
}

static struct tally tally_at(const struct norms_sums *s, bool text, int64_t layer)
{
    return (struct tally){ .count = (int64_t)*place(s, text, COUNT, layer),
                           .mean = *place(s, text, MEAN, layer),
                           .squares = *place(s, text, SQUARES, layer) };
}

static void put_tally(const struct norms_sums *s, bool text, int64_t layer, const struct tally *t)
{
    *place(s, text, COUNT, layer) = (double)t->count;
    *place(s, text, MEAN, layer) = t->mean;
    *place(s, text, SQUARES, layer) = t->squares;
}

static bool norms_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_IN || site == SITE_FINAL;
}

static int norms_take(void *self, const struct site *site, const struct site_args *args,
                      struct err *err)
{
    struct norms_sums *s = self;
    const int64_t l = site == SITE_FINAL ? s->layers : args->layer, n = args->x->shape[0];
    const float *h = args->x->data; // [N,D]
    if (site_sequence(args)->n > s->room) {
        s->room = site_sequence(args)->n;
        s->before = xreallocarray(s->before, (size_t)(s->room * s->width), sizeof *s->before);
        s->there = xreallocarray(s->there, (size_t)s->room, sizeof *s->there);
    }
    if (l == 0) memset(s->there, 0, (size_t)s->room * sizeof *s->there);
    struct tally norms[2] = { tally_at(s, false, l), tally_at(s, true, l) };
    for (int64_t i = 0; i < n; i++) {
        const bool text = !site_visual(args, i);
        const int64_t row = site_row(args, i);
        const float *x = h + i * s->width;
        tally_add(&norms[text], rows_norm(x, s->width));
        if (s->there[row])
            *place(s, text, COSINES, l) += rows_cosine(s->before + row * s->width, x, s->width);
        memcpy(s->before + row * s->width, x, (size_t)s->width * sizeof *x);
        s->there[row] = true;
    }
    for (int text = 0; text < 2; text++) put_tally(s, text, l, &norms[text]);
    return 0;
}

static struct hook norms_hook(void *sums)
{
    return (struct hook){ .wants = norms_wants, .take = norms_take, .self = sums };
}

static void norms_add(void *sums, const void *other)
{
    struct norms_sums *s = sums;
    const struct norms_sums *o = other;
    for (int text = 0; text < 2; text++)
        for (int64_t l = 0; l <= s->layers; l++) {
            struct tally both = tally_at(s, text, l);
            const struct tally more = tally_at(o, text, l);
            tally_merge(&both, &more);
            put_tally(s, text, l, &both);
            *place(s, text, COSINES, l) += *place(o, text, COSINES, l);
        }
}

static void norms_each(void *sums, void (*numbers)(void *self, void *data, size_t bytes),
                       void *self)
{
    struct norms_sums *s = sums;
    numbers(self, s->sums, (size_t)(2 * KINDS * (s->layers + 1)) * sizeof *s->sums);
}

static const struct {
    const char *name;
    bool text;
    int what; // MEAN, SQUARES: standard deviation, COSINES: mean cosine
} tensors[] = {
    { "norms.visual", false, MEAN },
    { "norms.visual_std", false, SQUARES },
    { "norms.text", true, MEAN },
    { "norms.text_std", true, SQUARES },
    { "norms.visual_cosine", false, COSINES },
    { "norms.text_cosine", true, COSINES },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

// 0 where there was no token.
static double result(const struct norms_sums *s, int i, int64_t l)
{
    const struct tally norms = tally_at(s, tensors[i].text, l);
    if (!norms.count) return 0;
    if (tensors[i].what == MEAN) return norms.mean;
    if (tensors[i].what == SQUARES) return tally_std(&norms);
    return *place(s, tensors[i].text, COSINES, l) / (double)norms.count;
}

static int norms_write(const void *sums, const struct calibration_source *source, const char *path,
                       struct err *err)
{
    const struct norms_sums *s = sums;
    const int64_t rows = s->layers + 1, all[] = { 2, KINDS, rows };
    float *numbers = xreallocarray(NULL, (size_t)rows, sizeof *numbers);
    struct safetensors_writer *w = calibration_writer(path, source);
    int status = 0;
    for (int i = 0; i < TENSORS; i++)
        safetensors_writer_declare(w, tensors[i].name, DTYPE_F32, 1, &rows);
    calibration_declare_doubles(w, "norms.tally", 3, all);
    for (int i = 0; i < TENSORS && status == 0; i++) {
        for (int64_t l = 0; l < rows; l++) numbers[l] = (float)result(s, i, l);
        status = safetensors_writer_data(w, numbers, (size_t)rows * sizeof *numbers, err);
    }
    if (status == 0) status = calibration_give_doubles(w, s->sums, 2 * KINDS * rows, err);
    free(numbers);
    if (status == 0) return safetensors_writer_finish(w, err);
    safetensors_writer_abandon(w);
    return -1;
}

// Counts and sums of squares, which are never negative.
static bool check(const struct norms_sums *s)
{
    for (int text = 0; text < 2; text++)
        for (int64_t l = 0; l <= s->layers; l++) {
            const double count = *place(s, text, COUNT, l);
            if (!(count >= 0 && count <= (double)CALIBRATION_MOST)) return false;
            if (!(*place(s, text, SQUARES, l) >= 0)) return false;
        }
    return true;
}

static void *norms_read(const struct calibration *c, struct err *err)
{
    const struct safetensor *t = safetensors_find(c->file, "norms.visual");
    if (!t || t->rank != 1 || t->shape[0] < 2) {
        err_set(err, "'%s' has no tensor norms.visual [layers + 1]", c->file->path);
        return NULL;
    }
    if (safetensors_find(c->file, "norms.sums")) {
        err_set(
            err,
            "'%s' was written by an earlier version, whose sums cannot be merged: calibrate again",
            c->file->path);
        return NULL;
    }
    const int64_t shape[] = { 2, KINDS, t->shape[0] };
    double *sums = calibration_doubles(c, "norms.tally", 3, shape, err);
    if (!sums) return NULL;
    struct norms_sums *s = sums_new(t->shape[0] - 1);
    free(s->sums);
    s->sums = sums;
    if (check(s)) return s;
    err_set(err, "norms.tally of '%s' is damaged: calibrate again", c->file->path);
    norms_release(s);
    return NULL;
}

static void norms_show(const struct calibration *c, const struct sinks *sinks)
{
    static const char *const columns[] = { "layer",    "visual",        "visual std", "text",
                                           "text std", "visual cosine", "text cosine" };
    static const bool numeric[] = { true, true, true, true, true, true, true };
    struct table_builder b;
    struct err err;
    struct norms_sums *s = norms_read(c, &err);
    if (!s) {
        sinks_notice(sinks, "%s", err.text);
        return;
    }
    table_begin(&b, "calibration", TENSORS + 1, columns, numeric);
    for (int64_t l = 0; l <= s->layers; l++) {
        table_add(&b, "%" PRId64, l);
        for (int i = 0; i < TENSORS; i++)
            table_add(&b, l || tensors[i].what != COSINES ? "%.5g" : "", result(s, i, l));
    }
    table_emit(&b, sinks);
    norms_release(s);
}

static const struct result_kind norms_results[] = {
    { "calibration", "L2 norm", .columns = "visual|visual std|text|text std" },
    { "calibration", "cosine", .columns = "visual cosine|text cosine" },
    { 0 },
};

const struct calibration_kind calibration_kind_norms = {
    .name = "norms",
    .prefix = "norms.",
    .help = "norms of visual and text tokens and cosines between layers",
    .start = norms_start,
    .release = norms_release,
    .hook = norms_hook,
    .add = norms_add,
    .each = norms_each,
    .write = norms_write,
    .read = norms_read,
    .show = norms_show,
    .results = norms_results,
};
