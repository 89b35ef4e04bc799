// core/probes/ffn_sums.h -- the probe behind /calibrate ffn: redundancy of each layer's FFN, and
// the least-squares factor per dimension that approximates it.
//
//   struct ffn_sums *s = ffn_sums_new(layers, width);
//   struct hook hook = ffn_sums_hook(s);          // during passes over the data; prompts only
//   ffn_sums_add(s, other);                       // another worker's
//   ffn_sums_results(s, alpha, visual, text);
//   ffn_sums_free(s);
//
// x and y = x + FFN(norm(x)) are rows of the residual stream (methods page, section 3):
//   alpha[l,k] = sum x_k y_k / sum x_k^2 over visual tokens;  redundancy[l] = mean cos(x, y).
// All sums are double and are merged over passes and workers.
#ifndef CORE_PROBES_FFN_SUMS_H
#define CORE_PROBES_FFN_SUMS_H

#include "core/graph/hooks.h"

struct ffn_sums {
    int64_t layers, width;            // L, D
    double *xy, *xx;                  // [L,D] over visual tokens
    double *visual, *text;            // [L] sums of cosines
    int64_t visual_count, text_count; // tokens, each counted once
    float *x;                         // [n,D] of the current layer
    int64_t room;                     // its capacity in elements
};

struct ffn_sums *ffn_sums_new(int64_t layers, int64_t width);
void ffn_sums_free(struct ffn_sums *s);
struct hook ffn_sums_hook(struct ffn_sums *s);
// What it does at SITE_FFN_IN and SITE_FFN_OUT (a look_fn).
int ffn_sums_take(void *sums, const struct site *site, const struct site_args *args,
                  struct err *err);
void ffn_sums_add(struct ffn_sums *s, const struct ffn_sums *other);
// alpha [L,D] (1 where x was always 0), redundancy [L] of visual and of text tokens (0 without
// any).
void ffn_sums_results(const struct ffn_sums *s, float *alpha, float *visual, float *text);

#endif
