// core/ops/ops.h -- the ops of a forward pass.
//
// An op takes the graph first, checks shapes and dtypes, and returns the result, in the step arena
// or in place of an input; NULL in, NULL out (core/graph/graph.h). kernels/ops.h defines the
// arithmetic.
//
// Room core/ops/: the ops of a forward pass, each with its gradient; kernels/ does the arithmetic.
// Uses base and graph.
#ifndef CORE_OPS_OPS_H
#define CORE_OPS_OPS_H

#include "core/graph/graph.h"

// Multiplies x[N,K] by w[M,K]^T and adds bias[M] (or NULL): [N,M].
struct tensor *op_matmul(struct graph *g, struct tensor *x, struct tensor *w, struct tensor *bias);
// Multiplies x[N,K] by w[K,M], whose columns are the outputs: [N,M].
struct tensor *op_matmul_columns(struct graph *g, struct tensor *x, struct tensor *w);
// For a product that nothing reads: returns zeros that only carry gradients back.
struct tensor *op_matmul_unread(struct graph *g, struct tensor *x, struct tensor *w,
                                struct tensor *bias);
// The two thin matrices of LoRA: a[r,K], b[M,r].
struct lora_sides {
    struct tensor *a, *b;
    float scale;
};
// Adds scale (x a^T) b^T in place to y[N,M], a product of x[N,K] that nothing has read yet; returns
// y. If `read` is false, y only carries gradients back.
struct tensor *op_lora(struct graph *g, struct tensor *y, struct tensor *x,
                       const struct lora_sides *w, bool read);
// Gathers the rows ids[n] (a host array) of table[V,D]: [n,D]. An id outside 0..V-1 is an error.
struct tensor *op_embedding(struct graph *g, struct tensor *table, const int32_t *ids, int64_t n);
// Normalise x over the last dimension; gain and bias are [D].
struct tensor *op_rmsnorm(struct graph *g, struct tensor *x, struct tensor *gain, float eps);
// Like op_rmsnorm, without a gain.
struct tensor *op_rmsnorm_plain(struct graph *g, struct tensor *x, float eps);
struct tensor *op_layernorm(struct graph *g, struct tensor *x, struct tensor *gain,
                            struct tensor *bias, float eps);
// Rotates x[N,H,d] by cos, sin [N,d/2]; in place without a tape. Use the returned tensor.
struct tensor *op_rope(struct graph *g, struct tensor *x, struct tensor *cos, struct tensor *sin);
// Attends from q[N,H,d] to k[P,Hkv,d], v[P,Hkv,dv]: [N,H,dv], dv <= d; row i sees keys
// first[i]..end[i]-1. first, end: i32 [N] or NULL; probs: [H,N,P] or NULL. k and v are f32, or both
// bf16 (a cache; not with a tape).
struct tensor *op_attention(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                            struct tensor *first, struct tensor *end, float scale,
                            struct tensor *probs);
// Computes silu(gate) * up; overwrites gate without a tape. Use the returned tensor.
struct tensor *op_swiglu(struct graph *g, struct tensor *gate, struct tensor *up);
// Like op_swiglu: gelu(gate) * up, in the form GELU_TANH.
struct tensor *op_geglu(struct graph *g, struct tensor *gate, struct tensor *up);
struct tensor *op_gelu(struct graph *g, struct tensor *x, enum gelu_form form);
// Limits x smoothly: cap * tanh(x / cap); in place without a tape. Use the returned tensor.
struct tensor *op_softcap(struct graph *g, struct tensor *x, float cap);
// Limits each element of x to low..high.
struct tensor *op_clip(struct graph *g, struct tensor *x, float low, float high);
// Computes x * sigmoid(gate); overwrites x without a tape. Use the returned tensor.
struct tensor *op_sigmoid_gate(struct graph *g, struct tensor *x, struct tensor *gate);
// Convolves each column of x[N,C] over its K latest rows by w[C,K], then applies SiLU: [N,C].
// before[K-1,C] has the rows before x, NULL: zeros; `after` receives the last K-1 rows. Neither
// with a tape.
struct tensor *op_causal_conv(struct graph *g, struct tensor *x, struct tensor *w,
                              const struct tensor *before, struct tensor *after);
