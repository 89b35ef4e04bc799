// kernels/gather_rows.c -- rows picked by index.
#include <string.h>

#include "kernels/isa.h"

// In order and with memmove: y may be x when index ascends, as then no row is overwritten before
// it was read.
int KERNEL(gather_rows)(struct tensor *y, const struct tensor *x, const struct tensor *index)
{
    const int32_t *row = index->data;
    size_t bytes = (size_t)tensor_row(x) * dtype_size(x->dtype);
    for (int64_t i = 0; i < tensor_count(index); i++)
        memmove((char *)y->data + (size_t)i * bytes, (const char *)x->data + (size_t)row[i] * bytes,
                bytes);
    return 0;
}
