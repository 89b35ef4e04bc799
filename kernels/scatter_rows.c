// kernels/scatter_rows.c -- writes rows to given indices; rounds f32 to bf16 if the target is bf16.
#include <string.h>

#include "kernels/vec.h"

int KERNEL(scatter_rows)(struct tensor *y, const struct tensor *x, const struct tensor *index)
{
    const int32_t *row = index->data;
    const int64_t width = tensor_row(x);
    const size_t bytes = (size_t)width * dtype_size(x->dtype);
    for (int64_t i = 0; i < tensor_count(index); i++)
        if (y->dtype == x->dtype)
            memcpy((char *)y->data + (size_t)row[i] * bytes,
                   (const char *)x->data + (size_t)i * bytes, bytes);
        else
            vec_to_bf16((uint16_t *)y->data + row[i] * width, (const float *)x->data + i * width,
                        width);
    return 0;
}

int KERNEL(scatter_rows_backward)(struct tensor *dx, struct tensor *dy, const struct tensor *index)
{
    const int32_t *row = index->data;
    int64_t n = tensor_count(index), width = tensor_row(dy);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n * width))
    for (int64_t i = 0; i < n; i++) {
        float *d = (float *)dy->data + row[i] * width;
        if (dx) vec_add((float *)dx->data + i * width, d, width);
        memset(d, 0, (size_t)width * sizeof *d);
    }
    return 0;
}
