// kernels/take_columns.cu -- some columns of a matrix: the parts of a fused product.
#include "kernels/cuda.h"

static __global__ void take_kernel(float *y, const float *x, int64_t wide, int64_t from,
                                   int64_t width, int64_t n)
{
    FOR_EACH(i, n) y[i] = x[i / width * wide + from + i % width];
}

int take_columns_cuda(struct tensor *y, const struct tensor *x, int64_t from)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(take_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x), tensor_row(x),
                  from, tensor_row(y), n);
}

static __global__ void take_back_kernel(float *dx, const float *dy, int64_t wide, int64_t from,
                                        int64_t width, int64_t n)
{
    FOR_EACH(i, n) dx[i / width * wide + from + i % width] += dy[i];
}

int take_columns_backward_cuda(struct tensor *dx, const struct tensor *dy, int64_t from)
{
    const int64_t n = tensor_count(dy);
    if (!n) return 0;
    return LAUNCH(take_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dx), floats(dy),
                  tensor_row(dx), from, tensor_row(dy), n);
}
