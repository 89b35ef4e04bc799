// kernels/columns.cu -- sums over the rows of a gradient (kernels/columns_cuda.h).
//
// A block handles WARP columns with DEEP threads per column; a thread sums every DEEP-th row, and
// the threads' sums are added in order.
#include "kernels/columns_cuda.h"

static constexpr int DEEP = 32;

static __global__ void columns_kernel(float *dgain, float *dbias, const float *dy, const float *x,
                                      const struct row_stats *stats, int64_t rows, int64_t n)
{
    __shared__ float gains[DEEP][WARP], biases[DEEP][WARP];
    const int64_t c = (int64_t)blockIdx.x * WARP + threadIdx.x;
    float gain = 0, bias = 0;
    for (int64_t r = threadIdx.y; c < n && r < rows; r += DEEP) {
        const float d = dy[r * n + c];
        bias += d;
        if (dgain) gain += d * ((x[r * n + c] - stats[r].mean) * stats[r].scale);
    }
    gains[threadIdx.y][threadIdx.x] = gain;
    biases[threadIdx.y][threadIdx.x] = bias;
    __syncthreads();
    if (threadIdx.y || c >= n) return;
    for (int i = 1; i < DEEP; i++) {
        gain += gains[i][threadIdx.x];
        bias += biases[i][threadIdx.x];
    }
    if (dgain) dgain[c] += gain;
    if (dbias) dbias[c] += bias;
}

int columns_add(float *dgain, float *dbias, const float *dy, const float *x,
                const struct row_stats *stats, int64_t rows, int64_t n)
{
    if (!rows || !n || (!dgain && !dbias)) return 0;
    return LAUNCH(columns_kernel, dim3((unsigned)((n + WARP - 1) / WARP)), dim3(WARP, DEEP), 0,
                  dgain, dbias, dy, x, stats, rows, n);
}
