// kernels/fused.h -- fused forms of several ops, which a device may offer besides its ops.
//
//   const struct fused *f = backend->fused;              // NULL: none
//   if (f) status = f->ffn(&(struct fused_ffn){ ... });  // 0, -1 (failure()), or FUSED_NOT
//
// A fused form computes the same as a sequence of ops; only the order of sums differs, and with
// MATMUL_BF16, intermediate results between two products may be rounded to bf16 or f16, like
// operands (kernels/backend.h). FUSED_NOT: the form does not support this shape, dtype or mode, and
// has not changed the tensors that it would add to; use the ops, which overwrite its partial
// results. If a form accepts a call with bf16 weights, its backward form accepts the matching call.
// In a call with few rows (few_rows of kernels/backend.h), each row has the same bits as in a call
// of its own. The caller has checked shapes, as for ops.h. Letters as in ops.h.
#ifndef KERNELS_FUSED_H
#define KERNELS_FUSED_H

#include <stdbool.h>

#include "kernels/tensor.h"

enum { FUSED_NOT = 1 };

// x w^T + bias (bias may be NULL). With `run`, only part of a packed weight is used: element r of
// the product comes from row first + r / run * step + r % run of w (and bias).
struct fused_linear {
    const struct tensor *w, *bias;
    int64_t first, run, step;
};

// after(product), which is added to the residual: rmsnorm(product) with gain [M], or the product
// itself if gain is NULL.
struct fused_after {
    const struct tensor *gain;
    float eps;
    struct tensor *saved; // f32 [n,M]: the product, for the backward pass; NULL: not needed
};

// x = rmsnorm(h); q = rope(x wq^T), and row cache_rows[i] of k and v = row i of rope(x wk^T) and x
// wv^T. With gains the heads of q and k are normed before rotation.
//
// Pair i of a head consists of elements 2i and 2i + 1 of the product if i < adjacent, else of
// elements i + adjacent and i + d/2; the result is stored as elements i and i + d/2.
struct fused_qkv {
    const struct tensor *h, *gain; // [n,D], [D]
    float eps;
    struct fused_linear wq, wk, wv;       // if all have the same w, x is multiplied by w once
    const struct tensor *q_gain, *k_gain; // [d]; both NULL or neither
    int64_t adjacent;                     // at most d/2
    const struct tensor *cos, *sin;       // [n,d/2]
    const struct tensor *cache_rows;      // i32 [n], rows of k and v; NULL: 0, 1 ..
    int64_t first;                        // cache_rows[i] is first + i; -1: unknown
    struct tensor *q, *k, *v;         // [n,H,d] [P,Hkv,d] [P,Hkv,d]; k and v both f32 or both bf16
    struct tensor *saved_q, *saved_k; // f32 [n,H,d] [n,Hkv,d]: the products before their norm, for
                                      // the backward pass; both NULL: not needed
    int mode;                         // enum matmul_mode
};

// y = h + after(x w^T (+ bias)).
struct fused_add {
    struct tensor *y;       // [n,M], may be h; must be h for few rows
    const struct tensor *h; // [n,M]
    const struct tensor *x; // [n,K]
    struct fused_linear w;
    struct fused_after after;
    int mode;
};

// h += after(attention(q, k, v) w^T (+ bias)); attention as in kernels/ops.h.
struct fused_attend {
    struct tensor *h;                 // [n,M]
    const struct tensor *q, *k, *v;   // [n,H,d] [P,Hkv,d] [P,Hkv,d]
    const struct tensor *first, *end; // i32 [n] or NULL
    float scale;
    struct fused_linear w; // of H d columns
    struct fused_after after;
    int mode;
};

// y = h + after(down(silu(gate(x)) * up(x))), x = rmsnorm(h). saved_gate = gate(x), saved_up =
// up(x) for the backward pass: both NULL if not needed, as for few rows. If y is NULL, only these
// two are computed.
struct fused_ffn {
    struct tensor *y;              // [n,D], may be h; must be h for few rows
    const struct tensor *h, *gain; // [n,D], [D]
    float eps;
    struct fused_linear gate, up, down; // no parts of packed weights
    struct fused_after after;
    struct tensor *saved_gate, *saved_up; // bf16 [n,F]
    int mode;
};

