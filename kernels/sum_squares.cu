// kernels/sum_squares.cu -- the sum of squares of all elements, in double; the order of summation
// depends on the count alone.
#include "kernels/cuda.h"

static constexpr int64_t PIECES = 512;

static __global__ void pieces_kernel(double *piece, const float *x, int64_t n)
{
    double sum = 0;
    FOR_EACH(i, n) sum += (double)x[i] * x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) piece[blockIdx.x] = sum;
}

int sum_squares_cuda(double *sum, const struct tensor *x)
{
    const int64_t n = tensor_count(x), wanted = (n + EACH - 1) / EACH;
    const int64_t pieces = wanted < PIECES ? wanted : PIECES;
    double host[PIECES];
    if (!n) return 0;
    double *piece = static_cast<double *>(cuda_scratch(PIECES * sizeof(double)));
    if (!piece || LAUNCH(pieces_kernel, pieces, EACH, 0, piece, floats(x), n) < 0) return -1;
    if (cudaMemcpyAsync(host, piece, (size_t)pieces * sizeof *host, cudaMemcpyDeviceToHost,
                        cuda_stream()) != cudaSuccess ||
        cudaStreamSynchronize(cuda_stream()) != cudaSuccess)
        return cuda_started("sum_squares");
    for (int64_t i = 0; i < pieces; i++) *sum += host[i];
    return 0;
}
