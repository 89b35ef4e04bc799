// kernels/blend_rows.c -- weighted sums of rows picked by index.
#include <string.h>

#include "kernels/vec.h"

int KERNEL(blend_rows)(struct tensor *y, const struct tensor *x, const struct tensor *index,
                       const struct tensor *weight)
{
    const int64_t n = index->shape[0], most = index->shape[1], width = tensor_row(x);
    const int32_t *row = index->data;
    const float *share = weight->data, *from = x->data;
    float *to = y->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(n * most * width))
    for (int64_t i = 0; i < n; i++) {
        memset(to + i * width, 0, (size_t)width * sizeof *to);
        for (int64_t k = i * most; k < (i + 1) * most; k++)
            vec_add_scaled(to + i * width, from + row[k] * width, share[k], width);
    }
    return 0;
}

// Columns that a thread handles at a time. It adds all rows of these columns, so equal indices are
// safe.
enum { COLUMNS = 512 };

int KERNEL(blend_rows_backward)(struct tensor *dx, const struct tensor *dy,
                                const struct tensor *index, const struct tensor *weight)
{
    const int64_t n = index->shape[0], most = index->shape[1], width = tensor_row(dx);
    const int32_t *row = index->data;
    const float *share = weight->data, *from = dy->data;
    float *to = dx->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(n * most * width))
    for (int64_t c = 0; c < width; c += COLUMNS)
        for (int64_t k = 0; k < n * most; k++)
            vec_add_scaled(to + row[k] * width + c, from + k / most * width + c, share[k],
                           width - c < COLUMNS ? width - c : COLUMNS);
    return 0;
}
