// kernels/norm_row.h -- norms of one row: the root mean square norm (Zhang and Sennrich 2019),
// y[n] = x / sqrt(mean of x^2 + eps) * gain, and layer norm, which is in kernels/layernorm.c.
#ifndef KERNELS_NORM_ROW_H
#define KERNELS_NORM_ROW_H

#include <math.h>

#include "kernels/vec.h"

static inline __attribute__((unused)) void norm_row(float *y, const float *x, const float *gain,
                                                    int64_t n, float eps)
{
    // Four running sums, so that consecutive additions need not wait for each other.
    vf s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
    int64_t i = 0;
    for (; i + 4 * VEC <= n; i += 4 * VEC) {
        vf a = vf_load(x + i), b = vf_load(x + i + VEC);
        vf c = vf_load(x + i + 2 * VEC), d = vf_load(x + i + 3 * VEC);
        s0 += a * a;
        s1 += b * b;
        s2 += c * c;
        s3 += d * d;
    }
    for (; i + VEC <= n; i += VEC) s0 += vf_load(x + i) * vf_load(x + i);
    if (i < n) {
        vf a = vf_load_part(x + i, n - i);
        s1 += a * a;
    }
    vf scale = vf_set(1 / sqrtf(vf_sum((s0 + s1) + (s2 + s3)) / (float)n + eps));
    for (i = 0; i + VEC <= n; i += VEC) vf_store(y + i, vf_load(x + i) * scale * vf_load(gain + i));
    if (i < n)
        vf_store_part(y + i, vf_load_part(x + i, n - i) * scale * vf_load_part(gain + i, n - i),
                      n - i);
}

// The layer norm of x[n] (kernels/ops.h); y may be x.
void KERNEL(layernorm_row)(float *y, const float *x, const float *gain, const float *bias,
                           int64_t n, float eps);

#endif
