// kernels/matmul_few.c -- y[N,M] = x[N,K] w[M,K]^T + bias[M] of few rows: dot products that read
// the weights in place. Memory bandwidth is the limit, so the bus must stay busy:
//
//   each thread splits a range of the weight rows into contiguous streams
//   for every i: multiply row i of all streams by all rows of x
//   a thread that has finished takes rows from the ends of other threads' streams
//
// The streams share their loads of x. At K = 8192 a row of x is 32 KB, as large as an L1 cache,
// through which the weights pass too. Rereading x for every weight row would load x from L2 and
// fill the queues of memory loads (on Zen 4 that loses half of the bandwidth). Streams are
// contiguous because hardware prefetchers follow consecutive addresses; interleaved rows also lose
// half of the bandwidth. Threads help each other because no two threads read equally fast over 100
// microseconds: waiting for the slower thread in every product cost 5% of a token's time.
//
// A vector of bf16 weights is widened by shifting even elements and masking odd elements, which is
// cheaper than widening in order. x is reordered once to match.
#include "kernels/matmul_few.h"

#include <stdatomic.h>

#include "kernels/blocks_dot.h"
#include "kernels/tile.h"

enum {
    STEP = 2 * VEC,  // elements along K per step
    AHEAD = 2048,    // bytes from the weights being read to those being prefetched
    BAND = 64 * 1024 // bytes of weights per band, over all streams
};

// Prefetch target: L2, or L1 where it has 48 KB, as on Intel's processors with AMX (1 to 7% faster
// there). Weights in blocks need more arithmetic, so a shorter distance covers the same time: on
// Zen 4, the only CPU where it was measured, it is 8 to 16% faster for them, and 3 to 11% slower
// for other weights.
#if defined(__AMX_TILE__)
enum { NEAR = 3, BLOCKS_AHEAD = AHEAD };
#else
enum { NEAR = 2, BLOCKS_AHEAD = 1024 };
#endif

// As many streams as fit in registers: 2 sums per element of y, and 2 vectors per stream.
#define STREAMS_PLAIN(rows) \
    (VEC == 16 ? ((rows) <= 2 ? 4 : (rows) <= 6 ? 2 : 1) : (rows) == 1 ? 4 : 1)
// Weights in blocks use four streams, with 1 sum per element of y: the L1 cache holds the sums that
// do not fit in registers.
enum { BLOCK_STREAMS = 4 };
#define STREAMS(rows, dtype) (dtype_in_blocks(dtype) ? BLOCK_STREAMS : STREAMS_PLAIN(rows))

// Loads the weights of one step as two vectors: bf16 in the order of order_x, others in order.
VEC_INLINE void load_step(const char *w, int64_t k, vf *a, vf *b, const enum dtype dtype)
{
    if (dtype == DTYPE_BF16) {
        vec_split_bf16(vf_load(w + 2 * k), a, b);
    } else {
        *a = vf_load_as(w, k, dtype);
        *b = vf_load_as(w, k + VEC, dtype);
    }
}

VEC_INLINE void put_sums(const struct few_product *p, vf s[FEW_ROWS][4][2], int64_t i,
                         int64_t apart, const int rows, const int streams)
{
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++)
            p->y[r * p->m + i + t * apart] =
                vf_sum(s[r][t][0] + s[r][t][1]) + (p->bias ? p->bias[i + t * apart] : 0);
}

VEC_INLINE void put_block_sums(const struct few_product *p, vf s[FEW_ROWS][4], int64_t i,
                               int64_t apart, const int rows, const int streams)
{
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++)
            p->y[r * p->m + i + t * apart] =
                vf_sum(s[r][t]) + (p->bias ? p->bias[i + t * apart] : 0);
}

