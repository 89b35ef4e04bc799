// kernels/experts.cu -- a mixture of experts (kernels/experts.c).
#include "kernels/cuda.h"

static constexpr int THREADS = 128;

// The sum of a row's chosen scores, or 1 if they are not normalised.
static __device__ float divisor(const float *logits, const int32_t *index, int64_t count,
                                bool normalise)
{
    float sum = 0;
    for (int64_t k = 0; k < count; k++) sum += sigmoid(logits[index[k]]);
    return normalise ? sum + 1e-20F : 1;
}

// One thread per row: rows are short.
static __global__ void weights_kernel(float *w, const float *logits, const int32_t *index,
                                      int64_t count, int64_t experts, bool normalise, float scale,
                                      int64_t n)
{
    FOR_EACH(i, n)
    {
        const float *from = logits + i * experts;
        const int32_t *at = index + i * count;
        const float by = divisor(from, at, count, normalise);
        for (int64_t k = 0; k < count; k++) w[i * count + k] = sigmoid(from[at[k]]) / by * scale;
    }
}

int expert_weights_cuda(struct tensor *w, const struct tensor *logits, const struct tensor *index,
                        bool normalise, float scale)
{
    const int64_t rows = w->shape[0];
    if (!rows) return 0;
    return LAUNCH(weights_kernel, blocks_for(rows, THREADS), THREADS, 0, floats(w), floats(logits),
                  integers(index), w->shape[1], logits->shape[1], normalise, scale, rows);
}

static __global__ void weights_back_kernel(float *dlogits, const float *dw, const float *logits,
                                           const int32_t *index, int64_t count, int64_t experts,
                                           bool normalise, float scale, int64_t n)
{
    FOR_EACH(i, n)
    {
        const float *from = logits + i * experts, *d = dw + i * count;
        const int32_t *at = index + i * count;
        const float by = divisor(from, at, count, normalise);
        float mean = 0;
        for (int64_t k = 0; k < count && normalise; k++) mean += d[k] * sigmoid(from[at[k]]) / by;
        for (int64_t k = 0; k < count; k++) {
            const float s = sigmoid(from[at[k]]);
            dlogits[i * experts + at[k]] += scale * (d[k] - mean) / by * s * (1 - s);
        }
    }
}

int expert_weights_backward_cuda(struct tensor *dlogits, const struct tensor *dw,
                                 const struct tensor *logits, const struct tensor *index,
                                 bool normalise, float scale)
{
    const int64_t rows = dw->shape[0];
    if (!rows) return 0;
    return LAUNCH(weights_back_kernel, blocks_for(rows, THREADS), THREADS, 0, floats(dlogits),
                  floats(dw), floats(logits), integers(index), dw->shape[1], logits->shape[1],
                  normalise, scale, rows);
}

static __global__ void add_kernel(float *y, const float *x, const int32_t *index,
                                  const float *weight, int64_t width, int64_t n)
{
    FOR_EACH(i, n) y[index[i / width] * width + i % width] += weight[i / width] * x[i];
}

int add_weighted_rows_cuda(struct tensor *y, const struct tensor *x, const struct tensor *index,
                           const struct tensor *weight)
{
    const int64_t width = tensor_row(x), n = tensor_count(index) * width;
    if (!n) return 0;
    return LAUNCH(add_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x), integers(index),
                  floats(weight), width, n);
}

// One block per row.
static __global__ void add_back_kernel(float *dx, float *dweight, const float *dy, const float *x,
                                       const int32_t *index, const float *weight, int64_t width)
{
    const int64_t i = blockIdx.x;
    const float *d = dy + index[i] * width, *from = x + i * width;
    float sum = 0;
    for (int64_t j = threadIdx.x; j < width; j += THREADS) {
        if (dx) dx[i * width + j] += weight[i] * d[j];
        sum += d[j] * from[j];
    }
    sum = block_sum(sum);
    if (dweight && threadIdx.x == 0) dweight[i] += sum;
}

int add_weighted_rows_backward_cuda(struct tensor *dx, struct tensor *dweight,
                                    const struct tensor *dy, const struct tensor *x,
                                    const struct tensor *index, const struct tensor *weight)
{
    const int64_t rows = tensor_count(index), width = tensor_row(x);
    if (!rows || !width) return 0;
    return LAUNCH(add_back_kernel, (size_t)rows, THREADS, 0, dx ? floats(dx) : nullptr,
                  dweight ? floats(dweight) : nullptr, floats(dy), floats(x), integers(index),
                  floats(weight), width);
}
