// kernels/ops.h -- every arithmetic op a device offers: its name, its arguments, its contract.
//
// This file is a list, not a header of declarations: define OP(name, (arguments)) and include it,
// like backend.h (one slot per op) and the table of each device. An op NAME is written in NAME.c
// for the CPU and in NAME.cu for CUDA, or in the file of a related op.
//
// Contract of every op:
//  - the caller has checked shapes and dtypes (core/ops/ does) and allocated the outputs;
//  - activations are f32; vectors (gain, bias) are f32; weights w and tables are f32, f16, bf16 or
//    in blocks (dtype_in_blocks); weights in blocks get no gradient, only the other operand does;
//  - keys and values are f32 or, where the comment says so, bf16 (a cache may hold bf16);
//  - an output may share memory with an input only where the comment says so ("in place");
//  - returns 0, or -1 with backend->failure() set (no scratch memory, a device error, a width that
//    the device does not support).
//
// Letters: N rows, K inner, M outputs, D hidden size, V rows of a table, H query heads, Hkv
// key/value heads, d head dimension, P keys, C channels, E experts; in IRA, S visual tokens and T
// text tokens.
// clang-format off

// y[N,M] = x[N,K] w[M,K]^T (+ bias[M], may be NULL). If N is at most few_rows (kernels/backend.h),
// the weights are read in their stored dtype.
OP(matmul, (struct tensor *y, const struct tensor *x, const struct tensor *w,
            const struct tensor *bias, enum matmul_mode mode))
// y[N,D] = table[V,D] at rows ids[N] (i32, checked by the caller: in 0..V-1).
OP(embedding, (struct tensor *y, const struct tensor *table, const struct tensor *ids))
// y = x / sqrt(mean(x^2) + eps) * gain, per row of x[N,D]; in place allowed.
OP(rmsnorm, (struct tensor *y, const struct tensor *x, const struct tensor *gain, float eps))
// y = (x - mean) / sqrt(var + eps) * gain + bias, biased variance, per row; in place allowed.
OP(layernorm, (struct tensor *y, const struct tensor *x, const struct tensor *gain,
               const struct tensor *bias, float eps))
// Rotates x[N,H,d] in place by the angles whose cos and sin are [N,d/2], pairing element i with
// i+d/2.
OP(rope, (struct tensor *x, const struct tensor *cos, const struct tensor *sin))
// y[N,H,dv] = softmax(q[N,H,d] k[P,Hkv,d]^T * scale) v[P,Hkv,dv], dv <= d; query row i sees keys
// first[i] .. end[i]-1 (i32 [N]; first NULL = 0, end NULL = P). If probs [H,N,P] is not NULL, it
// receives the probabilities, and no bit of y changes; otherwise no such matrix is materialised. k
// and v are both f32 or both bf16; sums are f32 either way. Keys and values that a row does not see
// never change it, even if they are infinite or NaN; infinite or NaN values that it sees propagate.
// MATMUL_BF16: a device that multiplies bf16 may round q, k, v and the probabilities to bf16.
OP(attention, (struct tensor *y, const struct tensor *q, const struct tensor *k,
               const struct tensor *v, const struct tensor *first, const struct tensor *end,
               float scale, struct tensor *probs, enum matmul_mode mode))
// y = silu(gate) * up, elementwise; y may be gate or up.
OP(swiglu, (struct tensor *y, const struct tensor *gate, const struct tensor *up))
// y = gelu(gate) * up, elementwise, in the form GELU_TANH; y may be gate or up.
OP(geglu, (struct tensor *y, const struct tensor *gate, const struct tensor *up))
// y = x * sigmoid(gate), elementwise; y may be x.
OP(sigmoid_gate, (struct tensor *y, const struct tensor *x, const struct tensor *gate))
// y[N,C] = silu(z), z[i,c] = sum over k of w[c,k] x[i-K+1+k,c]: a filter w[C,K] (f32) of at most 64
// taps for each channel of x[N,C]. before[K-1,C] holds the rows before x (NULL: zeros); `after`
// (NULL: not needed) receives the last K-1 rows of `before` and x, and may be `before`; N may be 0.
OP(causal_conv, (struct tensor *y, const struct tensor *x, const struct tensor *w,
                 const struct tensor *before, struct tensor *after))
