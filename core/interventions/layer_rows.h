// core/interventions/layer_rows.h -- reads, replaces and differentiates the rows of the residual
// stream at the input of one layer.
//
//   struct layer_rows w;
//   layer_rows_open(&w, env, layer);
//   struct hook hook = layer_rows_hook(&w);
//   w.keep = true;
//   passes_run(p, &hook, 0, logp, err);              // w.rows [N,D]
//   w.keep = false, w.at = positions, w.replacement = other;
//   layer_rows_gradient(&w, p, weight, logp, err);   // w.gradient [N,D], with the new rows
//   layer_rows_close(&w);
#ifndef CORE_INTERVENTIONS_LAYER_ROWS_H
#define CORE_INTERVENTIONS_LAYER_ROWS_H

#include "core/graph/hooks.h"
#include "core/probes/kit.h"

struct passing;

struct layer_rows {
    int layer;                // 0.. of the decoder
    const bool *at;           // [N] positions whose rows are replaced; NULL: none
    const float *replacement; // [N,D] the new rows, read at the positions `at`
    bool keep;                // stores the rows of a pass, before they are replaced
    float *rows;              // [N,D]
    bool *there;              // [N] positions that the layer has computed
    float *gradient;          // [N,D] of the last layer_rows_gradient; 0 where a row is not there
    uint64_t alive;           // hash of the positions that the last layer of a pass computed

    int64_t positions, width; // N, D
    bool differentiate;
    struct grad *slope;            // [count,D] gradient of the rows of the pass
    const struct backend *backend; // the one that holds `slope`
    int32_t *index;                // [count] positions of the rows of `slope`
    int64_t count;
    struct rows host;
};

void layer_rows_open(struct layer_rows *w, const struct probe_env *env, int layer);
struct hook layer_rows_hook(struct layer_rows *w);
// Runs a pass over all rows; sets w->gradient to the derivative of the sum of weight[t] logp[t]
// with respect to the rows that the layer reads.
int layer_rows_gradient(struct layer_rows *w, struct passing *p, const float *weight, double *logp,
                        struct err *err);
void layer_rows_close(struct layer_rows *w);

#endif
