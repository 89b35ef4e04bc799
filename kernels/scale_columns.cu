// kernels/scale_columns.cu -- every row times the same vector (the Hadamard FFN, layer scale).
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

// One thread per column sums over the rows in order.
static __global__ void scale_columns_sums(float *dw, const float *dy, const float *x, int64_t rows,
                                          int64_t width)
{
    FOR_EACH(c, width)
    {
        float sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += dy[r * width + c] * x[r * width + c];
        dw[c] += sum;
    }
}

int scale_columns_backward_cuda(struct tensor *dx, struct tensor *dw, const struct tensor *dy,
                                const struct tensor *x, const struct tensor *w)
{
    const int64_t n = tensor_count(dy), width = tensor_count(w);
    if (!n) return 0;
    if (dw && LAUNCH(scale_columns_sums, blocks_for(width, 64), 64, 0, floats(dw), floats(dy),
                     floats(x), n / width, width) < 0)
        return -1;
    return dx ? run(dx, dy, w, true) : 0;
}
