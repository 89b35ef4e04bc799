// kernels/softmax.cu -- softmax over the last dimension, one block per row.
#include "kernels/cuda.h"

static constexpr int THREADS = 256;

static __global__ void softmax_kernel(float *y, const float *x, int64_t n, float scale)
{
    const float *from = x + (int64_t)blockIdx.x * n;
    float *to = y + (int64_t)blockIdx.x * n;
    float highest = -INFINITY, sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) highest = fmaxf(highest, from[i] * scale);
    highest = block_most(highest);
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const float e = expf(from[i] * scale - highest);
        to[i] = e;
        sum += e;
    }
    const float share = 1 / block_sum(sum);
    for (int64_t i = threadIdx.x; i < n; i += THREADS) to[i] *= share;
}

int softmax_cuda(struct tensor *y, const struct tensor *x, float scale)
{
    const int64_t width = x->shape[x->rank - 1], rows = width ? tensor_count(x) / width : 0;
    if (!rows) return 0;
    return LAUNCH(softmax_kernel, (size_t)rows, THREADS, 0, floats(y), floats(x), width, scale);
}

// dx += scale y (dy - sum(dy y)), row by row.
static __global__ void softmax_back_kernel(float *dx, const float *dy, const float *y, int64_t n,
                                           float scale)
{
    const int64_t row = (int64_t)blockIdx.x * n;
    float products = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) products += dy[row + i] * y[row + i];
    products = block_sum(products);
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        dx[row + i] += scale * y[row + i] * (dy[row + i] - products);
}

int softmax_backward_cuda(struct tensor *dx, const struct tensor *dy, const struct tensor *y,
                          float scale)
{
    const int64_t width = y->shape[y->rank - 1], rows = width ? tensor_count(y) / width : 0;
    if (!rows) return 0;
    return LAUNCH(softmax_back_kernel, (size_t)rows, THREADS, 0, floats(dx), floats(dy), floats(y),
                  width, scale);
}
