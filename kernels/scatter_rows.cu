// kernels/scatter_rows.cu -- writes rows at given indices; rounds f32 to bf16 if the target is
// bf16.
#include "kernels/cuda.h"

template <typename T>
static __global__ void scatter_kernel(T *y, const T *x, const int32_t *index, int64_t width,
                                      int64_t n)
{
    FOR_EACH(i, n) y[index[i / width] * width + i % width] = x[i];
}

template <typename T>
static int scatter(struct tensor *y, const struct tensor *x, const struct tensor *index, size_t row)
{
    const int64_t width = (int64_t)(row / sizeof(T)), n = tensor_count(index) * width;
    if (!n) return 0;
    return LAUNCH(scatter_kernel<T>, blocks_for(n, EACH), EACH, 0, static_cast<T *>(y->data),
                  static_cast<const T *>(x->data), integers(index), width, n);
}

static __global__ void round_kernel(uint16_t *y, const float *x, const int32_t *index,
                                    int64_t width, int64_t n)
{
    FOR_EACH(i, n) y[index[i / width] * width + i % width] = to_bf16(x[i]);
}

static int scatter_rounded(struct tensor *y, const struct tensor *x, const struct tensor *index)
{
    const int64_t width = tensor_row(x), n = tensor_count(index) * width;
    if (!n) return 0;
    return LAUNCH(round_kernel, blocks_for(n, EACH), EACH, 0, static_cast<uint16_t *>(y->data),
                  floats(x), integers(index), width, n);
}

int scatter_rows_cuda(struct tensor *y, const struct tensor *x, const struct tensor *index)
{
    if (y->dtype != x->dtype) return scatter_rounded(y, x, index);
    const size_t row = (size_t)tensor_row(x) * dtype_size(x->dtype);
    return row % sizeof(uint32_t) ? scatter<uint8_t>(y, x, index, row)
                                  : scatter<uint32_t>(y, x, index, row);
}

static __global__ void scatter_back_kernel(float *dx, float *dy, const int32_t *index,
                                           int64_t width, int64_t n)
{
    FOR_EACH(i, n)
    {
        float *d = dy + index[i / width] * width + i % width;
        if (dx) dx[i] += *d;
        *d = 0;
    }
}

int scatter_rows_backward_cuda(struct tensor *dx, struct tensor *dy, const struct tensor *index)
{
    const int64_t width = tensor_row(dy), n = tensor_count(index) * width;
    if (!n) return 0;
    return LAUNCH(scatter_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dx), floats(dy),
                  integers(index), width, n);
}
