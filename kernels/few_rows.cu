// kernels/few_rows.cu -- products of few rows, as in decoding: reads each weight once for up to
// four rows. Memory bandwidth is the limit, so enough reads must always be in flight.
//
//   in:  x[n,K], n at most FEW_ROWS, up to three weights [M_i,K]; x may be normed first (gain)
//   out: y_i[n,M_i] = x w_i^T + bias_i, which may also be added to y_i; or silu(y_0) * y_1; or
//        queries and new rows of the KV cache
//
// A warp computes a pair of weight rows at a time: two rows of one weight (the two of a rotary pair
// if heads are rotated), or, with silu, one row of each weight. The warp walks along K in chunks:
// its lanes read 16 consecutive bytes each, or eight elements of blocks. It loads AHEAD chunks of
// both rows before it multiplies the previous chunks, so 4 KB of bf16 per warp should be in flight:
// 64 KB per multiprocessor for one row of x, 32 KB for more. A block holds up to four rows of x in
// shared memory, times the gain, in the order in which lanes read them. The reciprocal of the root
// mean square is the same for the whole row, so it multiplies the sums at the end.
//
// A row has the same bits alone and beside other rows: the order of its sums depends only on K and
// the weight's dtype, and the code, not the compiler, chooses which operations are fused.
//
// The first weights are loaded before the previous kernel has ended (`early`), and the next weights
// are prefetched into the L2 cache: 16 MB over all warps, which take 4 us to read. This keeps
// memory busy while the previous kernel ends and x is read. The kernel reads results of the
// previous kernel only after cuda_wait_previous().
#include "kernels/few_rows_pairs_cuda.h"

static constexpr int64_t PREFETCHED = 4096; // bytes of a row to prefetch after the loaded bytes
static constexpr int64_t MOST_TOGETHER = 4; // maximum number of rows of x in shared memory

// Prefetches the part of a pair's rows after the first step. Prefetches must begin and end at
// multiples of 16 bytes.
template <typename T> static __device__ void prefetch(const T *const row[ROWS], int64_t k, int lane)
{
    constexpr int NUMBERS = reader<T>::NUMBERS;
    if (lane || k <= step_of<T>()) return;
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        if (!row[r]) continue;
        const uintptr_t from = ((uintptr_t)(row[r] + step_of<T>() / NUMBERS) + 15) / 16 * 16;
        const uintptr_t to = (uintptr_t)(row[r] + k / NUMBERS) / 16 * 16;
        const int64_t bytes = (int64_t)(to - from);
        if (bytes > 0)
            cuda_prefetch(reinterpret_cast<const void *>(from),
                          (unsigned)(bytes < PREFETCHED ? bytes : PREFETCHED));
    }
}

// Computes N rows of x together.
template <typename T, int N>
static __global__ void __launch_bounds__(THREADS, blocks_beside<N>())
    few_rows_kernel(const __grid_constant__ struct few_rows p, const struct shape s)
{
    constexpr int64_t STEP = step_of<T>();
    SHARED_MEMORY(float, x);
    const int lane = threadIdx.x % WARP;
    const int64_t first = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    const T *row[ROWS];
    typename reader<T>::raw next[AHEAD][ROWS], now[AHEAD][ROWS];
    float scale[N];

    cuda_let_next_start();
    find_rows(row, p, first, s.units);
    if (p.early) {
        load_chunks<T>(next, row, 0, p.k, lane);
        prefetch(row, p.k, lane);
    }
    cuda_wait_previous();
    UNROLL
    for (int n = 0; n < N; n++) {
        const float *from = n < s.count ? p.x + (s.from + n) * p.k : nullptr;
        scale[n] = stage<T>(x + n * s.width, from, p, s.width);
    }
    if (!p.early) load_chunks<T>(next, row, 0, p.k, lane);

    for (int64_t unit = first; unit < s.units; unit += step) {
        float sum[N][ROWS] = {};
        for (int64_t from = 0; from < s.width; from += STEP) {
            const bool last = from + STEP >= s.width;
            UNROLL
            for (int a = 0; a < AHEAD; a++) {
                UNROLL
                for (int r = 0; r < ROWS; r++) now[a][r] = next[a][r];
            }
            if (last) find_rows(row, p, unit + step, s.units);
            load_chunks<T>(next, row, last ? 0 : from + STEP, p.k, lane);
            multiply<T, N>(sum, now, x + from, s.width, lane);
        }
        UNROLL
        for (int n = 0; n < N; n++) {
            for (int r = 0; r < ROWS; r++) sum[n][r] = times(warp_sum(sum[n][r]), scale[n]);
            if (lane == 0 && n < s.count) finish(p, unit, s.from + n, sum[n]);
        }
    }
}

template <typename T, int N> static int start(const struct few_rows *p, const struct shape *shape)
{
    const auto kernel = few_rows_kernel<T, N>;
    const struct shape s = *shape;
    const size_t shared = (size_t)(N * s.width) * sizeof(float);
    if (shared > SHARED_MOST) return FUSED_NOT;
    if (N > 1 && 2 * (shared + SHARED_STATIC) > SHARED_MOST)
        return FUSED_NOT; // only one block would fit
    if (shared > SHARED_PLAIN && cuda_allow_shared("few_rows_kernel", kernel, shared) < 0)
        return FUSED_NOT; // a GPU with less shared memory
    const int64_t fit = (int64_t)(SHARED_MOST / (shared + SHARED_STATIC));
    const int64_t most = cuda_processors() * (fit < blocks_beside<N>() ? fit : blocks_beside<N>());
    const int64_t blocks = (s.units + WARPS - 1) / WARPS;
    return LAUNCH_EARLY(kernel, (size_t)(blocks < most ? blocks : most), THREADS, shared, *p, s);
}

// Computes as many rows together as shared memory holds.
template <typename T> static int launch(const struct few_rows *p)
{
    struct shape s = { count_units(p), whole_steps<T>(p->k), 0, 0 };
    for (int64_t together = MOST_TOGETHER; s.from < p->n;) {
        s.count = p->n - s.from < together ? p->n - s.from : together;
        const int status = s.count > 2   ? start<T, 4>(p, &s)
                           : s.count > 1 ? start<T, 2>(p, &s)
                                         : start<T, 1>(p, &s);
        if (status && (status != FUSED_NOT || s.count == 1)) return status;
        if (status)
            together = s.count > 2 ? 2 : 1;
        else
            s.from += s.count;
    }
    return 0;
}

// True if alignment and widths of all weights and rows suit the lanes' reads, and gate and up have
// the same dtype.
static bool readable(const struct few_rows *p)
{
    bool can = ((uintptr_t)p->x | (uintptr_t)p->gain) % 16 == 0 && p->k > 0;
    for (int i = 0; i < p->parts; i++)
        can = can && weights_readable(p->part[i].w, p->k, p->part[i].dtype);
    return can && (p->epilogue != FEW_ROWS_SWIGLU || p->part[0].dtype == p->part[1].dtype);
}

// Computes each run of consecutive parts of the same dtype by kernels of its own.
int few_rows_product(const struct few_rows *p)
{
    int status = readable(p) ? 0 : FUSED_NOT;
    for (int from = 0; from < p->parts && !status;) {
        struct few_rows some = *p;
        const enum dtype dtype = p->part[from].dtype;
        for (some.parts = 0; from < p->parts && p->part[from].dtype == dtype; from++)
            some.part[some.parts++] = p->part[from];
        status = cuda_ring() ? few_rows_ring(&some) : FUSED_NOT;
        if (status == FUSED_NOT) status = FOR_WEIGHTS(dtype, launch, &some);
    }
    return status;
}
