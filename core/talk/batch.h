// core/talk/batch.h -- several conversations with a common prefix (a picture) in one pass. A pass
// reads the weights once for all of them; reading weights dominates the time of short questions.
//
//   count = batch_most(c, hooks);                  // 1: cannot be batched
//   batch_open(&b, c, settings, cancel, prompts, count, most, further);  // computes the prefix
//   batch_pass(&b, prompts, &x);                   // the rows after it: h[L]
//   ... sequence_append(&prompts[i], token); batch_pass(&b, prompts, &x); ...
//   batch_close(&b);
//
// Attention is computed separately for each conversation, with its own shapes; all other products
// span the rows of all conversations. Kernels for few rows round differently from kernels for many,
// above all in bf16. A single question already has many rows (backend_many_rows), so a batch does
// not change its bits. A single choice has few rows, but several choices together may have many,
// so in bf16 a batch may change their bits.
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
// on a GPU or in several processes, or if a layer's attention kind cannot
// (attention_traits.segments).
int batch_most(const struct conversation *c, const struct hooks *hooks);
// Encodes the pictures that are not cached, and computes the common prefix of s[count]: at most
// `most` rows, and never the last row of a sequence. Reserves memory for `further` rows of each
// sequence. -1: b->graph has the error, or was cancelled; do not call batch_close.
int batch_open(struct batch *b, struct conversation *c, const struct settings *settings,
               const atomic_bool *cancel, const struct sequence *s, int count, int64_t most,
               int64_t further);
// Computes all missing rows. *x: their h[L] [n, D], the rows of s[0] first, in the arena of
// b->graph.
int batch_pass(struct batch *b, const struct sequence *s, struct tensor **x);
// Returns the number of rows of s[i] in the next pass.
int64_t batch_rows(const struct batch *b, const struct sequence *s, int i);
// Ends the batch; the prefix stays cached.
void batch_close(struct batch *b);

// An answer to a prompt.
struct batch_answer {
    int64_t max_tokens; // sample.max_tokens; the caller sets this and the next field
    int64_t closing;    // tokens that the layout appends to the answer (conversation_closing)
    struct ids ids;     // generated; the caller releases them
    bool ended;         // ended by an end-of-sequence token
    bool full;          // ended by the context limit
};

// Answers all prompts as answer_run would one by one, with the sampling settings of `settings`;
// extends s by the answer tokens that passes have computed. -1 with a message; unless *cancelled,
// the caller then answers the prompts one by one.
int batch_answers(struct conversation *c, const struct settings *settings,
                  const atomic_bool *cancel, struct sequence *s, int count,
                  struct batch_answer *answers, bool *cancelled, struct err *err);

#endif
