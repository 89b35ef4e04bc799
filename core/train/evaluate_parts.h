// core/train/evaluate_parts.h -- what the files of core/train/evaluate.h share.
#ifndef CORE_TRAIN_EVALUATE_PARTS_H
#define CORE_TRAIN_EVALUATE_PARTS_H

#include "core/conversation.h"
#include "core/train/evaluate.h"

// A pass of the model outside of a conversation's answer: rows of `c` in c->step.
struct graph evaluate_graph(const struct evaluate_request *r, const struct settings *s,
                            struct conversation *c);

// Log-likelihood of each choice as the answer to the conversation as it stands (its last message is
// the user's). Its prompt is computed once. `s`: the run's settings. *cancelled: nothing was found.
int evaluate_rank(const struct evaluate_request *r, const struct settings *s,
                  struct conversation *c, const char *const *choices, size_t count, double *loglik,
                  bool *cancelled, struct err *err);
// Loss of the messages' answers; the pictures are those of `c`.
int evaluate_loss(const struct evaluate_request *r, const struct settings *s,
                  struct conversation *c, const struct message *messages, size_t count,
                  double *loss, bool *cancelled, struct err *err);

#endif
