// core/model/decoder_step.h -- a token of an answer, played from a recording.
#ifndef CORE_MODEL_DECODER_STEP_H
#define CORE_MODEL_DECODER_STEP_H

#include "core/model/decoder.h"

// A token of an answer where nobody looks inside: the layers and the head as one recording of the
// device (core/graph/replay.h). False: not so here, the pass is computed as any other. True:
// *logits [1,V], or NULL after a failure.
bool decoder_step(struct graph *g, const struct decoder *d, struct kv *kv, const struct sequence *s,
                  struct tensor *h, struct tensor **logits);

// Final norm and head of rows of h [n, D]: [n, V] (decoder.c).
struct tensor *decoder_logits(struct graph *g, const struct decoder *d, struct tensor *h);

#endif
