// kernels/blocks.cu -- weights in blocks: widened for products of many rows, and multiplied with
// few rows as they are stored, where the memory bus is the limit.
//
// A lane unpacks eight numbers at a time, side by side with the other lanes, so that a warp reads
// the bytes of 256 numbers together. The order of the sums depends on K alone.
#include "kernels/blocks_cuda.h"
#include "kernels/matmul_cuda.h"
#include "kernels/pack_cuda.h"

static constexpr int WARPS = 8, THREADS = WARPS * WARP, EIGHT = 8;

// --- widening ------------------------------------------------------------------------------------

static __device__ inline void put_four(void *y, int64_t i, float4 v, enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        *reinterpret_cast<float4 *>(static_cast<float *>(y) + i) = v;
    else
        *reinterpret_cast<struct four_shorts *>(static_cast<uint16_t *>(y) + i) = narrow4<false>(v);
}

template <typename B>
static __global__ void widen_blocks_kernel(void *y, const B *x, int64_t eights, enum dtype to)
{
    FOR_EACH(i, eights)
    {
        float v[EIGHT];
        unpack_eight(v, x, i * EIGHT);
        put_four(y, i * EIGHT, { v[0], v[1], v[2], v[3] }, to);
        put_four(y, i * EIGHT + 4, { v[4], v[5], v[6], v[7] }, to);
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

// --- rows by number ------------------------------------------------------------------------------

template <typename B>
static __global__ void block_rows_kernel(float *y, const B *table, const int32_t *ids,
                                         int64_t width, int64_t eights)
{
    FOR_EACH(i, eights)
    {
        const int64_t row = i * EIGHT / width, column = i * EIGHT % width;
        float v[EIGHT];
        unpack_eight(v, table + ids[row] * (width / block_numbers<B>), column);
        put_four(y, i * EIGHT, { v[0], v[1], v[2], v[3] }, DTYPE_F32);
        put_four(y, i * EIGHT + 4, { v[4], v[5], v[6], v[7] }, DTYPE_F32);
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

// --- products of few rows ------------------------------------------------------------------------

struct few {
    float *y;
    const float *x, *bias;
    int64_t k, m;
};

// A warp has one weight row at a time; K is whole blocks, so x can be read four numbers at a time.
template <typename B, int ROWS>
static __global__ void few_blocks_kernel(const B *weights, const struct few p)
{
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    for (int64_t m = (int64_t)blockIdx.x * WARPS + warp; m < p.m; m += step) {
        const B *w = weights + m * (p.k / block_numbers<B>);
        float sum[ROWS];
        for (int r = 0; r < ROWS; r++) sum[r] = 0;
        for (int64_t i = (int64_t)lane * EIGHT; i < p.k; i += WARP * EIGHT) {
            float some[EIGHT];
            unpack_eight(some, w, i);
            for (int r = 0; r < ROWS; r++)
                for (int e = 0; e < EIGHT; e += 4) {
                    const float4 x = *reinterpret_cast<const float4 *>(p.x + r * p.k + i + e);
                    sum[r] +=
                        some[e] * x.x + some[e + 1] * x.y + some[e + 2] * x.z + some[e + 3] * x.w;
                }
        }
        for (int r = 0; r < ROWS; r++) {
            const float total = warp_sum(sum[r]);
            if (lane == 0) p.y[r * p.m + m] = total + (p.bias ? p.bias[m] : 0);
        }
    }
}

template <typename B, int ROWS> static int launch(const void *w, const struct few *p)
{
    const auto kernel = few_blocks_kernel<B, ROWS>;
    const struct few one = *p;
    return LAUNCH(kernel, blocks_for(p->m, WARPS), THREADS, 0, static_cast<const B *>(w), one);
}

// The rows of x in the largest parts that a kernel is made for.
template <typename B> static int all_rows(const void *w, struct few p, int64_t rows)
{
    int status = 0;
    while (rows > 0 && status == 0) {
        const int64_t part = rows >= 8 ? 8 : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
        status = part == 8   ? launch<B, 8>(w, &p)
                 : part == 4 ? launch<B, 4>(w, &p)
                 : part == 2 ? launch<B, 2>(w, &p)
                             : launch<B, 1>(w, &p);
        p.y += part * p.m;
        p.x += part * p.k;
        rows -= part;
    }
    return status;
}

int blocks_few(float *y, const float *x, const struct tensor *w, const float *bias, int64_t rows)
{
    const struct few p = { .y = y, .x = x, .bias = bias, .k = tensor_row(w), .m = w->shape[0] };
    return FOR_BLOCKS(w->dtype, all_rows, w->data, p, rows);
}
