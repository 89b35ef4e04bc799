// core/methods/prune_score.h -- which visual tokens matter to one query row (methods page, section
// 3): scores of the tokens and the choice of the best.
//
//   float *score = ...[view.count];
//   prune_score(g, PRUNE_CONTRIBUTION, seed, &view, score);
//   prune_choose(PRUNE_CONTRIBUTION, score, view.count, k, keep);
#ifndef CORE_METHODS_PRUNE_SCORE_H
#define CORE_METHODS_PRUNE_SCORE_H

#include "core/graph/graph.h"
#include "core/model/model.h"

enum prune_kind {
    PRUNE_CONTRIBUTION, // norm of what the token alone adds to the query's residual stream (CAPA)
    PRUNE_ATTENTION,    // mean over heads of the attention it gets (FastV)
    PRUNE_NOROPE,       // the same without rotary positions (Feather)
    PRUNE_UNIFORM,      // every so many-th token
    PRUNE_RANDOM,
};

// One query row of a layer, the keys it sees, and which of them are the tokens to score.
struct prune_view {
    const struct model *model;
    int layer;
    struct tensor *q;     // [1,H,d]
    struct tensor *k, *v; // [P,Hkv,d]
    const struct sequence *sequence;
    int32_t query;         // row of the sequence that q is
    const int32_t *rows;   // [P] rows of the sequence that the keys are
    const int32_t *token;  // [count] keys that are the tokens, ascending
    const int32_t *number; // [count] their numbers among all visual tokens of the sequence
    int64_t count;
};

// Scores [count] into host memory; PRUNE_UNIFORM has none. 0, or -1 after graph_fail.
int prune_score(struct graph *g, enum prune_kind kind, uint64_t seed, const struct prune_view *view,
                float *score);
// Keeps the k highest of count tokens, of equal ones those that come first.
void prune_choose(enum prune_kind kind, const float *score, int64_t count, int64_t k, bool *keep);
// How many of all `visual` tokens a share keeps: rounded half to even, at least one.
int64_t prune_count(double share, int64_t visual);

#endif
