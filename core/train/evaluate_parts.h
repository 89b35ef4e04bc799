// core/train/evaluate_parts.h -- what the files of core/train/evaluate.h share.
#ifndef CORE_TRAIN_EVALUATE_PARTS_H
#define CORE_TRAIN_EVALUATE_PARTS_H

#include "core/conversation.h"
#include "core/train/evaluate.h"

// Log-likelihood of each choice as the answer to the conversation as it stands (its last message is
// the user's). Its prompt is computed once.
int evaluate_rank(struct evaluate_passes *p, const char *const *choices, size_t count,
                  double *loglik, struct err *err);
// Loss of the messages' answers; the pictures are those of the conversation.
int evaluate_loss(struct evaluate_passes *p, const struct message *messages, size_t count,
                  double *loss, struct err *err);

#endif
