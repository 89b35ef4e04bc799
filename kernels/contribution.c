// kernels/contribution.c -- the contribution of single tokens to the residual stream (CAPA).
//
//   C_i = || sum over heads n of A[n,i] (v_i,kv(n) W_O[n]) ||,   kv(n) = n / (H/Hkv)
//
// weigh_values writes A[n,i] v_i,kv(n) of all heads side by side into a row; one product with
// o_proj sums over the heads, and row_norms computes the norms. This avoids a tensor [H,S,D].
#include <math.h>

#include "kernels/vec.h"

// y[0..n) = weight * x[at..at+n).
VEC_INLINE void weigh(float *y, const void *x, int64_t at, float weight, int64_t n,
                      const enum dtype dtype)
{
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) vf_store(y + i, vf_load_as(x, at + i, dtype) * vf_set(weight));
    if (i < n)
        vf_store_part(y + i, vf_load_part_as(x, at + i, n - i, dtype) * vf_set(weight), n - i);
}

int KERNEL(weigh_values)(struct tensor *y, const struct tensor *probs, const struct tensor *v,
                         const struct tensor *index)
{
    int64_t heads = probs->shape[0], keys = probs->shape[1], kv_heads = v->shape[1];
    int64_t width = v->shape[2], group = heads / kv_heads, rows = index->shape[0];
    const float *a = probs->data;
    const int32_t *key = index->data;
    float *out = y->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * heads * width))
    for (int64_t i = 0; i < rows; i++)
        for (int64_t h = 0; h < heads; h++)
            VEC_AS(v->dtype, weigh, out + (i * heads + h) * width, v->data,
                   (key[i] * kv_heads + h / group) * width, a[h * keys + key[i]], width);
    return 0;
}

static float norm_of(const float *x, int64_t n)
{
    vf s0 = { 0 }, s1 = { 0 };
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        vf a = vf_load(x + i), b = vf_load(x + i + VEC);
        s0 += a * a;
        s1 += b * b;
    }
    for (; i < n; i += VEC) {
        vf a = vf_load_part_n(x + i, n - i < VEC ? n - i : VEC);
        s0 += a * a;
    }
    return sqrtf(vf_sum(s0 + s1));
}

int KERNEL(row_norms)(struct tensor *y, const struct tensor *x)
{
    int64_t rows = x->shape[0], width = rows ? tensor_count(x) / rows : 0;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * width))
    for (int64_t i = 0; i < rows; i++)
        ((float *)y->data)[i] = norm_of((const float *)x->data + i * width, width);
    return 0;
}
