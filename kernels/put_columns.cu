// kernels/put_columns.cu -- copies columns of one matrix into another (kernels/put_columns.c).
#include "kernels/cuda.h"

// The sizes of a call.
struct columns_copy {
    int64_t width, to; // number of columns of y, and the first one to write
    int64_t own;       // columns of x
    int64_t share;     // number of rows of y that read the same row of x
    struct columns from;
};

static __global__ void put_kernel(float *y, const float *x, const struct columns_copy p, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t row = i / p.from.count, j = i % p.from.count;
        y[row * p.width + p.to + j] = x[row / p.share * p.own + p.from.first + j * p.from.step];
    }
}

int put_columns_cuda(struct tensor *y, int64_t to, const struct tensor *x, struct columns from)
{
    const int64_t rows = y->shape[0], n = rows * from.count;
    if (!n) return 0;
    const struct columns_copy p = { y->shape[1], to, x->shape[1], rows / x->shape[0], from };
    return LAUNCH(put_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x), p, n);
}

// One thread per element of dx sums over the rows of dy that come from the element's row.
static __global__ void put_back_kernel(float *dx, const float *dy, const struct columns_copy p,
                                       int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t row = i / p.from.count, j = i % p.from.count;
        float sum = dx[row * p.own + p.from.first + j * p.from.step];
        for (int64_t s = 0; s < p.share; s++) sum += dy[(row * p.share + s) * p.width + p.to + j];
        dx[row * p.own + p.from.first + j * p.from.step] = sum;
    }
}

int put_columns_backward_cuda(struct tensor *dx, struct columns from, const struct tensor *dy,
                              int64_t to)
{
    const int64_t rows = dx->shape[0], n = rows * from.count;
    if (!n) return 0;
    const struct columns_copy p = { dy->shape[1], to, dx->shape[1], dy->shape[0] / rows, from };
    return LAUNCH(put_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dx), floats(dy), p, n);
}
