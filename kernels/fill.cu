// kernels/fill.cu -- sets all elements to one value.
#include "kernels/cuda.h"

template <int COUNT> static __global__ void fill_kernel(float *y, int64_t n, float value)
{
    struct several<COUNT> all;
    for (int e = 0; e < COUNT; e++) all.x[e] = value;
    FOR_EACH(i, n / COUNT) put_several(y + i * COUNT, all);
}

int fill_cuda(struct tensor *y, float value)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    if (in_fours(n, floats(y)))
        return LAUNCH(fill_kernel<4>, blocks_for(n / 4, EACH), EACH, 0, floats(y), n, value);
    return LAUNCH(fill_kernel<1>, blocks_for(n, EACH), EACH, 0, floats(y), n, value);
}
