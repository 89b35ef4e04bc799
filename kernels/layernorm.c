// kernels/layernorm.c -- layer norm (Ba et al. 2016) with gain and bias.
#include <math.h>

#include "kernels/vec.h"

static float row_mean(const float *x, int64_t n)
{
    vf s0 = { 0 }, s1 = { 0 };
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        s0 += vf_load(x + i);
        s1 += vf_load(x + i + VEC);
    }
    for (; i + VEC <= n; i += VEC) s0 += vf_load(x + i);
    if (i < n) s1 += vf_load_part(x + i, n - i);
    return vf_sum(s0 + s1) / (float)n;
}

// Mean of (x - mean)^2, in a second pass: the difference of two large sums would lose digits.
static float row_variance(const float *x, int64_t n, float mean)
{
    vf s0 = { 0 }, s1 = { 0 };
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        vf a = vf_load(x + i) - vf_set(mean), b = vf_load(x + i + VEC) - vf_set(mean);
        s0 += a * a;
        s1 += b * b;
    }
    float tail = 0;
    for (; i < n; i++) tail += (x[i] - mean) * (x[i] - mean);
    return (vf_sum(s0 + s1) + tail) / (float)n;
}

static void norm_row(float *y, const float *x, const float *gain, const float *bias, int64_t n,
                     float eps)
{
    float mean = row_mean(x, n), scale = 1 / sqrtf(row_variance(x, n, mean) + eps);
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC)
        vf_store(y + i, (vf_load(x + i) - vf_set(mean)) * vf_set(scale) * vf_load(gain + i) +
                            vf_load(bias + i));
    for (; i < n; i++) y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
}

int KERNEL(layernorm)(struct tensor *y, const struct tensor *x, const struct tensor *gain,
                      const struct tensor *bias, float eps)
{
    int64_t width = tensor_count(gain), rows = width ? tensor_count(x) / width : 0;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * width))
    for (int64_t i = 0; i < rows; i++)
        norm_row((float *)y->data + i * width, (const float *)x->data + i * width, gain->data,
                 bias->data, width, eps);
    return 0;
}
