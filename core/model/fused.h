// core/model/fused.h -- fused parts of a layer. Functions that compute return false or NULL if the
// device lacks the kernel, or the weights rule it out; the caller then runs the ops.
#ifndef CORE_MODEL_FUSED_H
#define CORE_MODEL_FUSED_H

#include "core/model/decoder.h"

// Callers fill the structs of kernels/fused.h, except results that these functions allocate and,
// but for fused_latent, `mode`; `w` lists the `count` weights that a struct uses.

// Returns the fused_linear that uses all rows of a weight.
struct fused_linear fused_whole(const struct linear *w);

// True if no weight has LoRA or reordered rows.
bool fused_is_plain(const struct linear *w, int count);

// An RMSNorm before a product.
struct norm_gain {
    const struct tensor *gain; // [D]; NULL: none
    float eps;
};

// Writes queries to p->q, keys and values to rows p->cache_rows of p->k and p->v.
bool fused_qkv(struct graph *g, const struct linear *w, int count, const struct fused_qkv *p);
// Like fused_qkv for all rows of a pass without a cache, with or without a tape: `to` receives
// queries, keys and values, [n, H, d] [n, Hkv, d] [n, Hkv, d].
bool fused_qkv_taped(struct graph *g, const struct linear *w, int count, const struct fused_qkv *p,
                     int64_t heads, int64_t kv_heads, struct tensor *to[3]);
// p->h [n, D] += after(w(attention(q, k, v))).
bool fused_attend(struct graph *g, const struct linear *w, const struct fused_attend *p);
// Adds after(w(x)) to h [m, D]: in place, or with a tape in a new tensor.
struct tensor *fused_add(struct graph *g, struct tensor *h, struct tensor *x,
                         const struct linear *w, const struct fused_after *after);
// Returns p->h [m, D] + after(down(silu(gate(x)) * up(x))), x = rmsnorm(h): in place, or with a
// tape in a new tensor. With `unread` and a tape, the content of the result is undefined: it only
// carries gradients back.
struct tensor *fused_ffn(struct graph *g, const struct linear *w, int count,
                         const struct fused_ffn *p, bool unread);

// Computes down(silu(gate(x)) * up(x)) of many rows x [m, D]; w[FFN_GATE], w[FFN_UP] and
// w[FFN_DOWN] are the weights.
struct tensor *fused_gated(struct graph *g, const struct linear *w, struct tensor *x);
// Packs many rows x [m, D], or rmsnorm(x), once and multiplies them by each weight w[i] into y[i]
// [m, out], which the caller allocates. norm->gain NULL: no norm.
bool fused_each(struct graph *g, struct tensor *x, const struct norm_gain *norm,
                const struct linear *const *w, int count, struct tensor *const *y);
// Like fused_each with strided results (kernels/rows_products.h), for parts of plain weights.
bool fused_products(struct graph *g, struct tensor *x, const struct norm_gain *norm,
                    const struct rows_product *product, int count);

// Adds the output of a mixture of experts to p->h, in place; for few rows.
bool fused_experts(struct graph *g, const struct linear *w, int count,
                   const struct fused_experts *p);
// Adds the output of latent attention to p->h, in place; for few rows.
bool fused_latent(struct graph *g, const struct linear *w, int count, const struct fused_latent *p);

#endif
