// kernels/attention_mma.cu -- attention on tensor cores: bf16 operands, f32 sums, one pass over the
// keys, no matrix of queries by keys (Dao 2023, arXiv 2307.08691); also the probabilities if
// requested.
//
//   a block: one head, 64 MANY queries; q stays in shared memory
//   for each tile of 64 keys:   scores = q k^T      while the tile's values are being copied
//                               p = 2^(scores - highest); if highest rose, rescale sums and y
//                               y += p v            while the next tile's keys are being copied
//   y /= sum
//
// Why these sizes (H200: 132 multiprocessors, each with 64 K registers and 228 KB of shared memory
// that delivers 128 bytes per clock). A product of 16 rows reads 256 bytes of the tile for 2048
// multiplications. With 16 rows per warp, shared memory is the limit (1024 multiplications per
// clock); with 32, the tensor cores are. A thread then holds 128 sums (WIDE 128) and 64 scores in
// registers, so two blocks of 128 threads fit on a multiprocessor: one computes while the other
// waits. The q, k and v of a block take 68 KB, so two blocks also fit on an A100 (164 KB). If 128
// queries per block would leave multiprocessors idle (encoders, short prompts), a block has 64.
#include "kernels/attention_mma_cuda.h"

// --- bf16 ----------------------------------------------------------------------------------------

static constexpr int ROUND_THREADS = 128;

template <typename T>
static __device__ inline void round_row(const struct mma_side &s, const T *from, int64_t r)
{
    const int64_t rows = mma_rows(s.rows), wide = s.wide;
    const int pieces = (int)wide / 8, count = (int)s.heads * pieces;
    for (int n = (int)threadIdx.x; n < count; n += ROUND_THREADS) {
        const int h = n / pieces, e = n % pieces * 8;
        *reinterpret_cast<uint4 *>(s.to + (h * rows + r) * wide + e) =
            round_eight(from + (r * s.heads + h) * s.width, r < s.rows, e, (int)s.width, s.times);
    }
}

// One block per row of each side; a thread converts 8 elements of a head at a time.
static __global__ void round_kernel(const struct mma_sides all)
{
    const struct mma_side &s = all.side[blockIdx.y];
    const int64_t r = blockIdx.x;
    if (r >= mma_rows(s.rows)) return;
    if (s.dtype == DTYPE_BF16)
        round_row(s, static_cast<const uint16_t *>(s.from), r);
    else
        round_row(s, static_cast<const float *>(s.from), r);
}

int mma_sides_round(const struct mma_sides *all)
{
    int64_t most = 0;
    for (int i = 0; i < all->count; i++) most = all->side[i].rows > most ? all->side[i].rows : most;
    const struct mma_sides sides = *all;
    const dim3 grid((size_t)mma_rows(most), (size_t)all->count);
    return most ? LAUNCH(round_kernel, grid, ROUND_THREADS, 0, sides) : 0;
}

// --- a block's queries ---------------------------------------------------------------------------

struct forward_call {
    struct attention_call a;
    const uint16_t *k, *v; // [Hkv, mma_rows(P), WIDE] or, in a cache, [P,Hkv,d]
    float *lse;            // [H,N] or NULL
    float *probs;          // [H,N,P], written by probs_kernel
    float times;           // scale log2 e
};

// A lane's part of the state of its warp's rows: of each 16 rows, rows lane / 4 and lane / 4 + 8.
template <int WIDE, int MANY> struct rows {
    float high[MANY][2];          // highest score so far
    float sum[MANY][2];           // sum of 2^(score - high) over this lane's columns
    float out[MANY][WIDE / 8][4]; // sums of 2^(score - high) v
};

// Offset of head kv's keys or values; 0 in a cache, where heads are interleaved (fetch_cached adds
// the head's offset).
template <int WIDE, bool CACHED>
static __device__ inline int64_t head_start(const struct forward_call &c, int kv)
{
    return CACHED ? 0 : kv * mma_rows(c.a.keys) * WIDE;
}

