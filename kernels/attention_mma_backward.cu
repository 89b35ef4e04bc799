// kernels/attention_mma_backward.cu -- the gradients of attention on tensor cores.
//
// With s = q k times scale log2 e (q is rounded after scaling), p = 2^(s - lse), delta = dy . y:
//   dp = dy v^T,   ds = p (dp - delta),   dq += ds k scale,   dk += ds^T q scale,   dv += p^T dy
//
// The forward kernel, rerun without values, gives lse. Then one kernel holds queries and loops over
// the keys (dq); another holds keys and loops over the queries of all heads that share these keys
// (dk, dv). This computes s and dp twice, but one block sums each gradient in a fixed order, which
// makes gradients reproducible; atomic sums of all blocks into one dq would not. The second kernel
// computes s and dp transposed, [keys, queries], so that p^T and ds^T can serve as left operands
// straight from registers.
//
// Sizes: 64 rows per block, 16 per warp. In the first kernel, a thread holds 64 sums of dq, and q
// and dy in 64 registers. In the second kernel, it holds 128 sums of dk and dv, and tiles of only
// 32 queries leave registers for the scores. With the next tile, which is prefetched, a block
// uses 69 KB for WIDE 128, so two blocks fit on a multiprocessor of an A100 (164 KB) or an H200
// (228 KB), and one block on GPUs that allow 99 KB per block.
#include "kernels/attention_mma_cuda.h"

static constexpr int OWN_ROWS = 16 * WARPS; // rows per block
static constexpr int QUERIES = 32;          // queries per tile of the second kernel

// Data of a query for the second kernel: 16 bytes, fetched at once.
struct alignas(16) query_stats {
    float lse, delta;
    struct keys_seen seen;
};

struct backward_call {
    struct attention_call a;
    const uint16_t *q, *dy;          // [H, mma_rows(N), WIDE]
    const uint16_t *k, *v;           // [Hkv, mma_rows(P), WIDE]
    const float *lse;                // [H,N]
    const struct query_stats *stats; // [H, mma_rows(N)]
    const struct keys_seen *tiles;   // [mma_rows(N) / QUERIES] keys that any query of a tile sees
    float *dq, *dk, *dv;             // each may be NULL
};

// --- statistics of queries ----------------------------------------------------------------------

// One warp per row and head. Padding rows see no key.
static __global__ void stats_kernel(struct query_stats *stats, const float *dy, const float *y,
                                    const struct backward_call c)
{
    const int64_t rows = mma_rows(c.a.tokens), n = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const int64_t i = n / c.a.heads, h = n % c.a.heads;
    struct query_stats one = { INFINITY, 0, { 0, 0 } };
    float sum = 0;
    if (i < c.a.tokens)
        for (int64_t e = lane_of(); e < c.a.value_width; e += WARP)
            sum += dy[n * c.a.value_width + e] * y[n * c.a.value_width + e];
    sum = warp_sum(sum);
    if (i < c.a.tokens) one = { c.lse[h * c.a.tokens + i], sum, keys_of(c.a, i) };
    if (i < rows && lane_of() == 0) stats[h * rows + i] = one;
}

// One warp per tile of queries.
static __global__ void tiles_seen_kernel(struct keys_seen *tiles, const struct backward_call c)
{
    __shared__ struct keys_seen unused[WARPS][WARP];
    const int64_t n = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const struct sight all = sight_of_warp(unused[threadIdx.x / WARP], c.a, n * QUERIES, QUERIES);
    if (n < mma_rows(c.a.tokens) / QUERIES && lane_of() == 0) tiles[n] = all.any;
}

// The gradient of a score; 0 where its probability is 0.
static __device__ inline float slope(float p, float dp, float delta)
{
    return p == 0 ? 0 : p * (dp - delta);
}

// --- dq ------------------------------------------------------------------------------------------

// Loads a warp's 16 rows from memory as left operands.
template <int WIDE>
static __device__ inline void load_rows(unsigned a[WIDE / 16][4], const uint16_t *side)
{
    const unsigned *from =
        reinterpret_cast<const unsigned *>(side + lane_of() / 4 * WIDE + lane_of() % 4 * 2);
    UNROLL
    for (int k = 0; k < WIDE / 16; k++) {
        a[k][0] = from[k * 8];
        a[k][1] = from[k * 8 + 4 * WIDE];
        a[k][2] = from[k * 8 + 4];
        a[k][3] = from[k * 8 + 4 * WIDE + 4];
    }
}

