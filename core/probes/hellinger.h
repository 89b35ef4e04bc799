// core/probes/hellinger.h -- Hellinger distance between two distributions over the vocabulary
// (CAPA's paper, Eq. 7), and the logits of each token of an answer.
//
//   struct step_logits full = { 0 };
//   struct hook hook = step_logits_hook(&full);       // among the hooks of an answer
//   ... full.data [full.steps, full.vocab]: row t chose token t ...
//   double h = hellinger(full.data, other, full.vocab);
//   step_logits_release(&full);
#ifndef CORE_PROBES_HELLINGER_H
#define CORE_PROBES_HELLINGER_H

#include <stdint.h>

// Returns (1/sqrt 2) ||sqrt P - sqrt Q||_2, where P and Q are the softmaxes of p and q, two rows of
// n logits: 0 if they are identical, 1 if disjoint.
double hellinger(const float *p, const float *q, int64_t n);
int64_t logits_best(const float *logits, int64_t n); // index of the first maximum
// Returns the log of the sum of exponentials; logits[i] minus the result is the log-probability of
// token i.
double logits_log_sum(const float *logits, int64_t n);

struct step_logits {
    float *data;          // [steps, vocab], host memory
    int64_t steps, vocab; // steps: rows in use
    int64_t capacity;     // in rows
};

struct hook step_logits_hook(struct step_logits *s);
void step_logits_clear(struct step_logits *s); // keeps the memory
void step_logits_release(struct step_logits *s);

#endif
