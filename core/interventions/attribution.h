// core/interventions/attribution.h -- the kinds of attribution: how much each row of a sequence
// contributes to the log-probability of an answer.
//
//   struct attributing w = { .env = env, .at = rows };
//   attributing_open(&w, err);
//   attribution_choose("integrated,rollout", w.chosen, err);
//   attributing_run(&w, p, err);                         // w.maps[k].rows [N]
//   attributing_others(&w, p, "world/pictures", err);    // w.maps[k].mean [N], the sink correction
//   attributing_close(&w);
//
// A kind is a line of ATTRIBUTIONS and a function attribute_NAME.
#ifndef CORE_INTERVENTIONS_ATTRIBUTION_H
#define CORE_INTERVENTIONS_ATTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct passing;
struct probe_env;
struct results;

// The kinds, in display order. X(name, whether --layer chooses the layer to read).
#define ATTRIBUTIONS(X)                                                                       \
    X(gradient, true)     /* gradient x input */                                              \
    X(integrated, true)   /* integrated gradients from a baseline */                          \
    X(gradcam, true)      /* the rows of one layer, weighted by their mean gradient */        \
    X(occlusion, true)    /* drop in log-probability with the row or its square replaced */   \
    X(attention, true)    /* attention of the answer, mean over heads and layers */           \
    X(contribution, true) /* attention contribution to the answer (CAPA), mean over layers */ \
    X(rollout, false)     /* attention multiplied over all layers */                          \
    X(direct, false)      /* contributions of heads from the row to the answer's logits */

#define X(name, layer) ATTRIBUTION_##name,
enum { ATTRIBUTIONS(X) ATTRIBUTION_COUNT };
#undef X

// The direct contributions to the selected tokens' logits (`direct`).
struct direct_parts {
    double logit;            // sum of these logits: embedding + attention + ffn + rest
    double embedding;        // of h[0]
    double *attention, *ffn; // [L] of the sublayers
    double *rest;            // [L] of additions after the FFN (DeepStack, layer inputs, methods)
    double *heads;           // [L,H] of the heads; they sum to `attention` minus its bias
    bool *reached;           // [L] layers whose heads were read
};

// One kind's attributions.
struct attribution {
    double *rows;  // [N]; NaN: not attributed
    double *mean;  // [N] mean over other pictures of rows / sum |rows|; NULL: not measured
    double should; // the sum that `rows` must have by the kind's definition; NaN: undefined
};

struct attributing {
    const struct probe_env *env;
    const bool *at;     // [N] rows to attribute to
    int64_t first, end; // selected tokens of the answer
    bool chosen[ATTRIBUTION_COUNT];
    struct attribution maps[ATTRIBUTION_COUNT];
    struct direct_parts direct;
    int others, picture; // number of other pictures measured, and the picture they replaced
    double logp;         // sum of the selected tokens' log-probabilities
    bool *attends;       // [L] layers whose attention was read
    int64_t done, all;   // passes, for the progress
};

struct attribution_kind {
    const char *name;
    // Sets to->rows [N] at w->at, and to->should if the kind defines a sum.
    int (*run)(struct attributing *w, struct passing *p, struct attribution *to, struct err *err);
    bool layer; // --layer chooses the layer whose input or attention it reads; false: reads all
};

extern const struct attribution_kind attribution_kinds[ATTRIBUTION_COUNT];

// Sets `chosen` to the kinds in a list such as "gradient,rollout"; "all" or NULL: all. -1 if a name
// is unknown or the list is empty.
int attribution_choose(const char *list, bool chosen[ATTRIBUTION_COUNT], struct err *err);

// Allocates the maps; checks --token.
int attributing_open(struct attributing *w, struct err *err);
int attributing_run(struct attributing *w, struct passing *p, struct err *err);
// Shows up to 8 pictures of a folder, one by one, in place of the prompt's, and averages their
// maps. Skips files that are not pictures of the same size, and the prompt's own picture.
int attributing_others(struct attributing *w, struct passing *p, const char *folder,
                       struct err *err);
// Sets to[N] to the corrected attributions: rows / sum |rows| - mean. NaN outside the picture, and
// where `rows` is NaN.
void attributing_correct(const struct attributing *w, int kind, double *to);
void attributing_close(struct attributing *w);
// Adds notes on --layer and DeepStack; `embeddings`: the caller also replaced rows of h[0].
void attributing_note(const struct attributing *w, bool embeddings, struct results *r);

// Copies [N] rows to a map [S] over the visual tokens.
void attributing_map(const struct attributing *w, const double *rows, float *map);

// Functions of the kinds, in attribution_*.c.
int attribute_gradient(struct attributing *w, struct passing *p, struct attribution *to,
                       struct err *err);
int attribute_integrated(struct attributing *w, struct passing *p, struct attribution *to,
                         struct err *err);
int attribute_gradcam(struct attributing *w, struct passing *p, struct attribution *to,
                      struct err *err);
int attribute_occlusion(struct attributing *w, struct passing *p, struct attribution *to,
                        struct err *err);
int attribute_attention(struct attributing *w, struct passing *p, struct attribution *to,
                        struct err *err);
int attribute_contribution(struct attributing *w, struct passing *p, struct attribution *to,
                           struct err *err);
int attribute_rollout(struct attributing *w, struct passing *p, struct attribution *to,
                      struct err *err);
int attribute_direct(struct attributing *w, struct passing *p, struct attribution *to,
                     struct err *err);

// Returns the layer of --layer; `otherwise` without one.
int attribution_layer(const struct attributing *w, int otherwise);
// Returns a weight for each token of the answer: 1 if it is selected, else 0. The caller frees
// them.
float *attribution_weights(const struct attributing *w);
// Sums the selected tokens' log-probabilities.
double attribution_sum(const struct attributing *w, const double *logp);
// Sets to[N,D] to the baseline: zeros with --zero, else for each visual (text) row the mean of the
// visual (text) rows that the layer computed (`there`).
void attribution_baseline(const struct attributing *w, const float *rows, const bool *there,
                          float *to);
// Reports one more pass.
void attribution_progress(struct attributing *w, struct passing *p);

#endif