// s[16, KEYS] = rows times the transposed tile.
template <int WIDE>
static __device__ inline void row_scores(float s[KEYS / 8][4], const unsigned a[WIDE / 16][4],
                                         const uint16_t *tile)
{
    UNROLL
    for (int n = 0; n < KEYS / 8; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
    UNROLL
    for (int k = 0; k < WIDE; k += SIXTEEN) UNROLL
    for (int n = 0; n < KEYS; n += SIXTEEN) {
        unsigned b[4];
        read_across<WIDE>(b, tile, n, k);
        multiply(s[n / 8], a[k / 16], b);
        multiply(s[n / 8 + 1], a[k / 16], b + 2);
    }
}

template <int WIDE>
static __global__ void __launch_bounds__(MMA_THREADS) queries_kernel(const struct backward_call c)
{
    constexpr int TILE_SIZE = KEYS * row<WIDE>::STEP;
    SHARED_MEMORY(uint16_t, shared); // keys and values of this tile and of the next
    __shared__ struct keys_seen seen_by[OWN_ROWS];
    const int own = (int)threadIdx.x / WARP * 16, lane = lane_of();
    const int i = (int)(gridDim.x - 1 - blockIdx.x) * OWN_ROWS, h = (int)blockIdx.y;
    const int kv = h / ((int)c.a.heads / (int)c.a.kv_heads);
    const int64_t rows = mma_rows(c.a.tokens), side = kv * mma_rows(c.a.keys) * WIDE;
    const int64_t first = (h * rows + i + own) * WIDE;
    const uint16_t *const keys = c.k + side, *const values = c.v + side;
    const struct sight mine = sight_of_warp(seen_by + own, c.a, i + own, 16);
    const struct keys_seen all = block_sees(mine.any);
    unsigned q[WIDE / 16][4], dy[WIDE / 16][4];
    float dq[1][WIDE / 8][4], lse[2], delta[2];
    load_rows<WIDE>(q, c.q + first);
    load_rows<WIDE>(dy, c.dy + first);
    UNROLL
    for (int half = 0; half < 2; half++) {
        const struct query_stats one = c.stats[h * rows + i + own + half * 8 + lane / 4];
        lse[half] = one.lse;
        delta[half] = one.delta;
    }
    UNROLL
    for (int n = 0; n < WIDE / 8; n++) dq[0][n][0] = dq[0][n][1] = dq[0][n][2] = dq[0][n][3] = 0;

    int from = all.from < all.to ? all.from / KEYS * KEYS : all.to, stage = 0;
    if (from < all.to) {
        fetch_tile<WIDE, KEYS>(shared, keys + (int64_t)from * WIDE);
        fetch_tile<WIDE, KEYS>(shared + TILE_SIZE, values + (int64_t)from * WIDE);
    }
    for (; from < all.to; from += KEYS, stage ^= 1) {
        const uint16_t *k = shared + stage * 2 * TILE_SIZE, *v = k + TILE_SIZE;
        fetch_wait();
        __syncthreads(); // this tile has arrived, and all warps have used the previous one
        if (from + KEYS < all.to) {
            uint16_t *next = shared + (stage ^ 1) * 2 * TILE_SIZE;
            fetch_tile<WIDE, KEYS>(next, keys + (int64_t)(from + KEYS) * WIDE);
            fetch_tile<WIDE, KEYS>(next + TILE_SIZE, values + (int64_t)(from + KEYS) * WIDE);
        }
        if (!sees_one_of(mine.any, from, KEYS)) continue;
        float s[1][KEYS / 8][4], dp[KEYS / 8][4];
        row_scores<WIDE>(s[0], q, k);
        row_scores<WIDE>(dp, dy, v);
        if (!sees_all_of(mine.each, from, KEYS)) hide<1>(s, seen_by + own, from);
        UNROLL
        for (int n = 0; n < KEYS / 8; n++) UNROLL
        for (int e = 0; e < 4; e++)
            s[0][n][e] = slope(power_of_two(s[0][n][e] - lse[e / 2]), dp[n][e], delta[e / 2]);
        tile_sums<WIDE, 1, KEYS>(dq, s, k);
    }
    const float times[2] = { c.a.scale, c.a.scale };
    put_rows<WIDE>(c.dq, dq[0], times, i + own, c.a.tokens, h, c.a.heads, (int)c.a.width, true);
}

// --- dk, dv --------------------------------------------------------------------------------------

// Returns the first tile of queries, from `tile` on, in which a query sees a key of the block. All
// threads of a block get the same result.
static __device__ inline int next_tile(const struct keys_seen *tiles, int tile, int count, int from)
{
    while (tile < count && !sees_one_of(tiles[tile], from, OWN_ROWS)) tile++;
    return tile;
}

template <int WIDE>
static __device__ inline void fetch_queries(uint16_t *q, struct query_stats *stats,
                                            const struct backward_call &c, int tile, int64_t h)
{
    const int64_t first = h * mma_rows(c.a.tokens) + (int64_t)tile * QUERIES;
    fetch_tile<WIDE, QUERIES>(q, c.q + first * WIDE);
    fetch_tile<WIDE, QUERIES>(q + QUERIES * row<WIDE>::STEP, c.dy + first * WIDE);
    if (threadIdx.x < QUERIES) fetch(stats + threadIdx.x, c.stats + first + threadIdx.x);
}

template <int WIDE>
static __global__ void __launch_bounds__(MMA_THREADS) keys_kernel(const struct backward_call c)
{
    constexpr int STEP = row<WIDE>::STEP, STAGE = 2 * QUERIES * STEP;
    SHARED_MEMORY(uint16_t, shared); // the block's keys and values; two tiles of queries and dy
    __shared__ struct query_stats stats[2][QUERIES];
    uint16_t *const tiles = shared + 2 * OWN_ROWS * STEP;
    const int own = (int)threadIdx.x / WARP * 16, lane = lane_of();
    const int from = (int)blockIdx.x * OWN_ROWS, kv = (int)blockIdx.y;
    const int group = (int)c.a.heads / (int)c.a.kv_heads, h0 = kv * group;
    const int count = (int)(mma_rows(c.a.tokens) / QUERIES);
    const int64_t side = (kv * mma_rows(c.a.keys) + from) * WIDE;
    const uint16_t *const k = shared + own * STEP, *const v = k + OWN_ROWS * STEP;
    float dk[1][WIDE / 8][4], dv[1][WIDE / 8][4];
    UNROLL
    for (int n = 0; n < WIDE / 8; n++) UNROLL
    for (int e = 0; e < 4; e++) dk[0][n][e] = dv[0][n][e] = 0;

    fetch_tile<WIDE, OWN_ROWS>(shared, c.k + side);
    fetch_tile<WIDE, OWN_ROWS>(shared + OWN_ROWS * STEP, c.v + side);
    int tile = next_tile(c.tiles, 0, count, from), head = 0, stage = 0;
    if (tile < count) fetch_queries<WIDE>(tiles, stats[0], c, tile, h0);
    for (; tile < count; stage ^= 1) {
        const struct keys_seen seen = c.tiles[tile];
        const uint16_t *const q = tiles + stage * STAGE, *const dy = q + QUERIES * STEP;
        if (++head == group) {
            head = 0;
            tile = next_tile(c.tiles, tile + 1, count, from);
        }
        fetch_wait();
        __syncthreads(); // these queries have arrived, and all warps have used the previous ones
        if (tile < count)
            fetch_queries<WIDE>(tiles + (stage ^ 1) * STAGE, stats[stage ^ 1], c, tile, h0 + head);
        if (!sees_one_of(seen, from + own, 16)) continue;

        float s[1][QUERIES / 8][4], dp[1][QUERIES / 8][4]; // [keys, queries]
        tile_scores<WIDE, 1, QUERIES>(s, k, q);
        UNROLL
        for (int n = 0; n < QUERIES / 8; n++) UNROLL
        for (int e = 0; e < 4; e++) {
            const struct query_stats one = stats[stage][n * 8 + lane % 4 * 2 + e % 2];
            s[0][n][e] = sees(one.seen, from + own + lane / 4 + e / 2 * 8)
                             ? power_of_two(s[0][n][e] - one.lse)
                             : 0;
        }
        if (c.dv) tile_sums<WIDE, 1, QUERIES>(dv, s, dy);
        if (!c.dk) continue;
        tile_scores<WIDE, 1, QUERIES>(dp, v, dy);
        UNROLL
        for (int n = 0; n < QUERIES / 8; n++) UNROLL
        for (int e = 0; e < 4; e++)
            s[0][n][e] =
                slope(s[0][n][e], dp[0][n][e], stats[stage][n * 8 + lane % 4 * 2 + e % 2].delta);
        tile_sums<WIDE, 1, QUERIES>(dk, s, q);
    }
    fetch_wait(); // no asynchronous copy may outlive its block
    const float once[2] = { 1, 1 }, times[2] = { LN_2, LN_2 }; // q is scaled by scale log2 e
    if (c.dv)
        put_rows<WIDE>(c.dv, dv[0], once, from + own, c.a.keys, kv, c.a.kv_heads,
                       (int)c.a.value_width, true);
    if (c.dk)
        put_rows<WIDE>(c.dk, dk[0], times, from + own, c.a.keys, kv, c.a.kv_heads, (int)c.a.width,
                       true);
}

// --- the call ------------------------------------------------------------------------------------

template <int WIDE> static int run(const struct backward_call *call)
{
    constexpr size_t ROW = row<WIDE>::STEP * sizeof(uint16_t);
    const size_t for_queries = 4 * KEYS * ROW, for_keys = (2 * OWN_ROWS + 4 * QUERIES) * ROW;
    const auto queries = queries_kernel<WIDE>;
    const auto keys = keys_kernel<WIDE>;
    const struct backward_call c = *call;
    const dim3 query_blocks((size_t)(mma_rows(c.a.tokens) / OWN_ROWS), (size_t)c.a.heads);
    const dim3 key_blocks((size_t)(mma_rows(c.a.keys) / OWN_ROWS), (size_t)c.a.kv_heads);
    if (cuda_allow_shared("attention backward", queries, for_queries) < 0 ||
        cuda_allow_shared("attention backward", keys, for_keys) < 0)
        return -1;
    if (c.dq && LAUNCH(queries, query_blocks, MMA_THREADS, for_queries, c) < 0) return -1;
    if (!c.dk && !c.dv) return 0;
    return LAUNCH(keys, key_blocks, MMA_THREADS, for_keys, c);
}

// Takes the next `bytes` of scratch and adds them to *used; if scratch is NULL, only adds them.
static char *take(char *scratch, size_t *used, size_t bytes)
{
    char *taken = scratch ? scratch + *used : nullptr;
    *used += (bytes + 255) / 256 * 256;
    return taken;
}

// The parts of the call's scratch.
struct buffers {
    uint16_t *q, *k, *v, *dy;
    float *lse;
    struct query_stats *stats;
    struct keys_seen *tiles;
};

static size_t lay_out(struct buffers *w, const struct attention_call *c, char *scratch)
{
    const size_t queries = mma_side_size(c->tokens, c->heads, c->width);
    const size_t keys = mma_side_size(c->keys, c->kv_heads, c->width);
    const size_t rows = (size_t)(mma_rows(c->tokens) * c->heads);
    size_t used = 0;
    w->q = reinterpret_cast<uint16_t *>(take(scratch, &used, queries));
    w->dy = reinterpret_cast<uint16_t *>(take(scratch, &used, queries));
    w->k = reinterpret_cast<uint16_t *>(take(scratch, &used, keys));
    w->v = reinterpret_cast<uint16_t *>(take(scratch, &used, keys));
    w->lse = reinterpret_cast<float *>(take(scratch, &used, rows * sizeof *w->lse));
    w->stats =
        reinterpret_cast<struct query_stats *>(take(scratch, &used, rows * sizeof *w->stats));
    w->tiles = reinterpret_cast<struct keys_seen *>(
        take(scratch, &used, (size_t)(mma_rows(c->tokens) / QUERIES) * sizeof *w->tiles));
    return used;
}

static int compute_stats(const struct buffers *w, const struct backward_call *call, const float *dy,
                         const float *y)
{
    const struct backward_call c = *call;
    const int64_t rows = mma_rows(c.a.tokens) * c.a.heads, tiles = mma_rows(c.a.tokens) / QUERIES;
    const dim3 row_blocks((size_t)((rows + WARPS - 1) / WARPS));
    const dim3 tile_blocks((size_t)((tiles + WARPS - 1) / WARPS));
    if (LAUNCH(stats_kernel, row_blocks, MMA_THREADS, 0, w->stats, dy, y, c) < 0) return -1;
    return LAUNCH(tiles_seen_kernel, tile_blocks, MMA_THREADS, 0, w->tiles, c);
}

int attention_mma_backward(const struct attention_call *c, float *dq, float *dk, float *dv,
                           const float *dy, const float *y)
{
    struct buffers w;
    char *scratch = static_cast<char *>(cuda_scratch(lay_out(&w, c, nullptr)));
    if (!scratch) return -1;
    lay_out(&w, c, scratch);
    const int64_t d = c->width, dv_width = c->value_width, wide = mma_width(d);
    const struct mma_sides sides = {
        { { w.q, c->q, DTYPE_F32, c->tokens, c->heads, d, wide, c->scale * LOG2_E },
          { w.dy, dy, DTYPE_F32, c->tokens, c->heads, dv_width, wide, 1 },
          { w.k, c->k, c->dtype, c->keys, c->kv_heads, d, wide, 1 },
          { w.v, c->v, c->dtype, c->keys, c->kv_heads, dv_width, wide, 1 } },
        4
    };
    const struct mma_keys keys = { w.k, w.v, false };
    const struct backward_call b = { .a = *c,
                                     .q = w.q,
                                     .dy = w.dy,
                                     .k = w.k,
                                     .v = w.v,
                                     .lse = w.lse,
                                     .stats = w.stats,
                                     .tiles = w.tiles,
                                     .dq = dq,
                                     .dk = dk,
                                     .dv = dv };
    if (mma_sides_round(&sides) < 0 || mma_attend(c, &keys, w.lse) < 0 ||
        compute_stats(&w, &b, dy, y) < 0)
        return -1;
    return FOR_MMA_WIDTH(c->width, run, &b);
}
