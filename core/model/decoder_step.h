// core/model/decoder_step.h -- replays a generated token from a recording.
#ifndef CORE_MODEL_DECODER_STEP_H
#define CORE_MODEL_DECODER_STEP_H

#include "core/model/decoder.h"

// A generated token without listeners: layers and head as one recording of the device
// (core/graph/replay.h). False: not possible here; compute a normal pass. True: *logits [1,V], or
// NULL after a failure.
bool decoder_step(struct graph *g, const struct decoder *d, struct kv *kv, const struct sequence *s,
                  struct tensor *h, struct tensor **logits);

// Final norm and head of rows of h [n, D]: [n, V] (decoder.c).
struct tensor *decoder_logits(struct graph *g, const struct decoder *d, struct tensor *h);

#endif
