// kernels/swiglu.cu -- silu(gate) * up (Shazeer 2020), the inner activation of Llama's FFN.
#include "kernels/cuda.h"

template <int COUNT>
static __global__ void swiglu_kernel(float *y, const float *gate, const float *up, int64_t n)
{
    FOR_EACH(i, n / COUNT)
    {
        const struct several<COUNT> u = several_at<COUNT>(up + i * COUNT);
        struct several<COUNT> g = several_at<COUNT>(gate + i * COUNT);
        for (int e = 0; e < COUNT; e++) g.x[e] = g.x[e] * sigmoid(g.x[e]) * u.x[e];
        put_several(y + i * COUNT, g);
    }
}

int swiglu_cuda(struct tensor *y, const struct tensor *gate, const struct tensor *up)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    if (in_fours(n, floats(y), floats(gate), floats(up)))
        return LAUNCH(swiglu_kernel<4>, blocks_for(n / 4, EACH), EACH, 0, floats(y), floats(gate),
                      floats(up), n);
    return LAUNCH(swiglu_kernel<1>, blocks_for(n, EACH), EACH, 0, floats(y), floats(gate),
                  floats(up), n);
}

// silu'(g) = s (1 + g (1 - s)), s = sigmoid(g).
template <int COUNT>
static __global__ void swiglu_back_kernel(float *dgate, float *dup, const float *dy,
                                          const float *gate, const float *up, int64_t n)
{
    FOR_EACH(i, n / COUNT)
    {
        const int64_t at = i * COUNT;
        const struct several<COUNT> g = several_at<COUNT>(gate + at),
                                    d = several_at<COUNT>(dy + at);
        const struct several<COUNT> u = several_at<COUNT>(up + at);
        struct several<COUNT> a, b;
        if (dup) b = several_at<COUNT>(dup + at);
        if (dgate) a = several_at<COUNT>(dgate + at);
        for (int e = 0; e < COUNT; e++) {
            const float x = g.x[e], s = sigmoid(x);
            if (dup) b.x[e] += d.x[e] * x * s;
            if (dgate) a.x[e] += d.x[e] * s * (1 + x * (1 - s)) * u.x[e];
        }
        if (dup) put_several(dup + at, b);
        if (dgate) put_several(dgate + at, a);
    }
}

int swiglu_backward_cuda(struct tensor *dgate, struct tensor *dup, const struct tensor *dy,
                         const struct tensor *gate, const struct tensor *up)
{
    const int64_t n = tensor_count(dy);
    if (!n) return 0;
    if (in_fours(n, floats(dgate), floats(dup), floats(dy), floats(gate), floats(up)))
        return LAUNCH(swiglu_back_kernel<4>, blocks_for(n / 4, EACH), EACH, 0, floats(dgate),
                      floats(dup), floats(dy), floats(gate), floats(up), n);
    return LAUNCH(swiglu_back_kernel<1>, blocks_for(n, EACH), EACH, 0, floats(dgate), floats(dup),
                  floats(dy), floats(gate), floats(up), n);
}
