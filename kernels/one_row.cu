// kernels/one_row.cu -- products of one row, as when an answer is written: each weight is read once
// and the memory bus is the limit, so enough bytes must be under way all the time.
//
//   in:  x[K], up to three weights [M_i,K]; x may be normed on the way (gain)
//   out: y_i[M_i] = x w_i^T + bias_i, or added to what y_i holds, or silu(y_0) * y_1, or queries
//        and what goes into the cache
//
// A warp has a pair of weight rows at a time (two of a weight, where heads are turned those that
// are turned together; with silu one of each). It walks along K in chunks: its lanes read 16 bytes
// each, or eight numbers of blocks, side by side, AHEAD chunks of both rows before the ones before
// them are multiplied: of bf16 4 KB a warp, 64 KB a multiprocessor. A block keeps x, widened and
// with its gain, in shared memory, in the order in which lanes read it; the root mean square, the
// same for all of x, multiplies the sums in the end.
//
// The first weights are asked for before the kernel in front has ended (`early`), and those behind
// them are sent for into the second-level cache: 16 MB of all warps, what the bus brings in 4 us.
// So it does not rest while the kernel in front ends and x is read. What the kernel in front writes
// is read only after cuda_former().
#include "kernels/one_row_cuda.h"

static constexpr int64_t SENT_FOR = 4096; // bytes of a row, behind those asked for

struct shape {
    int64_t units; // pairs of rows
    int64_t width; // of x in shared memory: whole steps of AHEAD chunks, behind K zeros
};

// One of the pair's rows: of the part's product, and of its weight; row < 0: there is none.
struct place {
    const struct one_row_part *part;
    int64_t row, from;
};

static __device__ int64_t weight_row(const struct one_row_part &p, int64_t row)
{
    const int r = (int)row;
    return p.run ? p.first + (int64_t)(r / p.run) * p.step + r % p.run : row;
}

static __device__ struct place place_of(const struct one_row &p, int64_t unit, int r)
{
    if (p.end == ONE_ROW_SWIGLU) return { &p.part[r], unit, weight_row(p.part[r], unit) };
    const struct one_row_part *part = p.part;
    while (unit >= (part->rows + 1) / ROWS) unit -= (part++->rows + 1) / ROWS;
    const int64_t row = unit * ROWS + r;
    if (p.end == ONE_ROW_PLACE) {
        const int half = p.place.half, pair = (int)unit, i = pair % half;
        const int head = pair / half * 2 * half,
                  adjacent = part == p.part + 2 ? 0 : p.place.adjacent;
        return { part, head + i + r * half,
                 weight_row(*part, head + pair_number(i, r, half, adjacent)) };
    }
    if (row >= part->rows) return { part, -1, -1 };
    return { part, row, weight_row(*part, row) };
}

// Where the rows of a pair begin; NULL: there is none.
template <typename T>
static __device__ void find_rows(const T *row[ROWS], const struct one_row &p, int64_t unit,
                                 int64_t units)
{
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        row[r] = nullptr;
        if (unit >= units) continue;
        const struct place at = place_of(p, unit, r);
        if (at.row >= 0) row[r] = row_of<T>(at.part->w, at.from, p.k);
    }
}

// What is sent for begins and ends at multiples of 16 bytes.
template <typename T> static __device__ void send_for(const T *const row[ROWS], int64_t k, int lane)
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
                          (unsigned)(bytes < SENT_FOR ? bytes : SENT_FOR));
    }
}

// A pair of a head's numbers: queries to y, keys and values to their row.
static __device__ void put_pair(const struct one_row_place &p, const struct one_row_part *part,
                                const struct place &at, bool queries, bool turned,
                                const float value[ROWS])
{
    const int i = (int)at.row % p.half;
    const float c = turned ? p.cos[i] : 1, s = turned ? p.sin[i] : 0;
    const float a = value[0] * c - value[1] * s, b = value[1] * c + value[0] * s;
    const int64_t to = (queries ? 0 : *p.row * part->rows) + at.row;
    put_number(part->y, to, a, queries ? DTYPE_F32 : p.dtype);
    put_number(part->y, to + p.half, b, queries ? DTYPE_F32 : p.dtype);
}

