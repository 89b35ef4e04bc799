// core/model/layer.h -- a decoder layer, and the kinds of its two sublayers.
//
//   h += after(attention(before(h)))
//   h += after(ffn(before(h)))
//
// A kind of attention or FFN is one file with one constant struct (attention_grouped.c,
// ffn_gated.c), named in a family's decoder_kind. A kind lists its weights; binding, models made
// by `vlmsh new`, FLOPs and recordings of decode steps follow that list. layer.c has the code that
// all kinds share.
#ifndef CORE_MODEL_LAYER_H
#define CORE_MODEL_LAYER_H

#include "core/model/pass.h"

// A weight of a sublayer: NAME.weight [out,in] and, with `bias`, NAME.bias [out]; if `in` is 0: a
// gain [out].
struct layer_weight {
    // Name within the layer, as in Llama's files: "self_attn.q_proj". An expert's name has "%d" in
    // place of its number.
    const char *name;
    int64_t out, in;
    bool bias;
    bool constant; // [out], never trained; `name` is the whole name: no ".weight" follows
    bool factor;   // a constant of one element: decoder_layer.scale
    bool f32;      // its products are always in f32, whatever compute.matmul says
    bool plain;    // a gain that is not 1 + the file's vector in any family
    int64_t taps;  // NAME.weight [out,1,taps], a filter for each channel; f32 [out,taps] in memory
    // For an expert's weight: the expert's number, and the share of rows that reach it. `stack`
    // names the tensor [count, rows, in] of files that store all experts together; this weight
    // starts at row `row` of its expert's part.
    int expert;
    double share; // 0: all rows
    const char *stack;
    int64_t count, rows, row;
    bool transposed; // the hub's files store this stack as [count, in, rows]
};

enum { LAYER_NAME_SIZE = 128 };
// Returns the weight's name in the family's files, without the layer and ".weight".
const char *layer_weight_name(const struct decoder_kind *kind, const struct layer_weight *w,
                              char name[LAYER_NAME_SIZE]);

// Sets *w to weight i of a layer's sublayer; false past the last one.
typedef bool (*layer_weight_fn)(const struct decoder_config *c, int layer, int i,
                                struct layer_weight *w);

// Queries, keys and values.
struct qkv {
    struct tensor *q, *k, *v; // [n,H,d] [P,Hkv,d] [P,Hkv,d]
    // [n,H,d] logits of the gates by whose sigmoids the heads' outputs are multiplied; NULL: none
    struct tensor *gate;
};

struct attention_traits {
    bool segments;   // a pass may hold several conversations; such a kind has neither `forward` nor
                     // `qkv`
    bool head_norms; // an RMSNorm for each head of the queries and of the keys
    bool interleaved; // always rotates adjacent elements, as if "rope_interleaved" were true
    bool gates;       // `project` also gives gates of the heads' outputs
};

struct attention_kind {
    // Reads its part of the config.
    int (*read)(struct decoder_config *c, const cJSON *json, struct err *err);
    layer_weight_fn weight; // the last one projects back to h
    // Cache row of a token.
    struct kv_row (*cached)(const struct decoder_config *c, int layer);
    // Cache row of a token in a layer whose values a method changes; NULL: the same as `cached`.
    struct kv_row (*expanded)(const struct decoder_config *c, int layer);
    // FLOPs of all heads per pair of a query and a key that the query sees (0 for a kind without
    // keys); FLOPs of weights follow from their list.
    double (*pair_flops)(const struct decoder_config *c, int layer);
    struct attention_traits traits;
    // FLOPs per row beside those of the weights and pairs; NULL: none.
    double (*row_flops)(const struct decoder_config *c);
    bool packed; // Wq, Wk and Wv are one weight

    // Computes unrotated queries, keys and values of rows h [m, D]: norm, products, norms of heads.
    struct qkv (*project)(struct graph *g, const struct layer *layer, struct tensor *h);
    // Like `project` for m rows of h from row i on, in one device call that also rotates q and k
    // and writes into the tensors of *all (with a tape, sets *all to new tensors). Returns false if
    // not possible here. NULL: never possible.
    bool (*fused)(struct graph *g, const struct layer *layer, struct tensor *h, int64_t i,
                  int64_t m, struct qkv *all);
    // For a kind without `project`: returns rotated queries of the new rows, and keys and values of
    // all rows; caches the new keys and values. NULL: the layer calls `project`.
    struct qkv (*qkv)(struct graph *g, const struct layer *layer, struct tensor *h);
    // For a kind that can compute the whole sublayer itself: adds its output to h [n, D] and caches
    // the new rows. Returns false if not possible here; the layer then calls `qkv` or `project`.
    // NULL: never possible.
    bool (*forward)(struct graph *g, const struct layer *layer, struct tensor **h);
};

