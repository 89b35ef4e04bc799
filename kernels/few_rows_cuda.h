// kernels/few_rows_cuda.h -- how warps read weights for products of few rows (few_rows.cu describes
// the design).
#ifndef KERNELS_FEW_ROWS_CUDA_H
#define KERNELS_FEW_ROWS_CUDA_H

#include "kernels/matmul_cuda.h"
#include "kernels/reader_cuda.h"

static constexpr int WARPS = 4, THREADS = WARPS * WARP, BLOCKS = 4; // BLOCKS: per multiprocessor
static constexpr int ROWS = 2, AHEAD = 4;
static constexpr size_t SHARED_MOST = 220 << 10, SHARED_STATIC = 1 << 10;

// Blocks per multiprocessor if N rows of x are multiplied together.
template <int N> static __host__ __device__ constexpr int blocks_beside(void)
{
    return N > 1 ? 2 : BLOCKS;
}

// Elements of a row that a warp loads at once, called a step; x in shared memory is padded to whole
// steps.
template <typename T> static __host__ __device__ constexpr int64_t step_of(void)
{
    return (int64_t)AHEAD * WARP * reader<T>::COUNT;
}

// Elements of shared memory that k elements of x take.
template <typename T> static __host__ __device__ inline int64_t whole_steps(int64_t k)
{
    return (k + step_of<T>() - 1) / step_of<T>() * step_of<T>();
}

// Row `row` of weights whose rows have k elements.
template <typename T>
static __device__ inline const T *row_of(const void *weights, int64_t row, int64_t k)
{
    return static_cast<const T *>(weights) + row * (k / reader<T>::NUMBERS);
}

template <typename T>
static __device__ void load_chunks(typename reader<T>::raw to[AHEAD][ROWS],
                                   const T *const row[ROWS], int64_t from, int64_t k, int lane)
{
    constexpr int COUNT = reader<T>::COUNT;
    UNROLL
    for (int a = 0; a < AHEAD; a++) {
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            const int64_t i = from + (a * WARP + lane) * COUNT;
            to[a][r] = {};
            if (row[r] && i < k) to[a][r] = reader<T>::load(row[r], i);
        }
    }
}

// Position in shared memory of element e of x; e is a multiple of 4.
template <typename T> static __device__ inline int64_t staged_at(int64_t e)
{
    constexpr int COUNT = reader<T>::COUNT, CHUNK = WARP * COUNT;
    const int in = (int)(e % CHUNK);
    return (e - in) + in % COUNT / 4 * (4 * WARP) + in / COUNT * 4;
}

// Copies a row x (NULL: zeros), times the gain if there is one, to shared memory: for each chunk,
// the first four elements of every lane, then their next four. THREADS threads do this, of which
// this is number `thread`; returns its part of the sum of squares.
template <typename T, typename Product>
static __device__ float stage_part(float *to, const float *x, const Product &p, int64_t width,
                                   int thread)
{
    float squares = 0;
    for (int64_t e = thread * 4; e < width; e += THREADS * 4) {
        float4 v = { 0, 0, 0, 0 };
        if (x && e < p.k) v = *reinterpret_cast<const float4 *>(x + e);
        const float four[4] = { v.x, v.y, v.z, v.w };
        squares = add_four(squares, four, v);
        if (p.gain && e < p.k) {
            const float4 g = *reinterpret_cast<const float4 *>(p.gain + e);
            v = { v.x * g.x, v.y * g.y, v.z * g.z, v.w * g.w };
        }
        *reinterpret_cast<float4 *>(to + staged_at<T>(e)) = v;
    }
    return squares;
}

// The factor by which the sums of a row must be multiplied.
template <typename Product>
static __device__ inline float row_scale(const Product &p, float squares)
{
    return p.gain ? 1 / sqrtf(squares / (float)p.k + p.eps) : 1;
}

// Copies a row x by all threads of the block, and returns its row_scale to all of them.
template <typename T, typename Product>
static __device__ float stage(float *to, const float *x, const Product &p, int64_t width)
{
    const float sum = block_sum(stage_part<T>(to, x, p, width, (int)threadIdx.x));
    __syncthreads();
    return row_scale(p, sum);
}

