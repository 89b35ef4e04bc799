// kernels/delta_rule.h -- what the forward and the backward pass of the gated delta rule share.
#ifndef KERNELS_DELTA_RULE_H
#define KERNELS_DELTA_RULE_H

#include <math.h>

#include "kernels/delta_sizes.h"
#include "kernels/vec.h"

// Returns the i-th value head of a key head.
VEC_INLINE int64_t delta_head(const struct delta_sizes *s, int64_t key_head, int64_t i)
{
    return s->alternate ? i * s->key_heads + key_head : key_head * (s->heads / s->key_heads) + i;
}

VEC_INLINE float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

VEC_INLINE float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

// Returns row i of a [N,..] tensor of rank 2.
VEC_INLINE const float *vector_at(const struct tensor *t, int64_t i)
{
    return (const float *)t->data + i * t->shape[1];
}

// Epsilon of the norms of queries and keys, in the sum of squares.
static const float length_eps = 1e-6F;

// Returns factor / sqrt(|x|^2 + eps).
VEC_INLINE float inverse_length(const float *x, int64_t n, float factor)
{
    vf sums = { 0 };
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) sums += vf_load(x + i) * vf_load(x + i);
    float sum = vf_sum(sums);
    for (; i < n; i++) sum += x[i] * x[i];
    return factor / sqrtf(sum + length_eps);
}

// The unit query (divided by sqrt(dk)) and key of row n.
VEC_INLINE void unit_rows(float *q, float *k, const struct delta_sizes *s,
                          const struct delta_inputs *p, int64_t key_head, int64_t n)
{
    const float *from_q = vector_at(p->x, n) + key_head * s->dk;
    const float *from_k = from_q + s->key_heads * s->dk;
    const float by_q = inverse_length(from_q, s->dk, 1 / sqrtf((float)s->dk));
    const float by_k = inverse_length(from_k, s->dk, 1);
    for (int64_t e = 0; e < s->dk; e++) q[e] = from_q[e] * by_q;
    for (int64_t e = 0; e < s->dk; e++) k[e] = from_k[e] * by_k;
}

VEC_INLINE float delta_alpha(const struct delta_inputs *p, int64_t head, int64_t n)
{
    const float rate = expf(((const float *)p->log_a->data)[head]);
    return expf(-rate * softplus(vector_at(p->a, n)[head] + ((const float *)p->bias->data)[head]));
}

VEC_INLINE float delta_beta(const struct delta_inputs *p, int64_t head, int64_t n)
{
    return sigmoid(vector_at(p->b, n)[head]);
}

#endif
