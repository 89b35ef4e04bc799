// core/train/loss.h -- a conversation as a training sample, its loss and the gradients of it.
//
//   struct sample s;
//   sample_read(&s, &conversation, settings, &err);         // ids, and which of them are learned
//   graph.tape = &tape;                                     // NULL: the loss alone (validation)
//   sample_loss(&graph, model, conversation.pictures, n, &s, 1.0 / samples, &loss);
//   ... once per sample of the step; gradients add up ...
//
// Learned are the answers: what the template writes after the generation prompt, the end of the
// turn included. The loss of a sample is the mean over its labelled tokens, that of a step the mean
// over its samples (not over all tokens).
#ifndef CORE_TRAIN_LOSS_H
#define CORE_TRAIN_LOSS_H

#include "core/conversation.h"

enum { LABEL_NONE = -100 }; // the token in this place is not learned

struct sample {
    struct sequence sequence;
    int32_t *labels;  // [n] the token itself where it is learned, else LABEL_NONE
    int64_t labelled; // how many are
};

// The conversation's messages as they stand, all answers labelled. An answer at the end that the
// template leaves open gets the model's end token. Nothing labelled is no error: the caller says.
int sample_read(struct sample *s, const struct conversation *c, const struct settings *settings,
                struct err *err);
void sample_release(struct sample *s);

// Loss of the sample; with a tape, `share` times its gradient is added to the gradients of the
// weights that have one, and the tape is empty afterwards. Pictures whose visual tokens are
// computed already are taken as they are (no gradient: encoder and projector are frozen), the
// others encoded. The step arena is as before. 0 or -1 (g->err, or cancelled).
int sample_loss(struct graph *g, const struct model *m, struct picture *pictures,
                size_t picture_count, const struct sample *s, double share, double *loss);

#endif
