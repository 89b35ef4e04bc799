// kernels/gelu.cu -- GELU (Hendrycks and Gimpel 2016) in the three forms that models use, and GEGLU
// (Shazeer 2020), the inner activation of Gemma's FFN.
#include "kernels/cuda.h"

// Normal cumulative distribution; erfc keeps the relative accuracy of the lower tail.
static __device__ float normal_below(float x)
{
    return 0.5f * erfcf(x * -0.7071067812f);
}

static __device__ float gelu_of(float x, enum gelu_form form)
{
    if (form == GELU_QUICK) return x * sigmoid(1.702f * x);
    if (form == GELU_ERF) return x * normal_below(x);
    // 0.5 (1 + tanh u) = sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
    return x * sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));
}

static __device__ float gelu_slope(float x, enum gelu_form form)
{
    if (form == GELU_ERF) // normal cumulative distribution and density
        return normal_below(x) + x * expf(x * x * -0.5f) * 0.3989422804f;
    if (form == GELU_QUICK) {
        const float s = sigmoid(1.702f * x);
        return s + 1.702f * x * s * (1 - s);
    }
    const float a = 1.5957691216f, b = 0.044715f, s = sigmoid(a * (x + b * x * x * x));
    return s + x * s * (1 - s) * a * (1 + 3 * b * x * x);
}

static __global__ void gelu_kernel(float *y, const float *x, enum gelu_form form, int64_t n)
{
    FOR_EACH(i, n) y[i] = gelu_of(x[i], form);
}

int gelu_cuda(struct tensor *y, const struct tensor *x, enum gelu_form form)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(gelu_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x), form, n);
}

static __global__ void gelu_back_kernel(float *dx, const float *dy, const float *x,
                                        enum gelu_form form, int64_t n)
{
    FOR_EACH(i, n) dx[i] += dy[i] * gelu_slope(x[i], form);
}

int gelu_backward_cuda(struct tensor *dx, const struct tensor *dy, const struct tensor *x,
                       enum gelu_form form)
{
    const int64_t n = tensor_count(dy);
    if (!n) return 0;
    return LAUNCH(gelu_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dx), floats(dy), floats(x),
                  form, n);
}

static __global__ void geglu_kernel(float *y, const float *gate, const float *up, int64_t n)
{
    FOR_EACH(i, n) y[i] = gelu_of(gate[i], GELU_TANH) * up[i];
}

int geglu_cuda(struct tensor *y, const struct tensor *gate, const struct tensor *up)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(geglu_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(gate), floats(up),
                  n);
}

static __global__ void geglu_back_kernel(float *dgate, float *dup, const float *dy,
                                         const float *gate, const float *up, int64_t n)
{
    FOR_EACH(i, n)
    {
        const float g = gate[i], d = dy[i];
        if (dup) dup[i] += d * gelu_of(g, GELU_TANH);
        if (dgate) dgate[i] += d * gelu_slope(g, GELU_TANH) * up[i];
    }
}

int geglu_backward_cuda(struct tensor *dgate, struct tensor *dup, const struct tensor *dy,
                        const struct tensor *gate, const struct tensor *up)
{
    const int64_t n = tensor_count(dy);
    if (!n) return 0;
    return LAUNCH(geglu_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dgate), floats(dup),
                  floats(dy), floats(gate), floats(up), n);
}
