// kernels/swiglu.cu -- silu(gate) * up (Shazeer 2020), the inner activation of Llama's FFN.
#include "kernels/cuda.h"

static __device__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static __global__ void swiglu_kernel(float *y, const float *gate, const float *up, int64_t n)
{
    FOR_EACH(i, n)
    {
        const float g = gate[i];
        y[i] = g * sigmoid(g) * up[i];
    }
}

int swiglu_cuda(struct tensor *y, const struct tensor *gate, const struct tensor *up)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(swiglu_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(gate), floats(up),
                  n);
}

// silu'(g) = s (1 + g (1 - s)), s = sigmoid(g).
static __global__ void swiglu_back_kernel(float *dgate, float *dup, const float *dy,
                                          const float *gate, const float *up, int64_t n)
{
    FOR_EACH(i, n)
    {
        const float g = gate[i], d = dy[i], s = sigmoid(g);
        if (dup) dup[i] += d * g * s;
        if (dgate) dgate[i] += d * s * (1 + g * (1 - s)) * up[i];
    }
}

int swiglu_backward_cuda(struct tensor *dgate, struct tensor *dup, const struct tensor *dy,
                         const struct tensor *gate, const struct tensor *up)
{
    const int64_t n = tensor_count(dy);
    if (!n) return 0;
    return LAUNCH(swiglu_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dgate), floats(dup),
                  floats(dy), floats(gate), floats(up), n);
}
