// kernels/blocks.cu -- weights in blocks: widens them for products of many rows, and reads rows of
// a table by index. A thread unpacks eight elements.
#include "kernels/matmul_cuda.h"
#include "kernels/reader_cuda.h"

static constexpr int EIGHT = 8;

// --- widening ------------------------------------------------------------------------------------

static __device__ inline void put_four(void *y, int64_t i, float4 v, enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        *reinterpret_cast<float4 *>(static_cast<float *>(y) + i) = v;
    else
        *reinterpret_cast<struct four_shorts *>(static_cast<uint16_t *>(y) + i) = narrow4<false>(v);
}

static __device__ inline void put_eight(void *y, int64_t i, const struct eight &e, enum dtype dtype)
{
    float v[EIGHT];
    widen_eight(v, e);
    put_four(y, i, { v[0], v[1], v[2], v[3] }, dtype);
    put_four(y, i + 4, { v[4], v[5], v[6], v[7] }, dtype);
}

template <typename B>
static __global__ void widen_blocks_kernel(void *y, const B *x, int64_t eights, enum dtype to)
{
    FOR_EACH(i, eights)
    {
        put_eight(y, i * EIGHT, reader<B>::load(x, i * EIGHT), to);
    }
}

template <typename B> static int widen(void *y, enum dtype to, const void *x, int64_t n)
{
    const auto kernel = widen_blocks_kernel<B>;
    return LAUNCH(kernel, blocks_for(n / EIGHT, EACH), EACH, 0, y, static_cast<const B *>(x),
                  n / EIGHT, to);
}

int blocks_widen(void *y, enum dtype to, const void *x, int64_t n, enum dtype from)
{
    return n ? FOR_BLOCKS(from, widen, y, to, x, n) : 0;
}

// --- rows by index -------------------------------------------------------------------------------

template <typename B>
static __global__ void block_rows_kernel(float *y, const B *table, const int32_t *ids,
                                         int64_t width, int64_t eights)
{
    FOR_EACH(i, eights)
    {
        const int64_t row = i * EIGHT / width, column = i * EIGHT % width;
        const B *from = table + ids[row] * (width / block_numbers<B>);
        put_eight(y, i * EIGHT, reader<B>::load(from, column), DTYPE_F32);
    }
}

template <typename B>
static int rows(float *y, const void *table, const int32_t *ids, int64_t width, int64_t n)
{
    const auto kernel = block_rows_kernel<B>;
    return LAUNCH(kernel, blocks_for(n / EIGHT, EACH), EACH, 0, y, static_cast<const B *>(table),
                  ids, width, n / EIGHT);
}

int blocks_rows(float *y, const struct tensor *table, const struct tensor *ids)
{
    const int64_t width = tensor_row(table), n = tensor_count(ids) * width;
    return n ? FOR_BLOCKS(table->dtype, rows, y, table->data, integers(ids), width, n) : 0;
}
