// kernels/few_rows.cu -- products of few rows, as in decoding: reads each weight once. Memory
// bandwidth is the limit, so enough reads must always be in flight.
//
//   in:  x[n,K], n at most FEW_ROWS, up to three weights [M_i,K]; x may be normed first (gain)
//   out: y_i[n,M_i] = x w_i^T + bias_i, which may also be added to y_i; or silu(y_0) * y_1; or
//        queries and new rows of the KV cache
//
// A warp computes a pair of weight rows at a time: two rows of one weight (the two of a rotary pair
// if heads are rotated), or, with silu, one row of each weight. The warp walks along K in chunks:
// its lanes read 16 consecutive bytes each, or eight elements of blocks. It loads AHEAD chunks of
// both rows before it multiplies the previous chunks, so 4 KB of bf16 per warp, or 64 KB per
// multiprocessor, are in flight. A block holds up to four rows of x in shared memory, times the
// gain, in the order in which lanes read them. The root mean square is a factor of the whole row,
// so it multiplies the sums at the end.
//
// A row has the same bits alone and beside other rows: the order of its sums depends only on K and
// the weight's dtype, and the code prevents the compiler from fusing operations.
//
// The first weights are loaded before the previous kernel has ended (`early`), and the next weights
// are prefetched into the L2 cache: 16 MB over all warps, which take 4 us to read. This keeps
// memory busy while the previous kernel ends and x is read. The kernel reads results of the
// previous kernel only after cuda_wait_previous().
#include "kernels/few_rows_cuda.h"

static constexpr int64_t PREFETCHED = 4096; // bytes of a row to prefetch after the loaded bytes
static constexpr int64_t MOST_TOGETHER = 4; // rows of x in shared memory

struct shape {
    int64_t units; // pairs of rows
    int64_t width; // of x in shared memory: K elements, padded with zeros to whole steps of AHEAD
                   // chunks
    int64_t from, count; // rows of x
};

// A row of a pair: its index in the part's product (`row`; < 0: absent) and in the part's weight
// (`from`).
struct unit_row {
    const struct few_rows_part *part;
    int64_t row, from;
};

static __device__ int64_t weight_row(const struct few_rows_part &p, int64_t row)
{
    const int r = (int)row;
    return p.run ? p.first + (int64_t)(r / p.run) * p.step + r % p.run : row;
}

static __device__ struct unit_row unit_row_of(const struct few_rows &p, int64_t unit, int r)
{
    if (p.epilogue == FEW_ROWS_SWIGLU) return { &p.part[r], unit, weight_row(p.part[r], unit) };
    const struct few_rows_part *part = p.part;
    while (unit >= (part->rows + 1) / ROWS) unit -= (part++->rows + 1) / ROWS;
    const int64_t row = unit * ROWS + r;
    if (p.epilogue == FEW_ROWS_HEADS) {
        const int half = p.heads.half, pair = (int)unit, i = pair % half;
        const int head = pair / half * 2 * half;
        const int adjacent = part->what == FEW_ROWS_VALUES ? 0 : p.heads.adjacent;
        return { part, head + i + r * half,
                 weight_row(*part, head + pair_number(i, r, half, adjacent)) };
    }
    if (row >= part->rows) return { part, -1, -1 };
    return { part, row, weight_row(*part, row) };
}

// Finds the addresses of a pair's rows; NULL: absent.
template <typename T>
static __device__ void find_rows(const T *row[ROWS], const struct few_rows &p, int64_t unit,
                                 int64_t units)
{
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        row[r] = nullptr;
        if (unit >= units) continue;
        const struct unit_row at = unit_row_of(p, unit, r);
        if (at.row >= 0) row[r] = row_of<T>(at.part->w, at.from, p.k);
    }
}

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

// Stores a pair of a head's elements for row n of x: queries in y, keys and values in the cache.
static __device__ void put_pair(const struct few_rows_heads &p, const struct few_rows_part *part,
                                int64_t row, int64_t n, const float value[ROWS])
{
    const bool queries = part->what == FEW_ROWS_QUERIES, rotates = part->what != FEW_ROWS_VALUES;
    const int64_t angle = n * p.half + row % p.half;
    const float c = rotates ? p.cos[angle] : 1, s = rotates ? p.sin[angle] : 0;
    const float a = add_product(times(value[0], c), -value[1], s);
    const float b = add_product(times(value[1], c), value[0], s);
    const int64_t to = (queries ? n : p.cache_row[n]) * part->rows + row;
    put_number(part->y, to, a, queries ? DTYPE_F32 : p.dtype);
    put_number(part->y, to + p.half, b, queries ? DTYPE_F32 : p.dtype);
}

// Stores the pair's products for row n of x; called by lane 0, which holds them.
static __device__ void finish(const struct few_rows &p, int64_t unit, int64_t n,
                              const float sum[ROWS])
{
    float value[ROWS];
    struct unit_row at[ROWS];
    for (int r = 0; r < ROWS; r++) {
        at[r] = unit_row_of(p, unit, r);
        const float *bias = at[r].part->bias;
        value[r] = sum[r] + (bias && at[r].row >= 0 ? bias[at[r].from] : 0);
    }
    if (p.epilogue == FEW_ROWS_SWIGLU) {
        const float gate = value[0] / (1 + expf(-value[0]));
        static_cast<float *>(p.part[0].y)[n * p.part[0].rows + unit] = times(gate, value[1]);
        return;
    }
    if (p.epilogue == FEW_ROWS_HEADS) {
        put_pair(p.heads, at[0].part, at[0].row, n, value);
        return;
    }
    for (int r = 0; r < ROWS; r++) {
        if (at[r].row < 0) continue;
        float *y = static_cast<float *>(at[r].part->y) + n * at[r].part->rows + at[r].row;
        *y = p.epilogue == FEW_ROWS_ADD ? *y + value[r] : value[r];
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
    struct shape s = { 0, whole_steps<T>(p->k), 0, 0 };
    for (int i = 0; i < p->parts; i++) s.units += (p->part[i].rows + 1) / ROWS;
    if (p->epilogue == FEW_ROWS_SWIGLU) s.units = p->part[0].rows;
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

// True if alignment and widths of all weights and rows suit the lanes' reads.
static bool packs(const struct few_rows *p)
{
    bool can = ((uintptr_t)p->x | (uintptr_t)p->gain) % 16 == 0 && p->k > 0;
    for (int i = 0; i < p->parts; i++)
        can = can && weights_readable(p->part[i].w, p->k, p->part[i].dtype);
    return can && (p->epilogue != FEW_ROWS_SWIGLU || p->part[0].dtype == p->part[1].dtype);
}

// Launches one kernel per run of consecutive parts with the same dtype.
int few_rows_product(const struct few_rows *p)
{
    int status = packs(p) ? 0 : FUSED_NOT;
    for (int from = 0; from < p->parts && !status;) {
        struct few_rows some = *p;
        const enum dtype dtype = p->part[from].dtype;
        for (some.parts = 0; from < p->parts && p->part[from].dtype == dtype; from++)
            some.part[some.parts++] = p->part[from];
        status = FOR_WEIGHTS(dtype, launch, &some);
    }
    return status;
}
