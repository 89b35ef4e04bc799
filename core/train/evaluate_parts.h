// core/train/evaluate_parts.h -- what the files of core/train/evaluate.h share.
#ifndef CORE_TRAIN_EVALUATE_PARTS_H
#define CORE_TRAIN_EVALUATE_PARTS_H

#include "core/talk/conversation.h"
#include "core/train/evaluate.h"

// Log-likelihood of each choice as the answer to the conversation as it stands (its last message is
// the user's). Its prompt is computed once.
int evaluate_rank(struct evaluate_passes *p, const char *const *choices, size_t count,
                  double *loglik, struct err *err);
// Loss of the messages' answers; the pictures are those of the conversation.
int evaluate_loss(struct evaluate_passes *p, const struct message *messages, size_t count,
                  double *loss, struct err *err);

// evaluate_totals.c. The sum for a metric and kind, made when it is new.
struct metric_tally *evaluate_total(struct evaluation *e, const struct metric *m, const char *kind);
int evaluate_metric_number(const struct metric *m); // in metrics[]
// From the sums by kind to the totals of struct evaluation.
void evaluate_totals(struct evaluation *e);

#endif
