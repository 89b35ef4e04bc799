// core/model/decoder_parts.h -- what decoder.c, decoder_step.c and fused.c share: the state of a
// pass.
#ifndef CORE_MODEL_DECODER_PARTS_H
#define CORE_MODEL_DECODER_PARTS_H

#include "core/model/decoder.h"

// What every layer of a pass shares.
struct pass {
    const struct decoder_config *config;
    const struct sequence *sequence;
    struct kv *kv;            // NULL: the layers see the rows of this pass alone
    struct tensor *cos, *sin; // [n, d/2]
    int64_t n;                // rows computed now
    const int32_t *rows;      // [n] of the sequence, in the step arena; NULL: its last n
    bool replaced;            // a method chose these rows: they are all that the next layers hold
    bool prefill;

    // Of layers with `past` rows in their cache that stay; -1: not made yet.
    int64_t past;
    struct tensor *places; // i32 [n] where the new keys and values go
    struct tensor *last;   // i32 [n] one past the last key that each row sees: itself
    int64_t keys;          // rows of the cache that attention is given: past + n, or more
};

// A layer as graph_block runs it.
struct layer {
    struct pass pass;
    int number;
    int64_t past; // rows in its cache that stay
    const struct decoder_layer *w;
    struct kv_layer *cache; // NULL: none
};

// One layer of h [n, D] (a graph_block_fn; self is a struct layer).
struct tensor *decoder_layer_stage(struct graph *g, void *self, struct tensor *h);
// Final norm and head of rows of h [n, D]: [n, V].
struct tensor *decoder_logits(struct graph *g, const struct decoder *d, struct tensor *h);

// --- decoder_step.c ------------------------------------------------------------------------------

// A token of an answer where nobody looks inside: the layers and the head as one recording of the
// device (core/graph/replay.h). False: not so here, the pass is computed as any other. True:
// *logits [1,V], or NULL after a failure.
bool decoder_step(struct graph *g, const struct decoder *d, struct kv *kv, const struct sequence *s,
                  struct tensor *h, struct tensor **logits);

// --- fused.c: false or NULL where the device has no such form, or its parts are wanted one by one

// Queries of rows h [m, D] into q, their keys and values to `places` in k and v: rows first, first
// + 1.., or -1 where only the device knows.
bool fused_qkv(struct graph *g, const struct decoder_layer *w, float eps, struct tensor *h,
               struct tensor *cos, struct tensor *sin, struct tensor *places, int64_t first,
               struct tensor *q, struct tensor *k, struct tensor *v);
// The same of all rows of a pass without a cache, also where it is recorded: to gets queries, keys
// and values, [n, H, d] [n, Hkv, d] [n, Hkv, d].
bool fused_qkv_taped(struct graph *g, const struct decoder_layer *w, float eps, struct tensor *h,
                     struct tensor *cos, struct tensor *sin, struct tensor *places,
                     struct tensor *to[3]);
// h [n, D] += w(attention(q, k, v)); first and last may be NULL.
bool fused_attend(struct graph *g, struct tensor *h, struct tensor *q, struct tensor *k,
                  struct tensor *v, struct tensor *first, struct tensor *last,
                  const struct linear *w);
// h [m, D] + w(x): in h's place, recorded in one of its own.
struct tensor *fused_add(struct graph *g, struct tensor *h, struct tensor *x,
                         const struct linear *w);
// h [m, D] + down(silu(gate(x)) * up(x)), x = rmsnorm(h), in the same way. Unread and recorded it
// holds anything: it only leads gradients back.
struct tensor *fused_ffn(struct graph *g, const struct decoder_layer *w, float eps,
                         struct tensor *h, bool unread);

#endif
