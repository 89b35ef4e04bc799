// core/interventions/attribution.h -- the kinds of attribution: how much each row of a sequence
// contributes to the log-probability of an answer.
//
//   struct attributing w = { .env = env, .at = rows };
//   attributing_open(&w, "integrated,rollout", err);     // the kinds by name; "all"
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

// The kinds, in display order. X(name, help).
#define ATTRIBUTIONS(X)                                                                       \
    X(gradient, "gradient x input: each row times the gradient with respect to it")           \
    X(integrated, "integrated gradients from a baseline; they sum to the difference from it") \
    X(gradcam, "Grad-CAM: the rows of one layer, weighted by their mean gradient")            \
    X(occlusion, "loss of log-probability when the row is replaced by the baseline")          \
    X(attention, "attention of the answer, mean over heads and layers")                       \
    X(contribution, "attention contribution to the answer (CAPA), mean over layers")          \
    X(rollout, "attention rollout: attention multiplied over all layers")                     \
    X(direct, "direct logit attribution: what heads write from the row to the answer's logits")

#define X(name, help) ATTRIBUTION_##name,
enum { ATTRIBUTIONS(X) ATTRIBUTION_COUNT };
#undef X

// Where the direct contributions to the logits of the answer come from (`direct`).
struct direct_parts {
    double logit;            // sum of the logits of the selected tokens
    double embedding;        // the parts add up to it: the rows of h[0],
    double *attention, *ffn; // [L] the sublayers,
    double *rest;            // [L] and what is added between layers (DeepStack, methods)
    double *heads;           // [L,H] parts of `attention`; the rest of it is a bias
    bool *reached;           // [L] layers whose heads were read
};

// The attributions of one kind.
struct attribution {
    double *rows;  // [N]; NaN: not attributed
    double *mean;  // [N] mean over other pictures of rows / sum |rows|; NULL: not measured
    double should; // what the sum of `rows` must be by the kind's definition; NaN: nothing
};

struct attributing {
    const struct probe_env *env;
    const bool *at;     // [N] rows to attribute to
    int64_t first, end; // tokens of the answer that count
    bool chosen[ATTRIBUTION_COUNT];
    struct attribution maps[ATTRIBUTION_COUNT];
    struct direct_parts direct;
    int others, picture; // number of other pictures measured, and the picture they replaced
    double logp;         // sum of the selected tokens' log-probabilities
    bool *attends;       // [L] layers with attention; NULL: not needed
    int64_t done, all;   // passes, for the progress
};

struct attribution_kind {
    const char *name, *help;
    // Sets to->rows [N] at w->at, and to->should.
    int (*run)(struct attributing *w, struct passing *p, struct attribution *to, struct err *err);
    bool layer; // --layer chooses the layer whose input is attributed to (or, the layer to read)
};

extern const struct attribution_kind attribution_kinds[ATTRIBUTION_COUNT];

// Chooses the kinds that a list names, separated by commas; "all" or NULL: all. -1: the list names
// another.
int attribution_choose(const char *list, bool chosen[ATTRIBUTION_COUNT], struct err *err);

// Allocates the maps; checks --by, --token and --steps.
int attributing_open(struct attributing *w, struct err *err);
int attributing_run(struct attributing *w, struct passing *p, struct err *err);
// Measures the mean maps of other pictures of a folder, each shown in place of the prompt's, with
// the same text. Their size must be the same.
int attributing_others(struct attributing *w, struct passing *p, const char *folder,
                       struct err *err);
// Sets to[N] to the corrected attributions: rows / sum |rows| - mean. NaN outside the picture.
void attributing_correct(const struct attributing *w, int kind, double *to);
void attributing_close(struct attributing *w);

// Copies [N] rows to a map [S] over the visual tokens.
void attributing_map(const struct attributing *w, const double *rows, float *map);

// Functions of the kinds; each is in a file of its group.
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

// For these functions: the layer whose input is attributed to; `otherwise` without --layer.
int attribution_layer(const struct attributing *w, int otherwise);
// Weights [tokens of the answer]: 1 for those that count, else 0. The caller frees them.
float *attribution_weights(const struct attributing *w);
double attribution_sum(const struct attributing *w, const double *logp);
// Sets to[N,D] to the baseline of each row: zeros with --zero, else the mean of the rows of its
// kind, visual or text.
void attribution_baseline(const struct attributing *w, const float *rows, const bool *there,
                          float *to);
// Reports one more pass.
void attribution_progress(struct attributing *w, struct passing *p);

#endif
