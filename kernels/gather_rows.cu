// kernels/gather_rows.cu -- rows picked by index.
#include "kernels/cuda.h"

// Copies words of 4 bytes if rows consist of whole words, else bytes.
template <typename T>
static __global__ void gather_kernel(T *y, const T *x, const int32_t *index, int64_t width,
                                     int64_t n)
{
    FOR_EACH(i, n) y[i] = x[index[i / width] * width + i % width];
}

template <typename T>
static int gather(void *y, const void *x, const struct tensor *index, size_t row)
{
    const int64_t width = (int64_t)(row / sizeof(T)), n = tensor_count(index) * width;
    return LAUNCH(gather_kernel<T>, blocks_for(n, EACH), EACH, 0, static_cast<T *>(y),
                  static_cast<const T *>(x), integers(index), width, n);
}

int gather_rows_cuda(struct tensor *y, const struct tensor *x, const struct tensor *index)
{
    const size_t row = dtype_bytes(x->dtype, tensor_row(x));
    const size_t bytes = row * (size_t)tensor_count(index);
    if (!bytes) return 0;
    // In place, a block could overwrite a row before another block reads it, so this copies through
    // scratch.
    const bool in_place = y->data == x->data;
    void *to = in_place ? cuda_scratch(bytes) : y->data;
    if (!to) return -1;
    const int status = row % sizeof(uint32_t) ? gather<uint8_t>(to, x->data, index, row)
                                              : gather<uint32_t>(to, x->data, index, row);
    if (status < 0 || !in_place) return status;
    cudaMemcpyAsync(y->data, to, bytes, cudaMemcpyDeviceToDevice, cuda_stream());
    return cuda_started("gather_rows in place");
}

// One thread per column adds all rows in order, so equal indices are safe.
static __global__ void gather_back_kernel(float *dx, const float *dy, const int32_t *index,
                                          int64_t width, int64_t rows)
{
    FOR_EACH(c, width)
    for (int64_t i = 0; i < rows; i++) dx[index[i] * width + c] += dy[i * width + c];
}

int gather_rows_backward_cuda(struct tensor *dx, const struct tensor *dy,
                              const struct tensor *index)
{
    const int64_t rows = tensor_count(index), width = tensor_row(dx);
    if (!rows || !width) return 0;
    return LAUNCH(gather_back_kernel, blocks_for(width, 64), 64, 0, floats(dx), floats(dy),
                  integers(index), width, rows);
}
