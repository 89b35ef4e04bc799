// core/probes/ffn_sums.c -- sums over the rows that enter and leave each layer's FFN.
#include "core/probes/ffn_sums.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/graph/look.h"
#include "core/probes/kit.h"
#include "kernels/tensor.h"

struct ffn_sums *ffn_sums_new(int64_t layers, int64_t width)
{
    struct ffn_sums *s = xcalloc(1, sizeof *s);
    s->layers = layers;
    s->width = width;
    s->xy = xcalloc((size_t)(layers * width), sizeof *s->xy);
    s->xx = xcalloc((size_t)(layers * width), sizeof *s->xx);
    s->visual = xcalloc((size_t)layers, sizeof *s->visual);
    s->text = xcalloc((size_t)layers, sizeof *s->text);
    return s;
}

void ffn_sums_free(struct ffn_sums *s)
{
    if (!s) return;
    free(s->xy);
    free(s->xx);
    free(s->visual);
    free(s->text);
    free(s->x);
    free(s);
}

static bool sums_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_FFN_IN || site == SITE_FFN_OUT;
}

static void add_row(struct ffn_sums *s, int64_t layer, bool visual, const float *x, const float *y)
{
    const double c = rows_cosine(x, y, s->width);
    if (layer == 0) *(visual ? &s->visual_count : &s->text_count) += 1;
    (visual ? s->visual : s->text)[layer] += c;
    if (!visual) return;
    double *xy = s->xy + layer * s->width, *xx = s->xx + layer * s->width;
    for (int64_t k = 0; k < s->width; k++) {
        xy[k] += (double)x[k] * (double)y[k];
        xx[k] += (double)x[k] * (double)x[k];
    }
}

// x is kept until y comes, which is of the same rows.
int ffn_sums_take(void *sums, const struct site *site, const struct site_args *args,
                  struct err *err)
{
    struct ffn_sums *s = sums;
    const int64_t n = args->x->shape[0], count = n * s->width;
    const float *rows = args->x->data;
    if (count > s->room) {
        s->x = xreallocarray(s->x, (size_t)count, sizeof *s->x);
        s->room = count;
    }
    if (site == SITE_FFN_IN) memcpy(s->x, rows, (size_t)count * sizeof *rows);
    for (int64_t i = 0; site == SITE_FFN_OUT && i < n; i++)
        add_row(s, args->layer, site_visual(args, i), s->x + i * s->width, rows + i * s->width);
    return 0;
}

struct hook ffn_sums_hook(struct ffn_sums *s)
{
    return (struct hook){ .wants = sums_wants, .take = ffn_sums_take, .self = s };
}

void ffn_sums_add(struct ffn_sums *s, const struct ffn_sums *other)
{
    for (int64_t i = 0; i < s->layers * s->width; i++) {
        s->xy[i] += other->xy[i];
        s->xx[i] += other->xx[i];
    }
    for (int64_t l = 0; l < s->layers; l++) {
        s->visual[l] += other->visual[l];
        s->text[l] += other->text[l];
    }
    s->visual_count += other->visual_count;
    s->text_count += other->text_count;
}

void ffn_sums_results(const struct ffn_sums *s, float *alpha, float *visual, float *text)
{
    for (int64_t i = 0; i < s->layers * s->width; i++)
        alpha[i] = s->xx[i] > 0 ? (float)(s->xy[i] / s->xx[i]) : 1;
    for (int64_t l = 0; l < s->layers; l++) {
        visual[l] = s->visual_count ? (float)(s->visual[l] / (double)s->visual_count) : 0;
        text[l] = s->text_count ? (float)(s->text[l] / (double)s->text_count) : 0;
    }
}
