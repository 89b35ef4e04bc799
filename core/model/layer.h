// core/model/layer.h -- a layer of a decoder, and the kinds of its two sublayers.
//
//   h += after(attention(before(h)))
//   h += after(ffn(before(h)))
//
// A kind of attention or FFN is one file with one constant struct (attention_grouped.c,
// ffn_gated.c), which a family's decoder_kind names. It lists its weights; binding, models made by
// `vlmsh new`, FLOPs and recordings follow that list. What all kinds share is layer.c.
#ifndef CORE_MODEL_LAYER_H
#define CORE_MODEL_LAYER_H

#include "core/model/decoder.h"

// What every layer of a pass shares; in the step arena, and not changed once a layer has it.
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
    const struct pass *pass;
    int number;
    int64_t past; // rows in its cache that stay
    const struct decoder_layer *w;
    struct kv_layer *cache; // NULL: none
};

// A weight of a sublayer: NAME.weight [out,in] and, with `bias`, NAME.bias [out]; in 0: a gain
// [out].
struct layer_weight {
    const char *name; // in the layer, as Llama's files spell such: "self_attn.q_proj"
    int64_t out, in;
    bool bias;
};

// Weight i of a layer's sublayer; false behind the last.
typedef bool (*layer_weight_fn)(const struct decoder_config *c, int layer, int i,
                                struct layer_weight *w);

struct attention_kind {
    // What the config says of it alone.
    int (*read)(struct decoder_config *c, const cJSON *json, struct err *err);
    layer_weight_fn weight; // the last one is the matrix that leads back to h
    struct kv_row (*cached)(const struct decoder_config *c); // of a token in a layer
    // Of a query and a key that it sees, all heads; the weights' come from their list.
    double (*pair_flops)(const struct decoder_config *c);
    // h [n, D] with the sum added; keys and values of the new rows go behind the cached ones.
    struct tensor *(*forward)(struct graph *g, const struct layer *layer, struct tensor *h);
};

struct ffn_kind {
    int (*read)(struct decoder_config *c, const cJSON *json, struct err *err);
    layer_weight_fn weight;
    // x [m, D] to [m, D]. `unread`: nobody reads the numbers, they only lead gradients back.
    struct tensor *(*forward)(struct graph *g, const struct layer *layer, struct tensor *x,
                              bool unread);
    // h [m, D] + ffn(rmsnorm(h)) in one call, in h's place or recorded in one of its own; NULL: not
    // here (core/model/fused.h). NULL in the struct: nowhere.
    struct tensor *(*fused)(struct graph *g, const struct layer *layer, struct tensor *h,
                            bool unread);
};

extern const struct attention_kind attention_grouped;
extern const struct ffn_kind ffn_gated;

// One layer of h [n, D] (a graph_block_fn; self is a struct layer).
struct tensor *layer_forward(struct graph *g, void *self, struct tensor *h);

// --- for kinds -----------------------------------------------------------------------------------

// Rows from `from` on that are computed at a time. With a tape everything is kept: all at once.
int64_t layer_rows(const struct graph *g, int64_t n, int64_t from);
// The norm before a sublayer; h itself where there is none.
struct tensor *layer_before(struct graph *g, const struct layer *layer, const struct sublayer *w,
                            struct tensor *h);

// Queries, keys and values.
struct qkv {
    struct tensor *q, *k, *v; // [n,H,d] [P,Hkv,d] [P,Hkv,d]
};

// Room for those of a pass, keys and values behind the cached ones where there is a cache.
struct qkv layer_qkv(struct graph *g, const struct layer *layer);
// h += after(o(attention(q, k, v))), o the last weight; listeners look at values and
// probabilities.
struct tensor *layer_attend(struct graph *g, const struct layer *layer, struct tensor *h,
                            const struct qkv *all);

// --- sites ---------------------------------------------------------------------------------------

// What a site of a pass, or in a layer, offers.
struct site_args pass_site(const struct pass *p, int layer, struct tensor *x);
struct site_args layer_site(const struct layer *layer, struct tensor *x);
// Runs the listeners of a site that offers x; gives x back, which a method may have replaced.
struct tensor *site_run(struct graph *g, enum site site, struct site_args args);

#endif
