// core/train/evaluate_parts.h -- shared by the files of core/train/evaluate.h.
#ifndef CORE_TRAIN_EVALUATE_PARTS_H
#define CORE_TRAIN_EVALUATE_PARTS_H

#include "core/talk/conversation.h"
#include "core/train/evaluate.h"

// Log-likelihood of each choice as the answer to the conversation (its last message is the user's).
// Computes the prompt once.
int evaluate_rank(struct evaluate_passes *p, const char *const *choices, size_t count,
                  double *loglik, struct err *err);
// Loss of the messages' answers, with the conversation's pictures.
int evaluate_loss(struct evaluate_passes *p, const struct message *messages, size_t count,
                  double *loss, struct err *err);

// evaluate_totals.c. The sum for a metric and kind, created on first use.
struct metric_tally *evaluate_total(struct evaluation *e, const struct metric *m, const char *kind);
int evaluate_metric_number(const struct metric *m); // in metrics[]
// Computes the totals of struct evaluation from the sums by kind.
void evaluate_totals(struct evaluation *e);

// evaluate_share.c. Appends a copy of what was scored, texts included.
void evaluate_pack(struct buf *b, const struct evaluated *e);
// Calls take() with what every rank has packed, of rank 0 first; nothing is left.
void evaluate_share(struct ranks *r, struct buf *mine,
                    void (*take)(void *self, const struct evaluated *e), void *self);

#endif
