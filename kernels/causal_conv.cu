// kernels/causal_conv.cu -- a causal convolution of each channel along the rows, then SiLU
// (kernels/causal_conv.c).
#include "kernels/cuda.h"

// Rows of one channel: those of x, after the rows before them (NULL: zeros).
struct channel {
    const float *x, *before;
    int64_t wide, taps;
};

static __device__ float row_at(const struct channel c, int64_t i)
{
    if (i >= 0) return c.x[i * c.wide];
    return c.before ? c.before[(c.taps - 1 + i) * c.wide] : 0;
}

// The sum of the taps w [K] that end at row i.
static __device__ float sum_at(const struct channel c, const float *w, int64_t i)
{
    float sum = 0;
    for (int64_t k = 0; k < c.taps; k++) sum += row_at(c, i - c.taps + 1 + k) * w[k];
    return sum;
}

static __device__ struct channel channel_at(const float *x, const float *before, int64_t c,
                                            int64_t wide, int64_t taps)
{
    return { x + c, before ? before + c : nullptr, wide, taps };
}

static __global__ void conv_kernel(float *y, const float *x, const float *w, const float *before,
                                   int64_t wide, int64_t taps, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % wide;
        const float sum = sum_at(channel_at(x, before, c, wide, taps), w + c * taps, i / wide);
        y[i] = sum / (1 + expf(-sum));
    }
}

// One thread per channel, ascending, because `after` may be `before`.
static __global__ void tail_kernel(float *after, const float *x, const float *before, int64_t rows,
                                   int64_t wide, int64_t taps)
{
    FOR_EACH(c, wide)
    for (int64_t k = 0; k < taps - 1; k++)
        after[k * wide + c] = row_at(channel_at(x, before, c, wide, taps), rows - taps + 1 + k);
}

int causal_conv_cuda(struct tensor *y, const struct tensor *x, const struct tensor *w,
                     const struct tensor *before, struct tensor *after)
{
    const int64_t rows = x->shape[0], wide = x->shape[1], taps = w->shape[1], n = rows * wide;
    if (n && LAUNCH(conv_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x), floats(w),
                    floats(before), wide, taps, n) < 0)
        return -1;
    if (!after || !wide || taps < 2) return 0;
    return LAUNCH(tail_kernel, blocks_for(wide, EACH), EACH, 0, floats(after), floats(x),
                  floats(before), rows, wide, taps);
}

// The gradient of the sum of the taps at row i of a channel: silu'(z) = s (1 + z (1 - s)).
static __device__ float sum_gradient(const struct channel c, const float *w, const float *dy,
                                     int64_t i)
{
    const float z = sum_at(c, w, i), s = sigmoid(z);
    return dy[i * c.wide] * s * (1 + z * (1 - s));
}

static __global__ void conv_back_kernel(float *dx, const float *dy, const float *x, const float *w,
                                        int64_t wide, int64_t taps, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t c = i % wide, row = i / wide;
        const struct channel all = channel_at(x, nullptr, c, wide, taps);
        float sum = 0;
        for (int64_t k = 0; k < taps; k++) {
            const int64_t of = row + taps - 1 - k; // whose tap k is this row
            if (of < n / wide) sum += sum_gradient(all, w + c * taps, dy + c, of) * w[c * taps + k];
        }
        dx[i] += sum;
    }
}

// One block per channel and tap.
static __global__ void filter_back_kernel(float *dw, const float *dy, const float *x,
                                          const float *w, int64_t rows, int64_t wide, int64_t taps)
{
    const int64_t c = blockIdx.x / taps, k = blockIdx.x % taps;
    const struct channel all = channel_at(x, nullptr, c, wide, taps);
    float sum = 0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x)
        sum += sum_gradient(all, w + c * taps, dy + c, i) * row_at(all, i - taps + 1 + k);
    sum = block_sum(sum);
    if (threadIdx.x == 0) dw[c * taps + k] += sum;
}

int causal_conv_backward_cuda(struct tensor *dx, struct tensor *dw, const struct tensor *dy,
                              const struct tensor *x, const struct tensor *w)
{
    const int64_t rows = x->shape[0], wide = x->shape[1], taps = w->shape[1], n = rows * wide;
    if (!n) return 0;
    if (dx && LAUNCH(conv_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dx), floats(dy),
                     floats(x), floats(w), wide, taps, n) < 0)
        return -1;
    if (!dw) return 0;
    return LAUNCH(filter_back_kernel, (unsigned)(wide * taps), EACH, 0, floats(dw), floats(dy),
                  floats(x), floats(w), rows, wide, taps);
}