// Starts copying KEYS keys or values (`width` elements each in a cache) to a tile.
template <int WIDE, bool CACHED>
static __device__ inline void fetch_keys(uint16_t *tile, const uint16_t *keys,
                                         const struct forward_call &c, int from, int kv,
                                         int64_t width)
{
    if (CACHED)
        fetch_cached<WIDE, KEYS>(tile, keys, c.a, from, kv, (int)width);
    else
        fetch_tile<WIDE, KEYS>(tile, keys + (int64_t)from * WIDE);
}

// Copies queries i.., scaled and rounded to bf16, to a tile of ROWS rows.
template <int WIDE, int ROWS>
static __device__ inline void load_queries(uint16_t *tile, const struct forward_call &c, int64_t i,
                                           int64_t h)
{
    constexpr int PIECES = WIDE / 8;
    for (int n = (int)threadIdx.x; n < ROWS * PIECES; n += MMA_THREADS) {
        const int64_t r = i + n / PIECES;
        *reinterpret_cast<uint4 *>(tile + n / PIECES * row<WIDE>::STEP + n % PIECES * 8) =
            round_eight(c.a.q + (r * c.a.heads + h) * c.a.width, r < c.a.tokens, n % PIECES * 8,
                        (int)c.a.width, c.times);
    }
}