// Lane 0 has the pair's products.
static __device__ void finish(const struct one_row &p, int64_t unit, const float sum[ROWS])
{
    float value[ROWS];
    struct place at[ROWS];
    for (int r = 0; r < ROWS; r++) {
        at[r] = place_of(p, unit, r);
        const float *bias = at[r].part->bias;
        value[r] = sum[r] + (bias && at[r].row >= 0 ? bias[at[r].from] : 0);
    }
    if (p.end == ONE_ROW_SWIGLU) {
        static_cast<float *>(p.part[0].y)[unit] = value[0] / (1 + expf(-value[0])) * value[1];
        return;
    }
    if (p.end == ONE_ROW_PLACE) {
        put_pair(p.place, at[0].part, at[0], at[0].part == p.part, at[0].part != p.part + 2, value);
        return;
    }
    for (int r = 0; r < ROWS; r++) {
        if (at[r].row < 0) continue;
        float *y = static_cast<float *>(at[r].part->y) + at[r].row;
        *y = p.end == ONE_ROW_ADD ? *y + value[r] : value[r];
    }
}

template <typename T>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    one_row_kernel(const __grid_constant__ struct one_row p, const struct shape s)
{
    constexpr int64_t STEP = step_of<T>();
    SHARED_MEMORY(float, x);
    const int lane = threadIdx.x % WARP;
    const int64_t first = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    const T *row[ROWS];
    typename reader<T>::raw next[AHEAD][ROWS], now[AHEAD][ROWS];

    cuda_next_may_begin();
    find_rows(row, p, first, s.units);
    if (p.early) {
        ask<T>(next, row, 0, p.k, lane);
        send_for(row, p.k, lane);
    }
    cuda_former();
    const float scale = stage<T>(x, p, s.width);
    if (!p.early) ask<T>(next, row, 0, p.k, lane);

    for (int64_t unit = first; unit < s.units; unit += step) {
        float sum[ROWS] = { 0, 0 };
        for (int64_t from = 0; from < s.width; from += STEP) {
            const bool last = from + STEP >= s.width;
            UNROLL
            for (int a = 0; a < AHEAD; a++) {
                UNROLL
                for (int r = 0; r < ROWS; r++) now[a][r] = next[a][r];
            }
            if (last) find_rows(row, p, unit + step, s.units);
            ask<T>(next, row, last ? 0 : from + STEP, p.k, lane);
            multiply<T>(sum, now, x + from, lane);
        }
        for (int r = 0; r < ROWS; r++) sum[r] = warp_sum(sum[r]) * scale;
        if (lane == 0) finish(p, unit, sum);
    }
}

template <typename T> static int launch(const struct one_row *p)
{
    const auto kernel = one_row_kernel<T>;
    struct shape s = { 0, whole_steps<T>(p->k) };
    for (int i = 0; i < p->parts; i++) s.units += (p->part[i].rows + 1) / ROWS;
    if (p->end == ONE_ROW_SWIGLU) s.units = p->part[0].rows;
    const size_t shared = (size_t)s.width * sizeof(float);
    if (shared > SHARED_MOST) return FUSED_NOT;
    if (shared > SHARED_PLAIN && cuda_allow_shared("one_row_kernel", kernel, shared) < 0)
        return FUSED_NOT; // a GPU with less
    const int64_t fit = (int64_t)(SHARED_MOST / (shared + SHARED_STATIC));
    const int64_t most = cuda_processors() * (fit < BLOCKS ? fit : BLOCKS);
    const int64_t blocks = (s.units + WARPS - 1) / WARPS;
    return LAUNCH_EARLY(kernel, (size_t)(blocks < most ? blocks : most), THREADS, shared, *p, s);
}

// Can everything be read as lanes do?
static bool packs(const struct one_row *p)
{
    bool can = ((uintptr_t)p->x | (uintptr_t)p->gain) % 16 == 0 && p->k > 0;
    for (int i = 0; i < p->parts; i++) can = can && weights_readable(p->part[i].w, p->k, p->dtype);
    return can;
}

int one_row_product(const struct one_row *p)
{
    return packs(p) ? FOR_WEIGHTS(p->dtype, launch, p) : FUSED_NOT;
}
