// core/model/sampler.h -- samples the next token from logits.
//
// Order: repetition penalty, temperature, top-k, top-p, min-p, draw. Temperature 0 is the argmax
// (the lower id on a tie). The draw depends only on the seed and the position, so a re-prefill or
// another session gives the same token.
#ifndef CORE_MODEL_SAMPLER_H
#define CORE_MODEL_SAMPLER_H

#include <stddef.h>

#include "core/settings/settings.h"

// Modifies logits [vocab]. history: ids so far, for the penalty. place: index of the new token.
int32_t sampler_pick(const struct settings *s, float *logits, int64_t vocab, const int32_t *history,
                     size_t history_count, uint64_t place);

#endif
