// core/train/loss.h -- the loss of samples and its gradients.
//
//   struct labels l;                                 // rows and targets (core/train/labels.h)
//   struct graph g = { ..., .arena = &step, .tape = &tape };   // tape NULL: the loss alone
//   weight->grad = grad_new(backend, count);         // for each weight that is trained
//   (core/graph/tape.h) loss_sample(&g, model, pictures, n, &l, 1.0 / samples, &loss);
//   ... once per sample of the step; gradients add up ...
//
// Or several samples in one pass, which small models need to be fast; nothing is padded:
//
//   struct loss_item items[] = { { .pictures = a, .picture_count = 1, .labels = &l }, ... };
//   loss_batch(&g, model, items, 2, 1.0 / samples, losses);    // the same to float accuracy
//
// The loss of a sample is the mean over its trained tokens, that of a step the mean over its
// samples (not over all tokens). What methods add in training
// (core/methods/ira.c) is in it.
#ifndef CORE_TRAIN_LOSS_H
#define CORE_TRAIN_LOSS_H

#include "core/graph/hooks.h"
#include "core/train/labels.h"

// With a tape, `share` times the gradient is added to the gradients of the weights that have one,
// and the tape is empty afterwards. Pictures whose visual tokens are computed already are taken as
// they are (no gradient: encoder and projector are frozen), the others are encoded. The step arena
// is as before. 0 or -1 (g->err, or cancelled); then gradients may hold a part of the sample.
int loss_sample(struct graph *g, const struct model *m, struct picture *pictures,
                size_t picture_count, const struct labels *l, double share, double *loss);

// A sample of a batch; all is borrowed.
struct loss_item {
    const struct picture *pictures;
    size_t picture_count;
    const struct labels *labels;
    uint64_t number; // of this draw of the sample in the training: seeds methods' noise
    double *kl;      // gets the divergence that methods penalize; NULL: nobody asks
};

// The samples' rows go through encoder and decoder together, each row seeing its own sample alone.
// `share` is that of each sample; losses[count]. Listeners at sites get the joined sequence
// (sequence->start) and pictures counted through all samples.
int loss_batch(struct graph *g, const struct model *m, const struct loss_item *items, size_t count,
               double share, double *losses);

#endif
