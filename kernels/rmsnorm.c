// kernels/rmsnorm.c -- root mean square norm (Zhang and Sennrich 2019): no mean, no bias.
#include "kernels/norm_row.h"

int KERNEL(rmsnorm)(struct tensor *y, const struct tensor *x, const struct tensor *gain, float eps)
{
    int64_t width = tensor_count(gain), rows = width ? tensor_count(x) / width : 0;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * width))
    for (int64_t i = 0; i < rows; i++)
        norm_row((float *)y->data + i * width, (const float *)x->data + i * width, gain->data,
                 width, eps);
    return 0;
}

// --- backward ------------------------------------------------------------------------------------
// With s = 1 / sqrt(mean(x^2) + eps): dx = s dy gain - x s^3 / n * sum(dy gain x), dgain = the sum
// of s dy x over the rows.

enum { COLUMNS = 256 }; // columns that a thread sums at a time

// Returns s; adds to dx unless it is NULL.
static float row_backward(float *dx, const float *dy, const float *x, const float *gain, int64_t n,
                          float eps)
{
    vf squares = { 0 }, products = { 0 };
    for (int64_t i = 0; i < n; i += VEC) {
        int64_t some = n - i < VEC ? n - i : VEC;
        vf a = vf_load_part_n(x + i, some);
        squares += a * a;
        products += a * vf_load_part_n(dy + i, some) * vf_load_part_n(gain + i, some);
    }
    float s = 1 / sqrtf(vf_sum(squares) / (float)n + eps);
    if (!dx) return s;
    vf shrink = vf_set(s * s * s / (float)n * vf_sum(products)), scale = vf_set(s);
    for (int64_t i = 0; i < n; i += VEC) {
        int64_t some = n - i < VEC ? n - i : VEC;
        vf d = vf_load_part_n(dy + i, some) * vf_load_part_n(gain + i, some) * scale -
               vf_load_part_n(x + i, some) * shrink;
        vf_store_part_n(dx + i, vf_load_part_n(dx + i, some) + d, some);
    }
    return s;
}

int KERNEL(rmsnorm_backward)(struct tensor *dx, struct tensor *dgain, const struct tensor *dy,
                             const struct tensor *x, const struct tensor *gain, float eps)
{
    int64_t n = tensor_count(gain), rows = n ? tensor_count(x) / n : 0;
    const float *from = x->data, *d = dy->data;
    float *scale = cpu_scratch((size_t)rows * sizeof *scale);
    if (!scale && rows) return -1;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * n))
    for (int64_t i = 0; i < rows; i++)
        scale[i] = row_backward(dx ? (float *)dx->data + i * n : NULL, d + i * n, from + i * n,
                                gain->data, n, eps);
    if (!dgain) return 0;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * n))
    for (int64_t c = 0; c < n; c += COLUMNS) {
        float *to = (float *)dgain->data + c;
        int64_t count = n - c < COLUMNS ? n - c : COLUMNS;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < count; i++)
                to[i] += d[r * n + c + i] * from[r * n + c + i] * scale[r];
    }
    return 0;
}
