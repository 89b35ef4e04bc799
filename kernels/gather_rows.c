// kernels/gather_rows.c -- rows picked by index.
#include <string.h>

#include "kernels/vec.h"

// If y is x, copies in order with memmove: with an ascending index, each row is read before it is
// overwritten.
int KERNEL(gather_rows)(struct tensor *y, const struct tensor *x, const struct tensor *index)
{
    const int32_t *row = index->data;
    const int64_t n = tensor_count(index);
    size_t bytes = dtype_bytes(x->dtype, tensor_row(x));
#pragma omp parallel for schedule(static) if (y->data != x->data && \
                                              vec_worth_threads(tensor_count(y)))
    for (int64_t i = 0; i < n; i++)
        memmove((char *)y->data + (size_t)i * bytes, (const char *)x->data + (size_t)row[i] * bytes,
                bytes);
    return 0;
}

// Columns that a thread handles at a time. It adds all rows of these columns, so equal indices are
// safe.
enum { COLUMNS = 512 };

int KERNEL(gather_rows_backward)(struct tensor *dx, const struct tensor *dy,
                                 const struct tensor *index)
{
    const int32_t *row = index->data;
    int64_t n = tensor_count(index), width = tensor_row(dx);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n * width))
    for (int64_t c = 0; c < width; c += COLUMNS)
        for (int64_t i = 0; i < n; i++)
            vec_add((float *)dx->data + row[i] * width + c, (const float *)dy->data + i * width + c,
                    width - c < COLUMNS ? width - c : COLUMNS);
    return 0;
}