// Multiplies weight row i of each stream (streams are `apart` rows apart) by each row of x. Each
// element of y has two sums, whose order depends on K alone.
VEC_INLINE void dots(const struct few_product *p, const float *x, int64_t i, int64_t apart,
                     const int rows, const int streams, const enum dtype dtype)
{
    const int64_t n = p->k, size = (int64_t)dtype_size(dtype);
    const char *w = p->w + i * n * size;
    const int64_t stream_bytes = apart * n * size;
    vf s[FEW_ROWS][4][2];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++) s[r][t][0] = s[r][t][1] = (vf){ 0 };
    int64_t k = 0;
    for (; k + STEP <= n; k += STEP) {
        vf a[4], b[4];
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++) {
            const char *from = w + t * stream_bytes;
            // Prefetching past the end is harmless.
            for (int64_t byte = 0; byte < STEP * size; byte += 64)
                __builtin_prefetch(from + k * size + byte + AHEAD, 0, NEAR);
            load_step(from, k, &a[t], &b[t], dtype);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const vf left = vf_load(x + r * n + k), right = vf_load(x + r * n + k + VEC);
#pragma GCC unroll 4
            for (int t = 0; t < streams; t++) {
                s[r][t][0] += left * a[t];
                s[r][t][1] += right * b[t];
            }
        }
    }
    for (; k < n; k += VEC) {
        const int64_t some = n - k < VEC ? n - k : VEC;
        for (int t = 0; t < streams; t++) {
            const vf a = vf_load_part_n_as(w + t * stream_bytes, k, some, dtype);
            for (int r = 0; r < rows; r++) s[r][t][0] += vf_load_part_n(x + r * n + k, some) * a;
        }
    }
    put_sums(p, s, i, apart, rows, streams);
}

// Like dots, for weights in blocks and prepared x. DTYPE_COUNT: any dtype in blocks; run_ready
// unpacks each run into the L1 cache for all rows of x.
VEC_INLINE void dots_blocks(const struct few_product *p, const struct x_run *x, int64_t i,
                            int64_t apart, const int rows, const int streams,
                            const enum dtype dtype)
{
    const enum dtype is = dtype == DTYPE_COUNT ? p->dtype : dtype;
    const int64_t n = p->k, stream_bytes = apart * (int64_t)dtype_bytes(is, n);
    const char *w = p->w + i * (int64_t)dtype_bytes(is, n);
    const int run_bytes = (int)dtype_bytes(is, RUN);
    char rest[BLOCK_STREAMS][RUN_BYTES];
    struct block_run ready[BLOCK_STREAMS];
    vf s[FEW_ROWS][4];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++) s[r][t] = (vf){ 0 };
    for (int64_t k = 0; k < n; k += RUN, x++, w += run_bytes) {
        struct open_run open[BLOCK_STREAMS];
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++) {
            const char *run = run_whole(w + t * stream_bytes, n - k, rest[t], is);
            for (int byte = 0; byte < run_bytes; byte += 64)
                __builtin_prefetch(run + byte + BLOCKS_AHEAD, 0, NEAR);
            if (dtype == DTYPE_COUNT) run_ready(&ready[t], run, is);
            run_open(&open[t], run, &ready[t], dtype);
        }
        dot_runs(s, x, x_runs(n), open, rows, streams, dtype, is);
    }
    put_block_sums(p, s, i, apart, rows, streams);
}

// One function per dtype, because a caller with all these functions inlined would run out of
// registers.
typedef void block_dots(const struct few_product *p, const struct x_run *x, int64_t i,
                        int64_t apart);
#define BLOCK_DOTS(name, dtype)                                                       \
    static __attribute__((noinline)) void dots_##name(                                \
        const struct few_product *p, const struct x_run *x, int64_t i, int64_t apart) \
    {                                                                                 \
        dots_blocks(p, x, i, apart, 1, BLOCK_STREAMS, dtype);                         \
    }
#if VEC_BYTES > 16
BLOCK_DOTS(q8_0, DTYPE_Q8_0)
BLOCK_DOTS(q4_0, DTYPE_Q4_0)
BLOCK_DOTS(q4_1, DTYPE_Q4_1)
BLOCK_DOTS(q5_0, DTYPE_Q5_0)
BLOCK_DOTS(q5_1, DTYPE_Q5_1)
BLOCK_DOTS(q2_k, DTYPE_Q2_K)
BLOCK_DOTS(q3_k, DTYPE_Q3_K)
BLOCK_DOTS(q4_k, DTYPE_Q4_K)
BLOCK_DOTS(q5_k, DTYPE_Q5_K)
BLOCK_DOTS(q6_k, DTYPE_Q6_K)
BLOCK_DOTS(iq4_nl, DTYPE_IQ4_NL)
BLOCK_DOTS(iq4_xs, DTYPE_IQ4_XS)
static block_dots *const block_dots_of[DTYPE_COUNT] = {
    [DTYPE_Q8_0] = dots_q8_0, [DTYPE_Q4_0] = dots_q4_0,     [DTYPE_Q4_1] = dots_q4_1,
    [DTYPE_Q5_0] = dots_q5_0, [DTYPE_Q5_1] = dots_q5_1,     [DTYPE_Q2_K] = dots_q2_k,
    [DTYPE_Q3_K] = dots_q3_k, [DTYPE_Q4_K] = dots_q4_k,     [DTYPE_Q5_K] = dots_q5_k,
    [DTYPE_Q6_K] = dots_q6_k, [DTYPE_IQ4_NL] = dots_iq4_nl, [DTYPE_IQ4_XS] = dots_iq4_xs,
};
#else
static block_dots *const block_dots_of[DTYPE_COUNT];
#endif

