// kernels/softmax.c -- softmax over the last dimension; subtracts the row's maximum first.
#include <math.h>

#include "kernels/vec.h"

static float row_highest(const float *x, int64_t n, float scale)
{
    vf top = vf_set(-INFINITY);
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) top = vf_max(vf_load(x + i) * vf_set(scale), top);
    float highest = vf_highest(top);
    for (; i < n; i++) highest = x[i] * scale > highest ? x[i] * scale : highest;
    return highest;
}

static void softmax_row(float *y, const float *x, int64_t n, float scale)
{
    float highest = row_highest(x, n, scale);
    vf sum = { 0 };
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) {
        vf e = vf_exp(vf_load(x + i) * vf_set(scale) - vf_set(highest));
        vf_store(y + i, e);
        sum += e;
    }
    float total = vf_sum(sum);
    if (i < n) {
        vf e = vf_exp(vf_load_part(x + i, n - i) * vf_set(scale) - vf_set(highest));
        vf_store_part(y + i, e, n - i);
        for (int64_t j = 0; j < n - i; j++) total += e[j];
    }
    float share = 1 / total;
    for (i = 0; i + VEC <= n; i += VEC) vf_store(y + i, vf_load(y + i) * vf_set(share));
    for (; i < n; i++) y[i] *= share;
}

int KERNEL(softmax)(struct tensor *y, const struct tensor *x, float scale)
{
    int64_t width = x->shape[x->rank - 1], rows = width ? tensor_count(x) / width : 0;
#pragma omp parallel for schedule(static) if (vec_worth_threads(4 * rows * width))
    for (int64_t i = 0; i < rows; i++)
        softmax_row((float *)y->data + i * width, (const float *)x->data + i * width, width, scale);
    return 0;
}

// dx += scale y (dy - sum(dy y)), row by row.
int KERNEL(softmax_backward)(struct tensor *dx, const struct tensor *dy, const struct tensor *y,
                             float scale)
{
    int64_t n = y->shape[y->rank - 1], rows = n ? tensor_count(y) / n : 0;
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * n))
    for (int64_t r = 0; r < rows; r++) {
        float *to = (float *)dx->data + r * n;
        const float *d = (const float *)dy->data + r * n, *p = (const float *)y->data + r * n;
        vf products = { 0 };
        for (int64_t i = 0; i < n; i += VEC) {
            int64_t some = n - i < VEC ? n - i : VEC;
            products += vf_load_part_n(d + i, some) * vf_load_part_n(p + i, some);
        }
        vf sum = vf_set(vf_sum(products)), s = vf_set(scale);
        for (int64_t i = 0; i < n; i += VEC) {
            int64_t some = n - i < VEC ? n - i : VEC;
            vf change = s * vf_load_part_n(p + i, some) * (vf_load_part_n(d + i, some) - sum);
            vf_store_part_n(to + i, vf_load_part_n(to + i, some) + change, some);
        }
    }
    return 0;
}