// Backward form of fused_ffn, without the residual and fused_after: adds to dh and dgain, each of
// which may be NULL. dh may be dy. Overwrites the saved tensors.
struct fused_ffn_back {
    struct tensor *dh, *dgain; // [n,D], [D]
    const struct tensor *dy;   // [n,D]
    const struct tensor *h, *gain;
    float eps;
    const struct tensor *gate, *up, *down;
    struct tensor *saved_gate, *saved_up; // bf16 [n,F]
};

// Backward form of fused_qkv for cache rows 0, 1 ..: adds to dh and dgain, each of which may be
// NULL. If heads are normed, the caller has computed the gradients through these norms: dq and dk
// are the gradients of the products, and cos and sin are NULL.
struct fused_qkv_back {
    struct tensor *dh, *dgain;         // [n,D], [D]
    const struct tensor *dq, *dk, *dv; // [n,H,d] [n,Hkv,d] [n,Hkv,d]
    const struct tensor *h, *gain;
    float eps;
    struct fused_linear wq, wk, wv;
    int64_t adjacent;
    const struct tensor *cos, *sin; // [n,d/2] or NULL
};

// A gated FFN: down(silu(gate(x)) * up(x)).
struct fused_gated {
    const struct tensor *gate, *up, *down; // [m,D] [m,D] [D,m]
};

// A mixture of experts for few rows; the device chooses the experts. h += shared(x) + the sum over
// a row's experts e of weight[e] e(x), x = rmsnorm(h). An expert's score is sigmoid(x router^T) +
// bias. A row gets the `count` experts with the highest scores in its groups_per_token best groups,
// which are ranked by the sum of a group's two best scores; the weights are those of the op
// expert_weights. Without biases, the scores are the logits, and the weights are scale times their
// softmax: over all experts, or with `normalise` over the chosen ones.
struct fused_experts {
    struct tensor *h;          // [n,D]
    const struct tensor *gain; // [D]
    float eps;
    const struct tensor *router, *bias;      // [E,D], f32 [E] or NULL
    struct fused_gated shared;               // gate NULL: no shared expert
    const struct tensor *shared_gate;        // [1,D] w: sigmoid(w x) multiplies shared(x); or NULL
    const struct fused_gated *expert;        // [E]
    int64_t count, groups, groups_per_token; // count at most 32
    bool normalise;
    float scale;
};

// Few rows of latent attention, over the latents that the cache holds
// (core/model/attention_latent.c):
//
//   x = rmsnorm(h);  q = query x, or query_up rmsnorm(query x);  (c, r) = down x
//   row cache_row[i] of the caches = rmsnorm(c) and the rotated r of row i
//   h += after(out(o)), o of a head = Wv softmax((Wk q_nope) c + q_rope r) c
//
// up holds Wk [nope,R] and Wv [value,R], head by head. The rotary elements are the last 2 * half of
// each head of q and of down's product. They form adjacent pairs in these products; once rotated,
// they are in split layout.
struct fused_latent {
    struct tensor *h; // [n,D]
    const struct tensor *gain;
    float eps;
    struct fused_linear query, query_up, down, out;   // query_up.w NULL: q = query x
    const struct tensor *query_gain, *down_gain, *up; // [Rq], [R], [H*(nope+value),R]
    float inner_eps;                                  // of the norms with query_gain and down_gain
    const struct tensor *cos, *sin, *cache_row, *end; // [n,half], i32 [n]
    struct tensor *c, *r;                             // [P,1,R] [P,1,2 half], both f32 or both bf16
    int64_t heads, nope, value;
    float scale;
    struct fused_after after;
    int mode;
};

// y = gelu(x w^T + bias).
struct fused_gelu {
    struct tensor *y;       // [n,M]
    const struct tensor *x; // [n,K]
    struct fused_linear w;
    int form, mode; // enum gelu_form, enum matmul_mode
};

struct fused {
    int (*qkv)(const struct fused_qkv *p);
    int (*attend)(const struct fused_attend *p);
    int (*add)(const struct fused_add *p);
    int (*ffn)(const struct fused_ffn *p);
    int (*ffn_back)(const struct fused_ffn_back *p);
    int (*qkv_back)(const struct fused_qkv_back *p);
    int (*gelu)(const struct fused_gelu *p);
    int (*experts)(const struct fused_experts *p);
    int (*latent)(const struct fused_latent *p);
};

#endif
