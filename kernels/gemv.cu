// kernels/gemv.cu -- products of few rows of any width and alignment, including those that
// few_rows.cu rejects; reads weights in place, once for 8, 4, 2 or 1 rows of x (7 rows: 4 + 2 + 1).
//
// A warp computes one weight row at a time; its lanes read 16 consecutive bytes each, or eight
// elements of blocks, and multiply them by the same columns of these rows of x (which stay in the
// L1 cache). If x or the rows of w are not aligned to 16 bytes, a lane reads single elements. The
// order of the sums depends on K, the dtype and this alignment, not on the number of rows.
#include "kernels/matmul_cuda.h"
#include "kernels/reader_cuda.h"

static constexpr int WARPS = 8, THREADS = WARPS * WARP;

// One product.
struct few {
    float *y;
    const float *x, *bias;
    int64_t k, m;
    bool packs; // a reader fits the weights, and x allows 16-byte reads
};

template <typename T, int ROWS>
static __global__ void few_kernel(const T *weights, const struct few p)
{
    constexpr int COUNT = reader<T>::COUNT;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    for (int64_t m = (int64_t)blockIdx.x * WARPS + warp; m < p.m; m += step) {
        const T *w = weights + m * (p.k / reader<T>::NUMBERS);
        float sum[ROWS];
        for (int r = 0; r < ROWS; r++) sum[r] = 0;
        const int64_t whole = p.packs ? p.k : 0;
        for (int64_t i = (int64_t)lane * COUNT; i < whole; i += WARP * COUNT) {
            float some[COUNT];
            reader<T>::widen(some, reader<T>::load(w, i));
            for (int r = 0; r < ROWS; r++)
                for (int e = 0; e < COUNT; e += 4)
                    sum[r] = add_four(sum[r], some + e,
                                      *reinterpret_cast<const float4 *>(p.x + r * p.k + i + e));
        }
        if constexpr (reader<T>::NUMBERS == 1)
            for (int64_t i = whole + lane; i < p.k; i += WARP)
                for (int r = 0; r < ROWS; r++)
                    sum[r] = add_product(sum[r], value_of(w[i]), p.x[r * p.k + i]);
        for (int r = 0; r < ROWS; r++) {
            const float total = warp_sum(sum[r]);
            if (lane == 0) p.y[r * p.m + m] = total + (p.bias ? p.bias[m] : 0);
        }
    }
}

template <typename T, int ROWS> static int launch(const void *w, const struct few *p)
{
    const auto kernel = few_kernel<T, ROWS>;
    const struct few one = *p;
    const T *weights = static_cast<const T *>(w);
    return LAUNCH(kernel, blocks_for(p->m, WARPS), THREADS, 0, weights, one);
}

// Splits the rows of x into the largest parts for which a kernel exists.
template <typename T> static int all_rows(const void *w, struct few p, int64_t rows)
{
    int status = 0;
    while (rows > 0 && status == 0) {
        const int64_t part = rows >= 8 ? 8 : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
        status = part == 8   ? launch<T, 8>(w, &p)
                 : part == 4 ? launch<T, 4>(w, &p)
                 : part == 2 ? launch<T, 2>(w, &p)
                             : launch<T, 1>(w, &p);
        p.y += part * p.m;
        p.x += part * p.k;
        rows -= part;
    }
    return status;
}

int matmul_few(float *y, const float *x, const struct tensor *w, const float *bias, int64_t rows)
{
    const int64_t k = tensor_row(w);
    const struct few p = { .y = y,
                           .x = x,
                           .bias = bias,
                           .k = k,
                           .m = w->shape[0],
                           .packs =
                               dtype_in_blocks(w->dtype) ||
                               (weights_readable(w->data, k, w->dtype) && (uintptr_t)x % 16 == 0) };
    return FOR_WEIGHTS(w->dtype, all_rows, w->data, p, rows);
}
