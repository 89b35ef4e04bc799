// core/probes/calibration_ffn.c -- the calibration of the FFN approximation: redundancy of each
// layer's FFN, and the least-squares factor per dimension that approximates it.
//
// x and y = x + FFN(norm(x)) are rows of the residual stream (methods page, section 3):
//   alpha[l,k] = sum x_k y_k / sum x_k^2 over visual tokens;  redundancy[l] = mean cos(x, y).
#include <string.h>

#include "core/methods/calibration.h"
#include "core/probes/kit.h"

enum { XY, XX, COSINES, VISUAL_TOKENS, TEXT_TOKENS }; // sums
enum { ALPHA, VISUAL, TEXT };                         // results

// Stores x until y arrives, which has the same rows.
static int ffn_take(void *self, const struct site *site, const struct site_args *args,
                    struct err *err)
{
    struct calibration_sums *s = self;
    const int64_t n = args->x->shape[0], width = s->width, layer = args->layer;
    calibration_rows(s, n);
    if (site == SITE_FFN_IN) memcpy(s->rows, args->x->data, tensor_bytes(args->x));
    for (int64_t i = 0; site == SITE_FFN_OUT && i < n; i++) {
        const float *x = s->rows + i * width, *y = (const float *)args->x->data + i * width;
        const bool visual = site_visual(args, i);
        double *xy = s->part[XY] + layer * width, *xx = s->part[XX] + layer * width;
        if (layer == 0) *s->part[visual ? VISUAL_TOKENS : TEXT_TOKENS] += 1;
        s->part[COSINES][(visual ? 0 : s->layers) + layer] += rows_cosine(x, y, width);
        for (int64_t k = 0; visual && k < width; k++) {
            xy[k] += (double)x[k] * (double)y[k];
            xx[k] += (double)x[k] * (double)x[k];
        }
    }
    return 0;
}

// Alpha is 1 where x was always 0; the redundancy is 0 without tokens.
static void ffn_compute(const struct calibration_sums *s, float *const *results)
{
    const double *xy = s->part[XY], *xx = s->part[XX], *cosines = s->part[COSINES];
    const double visual = *s->part[VISUAL_TOKENS], text = *s->part[TEXT_TOKENS];
    for (int64_t i = 0; i < s->layers * s->width; i++)
        results[ALPHA][i] = xx[i] > 0 ? (float)(xy[i] / xx[i]) : 1;
    for (int64_t l = 0; l < s->layers; l++) {
        results[VISUAL][l] = visual > 0 ? (float)(cosines[l] / visual) : 0;
        results[TEXT][l] = text > 0 ? (float)(cosines[s->layers + l] / text) : 0;
    }
}

static void ffn_show(const struct calibration_sums *s, float *const *results, int64_t layer,
                     struct table_builder *b)
{
    double sum = 0;
    for (int i = VISUAL; i <= TEXT; i++)
        table_add(b, results[i] ? "%.4f" : "-", results[i] ? (double)results[i][layer] : 0);
    for (int64_t k = 0; results[ALPHA] && k < s->width; k++)
        sum += (double)results[ALPHA][layer * s->width + k];
    table_add(b, results[ALPHA] ? "%.4f" : "-", sum / (double)s->width);
}

static const struct calibration_tensor ffn_results[] = {
    { "ffn.alpha", { OF_LAYERS, OF_WIDTH } },
    { "ffn.redundancy", { OF_LAYERS } },
    { "ffn.redundancy_text", { OF_LAYERS } },
    { 0 },
};
static const struct calibration_tensor ffn_sums[] = {
    { "ffn.sum_xy", { OF_LAYERS, OF_WIDTH } }, // of visual tokens
    { "ffn.sum_xx", { OF_LAYERS, OF_WIDTH } },
    { "ffn.sum_cos", { 2, OF_LAYERS } }, // of visual and of text tokens
    { "visual_tokens", { 0 } },
    { "text_tokens", { 0 } },
    { 0 },
};
static const struct result_kind ffn_units[] = {
    { "calibration", "cosine", .columns = "redundancy, visual|redundancy, text" },
    { "calibration", "alpha", .columns = "alpha, mean" },
    { 0 },
};

const struct calibration_kind calibration_kind_ffn = {
    .name = "ffn",
    .prefix = "ffn.",
    .help = "FFN redundancy of each layer, and alpha for ffn.approx hadamard",
    .results = ffn_results,
    .sums = ffn_sums,
    .sites = { SITE_FFN_IN, SITE_FFN_OUT },
    .take = ffn_take,
    .compute = ffn_compute,
    .columns = "layer#|redundancy, visual#|redundancy, text#|alpha, mean#",
    .show = ffn_show,
    .units = ffn_units,
};
