// kernels/add.cu -- the sum of two tensors.
#include "kernels/cuda.h"

static __global__ void add_kernel(float *y, const float *a, const float *b, int64_t n)
{
    FOR_EACH(i, n) y[i] = a[i] + b[i];
}

int add_cuda(struct tensor *y, const struct tensor *a, const struct tensor *b)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(add_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(a), floats(b), n);
}
