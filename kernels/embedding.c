// kernels/embedding.c -- gathers rows of the embedding table, converted to f32.
#include "kernels/vec.h"

int KERNEL(embedding)(struct tensor *y, const struct tensor *table, const struct tensor *ids)
{
    const int32_t *id = ids->data;
    int64_t n = tensor_count(ids), width = tensor_row(table);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n * width))
    for (int64_t i = 0; i < n; i++)
        vec_widen((float *)y->data + i * width, table->data, id[i] * width, width, table->dtype);
    return 0;
}
