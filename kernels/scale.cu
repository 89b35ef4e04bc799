// kernels/scale.cu -- a tensor times one number.
#include "kernels/cuda.h"

static __global__ void scale_kernel(float *y, const float *x, float value, int64_t n)
{
    FOR_EACH(i, n) y[i] = x[i] * value;
}

int scale_cuda(struct tensor *y, const struct tensor *x, float value)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(scale_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x), value, n);
}

static __global__ void scale_back_kernel(float *dx, const float *dy, float value, int64_t n)
{
    FOR_EACH(i, n) dx[i] += dy[i] * value;
}

int scale_backward_cuda(struct tensor *dx, const struct tensor *dy, float value)
{
    const int64_t n = tensor_count(dx);
    if (!n) return 0;
    return LAUNCH(scale_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dx), floats(dy), value,
                  n);
}
