// core/methods/prune_score.h -- scores visual tokens for one query row and selects the best
// (CAPA's paper).
//
//   float *score = ...[view.count];
//   prune_score(g, PRUNE_CONTRIBUTION, seed, &view, score);
//   prune_choose(PRUNE_CONTRIBUTION, score, view.count, k, false, keep);
#ifndef CORE_METHODS_PRUNE_SCORE_H
#define CORE_METHODS_PRUNE_SCORE_H

#include <stdbool.h>
#include <stdint.h>

struct graph;

enum prune_kind {
    PRUNE_CONTRIBUTION, // norm of the token's own contribution to the query's residual stream
                        // (CAPA)
    PRUNE_ATTENTION,    // mean over heads of the query's attention to the token (FastV)
    PRUNE_NOROPE,       // PRUNE_ATTENTION without rotary positions (Feather)
    // The next four keep certain tokens, however many there are: all attention sinks, the sinks of
    // one kind (core/methods/sinks.h), or the tokens that prune.tokens lists.
    PRUNE_SINKS,
    PRUNE_DUMPS,
    PRUNE_ANCHORS,
    PRUNE_LIST,
    PRUNE_UNIFORM, // evenly spaced tokens
    PRUNE_RANDOM,
    // The last three use no query: they choose after the layer.
    PRUNE_DIVERSITY,  // far from one another (DivPrune); has no scores: prune_choose_diverse
    PRUNE_CLS,        // the encoder's attention (core/model/vision_focus.c)
    PRUNE_DIVERGENCE, // IRA's divergence at the layer, the mean over heads
};

// One query row of a layer, the keys it sees, and which of them are candidates.
struct prune_view {
    const struct model *model;
    int layer;
    struct tensor *q;     // [1,H,d]
    struct tensor *k, *v; // [P,Hkv,d]
    struct tensor *gate;  // [1,H,d] logits of the query's gates; NULL: none
    const struct sequence *sequence;
    int32_t query;         // the query's row in the sequence
    const int32_t *rows;   // [P] the keys' rows in the sequence
    const int32_t *token;  // [count] indices of the candidate keys, ascending
    const int32_t *number; // [count] their indices among all visual tokens of the sequence
    int64_t count;
    int64_t first; // keys before this one are outside the layer's sliding window
    float scale;   // of the layer's scores
};

// Writes scores [count] to host memory; PRUNE_UNIFORM has none. 0, or -1 after graph_fail.
int prune_score(struct graph *g, enum prune_kind kind, uint64_t seed, const struct prune_view *view,
                float *score);
// Keeps the k highest of count tokens, or with `worst` the k lowest; the first ones on ties.
// PRUNE_UNIFORM keeps k evenly spaced ones.
void prune_choose(enum prune_kind kind, const float *score, int64_t count, int64_t k, bool worst,
                  bool *keep);
// Keeps k of the rows of x[count, width]: first the row whose nearest neighbour is the furthest
// away, then repeatedly the row furthest from the kept ones, by cosine distance (Alvar et al. 2025,
// DivPrune, algorithm 1). Ties go to the first row; zero rows have distance 1 from all others.
void prune_choose_diverse(const float *x, int64_t count, int64_t width, int64_t k, bool *keep);
// Returns the number of tokens that a share of `visual` tokens keeps: rounded half to even, at
// least one unless the share is 0.
int64_t prune_count(double share, int64_t visual);

#endif
