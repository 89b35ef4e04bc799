// core/model/sampler.h -- samples the next token from logits.
//
// Order: repetition penalty, temperature, top-k, top-p, min-p, draw. Temperature 0 is the argmax
// (the lower id on a tie). The draw depends only on the seed and the position, so a re-prefill or
// another session gives the same token.
#ifndef CORE_MODEL_SAMPLER_H
#define CORE_MODEL_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct settings;

// Why a model computes NaN or Inf. vlmsh's own files (converted weights, checkpoints, calibrations)
// are not to blame: their hashes are checked on reading.
#define DAMAGED                                                                                \
    "its weights, or those of an applied adapter, are damaged, or its config.json belongs to " \
    "another model"

// Returns "NaN" or "Inf" if the logits contain it; NULL if a token can be picked from them. -Inf
// excludes a token, but one logit must be finite.
const char *logits_damage(const float *logits, int64_t n);

// The distribution of logits at temperature 1, before any sampling setting applies.
struct logits_spread {
    double log_sum; // logarithm of the sum of e^logit: log p(i) = logits[i] - log_sum
    double entropy; // in nats
};

// Computes the spread of logits [n], and the probabilities probs [n].
struct logits_spread logits_spread(const float *logits, int64_t n, float *probs);

// Picks a token from logits [vocab]. history: ids so far, for the penalty. position: index of the
// new token.
int32_t sampler_pick(const struct settings *s, const float *logits, int64_t vocab,
                     const int32_t *history, size_t history_count, uint64_t position);

#endif
