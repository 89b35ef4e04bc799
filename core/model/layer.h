// core/model/layer.h -- a decoder layer, and the kinds of its two sublayers.
//
//   h += after(attention(before(h)))
//   h += after(ffn(before(h)))
//
// A kind of attention or FFN is one file with one constant struct (attention_grouped.c,
// ffn_gated.c), named in a family's decoder_kind. It lists its weights; binding, models made by
// `vlmsh new`, FLOPs and recordings follow that list. layer.c holds what all kinds share.
#ifndef CORE_MODEL_LAYER_H
#define CORE_MODEL_LAYER_H

#include "core/model/decoder.h"

// Shared by every layer of a pass; in the step arena, constant once a layer uses it.
struct pass {
    const struct decoder_config *config;
    const struct sequence *sequence;
    struct kv *kv;            // NULL: the layers see only the rows of this pass
    struct tensor *cos, *sin; // [n, d/2]
    int64_t n;                // rows computed now
    const int32_t *rows;      // [n] rows of the sequence, in the step arena; NULL: its last n
    bool replaced;            // a method chose these rows: later layers hold only these
    bool prefill;

    // For layers with `past` valid rows in their cache; -1: not computed yet.
    int64_t past;
    struct tensor *places; // i32 [n] rows of the cache for the new keys and values
    struct tensor *last;   // i32 [n] end of the keys that each row sees: itself + 1
    int64_t keys;          // rows of the cache passed to attention: past + n, or more
    bool recorded;         // only the device knows past, places and last: `past` is a bound
};

// A layer as graph_block runs it.
struct layer {
    const struct pass *pass;
    int number;
    int64_t past; // valid rows in its cache
    const struct decoder_layer *w;
    struct kv_layer *cache; // NULL: none
};

// A weight of a sublayer: NAME.weight [out,in] and, with `bias`, NAME.bias [out]; in 0: a gain
// [out].
struct layer_weight {
    const char *name; // in the layer, by Llama's name: "self_attn.q_proj"; "%d" is the expert
    int64_t out, in;
    bool bias;
    bool constant; // [out], never trained, under the whole name
    // Of one of several experts: which, and the share of the rows that reach it. `stack` is the
    // name in files that have all in one tensor [count, rows, in]: this one is rows row.. of its
    // part.
    int expert;
    double share; // 0: all rows
    const char *stack;
    int64_t count, rows, row;
};

enum { LAYER_NAME_SIZE = 128 };
// Its name in the family's files, without the layer and ".weight".
const char *layer_weight_name(const struct decoder_kind *kind, const struct layer_weight *w,
                              char name[LAYER_NAME_SIZE]);

// Weight i of a layer's sublayer; false past the last one.
typedef bool (*layer_weight_fn)(const struct decoder_config *c, int layer, int i,
                                struct layer_weight *w);

struct attention_kind {
    // Reads its part of the config.
    int (*read)(struct decoder_config *c, const cJSON *json, struct err *err);
    layer_weight_fn weight;                                  // the last one projects back to h
    struct kv_row (*cached)(const struct decoder_config *c); // of a token in a layer
    // The same in a layer whose values a method changes; NULL: no other.
    struct kv_row (*expanded)(const struct decoder_config *c);
    // FLOPs per pair of a query and a key that it sees, all heads; FLOPs of weights follow from
    // their list.
    double (*pair_flops)(const struct decoder_config *c);
    bool segments; // it attends by layer_attend alone, so that a pass may have segments
    // Returns h [n, D] with the sublayer's output added; appends keys and values of the new rows to
    // the cache.
    struct tensor *(*forward)(struct graph *g, const struct layer *layer, struct tensor *h);
};

struct ffn_kind {
    int (*read)(struct decoder_config *c, const cJSON *json, struct err *err);
    layer_weight_fn weight;
    // x [m, D] to [m, D]. `unread`: the numbers are not read, they only carry gradients back.
    struct tensor *(*forward)(struct graph *g, const struct layer *layer, struct tensor *x,
                              bool unread);
    // h [m, D] + after(ffn(rmsnorm(h))) fused, in place, or on a tape in a new tensor; NULL: not
    // possible here (core/model/fused.h). NULL in the struct: never.
    struct tensor *(*fused)(struct graph *g, const struct layer *layer, struct tensor *h,
                            const struct fused_after *after, bool unread);
    int64_t rows; // of a block on the CPU; 0: as many as of other parts of the layer
};

extern const struct attention_kind attention_grouped, attention_normed, attention_packed;
extern const struct attention_kind attention_latent;
extern const struct ffn_kind ffn_gated, ffn_packed, ffn_experts;

// One layer of h [n, D] (a graph_block_fn; self is a struct layer).
struct tensor *layer_forward(struct graph *g, void *self, struct tensor *h);

// --- for kinds -----------------------------------------------------------------------------------

// Number of rows from `from` on to compute at a time. With a tape everything is kept: all at once.
int64_t layer_rows(const struct graph *g, int64_t n, int64_t from);
// The norm before a sublayer; h itself if there is none.
struct tensor *layer_before(struct graph *g, const struct layer *layer, const struct sublayer *w,
                            struct tensor *h);

// Queries, keys and values.
struct qkv {
    struct tensor *q, *k, *v; // [n,H,d] [P,Hkv,d] [P,Hkv,d]
};

// Allocates those of a pass; keys and values follow the cached ones if there is a cache.
struct qkv layer_qkv(struct graph *g, const struct layer *layer);
// h += after(o(attention(q, k, v))), o the last weight; runs the listeners for values and
// probabilities.
struct tensor *layer_attend(struct graph *g, const struct layer *layer, struct tensor *h,
                            const struct qkv *all);
// For a kind that attends in a way of its own: whether listeners want to see queries, keys and
// values; runs them; and h += after(o(a)), a [n, H*d].
bool layer_attention_wanted(const struct graph *g, const struct layer *layer);
void layer_attention_show(struct graph *g, const struct layer *layer, const struct qkv *all);
struct tensor *layer_output(struct graph *g, const struct layer *layer, struct tensor *h,
                            struct tensor *a);

// --- sites ---------------------------------------------------------------------------------------

// Arguments of a site of a pass, or in a layer.
struct site_args pass_site(const struct pass *p, int layer, struct tensor *x);
struct site_args layer_site(const struct layer *layer, struct tensor *x);
// Runs the listeners of a site with x; returns x, which a method may have replaced.
struct tensor *site_run(struct graph *g, const struct site *site, struct site_args args);

#endif
