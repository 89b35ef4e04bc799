// kernels/clip.cu -- limits each element to a range.
#include "kernels/cuda.h"

static __global__ void clip_kernel(float *y, const float *x, float low, float high, int64_t n)
{
    FOR_EACH(i, n) y[i] = x[i] < low ? low : x[i] > high ? high : x[i];
}

int clip_cuda(struct tensor *y, const struct tensor *x, float low, float high)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(clip_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x), low, high, n);
}

static __global__ void clip_back_kernel(float *dx, const float *dy, const float *x, float low,
                                        float high, int64_t n)
{
    FOR_EACH(i, n)
    if (!(x[i] < low) && !(x[i] > high)) dx[i] += dy[i];
}

int clip_backward_cuda(struct tensor *dx, const struct tensor *dy, const struct tensor *x,
                       float low, float high)
{
    const int64_t n = tensor_count(dy);
    if (!n) return 0;
    return LAUNCH(clip_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dx), floats(dy), floats(x),
                  low, high, n);
}
