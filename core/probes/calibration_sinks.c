// core/probes/calibration_sinks.c -- the calibration `sinks`: which dimensions of the first token
// are large in each layer over a data set, and how many tokens are sinks by them (methods page,
// section 3).
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/files/safetensors.h"
#include "core/methods/calibration.h"
#include "core/model/model.h"
#include "core/probes/results.h"
#include "core/probes/sinks.h"
#include "kernels/tensor.h"

struct sink_sums {
    int64_t layers, width; // L, D
    double eps, tau;
    double *profile; // [L, D] of |rmsnorm(h_0)|
    double *counts;  // [2, L] sinks, tokens
    double samples;
};

static struct sink_sums *sums_new(int64_t layers, int64_t width)
{
    struct sink_sums *s = xcalloc(1, sizeof *s);
    s->layers = layers;
    s->width = width;
    s->profile = xcalloc((size_t)(layers * width), sizeof *s->profile);
    s->counts = xcalloc((size_t)layers * 2, sizeof *s->counts);
    return s;
}

static void *sinks_start(const struct model *m)
{
    struct sink_sums *s = sums_new(m->decoder.config.layers, m->decoder.config.hidden);
    s->eps = m->decoder.config.eps;
    s->tau = sinks_tau(NULL, s->width); // the automatic one: a calibration is for everybody
    return s;
}

static void sinks_release(void *sums)
{
    struct sink_sums *s = sums;
    free(s->profile);
    free(s->counts);
    free(s);
}

static bool sinks_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_IN;
}

static int sinks_take(void *self, const struct site *site, const struct site_args *args,
                      struct err *err)
{
    struct sink_sums *s = self;
    const float *h = args->x->data; // [N,D]
    const int64_t n = args->x->shape[0], l = args->layer;
    int dims[2];
    sinks_top(h, s->width, dims);
    for (int64_t k = 0; k < s->width && site_row(args, 0) == 0; k++)
        s->profile[l * s->width + k] += sinks_value(h, s->width, s->eps, (int)k);
    for (int64_t i = 0; i < n; i++) {
        const float *x = h + i * s->width;
        const double phi = fmax(sinks_value(x, s->width, s->eps, dims[0]),
                                sinks_value(x, s->width, s->eps, dims[1]));
        s->counts[l] += phi > s->tau;
        s->counts[s->layers + l] += 1;
    }
    s->samples += l == 0;
    return 0;
}

static struct hook sinks_hook(void *sums)
{
    return (struct hook){ .wants = sinks_wants, .take = sinks_take, .self = sums };
}

static void sums_add(void *sums, const void *other)
{
    struct sink_sums *s = sums;
    const struct sink_sums *o = other;
    for (int64_t i = 0; i < s->layers * s->width; i++) s->profile[i] += o->profile[i];
    for (int64_t i = 0; i < s->layers * 2; i++) s->counts[i] += o->counts[i];
    s->samples += o->samples;
}

// Mean profile [L,D], its two largest dimensions [L,2], share of sinks [L].
static void sinks_each(void *sums, void (*numbers)(void *self, void *data, size_t bytes),
                       void *self)
{
    struct sink_sums *s = sums;
    numbers(self, s->profile, (size_t)(s->layers * s->width) * sizeof *s->profile);
    numbers(self, s->counts, (size_t)s->layers * 2 * sizeof *s->counts);
    numbers(self, &s->samples, sizeof s->samples);
}

static void results_of(const struct sink_sums *s, float *profile, float *dims, float *share)
{
    const double n = s->samples > 0 ? s->samples : 1;
    for (int64_t i = 0; i < s->layers * s->width; i++) profile[i] = (float)(s->profile[i] / n);
    for (int64_t l = 0; l < s->layers; l++) {
        int top[2];
        sinks_top(profile + l * s->width, s->width, top);
        dims[2 * l] = (float)top[0], dims[2 * l + 1] = (float)top[1];
        const double tokens = s->counts[s->layers + l];
        share[l] = tokens > 0 ? (float)(s->counts[l] / tokens) : 0;
    }
}

