// kernels/scatter_rows.c -- rows written to places given by index.
#include <string.h>

#include "kernels/isa.h"

int KERNEL(scatter_rows)(struct tensor *y, const struct tensor *x, const struct tensor *index)
{
    const int32_t *row = index->data;
    size_t bytes = (size_t)tensor_row(x) * dtype_size(x->dtype);
    for (int64_t i = 0; i < tensor_count(index); i++)
        memcpy((char *)y->data + (size_t)row[i] * bytes, (const char *)x->data + (size_t)i * bytes,
               bytes);
    return 0;
}