// sum[n][r] += the AHEAD chunks times row n of x, whose elements for these chunks begin at x + n *
// width.
template <typename T, int N>
static __device__ void multiply(float sum[N][ROWS], const typename reader<T>::raw w[AHEAD][ROWS],
                                const float *x, int64_t width, int lane)
{
    constexpr int COUNT = reader<T>::COUNT, CHUNK = WARP * COUNT;
    UNROLL
    for (int a = 0; a < AHEAD; a++) {
        float some[ROWS][COUNT];
        UNROLL
        for (int r = 0; r < ROWS; r++) reader<T>::widen(some[r], w[a][r]);
        UNROLL
        for (int n = 0; n < N; n++) {
            UNROLL
            for (int i = 0; i < COUNT; i += 4) {
                const float4 v = *reinterpret_cast<const float4 *>(x + n * width + a * CHUNK +
                                                                   i * WARP + lane * 4);
                UNROLL
                for (int r = 0; r < ROWS; r++) sum[n][r] = add_four(sum[n][r], some[r] + i, v);
            }
        }
    }
}

// Copies k elements of x, times `factor`, to shared memory, without a norm.
template <typename T>
static __device__ inline void stage_some(float *to, const float *x, int64_t k, float factor)
{
    for (int64_t e = threadIdx.x * 4; e < whole_steps<T>(k); e += THREADS * 4) {
        float4 v = { 0, 0, 0, 0 };
        if (e < k) v = *reinterpret_cast<const float4 *>(x + e);
        *reinterpret_cast<float4 *>(to + staged_at<T>(e)) = { v.x * factor, v.y * factor,
                                                              v.z * factor, v.w * factor };
    }
}

// One of a warp's products: the length of its rows, and the offset of its x in shared memory.
struct leg {
    int64_t k, x;
};

// Multiplies `count` pairs of rows one after the other: rows(row, i) finds the rows of pair i (NULL
// past the last one), done(i, sum) receives a lane's part of the sums.
template <typename T, typename Rows, typename Done>
static __device__ inline void walk(int64_t count, const float *x, int lane, Rows rows, Done done)
{
    const T *row[ROWS];
    typename reader<T>::raw next[AHEAD][ROWS], now[AHEAD][ROWS];
    struct leg mine = rows(row, 0);
    load_chunks<T>(next, row, 0, mine.k, lane);
    for (int64_t i = 0; i < count; i++) {
        float sum[1][ROWS] = {};
        struct leg after = mine;
        for (int64_t from = 0; from < mine.k; from += step_of<T>()) {
            const bool last = from + step_of<T>() >= mine.k;
            UNROLL
            for (int a = 0; a < AHEAD; a++) {
                UNROLL
                for (int r = 0; r < ROWS; r++) now[a][r] = next[a][r];
            }
            if (last) after = rows(row, i + 1);
            load_chunks<T>(next, row, last ? 0 : from + step_of<T>(), after.k, lane);
            multiply<T, 1>(sum, now, x + mine.x + from, 0, lane);
        }
        done(i, sum[0]);
        mine = after;
    }
}

// Launches a kernel whose warps compute `units` pairs of rows of the weights, with `numbers` floats
// of shared memory; FUSED_NOT if the GPU has less shared memory.
template <typename Kernel, typename Call>
static int launch_units(Kernel kernel, const char *name, const Call &call, int64_t units,
                        int64_t numbers)
{
    const size_t shared = (size_t)numbers * sizeof(float);
    if (shared > SHARED_MOST) return FUSED_NOT;
    if (shared > SHARED_PLAIN && cuda_allow_shared(name, kernel, shared) < 0) return FUSED_NOT;
    const int64_t fit = (int64_t)(SHARED_MOST / (shared + SHARED_STATIC));
    const int64_t most = cuda_processors() * (fit < BLOCKS ? fit : BLOCKS);
    const int64_t blocks = (units + WARPS - 1) / WARPS;
    return LAUNCH_EARLY(kernel, (size_t)(blocks < most ? blocks : most), THREADS, shared, call);
}

#endif
