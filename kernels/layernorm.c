// kernels/layernorm.c -- layer norm (Ba et al. 2016) with gain and bias.
#include <math.h>

#include "kernels/norm_row.h"

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

// Mean of (x - mean)^2 in a second pass, because the difference of two large sums would lose
// digits.
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

void KERNEL(layernorm_row)(float *y, const float *x, const float *gain, const float *bias,
                           int64_t n, float eps)
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
    for (int64_t i = 0; i < rows; i++) {
        const float *row = (const float *)x->data + i * width;
        KERNEL(layernorm_row)
        ((float *)y->data + i * width, row, gain->data, bias->data, width, eps);
    }
    return 0;
}

// --- backward ------------------------------------------------------------------------------------
// With z = (x - mean) s, s = 1 / sqrt(var + eps) and e = dy gain:
// dx = s (e - mean(e) - z mean(e z)), dgain = sum of dy z over the rows, dbias = sum of dy.

enum { COLUMNS = 256 }; // columns that a thread sums at a time

static void row_backward(float *dx, const float *dy, const float *x, const float *gain, int64_t n,
                         float mean, float scale)
{
    vf m = vf_set(mean), s = vf_set(scale), sum = { 0 }, products = { 0 };
    for (int64_t i = 0; i < n; i += VEC) {
        int64_t some = n - i < VEC ? n - i : VEC;
        vf e = vf_load_part_n(dy + i, some) * vf_load_part_n(gain + i, some);
        sum += e; // 0 in lanes past the end
        products += e * (vf_load_part_n(x + i, some) - m) * s;
    }
    vf mean_e = vf_set(vf_sum(sum) / (float)n), mean_ez = vf_set(vf_sum(products) / (float)n);
    for (int64_t i = 0; i < n; i += VEC) {
        int64_t some = n - i < VEC ? n - i : VEC;
        vf e = vf_load_part_n(dy + i, some) * vf_load_part_n(gain + i, some);
        vf z = (vf_load_part_n(x + i, some) - m) * s;
        vf_store_part_n(dx + i, vf_load_part_n(dx + i, some) + s * (e - mean_e - z * mean_ez),
                        some);
    }
}

// Adds to columns c..c+count of the gradients of gain and bias (either may be NULL).
static void columns_backward(float *dgain, float *dbias, const float *dy, const float *x,
                             const float *stats, int64_t rows, int64_t n, int64_t c, int64_t count)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *d = dy + r * n + c, *from = x + r * n + c;
        float mean = stats[2 * r], scale = stats[2 * r + 1];
        if (dgain)
            for (int64_t i = 0; i < count; i++) dgain[c + i] += d[i] * ((from[i] - mean) * scale);
        if (dbias)
            for (int64_t i = 0; i < count; i++) dbias[c + i] += d[i];
    }
}

int KERNEL(layernorm_backward)(struct tensor *dx, struct tensor *dgain, struct tensor *dbias,
                               const struct tensor *dy, const struct tensor *x,
                               const struct tensor *gain, float eps)
{
    int64_t n = tensor_count(gain), rows = n ? tensor_count(x) / n : 0;
    const float *from = x->data, *d = dy->data;
    float *stats = cpu_scratch((size_t)rows * 2 * sizeof *stats); // mean and scale of each row
    if (!stats && rows) return -1;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * n))
    for (int64_t i = 0; i < rows; i++) {
        float mean = row_mean(from + i * n, n);
        stats[2 * i] = mean;
        stats[2 * i + 1] = 1 / sqrtf(row_variance(from + i * n, n, mean) + eps);
        if (dx)
            row_backward((float *)dx->data + i * n, d + i * n, from + i * n, gain->data, n, mean,
                         stats[2 * i + 1]);
    }
    if (!dgain && !dbias) return 0;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * n))
    for (int64_t c = 0; c < n; c += COLUMNS)
        columns_backward(dgain ? dgain->data : NULL, dbias ? dbias->data : NULL, d, from, stats,
                         rows, n, c, n - c < COLUMNS ? n - c : COLUMNS);
    return 0;
}