// dtype is DTYPE_COUNT for blocks of any dtype.
VEC_INLINE void dots_of(const struct few_product *p, const void *x, int64_t i, int64_t apart,
                        const int rows, const int streams, const enum dtype dtype)
{
    if (dtype != DTYPE_COUNT)
        dots(p, x, i, apart, rows, streams, dtype);
    else if (rows == 1 && streams == BLOCK_STREAMS && block_dots_of[p->dtype])
        block_dots_of[p->dtype](p, x, i, apart);
    else
        dots_blocks(p, x, i, apart, rows, streams, DTYPE_COUNT);
}

// --- sharing the work ----------------------------------------------------------------------------

// The columns of y that a thread starts with.
struct stretch {
    _Alignas(64) _Atomic uint64_t left; // bands not taken yet: first | end << 32
    int64_t from, to, apart;            // columns from..to; columns per stream
};

// Takes the next band from the front or the back; -1 if none is left.
static int64_t take_band(struct stretch *s, bool front)
{
    uint64_t now = atomic_load(&s->left), next;
    do {
        const uint64_t first = now & UINT32_MAX, end = now >> 32;
        if (first >= end) return -1;
        next = front ? now + 1 : now - ((uint64_t)1 << 32);
    } while (!atomic_compare_exchange_weak(&s->left, &now, next));
    return (int64_t)(front ? now & UINT32_MAX : (now >> 32) - 1);
}

// Columns per stream in a band.
static int64_t band_columns(const struct few_product *p)
{
    const int64_t row = (int64_t)dtype_bytes(p->dtype, p->k) * STREAMS(p->rows, p->dtype);
    return row < BAND ? BAND / row : 1;
}

static void share_out(const struct few_product *p, struct stretch *stretches, int64_t count)
{
    const int64_t band = band_columns(p);
    for (int64_t i = 0; i < count; i++) {
        struct stretch *s = &stretches[i];
        s->from = p->m * i / count;
        s->to = p->m * (i + 1) / count;
        s->apart = (s->to - s->from) / STREAMS(p->rows, p->dtype);
        atomic_init(&s->left, (uint64_t)((s->apart + band - 1) / band + 1) << 32);
    }
}

// Computes band `number`. The last band holds the columns left over after the split into equal
// streams.
VEC_INLINE void run_band(const struct few_product *p, const void *x, const struct stretch *s,
                         int64_t number, const int rows, const enum dtype dtype)
{
    const int streams = dtype == DTYPE_COUNT ? BLOCK_STREAMS : STREAMS_PLAIN(rows);
    const int64_t band = band_columns(p), begin = number * band;
    const int64_t end = begin + band < s->apart ? begin + band : s->apart;
    for (int64_t i = begin; i < end; i++)
        dots_of(p, x, s->from + i, s->apart, rows, streams, dtype);
    if (begin < s->apart) return;
    for (int64_t i = s->from + s->apart * streams; i < s->to; i++)
        dots_of(p, x, i, 0, rows, 1, dtype);
}

// The work of thread `me`: computes its own columns, then bands of other threads.
VEC_INLINE void run_thread(const struct few_product *p, const void *x, struct stretch *stretches,
                           int64_t count, int64_t me, const int rows, const enum dtype dtype)
{
    for (int64_t i = 0, band; i < count; i++) {
        struct stretch *s = &stretches[(me + i) % count];
        while ((band = take_band(s, i == 0)) >= 0) run_band(p, x, s, band, rows, dtype);
    }
}