static int sinks_write(const void *sums, const struct calibration_source *source, const char *path,
                       struct err *err)
{
    const struct sink_sums *s = sums;
    const int64_t shape[] = { s->layers, s->width }, pairs[] = { s->layers, 2 };
    const int64_t halves[] = { 2, s->layers }, one = 1;
    const size_t all = (size_t)(s->layers * s->width), layers = (size_t)s->layers;
    float *profile = xreallocarray(NULL, all + 3 * layers, sizeof *profile);
    float *dims = profile + all, *share = dims + 2 * layers;
    struct safetensors_writer *w = calibration_writer(path, source);
    results_of(s, profile, dims, share);
    safetensors_writer_declare(w, "sinks.profile", DTYPE_F32, 2, shape);
    safetensors_writer_declare(w, "sinks.dims", DTYPE_F32, 2, pairs);
    safetensors_writer_declare(w, "sinks.share", DTYPE_F32, 1, shape);
    calibration_declare_doubles(w, "sinks.sums", 2, shape);
    calibration_declare_doubles(w, "sinks.counts", 2, halves);
    calibration_declare_doubles(w, "sinks.samples", 1, &one);
    int status = 0;
    if (safetensors_writer_data(w, profile, all * sizeof *profile, err) < 0 ||
        safetensors_writer_data(w, dims, 2 * layers * sizeof *dims, err) < 0 ||
        safetensors_writer_data(w, share, layers * sizeof *share, err) < 0 ||
        calibration_give_doubles(w, s->profile, (int64_t)all, err) < 0 ||
        calibration_give_doubles(w, s->counts, 2 * s->layers, err) < 0 ||
        calibration_give_doubles(w, &s->samples, 1, err) < 0)
        status = -1;
    free(profile);
    if (status == 0) return safetensors_writer_finish(w, err);
    safetensors_writer_abandon(w);
    return -1;
}

static void *sinks_read(const struct calibration *c, struct err *err)
{
    const struct safetensor *t = safetensors_find(c->file, "sinks.profile");
    const int64_t one = 1;
    if (!t || t->rank != 2 || t->shape[0] < 1 || t->shape[1] < 2) {
        err_set(err, "'%s' has no tensor sinks.profile [layers, hidden size]", c->file->path);
        return NULL;
    }
    const int64_t halves[] = { 2, t->shape[0] };
    double *profile = calibration_doubles(c, "sinks.sums", 2, t->shape, err);
    double *counts = profile ? calibration_doubles(c, "sinks.counts", 2, halves, err) : NULL;
    double *samples = counts ? calibration_doubles(c, "sinks.samples", 1, &one, err) : NULL;
    struct sink_sums *s = NULL;
    if (samples) {
        s = sums_new(t->shape[0], t->shape[1]);
        free(s->profile);
        free(s->counts);
        s->profile = profile, s->counts = counts;
        s->samples = *samples;
        profile = counts = NULL;
    }
    free(profile);
    free(counts);
    free(samples);
    return s;
}

static void sinks_show(const struct calibration *c, const struct sinks *sinks)
{
    static const char *const columns[] = { "layer",  "dimension", "value",
                                           "second", "value ",    "share of sinks" };
    static const bool numeric[] = { true, true, true, true, true, true };
    struct table_builder b;
    struct err err;
    struct sink_sums *s = sinks_read(c, &err);
    if (!s) return;
    const size_t all = (size_t)(s->layers * s->width), layers = (size_t)s->layers;
    float *profile = xreallocarray(NULL, all + 3 * layers, sizeof *profile);
    float *dims = profile + all, *share = dims + 2 * layers;
    results_of(s, profile, dims, share);
    table_begin(&b, "calibration", 6, columns, numeric);
    for (int64_t l = 0; l < s->layers; l++) {
        table_add(&b, "%" PRId64, l);
        for (int i = 0; i < 2; i++) {
            const int k = (int)dims[2 * l + i];
            table_add(&b, "%d", k);
            table_add(&b, "%.4g", (double)profile[l * s->width + k]);
        }
        table_add(&b, "%.4g", (double)share[l]);
    }
    table_emit(&b, sinks);
    free(profile);
    sinks_release(s);
}

static const struct result_kind sinks_results[] = {
    { "calibration", "dimension", .columns = "dimension|second" },
    { "calibration", "value of the dimension", .columns = "value|value " },
    { 0 },
};

const struct calibration_kind calibration_kind_sinks = {
    .name = "sinks",
    .prefix = "sinks.",
    .help = "the first token's largest dimensions in each layer, for /sinks",
    .start = sinks_start,
    .release = sinks_release,
    .hook = sinks_hook,
    .add = sums_add,
    .each = sinks_each,
    .write = sinks_write,
    .read = sinks_read,
    .show = sinks_show,
    .results = sinks_results,
};
