// kernels/layernorm.cu -- layer norm (Ba et al. 2016) with gain and bias, one block per row.
#include "kernels/columns_cuda.h"
#include "kernels/cuda.h"

static constexpr int THREADS = 256;

// Returns the mean and 1 / sqrt(var + eps) to all threads; computes the variance in a second pass,
// because the difference of two large sums would lose digits.
static __device__ struct row_stats stats_of(const float *x, int64_t n, float eps)
{
    float sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) sum += x[i];
    const float mean = block_sum(sum) / (float)n;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) squares += (x[i] - mean) * (x[i] - mean);
    return { mean, 1 / sqrtf(block_sum(squares) / (float)n + eps) };
}

static __global__ void layernorm_kernel(float *y, const float *x, const float *gain,
                                        const float *bias, int64_t n, float eps)
{
    const int64_t row = (int64_t)blockIdx.x * n;
    const struct row_stats s = stats_of(x + row, n, eps);
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        y[row + i] = (x[row + i] - s.mean) * s.scale * gain[i] + bias[i];
}

int layernorm_cuda(struct tensor *y, const struct tensor *x, const struct tensor *gain,
                   const struct tensor *bias, float eps)
{
    const int64_t width = tensor_count(gain), rows = width ? tensor_count(x) / width : 0;
    if (!rows) return 0;
    return LAUNCH(layernorm_kernel, (size_t)rows, THREADS, 0, floats(y), floats(x), floats(gain),
                  floats(bias), width, eps);
}

// With z = (x - mean) s and e = dy gain: dx = s (e - mean(e) - z mean(e z)).
static __global__ void layernorm_back_kernel(float *dx, struct row_stats *stats, const float *dy,
                                             const float *x, const float *gain, int64_t n,
                                             float eps)
{
    const int64_t row = (int64_t)blockIdx.x * n;
    const struct row_stats s = stats_of(x + row, n, eps);
    if (threadIdx.x == 0) stats[blockIdx.x] = s;
    if (!dx) return; // uniform across the block
    float sum = 0, products = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const float e = dy[row + i] * gain[i];
        sum += e;
        products += e * (x[row + i] - s.mean) * s.scale;
    }
    const float mean_e = block_sum(sum) / (float)n, mean_ez = block_sum(products) / (float)n;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const float z = (x[row + i] - s.mean) * s.scale;
        dx[row + i] += s.scale * (dy[row + i] * gain[i] - mean_e - z * mean_ez);
    }
}

int layernorm_backward_cuda(struct tensor *dx, struct tensor *dgain, struct tensor *dbias,
                            const struct tensor *dy, const struct tensor *x,
                            const struct tensor *gain, float eps)
{
    const int64_t width = tensor_count(gain), rows = width ? tensor_count(x) / width : 0;
    if (!rows) return 0;
    struct row_stats *stats =
        static_cast<struct row_stats *>(cuda_scratch((size_t)rows * sizeof(struct row_stats)));
    if (!stats || LAUNCH(layernorm_back_kernel, (size_t)rows, THREADS, 0, floats(dx), stats,
                         floats(dy), floats(x), floats(gain), width, eps) < 0)
        return -1;
    return columns_add(floats(dgain), floats(dbias), floats(dy), floats(x), stats, rows, width);
}
