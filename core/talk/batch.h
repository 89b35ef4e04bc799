// core/talk/batch.h -- several conversations with a common prefix (a picture) in one pass. Weights
// are read once for all of them, which is what the time of short questions goes to.
//
//   count = batch_most(c, hooks);                  // 1: not here
//   batch_open(&b, c, settings, cancel, prompts, count, most, room);  // computes the prefix
//   batch_pass(&b, prompts, &x);                   // all that follows it: h[L]
//   ... sequence_append(&prompts[i], token); batch_pass(&b, prompts, &x); ...
//   batch_close(&b);
//
// Attention is computed conversation by conversation, with the shapes that each has alone; all
// other products have the rows of all. Kernels for few rows round differently from those for many,
// above all in bf16. A question has many rows (backend_many_rows), also alone, so its bits are the
// same in a batch. A choice has few alone, but choices may have many together.
#ifndef CORE_TALK_BATCH_H
#define CORE_TALK_BATCH_H

#include "core/talk/conversation.h"

enum { BATCH_MOST = SEGMENTS_MOST };

struct batch {
    struct conversation *c; // its cache holds the prefix
    struct graph graph;
    struct segments segments;
};

// Returns how many conversations a pass may have; 1 if methods or probes listen, if the layers are
// on a GPU or in several processes, or if the attention has no segments (latent attention).
int batch_most(const struct conversation *c, const struct hooks *hooks);
// Computes the rows that all of s[count] have in common, at most `most` and not the last one of
// any, and the pictures of all; reserves memory for `room` further rows of each. -1: b->graph has
// the error, or was cancelled; nothing is to be closed.
int batch_open(struct batch *b, struct conversation *c, const struct settings *settings,
               const atomic_bool *cancel, const struct sequence *s, int count, int64_t most,
               int64_t room);
// Computes the rows of each that are not computed yet. *x: h[L] of them, those of s[0] first
// [n, D], in the arena of b->graph.
int batch_pass(struct batch *b, const struct sequence *s, struct tensor **x);
// Returns the number of rows of s[i] in the next pass.
int64_t batch_rows(const struct batch *b, const struct sequence *s, int i);
// Ends the batch; the prefix stays cached.
void batch_close(struct batch *b);

// An answer to a prompt.
struct batch_answer {
    int64_t max_tokens; // set by the caller, as the next: sample.max_tokens
    int64_t closing;    // tokens that the layout appends to the answer (conversation_closing)
    struct ids ids;     // generated; the caller releases them
    bool ended;         // by an end-of-sequence token
    bool full;          // by the context limit
};

// Answers all prompts as answer_run would one by one, with the sampling settings of `settings`;
// appends the answers to the prompts. -1: err says why (unless *cancelled); the caller then answers
// one by one.
int batch_answers(struct conversation *c, const struct settings *settings,
                  const atomic_bool *cancel, struct sequence *s, int count,
                  struct batch_answer *answers, bool *cancelled, struct err *err);

#endif
