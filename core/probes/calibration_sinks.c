// core/probes/calibration_sinks.c -- the calibration `sinks`: the first token's largest dimensions
// in each layer over a data set, and the share of each layer's tokens that are sinks (CAPA's
// paper).
#include <math.h>

#include "core/methods/calibration.h"
#include "core/methods/kit.h"
#include "core/methods/sinks.h"
#include "core/probes/kit.h"

enum { PROFILES, COUNTS, SAMPLES }; // sums
enum { PROFILE, DIMS, SHARE };      // results

static int sinks_take(void *self, const struct site *site, const struct site_args *args,
                      struct err *err)
{
    struct calibration_sums *s = self;
    const double eps = s->model->decoder.config.eps;
    const double tau = sinks_tau(NULL, s->width); // the default, not this session's sinks.tau
    const float *h = args->x->data;               // [N,D]
    const int64_t l = args->layer;
    int dims[2];
    sinks_top(h, s->width, dims);
    const double rms = method_rms(h, s->width, eps);
    for (int64_t k = 0; k < s->width && site_row(args, 0) == 0; k++)
        s->part[PROFILES][l * s->width + k] += fabs((double)h[k]) / rms;
    for (int64_t i = 0; i < args->x->shape[0]; i++) {
        const float *x = h + i * s->width;
        s->part[COUNTS][l] += sinks_phi(x, s->width, eps, dims, 2) > tau;
        s->part[COUNTS][s->layers + l] += 1;
    }
    *s->part[SAMPLES] += l == 0;
    return 0;
}

static void sinks_compute(const struct calibration_sums *s, float *const *results)
{
    const double n = *s->part[SAMPLES] > 0 ? *s->part[SAMPLES] : 1;
    for (int64_t i = 0; i < s->layers * s->width; i++)
        results[PROFILE][i] = (float)(s->part[PROFILES][i] / n);
    for (int64_t l = 0; l < s->layers; l++) {
        int top[2];
        sinks_top(results[PROFILE] + l * s->width, s->width, top);
        for (int i = 0; i < 2; i++) results[DIMS][2 * l + i] = (float)top[i];
        const double tokens = s->part[COUNTS][s->layers + l];
        results[SHARE][l] = tokens > 0 ? (float)(s->part[COUNTS][l] / tokens) : 0;
    }
}

static void sinks_show(const struct calibration_sums *s, float *const *results, int64_t layer,
                       struct table_builder *b)
{
    for (int i = 0; i < 2; i++) {
        const float dim = results[DIMS] ? results[DIMS][2 * layer + i] : -1;
        const bool known = dim >= 0 && dim < (float)s->width; // the file is untrusted
        table_add(b, known ? "%.0f" : "-", (double)dim);
        table_add(b, known && results[PROFILE] ? "%.4g" : "-",
                  known && results[PROFILE]
                      ? (double)results[PROFILE][layer * s->width + (int64_t)dim]
                      : 0);
    }
    table_add(b, results[SHARE] ? "%.4g" : "-", results[SHARE] ? (double)results[SHARE][layer] : 0);
}

static const struct calibration_tensor sinks_results[] = {
    { "sinks.profile", { OF_LAYERS, OF_WIDTH } }, // mean |rmsnorm(h_0)|
    { "sinks.dims", { OF_LAYERS, 2 } },           // the profile's two largest dimensions
    { "sinks.share", { OF_LAYERS } },             // share of tokens that are sinks
    { 0 },
};
static const struct calibration_tensor sinks_sums[] = {
    { "sinks.sums", { OF_LAYERS, OF_WIDTH } },
    { "sinks.counts", { 2, OF_LAYERS } }, // number of sinks, number of tokens
    { "sinks.samples", { 1 } },
    { 0 },
};
static const struct result_kind sinks_units[] = {
    { "calibration", "dimension", .columns = "dimension|second" },
    { "calibration", "value of the dimension", .columns = "value|value " },
    { 0 },
};

const struct calibration_kind calibration_kind_sinks = {
    .name = "sinks",
    .prefix = "sinks.",
    .help = "the first token's largest dimensions in each layer, for /sinks",
    .results = sinks_results,
    .sums = sinks_sums,
    .sites = { SITE_LAYER_IN },
    .take = sinks_take,
    .compute = sinks_compute,
    .columns = "layer#|dimension#|value#|second#|value #|share of sinks#",
    .show = sinks_show,
    .units = sinks_units,
};