// The gated delta rule. A row of p->x holds the queries [Hk,dk] and keys [Hk,dk], then the values
// [Hv,dv] of the heads of y[N,Hv,dv]. Hv/Hk value heads share a query and a key: consecutive heads
// or, if p->alternate, every Hk-th head. For each row and value head:
//   q = q / sqrt((|q|^2 + 1e-6) dk), k = k / sqrt(|k|^2 + 1e-6)
//   alpha = exp(-exp(log_a) softplus(a + bias)), beta = sigmoid(b)
//   S = alpha S;  S += k (x) beta (v - S^T k);  y = S^T q
// S begins as before[Hv,dk,dv] (NULL: zeros); `after` (NULL: not needed) receives the state after
// the last row and may be `before`; N may be 0. A call of at most
// backend->few_rows rows gives each row the bits that it has alone. In a longer call they depend on
// the row at which the call begins, but not on how many rows follow; a row that is not finite may
// make up to 31 rows before it so.
OP(delta_rule, (struct tensor *y, const struct delta_inputs *p, const struct tensor *before,
                struct tensor *after))
// y = gelu(x) in the given form; in place allowed.
OP(gelu, (struct tensor *y, const struct tensor *x, enum gelu_form form))
// y = cap * tanh(x / cap); in place allowed.
OP(softcap, (struct tensor *y, const struct tensor *x, float cap))
// y = min(max(x, low), high); in place allowed.
OP(clip, (struct tensor *y, const struct tensor *x, float low, float high))
// y = a + b, elementwise; in place allowed.
OP(add, (struct tensor *y, const struct tensor *a, const struct tensor *b))
// y = softmax over the last dimension of x * scale; in place allowed.
OP(softmax, (struct tensor *y, const struct tensor *x, float scale))
// y row i = x row index[i] (i32 [N]); x and y have the same dtype, which may have blocks; y may be x
// if index ascends.
OP(gather_rows, (struct tensor *y, const struct tensor *x, const struct tensor *index))
// y row index[i] = x row i; other rows of y are unchanged. Indices are distinct. x and y have the
// same dtype, any without blocks; or x is f32 and y bf16, rounded to nearest, ties to even.
OP(scatter_rows, (struct tensor *y, const struct tensor *x, const struct tensor *index))
// Columns `to`..`to` + from.count - 1 of row i of y[N,W] = the columns `from` of row i / (N/n) of
// x[n,K]; N is a multiple of n.
OP(put_columns, (struct tensor *y, int64_t to, const struct tensor *x, struct columns from))
// w[N,K] = s / (sum of the row's s + 1e-20) * scale, s = sigmoid(logits[N,E]) at index[N,K] (i32,
// distinct in a row); without `normalise`, s is not divided by the sum.
OP(expert_weights, (struct tensor *w, const struct tensor *logits, const struct tensor *index,
                    bool normalise, float scale))
// y row index[i] += weight[i] times x row i; indices are distinct.
OP(add_weighted_rows, (struct tensor *y, const struct tensor *x, const struct tensor *index,
                       const struct tensor *weight))
// y[N,D] row i = the sum over k of weight[i,k] times x row index[i,k] (f32, i32 [N,K]).
OP(blend_rows, (struct tensor *y, const struct tensor *x, const struct tensor *index,
                const struct tensor *weight))
// y[S, C*p*p] = the p x p patches of pixels[C,Ht,Wd], row-major over the grid, each patch in the
// order of a convolution's weight [C,p,p]. Pixels to the right of and below the last whole patch are
// ignored.
OP(patches, (struct tensor *y, const struct tensor *pixels, int64_t patch))
// y = x, elementwise. Converts any dtype of weights to f32, converts f16 to bf16 (rounded; in place
// allowed), or copies between equal dtypes.
OP(widen, (struct tensor *y, const struct tensor *x))
// y = x * value; in place allowed.
OP(scale, (struct tensor *y, const struct tensor *x, float value))
// y[N,D] = x * w[D] (f32), each row; in place allowed.
OP(scale_columns, (struct tensor *y, const struct tensor *x, const struct tensor *w))
// z = v[S,Hkv,d] + delta + gate * sigma * noise[S,Hkv,d], where head[S*Hkv,d+1] holds delta and log
// sigma^2 of each row; gate[S,Hkv]. noise NULL: no noise, and gate is not read; in place allowed.
OP(ira_values, (struct tensor *z, const struct tensor *v, const struct tensor *head,
                const struct tensor *gate, const struct tensor *noise))