// One function per number of rows and kind of dtype, because GCC takes several times as long to
// compile one function with all variants inlined.
typedef void thread_run(const struct few_product *p, const void *x, struct stretch *stretches,
                        int64_t count, int64_t me);
#define THREAD_RUN(rows, name, dtype)                                                         \
    static __attribute__((noinline)) void run_##name##_##rows(                                \
        const struct few_product *p, const void *x, struct stretch *stretches, int64_t count, \
        int64_t me)                                                                           \
    {                                                                                         \
        run_thread(p, x, stretches, count, me, rows, dtype);                                  \
    }
#define THREAD_RUNS(rows)            \
    THREAD_RUN(rows, f32, DTYPE_F32) \
    THREAD_RUN(rows, f16, DTYPE_F16) \
    THREAD_RUN(rows, bf16, DTYPE_BF16) THREAD_RUN(rows, blocks, DTYPE_COUNT)
THREAD_RUNS(1)
THREAD_RUNS(2)
THREAD_RUNS(3)
THREAD_RUNS(4)
#if VEC_BYTES == 64
THREAD_RUNS(5)
THREAD_RUNS(6)
THREAD_RUNS(7)
THREAD_RUNS(8)
#endif

enum kind { KIND_F32, KIND_F16, KIND_BF16, KIND_BLOCKS, KINDS };
#define RUNS_OF(rows)                                                      \
    {                                                                      \
        run_f32_##rows, run_f16_##rows, run_bf16_##rows, run_blocks_##rows \
    }
static thread_run *const runs[FEW_ROWS][KINDS] = {
    RUNS_OF(1), RUNS_OF(2), RUNS_OF(3), RUNS_OF(4),
#if VEC_BYTES == 64
    RUNS_OF(5), RUNS_OF(6), RUNS_OF(7), RUNS_OF(8),
#endif
};

static enum kind kind_of(enum dtype dtype)
{
    return dtype == DTYPE_F32    ? KIND_F32
           : dtype == DTYPE_F16  ? KIND_F16
           : dtype == DTYPE_BF16 ? KIND_BF16
                                 : KIND_BLOCKS;
}

// Reorders x: even elements of each step before odd elements; a partial last step stays in order.
static void order_x(const struct few_product *p, float *to)
{
    for (int64_t r = 0; r < p->rows; r++) {
        const float *x = p->x + r * p->k;
        float *y = to + r * p->k;
        int64_t k = 0;
        for (; k + STEP <= p->k; k += STEP)
            for (int64_t i = 0; i < VEC; i++) {
                y[k + i] = x[k + 2 * i];
                y[k + VEC + i] = x[k + 2 * i + 1];
            }
        for (; k < p->k; k++) y[k] = x[k];
    }
}

// Bytes of the copy of x prepared for products with p->dtype; 0 if x needs no preparation.
static size_t x_bytes(const struct few_product *p)
{
    if (dtype_in_blocks(p->dtype)) return (size_t)(p->rows * x_runs(p->k)) * sizeof(struct x_run);
    return p->dtype == DTYPE_BF16 ? (size_t)(p->rows * p->k) * sizeof *p->x : 0;
}

static void prepare_x(const struct few_product *p, void *to)
{
    if (dtype_in_blocks(p->dtype))
        x_prepare(to, p->x, p->rows, p->k, p->dtype);
    else
        order_x(p, to);
}

int64_t KERNEL(few_rows)(void)
{
    return FEW_ROWS;
}

int KERNEL(matmul_few)(const struct few_product *p)
{
    const int count = vec_worth_threads(p->k * p->m) ? omp_get_max_threads() : 1;
    const size_t bytes = x_bytes(p);
    struct stretch *stretches = cpu_scratch((size_t)count * sizeof *stretches + bytes);
    if (!stretches) return -1;
    share_out(p, stretches, count);
    const void *x = bytes ? (void *)(stretches + count) : p->x;
    if (bytes) prepare_x(p, stretches + count);
    thread_run *const run = runs[p->rows - 1][kind_of(p->dtype)];
#pragma omp parallel num_threads(count)
    run(p, x, stretches, count, omp_get_thread_num());
    return 0;
}
