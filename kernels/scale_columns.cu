// kernels/scale_columns.cu -- every row times the same vector (the Hadamard FFN).
#include "kernels/cuda.h"

static __global__ void scale_columns_kernel(float *y, const float *x, const float *w, int64_t n,
                                            int64_t width, bool add)
{
    FOR_EACH(i, n)
    {
        const float scaled = x[i] * w[i % width];
        y[i] = add ? y[i] + scaled : scaled;
    }
}

static int run(struct tensor *y, const struct tensor *x, const struct tensor *w, bool add)
{
    const int64_t n = tensor_count(y), width = tensor_count(w);
    if (!n) return 0;
    return LAUNCH(scale_columns_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x),
                  floats(w), n, width, add);
}

int scale_columns_cuda(struct tensor *y, const struct tensor *x, const struct tensor *w)
{
    return run(y, x, w, false);
}

int scale_columns_backward_cuda(struct tensor *dx, const struct tensor *dy, const struct tensor *w)
{
    return run(dx, dy, w, true);
}