// Replaces scores with 2^(score - highest). Easy to get wrong: the highest score of a row that has
// seen no key yet is -infinity, which must not be subtracted.
template <int WIDE, int MANY>
static __device__ inline void exp_scores(struct rows<WIDE, MANY> *r, float s[MANY][KEYS / 8][4])
{
    UNROLL
    for (int m = 0; m < MANY; m++) UNROLL
    for (int half = 0; half < 2; half++) {
        float most = r->high[m][half], sum = 0;
        UNROLL
        for (int n = 0; n < KEYS / 8; n++)
            most = fmaxf(most, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
        most = four_most(most);
        const float base = most == -INFINITY ? 0 : most;
        const float fade = power_of_two(r->high[m][half] - base);
        UNROLL
        for (int n = 0; n < KEYS / 8; n++) UNROLL
        for (int e = 2 * half; e < 2 * half + 2; e++) {
            s[m][n][e] = power_of_two(s[m][n][e] - base);
            sum += s[m][n][e];
        }
        r->high[m][half] = most;
        r->sum[m][half] = r->sum[m][half] * fade + sum;
        UNROLL
        for (int n = 0; n < WIDE / 8; n++) {
            r->out[m][n][2 * half] *= fade;
            r->out[m][n][2 * half + 1] *= fade;
        }
    }
}

// Like tile_sums, for a tile of values that some rows do not see. A product covers all rows, and 0
// times infinity is NaN, so the product skips infinities and NaNs, and a loop adds them one by one
// to the rows that see them.
template <int WIDE, int MANY>
static __device__ inline void sum_seen(struct rows<WIDE, MANY> *r, const float s[MANY][KEYS / 8][4],
                                       const uint16_t *v, const struct keys_seen *seen, int from)
{
    const int lane = lane_of();
    int nonfinite = tile_sums<WIDE, MANY, KEYS, true>(r->out, s, v);
    for (int lanes = WARP / 2; lanes; lanes /= 2)
        nonfinite |= __shfl_xor_sync(ALL_LANES, nonfinite, lanes);
    if (!nonfinite) return;
    ROLLED
    for (int key = 0; key < KEYS; key++) UNROLL
    for (int n = 0; n < WIDE / 8; n++) UNROLL
    for (int e = 0; e < 2; e++) {
        const float x = from_bf16(v[key * row<WIDE>::STEP + n * 8 + lane % 4 * 2 + e]);
        if (x - x == 0) continue; // finite
        UNROLL
        for (int m = 0; m < MANY; m++) UNROLL
        for (int half = 0; half < 2; half++)
            if (sees(seen[m * 16 + half * 8 + lane / 4], from + key))
                r->out[m][n][2 * half + e] += x;
    }
}

template <int WIDE, int MANY>
static __device__ inline void write_rows(struct rows<WIDE, MANY> *r, const struct forward_call &c,
                                         int64_t i, int64_t h)
{
    UNROLL
    for (int m = 0; m < MANY; m++) {
        float share[2];
        UNROLL
        for (int half = 0; half < 2; half++) {
            const float sum = four_sum(r->sum[m][half]);
            const int64_t at = i + m * 16 + half * 8 + lane_of() / 4;
            share[half] = sum != sum ? sum : sum > 0 ? 1 / sum : 0; // NaN stays visible
            if (c.lse && at < c.a.tokens && lane_of() % 4 == 0)
                c.lse[h * c.a.tokens + at] = sum == 0 ? INFINITY : r->high[m][half] + log2f(sum);
        }
        if (c.a.y && c.a.y_dtype == DTYPE_BF16)
            put_rows<WIDE>(reinterpret_cast<uint16_t *>(c.a.y), r->out[m], share, i + m * 16,
                           c.a.tokens, h, c.a.heads, (int)c.a.value_width, false);
        else if (c.a.y && c.a.y_dtype == DTYPE_F16)
            put_rows<WIDE>(reinterpret_cast<struct half_number *>(c.a.y), r->out[m], share,
                           i + m * 16, c.a.tokens, h, c.a.heads, (int)c.a.value_width, false);
        else if (c.a.y)
            put_rows<WIDE>(c.a.y, r->out[m], share, i + m * 16, c.a.tokens, h, c.a.heads,
                           (int)c.a.value_width, false);
    }
}

template <int WIDE, int MANY, bool CACHED>
static __global__ void __launch_bounds__(MMA_THREADS) forward_kernel(const struct forward_call c)
{
    constexpr int OWN = 16 * MANY, ROWS = OWN * WARPS, STEP = row<WIDE>::STEP;
    SHARED_MEMORY(uint16_t, shared);
    __shared__ struct keys_seen seen_by[ROWS];
    uint16_t *const q = shared, *const k = q + ROWS * STEP, *const v = k + KEYS * STEP;
    const int own = (int)threadIdx.x / WARP * OWN; // first row of this warp
    // Under a causal mask the last queries see the most keys, so their blocks start first.
    const int i = (int)(gridDim.x - 1 - blockIdx.x) * ROWS, h = (int)blockIdx.y;
    const int kv = h / ((int)c.a.heads / (int)c.a.kv_heads);
    const int64_t start = head_start<WIDE, CACHED>(c, kv);
    const uint16_t *const keys = c.k + start, *const values = c.v + start;
    const struct sight mine = sight_of_warp(seen_by + own, c.a, i + own, OWN);
    const struct keys_seen all = block_sees(mine.any);
    struct rows<WIDE, MANY> r;
    UNROLL
    for (int m = 0; m < MANY; m++) {
        r.high[m][0] = r.high[m][1] = -INFINITY;
        r.sum[m][0] = r.sum[m][1] = 0;
        UNROLL
        for (int n = 0; n < WIDE / 8; n++)
            r.out[m][n][0] = r.out[m][n][1] = r.out[m][n][2] = r.out[m][n][3] = 0;
    }

    int from = all.from < all.to ? all.from / KEYS * KEYS : all.to;
    if (from < all.to) fetch_keys<WIDE, CACHED>(k, keys, c, from, kv, c.a.width);
    load_queries<WIDE, ROWS>(q, c, i, h);
    for (; from < all.to; from += KEYS) {
        const bool seen = sees_one_of(mine.any, from, KEYS); // the warp sees a key of the tile
        float s[MANY][KEYS / 8][4];
        fetch_wait();
        __syncthreads(); // the keys have arrived, the previous values have been used
        if (c.a.y) fetch_keys<WIDE, CACHED>(v, values, c, from, kv, c.a.value_width);
        if (seen) {
            tile_scores<WIDE, MANY, KEYS>(s, q + own * STEP, k);
            if (!sees_all_of(mine.each, from, KEYS)) hide<MANY>(s, seen_by + own, from);
        }
        fetch_wait();
        __syncthreads(); // the values have arrived, the keys have been used
        if (from + KEYS < all.to) fetch_keys<WIDE, CACHED>(k, keys, c, from + KEYS, kv, c.a.width);
        if (!seen) continue;
        exp_scores<WIDE, MANY>(&r, s);
        if (!c.a.y) continue;
        if (sees_all_of(mine.each, from, KEYS))
            tile_sums<WIDE, MANY, KEYS>(r.out, s, v);
        else
            sum_seen<WIDE, MANY>(&r, s, v, seen_by + own, from);
    }
    write_rows<WIDE, MANY>(&r, c, i + own, h);
}

template <int WIDE, int MANY, bool CACHED> static int run_rows(const struct forward_call *call)
{
    constexpr int ROWS = 16 * MANY * WARPS;
    const size_t size = (size_t)(ROWS + 2 * KEYS) * row<WIDE>::STEP * sizeof(uint16_t);
    const auto kernel = forward_kernel<WIDE, MANY, CACHED>;
    const struct forward_call c = *call;
    if (cuda_allow_shared("attention", kernel, size) < 0) return -1;
    const dim3 grid((size_t)((c.a.tokens + ROWS - 1) / ROWS), (size_t)c.a.heads);
    return LAUNCH(kernel, grid, MMA_THREADS, size, c);
}

template <int WIDE, bool CACHED> static int run_some(const struct forward_call *c)
{
    const int64_t blocks = (c->a.tokens + 127) / 128 * c->a.heads;
    return blocks >= cuda_processors() ? run_rows<WIDE, 2, CACHED>(c)
                                       : run_rows<WIDE, 1, CACHED>(c);
}

template <int WIDE> static int run(const struct forward_call *c, bool cached)
{
    return cached ? run_some<WIDE, true>(c) : run_some<WIDE, false>(c);
}

int mma_attend(const struct attention_call *c, const struct mma_keys *keys, float *lse)
{
    const struct forward_call f = { .a = *c,
                                    .k = keys->k,
                                    .v = keys->v,
                                    .lse = lse,
                                    .probs = nullptr,
                                    .times = c->scale * LOG2_E };
    return FOR_MMA_WIDTH(c->width, run, &f, keys->cached);
}

// --- probabilities -------------------------------------------------------------------------------

// One block per 64 queries of a head; it loops over all tiles of keys. Unseen keys get 0.
template <int WIDE, bool CACHED>
static __global__ void __launch_bounds__(MMA_THREADS) probs_kernel(const struct forward_call c)
{
    constexpr int ROWS = 16 * WARPS, STEP = row<WIDE>::STEP;
    SHARED_MEMORY(uint16_t, shared);
    __shared__ struct keys_seen seen_by[ROWS];
    uint16_t *const q = shared, *const k = q + ROWS * STEP;
    const int own = (int)threadIdx.x / WARP * 16, lane = lane_of();
    const int i = (int)blockIdx.x * ROWS, h = (int)blockIdx.y;
    const int kv = h / ((int)c.a.heads / (int)c.a.kv_heads);
    const uint16_t *const keys = c.k + head_start<WIDE, CACHED>(c, kv);
    const struct sight mine = sight_of_warp(seen_by + own, c.a, i + own, 16);
    load_queries<WIDE, ROWS>(q, c, i, h);
    for (int from = 0; from < c.a.keys; from += KEYS) {
        float s[1][KEYS / 8][4];
        __syncthreads(); // the previous keys have been used
        fetch_keys<WIDE, CACHED>(k, keys, c, from, kv, c.a.width);
        fetch_wait();
        __syncthreads();
        tile_scores<WIDE, 1, KEYS>(s, q + own * STEP, k);
        if (!sees_all_of(mine.each, from, KEYS)) hide<1>(s, seen_by + own, from);
        UNROLL
        for (int half = 0; half < 2; half++) {
            const int64_t at = i + own + half * 8 + lane / 4;
            if (at >= c.a.tokens) continue;
            const float lse = c.lse[h * c.a.tokens + at];
            float *to = c.probs + (h * c.a.tokens + at) * c.a.keys;
            UNROLL
            for (int n = 0; n < KEYS / 8; n++)
                put_two(to, from + n * 8 + lane % 4 * 2, (int)c.a.keys,
                        power_of_two(s[0][n][2 * half] - lse),
                        power_of_two(s[0][n][2 * half + 1] - lse), false);
        }
    }
}

template <int WIDE> static int run_probs(const struct forward_call *call, bool cached)
{
    constexpr int ROWS = 16 * WARPS;
    const size_t size = (size_t)(ROWS + KEYS) * row<WIDE>::STEP * sizeof(uint16_t);
    const auto kernel = cached ? probs_kernel<WIDE, true> : probs_kernel<WIDE, false>;
    const struct forward_call c = *call;
    if (cuda_allow_shared("attention", kernel, size) < 0) return -1;
    const dim3 grid((size_t)((c.a.tokens + ROWS - 1) / ROWS), (size_t)c.a.heads);
    return LAUNCH(kernel, grid, MMA_THREADS, size, c);
}

// --- the call ------------------------------------------------------------------------------------

// True if the kernels can read the keys and values where they are: bf16, heads of at most
// WIDEST_MMA elements in whole, aligned pieces of 16 bytes, and offsets of 32 bits.
bool attention_mma_ready(const struct attention_call *c)
{
    return c->dtype == DTYPE_BF16 && (c->width | c->value_width) % 8 == 0 &&
           c->width <= WIDEST_MMA && (uintptr_t)c->k % 16 == 0 && (uintptr_t)c->v % 16 == 0 &&
           (c->keys + KEYS) * c->kv_heads * c->width <= INT32_MAX;
}

// Points *keys at the keys and values: in place if attention_mma_ready, else rounded into
// `scratch`.
static int keys_ready(struct mma_keys *keys, const struct attention_call *c, char *scratch)
{
    *keys = { static_cast<const uint16_t *>(c->k), static_cast<const uint16_t *>(c->v), true };
    if (attention_mma_ready(c)) return 0;
    uint16_t *k = reinterpret_cast<uint16_t *>(scratch);
    uint16_t *v = k + mma_side_size(c->keys, c->kv_heads, c->width) / sizeof *k;
    const int64_t wide = mma_width(c->width);
    const struct mma_sides sides = {
        { { k, c->k, c->dtype, c->keys, c->kv_heads, c->width, wide, 1 },
          { v, c->v, c->dtype, c->keys, c->kv_heads, c->value_width, wide, 1 } },
        2
    };
    *keys = { k, v, false };
    return mma_sides_round(&sides);
}

int attention_mma(const struct attention_call *c, float *probs)
{
    const size_t sides =
        attention_mma_ready(c) ? 0 : 2 * mma_side_size(c->keys, c->kv_heads, c->width);
    const size_t lse_size = probs ? (size_t)(c->heads * c->tokens) * sizeof(float) : 0;
    char *scratch = static_cast<char *>(cuda_scratch(sides + lse_size));
    if (!scratch) return -1;
    float *lse = probs ? reinterpret_cast<float *>(scratch + sides) : nullptr;
    struct mma_keys keys;
    if (keys_ready(&keys, c, scratch) < 0 || mma_attend(c, &keys, lse) < 0) return -1;
    if (!probs || !c->keys) return 0;
    const struct forward_call f = {
        .a = *c, .k = keys.k, .v = keys.v, .lse = lse, .probs = probs, .times = c->scale * LOG2_E
    };
    return FOR_MMA_WIDTH(c->width, run_probs, &f, keys.cached);
}
