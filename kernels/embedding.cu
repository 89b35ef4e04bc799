// kernels/embedding.cu -- rows of the embedding table, widened to f32.
#include "kernels/matmul_cuda.h"

static __global__ void embedding_kernel(float *y, const void *table, const int32_t *ids,
                                        int64_t width, int64_t n, enum dtype dtype)
{
    FOR_EACH(i, n) y[i] = number_at(table, ids[i / width] * width + i % width, dtype);
}

int embedding_cuda(struct tensor *y, const struct tensor *table, const struct tensor *ids)
{
    const int64_t width = tensor_row(table), n = tensor_count(ids) * width;
    if (!n) return 0;
    if (dtype_in_blocks(table->dtype)) return blocks_rows(floats(y), table, ids);
    return LAUNCH(embedding_kernel, blocks_for(n, EACH), EACH, 0, floats(y), table->data,
                  integers(ids), width, n, table->dtype);
}
