// kernels/scale_columns.c -- multiplies every row of a matrix by a vector, elementwise.
#include "kernels/vec.h"

int KERNEL(scale_columns)(struct tensor *y, const struct tensor *x, const struct tensor *w)
{
    const int64_t n = tensor_count(y), d = tensor_count(w);
    const float *by = w->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += d) {
        float *to = (float *)y->data + i;
        const float *from = (const float *)x->data + i;
        for (int64_t j = 0; j < d; j++) to[j] = from[j] * by[j];
    }
    return 0;
}

enum { COLUMNS = 256 }; // columns that a thread sums at a time

static void add_products(struct tensor *dw, const struct tensor *dy, const struct tensor *x)
{
    const int64_t n = tensor_count(dy), d = tensor_count(dw);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t c = 0; c < d; c += COLUMNS) {
        float *to = dw->data;
        const int64_t end = d - c < COLUMNS ? d : c + COLUMNS;
        for (int64_t i = 0; i < n; i += d)
            for (int64_t j = c; j < end; j++)
                to[j] += ((const float *)dy->data)[i + j] * ((const float *)x->data)[i + j];
    }
}

int KERNEL(scale_columns_backward)(struct tensor *dx, struct tensor *dw, const struct tensor *dy,
                                   const struct tensor *x, const struct tensor *w)
{
    const int64_t n = tensor_count(dy), d = tensor_count(w);
    const float *by = w->data;
    if (dw) add_products(dw, dy, x);
    if (!dx) return 0;
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += d) {
        float *to = (float *)dx->data + i;
        const float *from = (const float *)dy->data + i;
        for (int64_t j = 0; j < d; j++) to[j] += from[j] * by[j];
    }
    return 0;
}