// Inputs of the gated delta rule (kernels/ops.h): x[N, 2*Hk*dk + Hv*dv], a[N,Hv], b[N,Hv],
// log_a[Hv], bias[Hv].
struct delta_rule {
    struct tensor *x, *a, *b, *log_a, *bias;
    int64_t key_heads, key_width, heads, width; // Hk, dk, Hv, dv
    bool alternate; // value head h reads key head h % Hk; else h / (Hv/Hk)
    // States [Hv,dk,dv] before and after the rows, not with a tape. before NULL: zeros; after NULL:
    // not needed; they may be the same.
    const struct tensor *before;
    struct tensor *after;
};
// Returns the outputs of the value heads: [N,Hv,dv].
struct tensor *op_delta_rule(struct graph *g, const struct delta_rule *p);
// Adds a + b. Without a tape the sum overwrites a, so that the residual stream stays in place.
struct tensor *op_add(struct graph *g, struct tensor *a, struct tensor *b);
// Like op_add, adds b[m,D] to rows [from, from+m) of a[N,D].
struct tensor *op_add_rows(struct graph *g, struct tensor *a, int64_t from, struct tensor *b);
// Multiplies x by a value.
struct tensor *op_scale(struct graph *g, struct tensor *x, float value);
// Multiplies each row of x[N,D] by w[D] (f32).
struct tensor *op_scale_columns(struct graph *g, struct tensor *x, struct tensor *w);
// Computes the softmax of scale * x over the last dimension.
struct tensor *op_softmax(struct graph *g, struct tensor *x, float scale);
// Gathers the rows index[n] (a host array) of x, in x's dtype.
struct tensor *op_gather_rows(struct graph *g, struct tensor *x, const int32_t *index, int64_t n);
// Like op_gather_rows, but as f32 (a cache may be bf16).
struct tensor *op_gather_floats(struct graph *g, struct tensor *x, const int32_t *index, int64_t n);
// Blends rows: row i of [n,D] is the sum over k of weight[i*most+k] times row index[i*most+k] of
// x[N,D]. index and weight are host arrays; the weights are constants.
struct tensor *op_blend_rows(struct graph *g, struct tensor *x, const int32_t *index,
                             const float *weight, int64_t n, int64_t most);
// Writes rows of x to rows index[] of `into`; returns `into`. With a tape, `into` must not be a
// view, and views of it must be taken afterwards; no earlier op's backward may need the overwritten
// rows. Without a tape, f32 rows may be written to bf16 (rounded).
struct tensor *op_scatter_rows(struct graph *g, struct tensor *into, struct tensor *x,
                               const int32_t *index);
// Like op_scatter_rows, with indices on the device: i32 [rows of x], distinct and inside `into`.
struct tensor *op_put_rows(struct graph *g, struct tensor *into, struct tensor *x,
                           struct tensor *index);
// Columns of x[n,K]. If x has fewer rows than the result, each row of x serves several rows of the
// result.
struct column_part {
    struct tensor *x;
    struct columns columns;
};

// Puts at most 6 parts side by side: [rows, sum of their columns].
struct tensor *op_columns_of(struct graph *g, int64_t rows, const struct column_part *part,
                             int count);
// Computes the weights [N,count] of each row's chosen experts index [N,count] (a host array) from
// logits[N,E]: sigmoids, divided by their sum with `normalise`, times scale.
struct tensor *op_expert_weights(struct graph *g, struct tensor *logits, const int32_t *index,
                                 int64_t count, bool normalise, float scale);
// Adds weight[i] times row i of x to row index[i] of `into`; returns `into`. index: a host array,
// its elements distinct. With a tape, no earlier op's backward may need the content of `into`.
struct tensor *op_add_weighted_rows(struct graph *g, struct tensor *into, struct tensor *x,
                                    const int32_t *index, struct tensor *weight);
// Cuts pixels[C,H,W] into patches [S, C*patch*patch].
struct tensor *op_patches(struct graph *g, struct tensor *pixels, int64_t patch);
// Copies x as f32.
struct tensor *op_widen(struct graph *g, struct tensor *x);
// Copies x into rows [from, ...) of `into`, under the conditions of op_scatter_rows. 0 or -1.
int op_copy_rows_into(struct graph *g, struct tensor *into, int64_t from, struct tensor *x);

// Computes the losses of the rows of x[N,D] whose next tokens are target[N]: with logits = x w^T,
// w[V,D], loss[i] = -log softmax(logits)[target]; cap > 0: the logits are soft-capped. Keeps logits
// for only a few rows at a time. With a tape, it immediately adds the gradient of the sum of
// weight[i] loss[i] to the gradients of x and w: the backward pass starts here. target, weight and
// loss are host arrays of N. 0 or -1.
int op_cross_entropy(struct graph *g, struct tensor *x, struct tensor *w, float cap,
                     const int32_t *target, const float *weight, float *loss);

#endif
