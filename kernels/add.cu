// kernels/add.cu -- the sum of two tensors.
#include "kernels/cuda.h"

template <int COUNT>
static __global__ void add_kernel(float *y, const float *a, const float *b, int64_t n)
{
    FOR_EACH(i, n / COUNT)
    {
        struct several<COUNT> x = several_at<COUNT>(a + i * COUNT);
        const struct several<COUNT> more = several_at<COUNT>(b + i * COUNT);
        for (int e = 0; e < COUNT; e++) x.x[e] += more.x[e];
        put_several(y + i * COUNT, x);
    }
}

int add_cuda(struct tensor *y, const struct tensor *a, const struct tensor *b)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    if (in_fours(n, floats(y), floats(a), floats(b)))
        return LAUNCH(add_kernel<4>, blocks_for(n / 4, EACH), EACH, 0, floats(y), floats(a),
                      floats(b), n);
    return LAUNCH(add_kernel<1>, blocks_for(n, EACH), EACH, 0, floats(y), floats(a), floats(b), n);
}