struct ffn_kind {
    int (*read)(struct decoder_config *c, const cJSON *json, struct err *err);
    layer_weight_fn weight;
    // Maps x [m, D] to [m, D]. `unread`: nothing reads the result; it only carries gradients back.
    struct tensor *(*forward)(struct graph *g, const struct layer *layer, struct tensor *x,
                              bool unread);
    // Returns y [m, D], the result of `forward`, with what the kind computes beside it from the
    // layer's h [m, D]. NULL: nothing.
    struct tensor *(*beside)(struct graph *g, const struct layer *layer, struct tensor *h,
                             struct tensor *y);
    // Computes h [m, D] + after(ffn(rmsnorm(h))) in one device call: in place, or on a tape in a
    // new tensor. Returns NULL if not possible here (core/model/fused.h). NULL: never possible.
    struct tensor *(*fused)(struct graph *g, const struct layer *layer, struct tensor *h,
                            const struct fused_after *after, bool unread);
    int64_t rows; // rows per block on the CPU if there are experts; 0: as in the rest of the layer
};

extern const struct attention_kind attention_grouped, attention_normed, attention_packed;
extern const struct attention_kind attention_latent;
// With norms of query, key and value heads. A layer with attention_sharing has only queries of its
// own, and attends to another layer's keys and values.
extern const struct attention_kind attention_valued, attention_sharing;
extern const struct attention_kind attention_gated, attention_delta;
// Sites of layers with attention_delta, before and after the convolution. At SITE_STATE a method
// may set `only` to the rows that enter the state and the convolution; no later row reads the
// others. Not with a tape.
extern const struct site SITE_STATE[1], SITE_RECURRENCE[1];
extern const struct ffn_kind ffn_gated, ffn_packed, ffn_experts, ffn_softmax_experts;
extern const struct ffn_kind ffn_beside_experts; // ffn_gated, and experts if the config has them

// True if any layer has this kind of attention.
bool decoder_uses(const struct decoder_config *c, const struct attention_kind *kind);
// True if the layer has attention; false: a recurrence in its place.
bool decoder_attends(const struct decoder_config *c, int layer);
// Returns the layer with attention that is nearest to this one, on a tie the later; the layer
// itself if no layer has attention.
int decoder_attending(const struct decoder_config *c, int layer);
// Fails if the layer has no attention; `what` needs it: "prune.layer 2". 0 or -1.
int decoder_need_attention(const struct decoder_config *c, int layer, const char *what,
                           struct err *err);
// Where a weight of a recurrent layer has the value heads: `piece` rows each, or columns, after
// `first` others. piece 0: it has none.
struct value_heads {
    int64_t first, piece;
    bool columns;
};
struct value_heads decoder_value_heads(const struct decoder_config *c, const char *weight);
// True if the weight has value heads in the order of a GGUF file, which is not that of model
// folders and adapters.
bool decoder_alternates(const struct decoder_config *c, const char *weight);
// Reorders value heads, if decoder_alternates: in x [outer, n, inner bytes], n are the rows of the
// weight, or its columns if `columns`. `to_file`: from the order of model folders to that of the
// file; else back. Leaves x unchanged if the heads are on the weight's other side.
void decoder_reorder_heads(const struct decoder_config *c, const char *weight, bool columns,
                           void *x, int64_t outer, size_t inner, bool to_file);
// Returns the traits that all layers' attention kinds share.
struct attention_traits decoder_traits(const struct decoder_config *c);

// Computes one layer of h [n, D] (a graph_block_fn; self is a struct layer).
struct tensor *layer_forward(struct graph *g, void *self, struct tensor *h);

// --- helpers of the kinds ------------------------------------------------------------------------

// Returns the number of rows in the block that begins at `from`. With a tape, a single block holds
// all rows.
int64_t layer_rows(const struct graph *g, int64_t n, int64_t from);
// Applies a sublayer's RMSNorm with this gain [D]; returns x itself if the layer lacks that norm.
struct tensor *layer_rmsnorm(struct graph *g, const struct layer *layer, const struct tensor *gain,
                             struct tensor *x);

// Computes h [n, D] += after(o(a)), where o is attention's last weight and a is [n, H*dv].
struct tensor *layer_output(struct graph *g, const struct layer *layer, struct tensor *h,
                            struct tensor *a);

#endif
