// core/probes/calibration_ffn.c -- the calibration of the FFN approximation: redundancy of each
// layer's FFN, and the least-squares factor per dimension that approximates it.
//
// x and y = x + FFN(norm(x)) are rows of the residual stream (CAPA's paper):
//   alpha[l,k] = sum x_k y_k / sum x_k^2 over visual tokens;  redundancy[l] = mean cos(x, y).
// The fit, for visual and for text tokens: J = sum (y - alpha x)^2 (Eq. 5; stored per token),
// R^2 = 1 - J / sum y^2, and the part of the FFN that alpha explains, 1 - J / sum (y - x)^2, which
// is 0 for alpha = 1 (the FFN skipped).
#include <math.h>
#include <string.h>

#include "core/methods/calibration.h"
#include "core/probes/kit.h"

enum { XY, XX, COSINES, VISUAL_TOKENS, TEXT_TOKENS, YY, XY_TEXT, XX_TEXT }; // sums
enum { ALPHA, VISUAL, TEXT, ALPHA_TEXT, FIT };                              // results
enum { RESIDUAL, R_SQUARED, OF_FFN, FITS };

// Stores x (SITE_FFN_IN) until y (SITE_FFN_OUT) of the same rows arrives.
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
        double *xy = s->part[visual ? XY : XY_TEXT] + layer * width;
        double *xx = s->part[visual ? XX : XX_TEXT] + layer * width;
        double *yy = s->part[YY] + ((visual ? 0 : s->layers) + layer) * width;
        if (layer == 0) *s->part[visual ? VISUAL_TOKENS : TEXT_TOKENS] += 1;
        s->part[COSINES][(visual ? 0 : s->layers) + layer] += rows_cosine(x, y, width);
        for (int64_t k = 0; k < width; k++) {
            xy[k] += (double)x[k] * (double)y[k];
            xx[k] += (double)x[k] * (double)x[k];
            yy[k] += (double)y[k] * (double)y[k];
        }
    }
    return 0;
}

// Returns alpha of element i = layer * width + dimension; 1 if x was always 0.
static double alpha_of(const struct calibration_sums *s, bool text, int64_t i)
{
    const double xx = s->part[text ? XX_TEXT : XX][i];
    return xx > 0 ? s->part[text ? XY_TEXT : XY][i] / xx : 1;
}

// Writes a layer's fit for visual or text tokens; zeros if there were no such tokens.
static void put_fit(const struct calibration_sums *s, bool text, int64_t layer, float *fit)
{
    const double tokens = *s->part[text ? TEXT_TOKENS : VISUAL_TOKENS];
    const double *all = s->part[YY] + (text ? s->layers : 0) * s->width;
    double residual = 0, total = 0, skipped = 0;
    for (int64_t i = layer * s->width; i < (layer + 1) * s->width; i++) {
        const double xy = s->part[text ? XY_TEXT : XY][i], xx = s->part[text ? XX_TEXT : XX][i];
        residual += fmax(all[i] - alpha_of(s, text, i) * xy, 0); // rounding may make it negative
        skipped += fmax(all[i] - 2 * xy + xx, 0);
        total += all[i];
    }
    fit[RESIDUAL * s->layers] = tokens > 0 ? (float)(residual / tokens) : 0;
    fit[R_SQUARED * s->layers] = total > 0 ? (float)(1 - residual / total) : 0;
    fit[OF_FFN * s->layers] = skipped > 0 ? (float)(1 - residual / skipped) : 0;
}

// The redundancy of visual or text tokens is 0 if there were none.
static void ffn_compute(const struct calibration_sums *s, float *const *results)
{
    const double *cosines = s->part[COSINES];
    const double visual = *s->part[VISUAL_TOKENS], text = *s->part[TEXT_TOKENS];
    for (int64_t i = 0; i < s->layers * s->width; i++) {
        results[ALPHA][i] = (float)alpha_of(s, false, i);
        results[ALPHA_TEXT][i] = (float)alpha_of(s, true, i);
    }
    for (int64_t l = 0; l < s->layers; l++) {
        results[VISUAL][l] = visual > 0 ? (float)(cosines[l] / visual) : 0;
        results[TEXT][l] = text > 0 ? (float)(cosines[s->layers + l] / text) : 0;
        for (int m = 0; m < 2; m++) put_fit(s, m, l, results[FIT] + m * FITS * s->layers + l);
    }
}

// Returns how far the added samples have changed alpha, relative to alpha's distance from 1.
static double ffn_change(const struct calibration_sums *now, const struct calibration_sums *before)
{
    double change = 0, size = 0;
    for (int64_t i = 0; i < now->layers * now->width; i++) {
        const double alpha = alpha_of(now, false, i), apart = alpha - alpha_of(before, false, i);
        change += apart * apart;
        size += (alpha - 1) * (alpha - 1);
    }
    return size > 0 ? sqrt(change / size) : 0;
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
    // Shows the whole fit of visual tokens, but only OF_FFN of text tokens. Files of earlier
    // versions lack the fit.
    static const int shown[] = { RESIDUAL, R_SQUARED, OF_FFN, FITS + OF_FFN };
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        table_add(b, results[FIT] ? "%.5g" : "-",
                  results[FIT] ? (double)results[FIT][shown[i] * s->layers + layer] : 0);
}

static const struct calibration_tensor ffn_results[] = {
    { "ffn.alpha", { OF_LAYERS, OF_WIDTH } },
    { "ffn.redundancy", { OF_LAYERS } },
    { "ffn.redundancy_text", { OF_LAYERS } },
    { "ffn.alpha_text", { OF_LAYERS, OF_WIDTH } },
    { "ffn.fit", { 2, FITS, OF_LAYERS } }, // of visual and of text tokens
    { 0 },
};
static const struct calibration_tensor ffn_sums[] = {
    { "ffn.sum_xy", { OF_LAYERS, OF_WIDTH } }, // of visual tokens
    { "ffn.sum_xx", { OF_LAYERS, OF_WIDTH } },
    { "ffn.sum_cos", { 2, OF_LAYERS } }, // of visual and of text tokens
    { "visual_tokens", { 0 } },
    { "text_tokens", { 0 } },
    { "ffn.sum_yy", { 2, OF_LAYERS, OF_WIDTH } },
    { "ffn.sum_xy_text", { OF_LAYERS, OF_WIDTH } },
    { "ffn.sum_xx_text", { OF_LAYERS, OF_WIDTH } },
    { 0 },
};
static const struct result_kind ffn_units[] = {
    { "calibration", "cosine", .columns = "redundancy, visual|redundancy, text" },
    { "calibration", "alpha", .columns = "alpha, mean" },
    { "calibration", "squared residual of a token", .columns = "J" },
    { "calibration", "share", .columns = "R2|of FFN|of FFN, text" },
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
    .change = ffn_change,
    .columns = "layer#|redundancy, visual#|redundancy, text#|alpha, mean#|J#|R2#|of FFN#|of FFN, "
               "text#",
    .show = ffn_show,
    .units = ffn_units,
};
