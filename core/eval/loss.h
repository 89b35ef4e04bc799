// core/eval/loss.h -- the loss of samples and its gradients.
//
//   struct labels l;                                 // rows and targets (core/data/labels.h)
//   struct graph g = { ..., .arena = &step, .tape = &tape };   // tape NULL: only the loss
//   weight->grad = grad_new(backend, count);         // for each trained weight (core/graph/tape.h)
//   loss_sample(&g, model, pictures, n, &l, 1.0 / samples, &loss);
//   ... once per sample of the step; gradients add up ...
//
// Or several samples in one pass without padding, which is faster with small models:
//
//   struct loss_item items[] = { { .pictures = a, .picture_count = 1, .labels = &l }, ... };
//   loss_batch(&g, model, items, 2, 1.0 / samples, losses);    // the same to float accuracy
//
// The loss of a sample is the mean over its trained tokens, unless loss_item.tokens is set. It
// includes terms that methods add in training (core/methods/ira.c).
#ifndef CORE_EVAL_LOSS_H
#define CORE_EVAL_LOSS_H

#include "core/data/labels.h"
#include "core/graph/hooks.h"

// Computes the loss of one sample. With a tape, adds `share` times the gradient to every weight's
// `grad` that is set, and empties the tape. Pictures with precomputed visual tokens are not encoded
// again (no gradient: encoder and projector are frozen). The step arena is restored. Returns 0, or
// -1 (g->err, or cancelled), after which gradients may include part of the sample.
int loss_sample(struct graph *g, const struct model *m, struct picture *pictures,
                size_t picture_count, const struct labels *l, double share, double *loss);

// A sample of a batch; everything is borrowed.
struct loss_item {
    const struct picture *pictures;
    size_t picture_count;
    const struct labels *labels;
    uint64_t number;     // index of this draw in the training run: seeds methods' noise
    struct graph_kl *kl; // receives IRA's divergence; NULL: ignored
    // Divides the sum of the sample's token losses. If it is the mean number of trained tokens per
    // sample of the step, the step's loss is the mean over tokens. 0: the sample's own number of
    // trained tokens, so that the step's loss is the mean over samples.
    double tokens;
};

// The samples' rows go through encoder and decoder together; each row sees only its own sample.
// `share` applies to each sample; losses[count]. Listeners at sites get the joined sequence
// (sequence->start), in which pictures are numbered consecutively over all samples.
int loss_batch(struct graph *g, const struct model *m, const struct loss_item *items, size_t count,
               double share, double *losses);

#endif
