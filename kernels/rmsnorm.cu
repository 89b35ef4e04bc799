// kernels/rmsnorm.cu -- root mean square norm (Zhang and Sennrich 2019), one block per row.
#include "kernels/columns_cuda.h"
#include "kernels/cuda.h"

static constexpr int THREADS = 256;

// Returns 1 / sqrt(mean(x^2) + eps) to all threads of the block.
template <int COUNT> static __device__ float row_scale(const float *x, int64_t n, float eps)
{
    float squares = 0;
    for (int64_t i = threadIdx.x * COUNT; i < n; i += THREADS * COUNT) {
        const struct several<COUNT> v = several_at<COUNT>(x + i);
        for (int e = 0; e < COUNT; e++) squares += v.x[e] * v.x[e];
    }
    return 1 / sqrtf(block_sum(squares) / (float)n + eps);
}

template <int COUNT>
static __global__ void rmsnorm_kernel(float *y, const float *x, const float *gain, int64_t n,
                                      float eps)
{
    const float *from = x + (int64_t)blockIdx.x * n;
    float *to = y + (int64_t)blockIdx.x * n;
    const float scale = row_scale<COUNT>(from, n, eps);
    for (int64_t i = threadIdx.x * COUNT; i < n; i += THREADS * COUNT) {
        const struct several<COUNT> g = several_at<COUNT>(gain + i);
        struct several<COUNT> v = several_at<COUNT>(from + i);
        for (int e = 0; e < COUNT; e++) v.x[e] = v.x[e] * scale * g.x[e];
        put_several(to + i, v);
    }
}

int rmsnorm_cuda(struct tensor *y, const struct tensor *x, const struct tensor *gain, float eps)
{
    const int64_t width = tensor_count(gain), rows = width ? tensor_count(x) / width : 0;
    if (!rows) return 0;
    const auto kernel =
        in_fours(width, floats(y), floats(x), floats(gain)) ? rmsnorm_kernel<4> : rmsnorm_kernel<1>;
    return LAUNCH(kernel, (size_t)rows, THREADS, 0, floats(y), floats(x), floats(gain), width, eps);
}

// With s = 1 / sqrt(mean(x^2) + eps): dx += s dy gain - x s^3 / n * sum(dy gain x). Stores s in
// stats.
template <int COUNT>
static __global__ void rmsnorm_back_kernel(float *dx, struct row_stats *stats, const float *dy,
                                           const float *x, const float *gain, int64_t n, float eps)
{
    const int64_t row = (int64_t)blockIdx.x * n;
    const float s = row_scale<COUNT>(x + row, n, eps);
    if (threadIdx.x == 0) stats[blockIdx.x] = { 0, s };
    if (!dx) return; // uniform across the block
    float products = 0;
    for (int64_t i = threadIdx.x * COUNT; i < n; i += THREADS * COUNT) {
        const struct several<COUNT> d = several_at<COUNT>(dy + row + i);
        const struct several<COUNT> g = several_at<COUNT>(gain + i);
        const struct several<COUNT> v = several_at<COUNT>(x + row + i);
        for (int e = 0; e < COUNT; e++) products += d.x[e] * g.x[e] * v.x[e];
    }
    const float shrink = s * s * s / (float)n * block_sum(products);
    for (int64_t i = threadIdx.x * COUNT; i < n; i += THREADS * COUNT) {
        const struct several<COUNT> d = several_at<COUNT>(dy + row + i);
        const struct several<COUNT> g = several_at<COUNT>(gain + i);
        const struct several<COUNT> v = several_at<COUNT>(x + row + i);
        struct several<COUNT> to = several_at<COUNT>(dx + row + i);
        for (int e = 0; e < COUNT; e++) to.x[e] += d.x[e] * g.x[e] * s - v.x[e] * shrink;
        put_several(dx + row + i, to);
    }
}

int rmsnorm_back(float *dx, float *dgain, const float *dy, const float *x, const float *gain,
                 float eps, int64_t rows, int64_t n, struct row_stats *stats)
{
    const auto kernel =
        in_fours(n, dx, dy, x, gain) ? rmsnorm_back_kernel<4> : rmsnorm_back_kernel<1>;
    if (LAUNCH(kernel, (size_t)rows, THREADS, 0, dx, stats, dy, x, gain, n, eps) < 0) return -1;
    return columns_add(dgain, nullptr, dy, x, stats, rows, n);
}

int rmsnorm_backward_cuda(struct tensor *dx, struct tensor *dgain, const struct tensor *dy,
                          const struct tensor *x, const struct tensor *gain, float eps)
{
    const int64_t width = tensor_count(gain), rows = width ? tensor_count(x) / width : 0;
    if (!rows) return 0;
    struct row_stats *stats =
        static_cast<struct row_stats *>(cuda_scratch((size_t)rows * sizeof(struct row_stats)));
    if (!stats) return -1;
    return rmsnorm_back(floats(dx), floats(dgain), floats(dy), floats(x), floats(gain), eps, rows,
                        width, stats);
}
