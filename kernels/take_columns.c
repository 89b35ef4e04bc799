// kernels/take_columns.c -- some columns of a matrix: the parts of a fused product.
#include <string.h>

#include "kernels/vec.h"

int KERNEL(take_columns)(struct tensor *y, const struct tensor *x, int64_t from)
{
    const int64_t n = x->shape[0], wide = tensor_row(x), width = tensor_row(y);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n * width))
    for (int64_t i = 0; i < n; i++)
        memcpy((float *)y->data + i * width, (const float *)x->data + i * wide + from,
               (size_t)width * sizeof(float));
    return 0;
}

int KERNEL(take_columns_backward)(struct tensor *dx, const struct tensor *dy, int64_t from)
{
    const int64_t n = dx->shape[0], wide = tensor_row(dx), width = tensor_row(dy);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n * width))
    for (int64_t i = 0; i < n; i++)
        vec_add((float *)dx->data + i * wide + from, (const float *)dy->data + i * width, width);
    return 0;
}
