// kernels/cross_entropy.cu -- the loss of next-token prediction and its gradient, which overwrites
// the logits; one block per row.
#include "kernels/cuda.h"

static constexpr int THREADS = 512;

static __global__ void cross_entropy_kernel(float *loss, float *logits, const int32_t *target,
                                            const float *weight, int64_t n)
{
    const int64_t row = blockIdx.x;
    float *x = logits + row * n, highest = -INFINITY;
    const int64_t at = target[row];
    const float chosen = x[at];
    for (int64_t i = threadIdx.x; i < n; i += THREADS) highest = fmaxf(highest, x[i]);
    highest = block_most(highest); // after all threads have read `chosen`
    // In double, as on the CPU, because a long float sum would lose digits.
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        const float e = expf(x[i] - highest);
        x[i] = e;
        sum += (double)e;
    }
    sum = block_sum(sum);
    const float share = (float)(weight[row] / sum);
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        x[i] = x[i] * share - (i == at ? weight[row] : 0);
    if (threadIdx.x == 0) loss[row] = (float)(log(sum) + (double)highest - (double)chosen);
}

int cross_entropy_cuda(struct tensor *loss, struct tensor *logits, const struct tensor *target,
                       const struct tensor *weight)
{
    const int64_t rows = logits->shape[0], n = logits->shape[1];
    if (!rows) return 0;
    return LAUNCH(cross_entropy_kernel, (size_t)rows, THREADS, 0, floats(loss), floats(logits),
                  integers(target), floats(weight), n);
}
