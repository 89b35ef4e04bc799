// kernels/softcap.cu -- cap * tanh(x / cap), which limits logits smoothly.
#include "kernels/cuda.h"

static __global__ void softcap_kernel(float *y, const float *x, float cap, int64_t n)
{
    FOR_EACH(i, n) y[i] = cap * tanhf(x[i] / cap);
}

int softcap_cuda(struct tensor *y, const struct tensor *x, float cap)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(softcap_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x), cap, n);
}

static __global__ void softcap_back_kernel(float *dx, const float *dy, const float *y, float cap,
                                           int64_t n)
{
    FOR_EACH(i, n)
    {
        const float t = y[i] / cap;
        dx[i] += dy[i] * (1 - t * t);
    }
}

int softcap_backward_cuda(struct tensor *dx, const struct tensor *dy, const struct tensor *y,
                          float cap)
{
    const int64_t n = tensor_count(dy);
    if (!n) return 0;
    return LAUNCH(softcap_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dx), floats(dy),
                  floats(y), cap, n);
}
