// kernels/blend_rows.cu -- weighted sums of rows picked by index.
#include "kernels/cuda.h"

static __global__ void blend_kernel(float *y, const float *x, const int32_t *index,
                                    const float *weight, int64_t most, int64_t width, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t from = i / width * most;
        float sum = 0;
        for (int64_t k = from; k < from + most; k++)
            sum += weight[k] * x[index[k] * width + i % width];
        y[i] = sum;
    }
}

int blend_rows_cuda(struct tensor *y, const struct tensor *x, const struct tensor *index,
                    const struct tensor *weight)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(blend_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x), integers(index),
                  floats(weight), index->shape[1], tensor_row(x), n);
}

// One thread per column adds all rows in order, so equal indices cause no race.
static __global__ void blend_back_kernel(float *dx, const float *dy, const int32_t *index,
                                         const float *weight, int64_t most, int64_t width,
                                         int64_t count)
{
    FOR_EACH(c, width)
    for (int64_t k = 0; k < count; k++)
        dx[index[k] * width + c] += weight[k] * dy[k / most * width + c];
}

int blend_rows_backward_cuda(struct tensor *dx, const struct tensor *dy, const struct tensor *index,
                             const struct tensor *weight)
{
    const int64_t count = tensor_count(index), width = tensor_row(dx);
    if (!count || !width) return 0;
    return LAUNCH(blend_back_kernel, blocks_for(width, 64), 64, 0, floats(dx), floats(dy),
                  integers(index), floats(weight), index->shape[1], width, count);
}