// kl[S,Hkv] = KL(N(m, sigma^2) || N(0, exp(prior[Hkv,d]))) summed over d. With mean [Hkv,d], m = v
// + delta - mean. Without mean, m = delta and v is not read, but v gets the same gradient as delta,
// because m is v + delta - v with the second v detached. v NULL: v gets no gradient.
OP(ira_kl, (struct tensor *kl, const struct tensor *head, const struct tensor *prior,
            const struct tensor *v, const struct tensor *mean))
// For each key/value head, p[T,S] = softmax over the keys of q[T,H,d] k[S,Hkv,d]^T * scale,
// averaged over the query heads of its group; a[Hkv,S] = the mean of p over T; e[S] = the entropy
// of p[.,s] (with `renormalised`, of p[.,s] divided by its sum), divided by log T (by 1 if T = 1)
// and averaged over Hkv. gate[S,Hkv] = e * (1 - a).
OP(ira_gate, (struct tensor *gate, const struct tensor *q, const struct tensor *k, float scale,
              bool renormalised))
// y = value everywhere.
OP(fill, (struct tensor *y, float value))
// y[n,H*d] row i, head h = probs[H,P] at (h, index[i]) times v[P,Hkv,d] at (index[i], h / (H/Hkv));
// v is f32 or bf16.
OP(weigh_values, (struct tensor *y, const struct tensor *probs, const struct tensor *v,
                  const struct tensor *index))
// y[N] = the L2 norm of each row of x[N,D].
OP(row_norms, (struct tensor *y, const struct tensor *x))

// --- backward ------------------------------------------------------------------------------------
// dy is the gradient of a forward op's result; gradients are f32 and are ADDED to the content of
// dx, dw ... Unwanted gradients are NULL. The sums do not depend on the number of threads.

// dx[N,K] += dy[N,M] w[M,K], M > 0; without `add` dx is overwritten.
OP(matmul_dx, (struct tensor *dx, const struct tensor *dy, const struct tensor *w, bool add,
               enum matmul_mode mode))
// dw[M,K] += dy[N,M]^T x[N,K]; dbias[M] += the column sums of dy.
OP(matmul_dw, (struct tensor *dw, struct tensor *dbias, const struct tensor *dy,
               const struct tensor *x, enum matmul_mode mode))
// x is the forward op's input.
OP(rmsnorm_backward, (struct tensor *dx, struct tensor *dgain, const struct tensor *dy,
                      const struct tensor *x, const struct tensor *gain, float eps))
OP(layernorm_backward, (struct tensor *dx, struct tensor *dgain, struct tensor *dbias,
                        const struct tensor *dy, const struct tensor *x, const struct tensor *gain,
                        float eps))
// dx += dy rotated back.
OP(rope_backward, (struct tensor *dx, const struct tensor *dy, const struct tensor *cos,
                   const struct tensor *sin))
// y is the forward op's result; no matrix of queries by keys is materialised. All tensors must be
// f32, including k and v, and finite: infinities and NaN may reach gradients of rows and keys that
// do not see them.
OP(attention_backward, (struct tensor *dq, struct tensor *dk, struct tensor *dv,
                        const struct tensor *dy, const struct tensor *y, const struct tensor *q,
                        const struct tensor *k, const struct tensor *v, const struct tensor *first,
                        const struct tensor *end, float scale, enum matmul_mode mode))
OP(swiglu_backward, (struct tensor *dgate, struct tensor *dup, const struct tensor *dy,
                     const struct tensor *gate, const struct tensor *up))
OP(geglu_backward, (struct tensor *dgate, struct tensor *dup, const struct tensor *dy,
                    const struct tensor *gate, const struct tensor *up))
OP(sigmoid_gate_backward, (struct tensor *dx, struct tensor *dgate, const struct tensor *dy,
                           const struct tensor *x, const struct tensor *gate))
// For calls without `before` and `after`.
OP(causal_conv_backward, (struct tensor *dx, struct tensor *dw, const struct tensor *dy,
                          const struct tensor *x, const struct tensor *w))
// For calls without `before` and `after`.
OP(delta_rule_backward, (const struct delta_grads *d, const struct tensor *dy,
                         const struct delta_inputs *p))
OP(gelu_backward, (struct tensor *dx, const struct tensor *dy, const struct tensor *x,
                   enum gelu_form form))
// y is the forward op's result.
OP(softcap_backward, (struct tensor *dx, const struct tensor *dy, const struct tensor *y,
                      float cap))
// x is the forward op's input; elements outside low..high get no gradient.
OP(clip_backward, (struct tensor *dx, const struct tensor *dy, const struct tensor *x, float low,
                   float high))
// dx += dy * value.
OP(scale_backward, (struct tensor *dx, const struct tensor *dy, float value))
// dx += dy * w, each row; dw[D] += the sum of dy * x over the rows.
OP(scale_columns_backward, (struct tensor *dx, struct tensor *dw, const struct tensor *dy,
                            const struct tensor *x, const struct tensor *w))
// y is the forward op's result.
OP(softmax_backward, (struct tensor *dx, const struct tensor *dy, const struct tensor *y,
                      float scale))
// gate and noise are constants.
OP(ira_values_backward, (struct tensor *dv, struct tensor *dhead, const struct tensor *dz,
                         const struct tensor *head, const struct tensor *gate,
                         const struct tensor *noise))
OP(ira_kl_backward, (struct tensor *dhead, struct tensor *dprior, struct tensor *dv,
                     struct tensor *dmean, const struct tensor *dkl, const struct tensor *head,
                     const struct tensor *prior, const struct tensor *v,
                     const struct tensor *mean))
// dx row index[i] += dy row i; an index may occur several times. Also computes the gradient of an
// embedding table.
OP(gather_rows_backward, (struct tensor *dx, const struct tensor *dy, const struct tensor *index))
// dx row index[i,k] += weight[i,k] times dy row i; an index may occur several times.
OP(blend_rows_backward, (struct tensor *dx, const struct tensor *dy, const struct tensor *index,
                         const struct tensor *weight))
// dx row i += dy row index[i]; then dy row index[i] = 0, because the forward op overwrote the
// former content of that row of y.
OP(scatter_rows_backward, (struct tensor *dx, struct tensor *dy, const struct tensor *index))
OP(put_columns_backward, (struct tensor *dx, struct columns from, const struct tensor *dy,
                          int64_t to))
OP(expert_weights_backward, (struct tensor *dlogits, const struct tensor *dw,
                             const struct tensor *logits, const struct tensor *index,
                             bool normalise, float scale))
// dx row i += weight[i] dy row index[i], dweight[i] += x row i . dy row index[i].
OP(add_weighted_rows_backward, (struct tensor *dx, struct tensor *dweight, const struct tensor *dy,
                                const struct tensor *x, const struct tensor *index,
                                const struct tensor *weight))
OP(patches_backward, (struct tensor *dpixels, const struct tensor *dy, int64_t patch))
// loss[i] = log sum e^logits - logits[target], for each row of logits[N,V] and target[N] (i32, in
// 0..V-1); then logits = (softmax(logits) - onehot(target)) * weight[i], the gradient of the sum of
// loss[i] * weight[i].
OP(cross_entropy, (struct tensor *loss, struct tensor *logits, const struct tensor *target,
                   const struct tensor *weight))

// --- optimizer -----------------------------------------------------------------------------------

// *sum += the sum of the squares of x, in double; the result does not depend on the number of
// threads.
OP(sum_squares, (double *sum, const struct tensor *x))
// One step of AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) on w; all tensors are f32 and of
// the same size. g = grad * step->scale is the gradient used; m, v are the running means.
OP(adamw, (struct tensor *w, const struct tensor *grad, struct tensor *m, struct tensor *v,
           const struct adamw_step *step))
// clang-format on
