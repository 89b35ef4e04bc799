// kernels/attention_backward.cu -- the gradients of attention in tiles, without a matrix of queries
// by keys.
//
// With s = q k scale, p = e^(s - highest) / sum, delta = dy . y:
//   dp = dy v^T,  ds = p (dp - delta),  dq += ds k scale,  dk += ds^T q scale,  dv += p^T dy
//
// attention_tiles recomputes highest and sum. One kernel holds a tile of queries and loops over the
// keys (dq); another holds a tile of keys and loops over the queries of all heads that share these
// keys (dk, dv). So one block sums each gradient, in a fixed order.
#include "kernels/attention_cuda.h"

struct gradients {
    float *dq, *dk, *dv; // each may be NULL
    const float *dy;     // [N,H,dv]
    const float *y;      // [N,H,dv]
    const float *stats;  // [H,N,2]
    float *delta;        // [H,N]
};

// One warp per row and head.
static __global__ void delta_kernel(const struct attention_call c, const struct gradients g)
{
    const int64_t n = (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const int64_t i = n / c.heads, h = n % c.heads;
    float sum = 0;
    for (int64_t e = threadIdx.x % WARP; n < c.tokens * c.heads && e < c.value_width; e += WARP)
        sum += g.dy[n * c.value_width + e] * g.y[n * c.value_width + e];
    sum = warp_sum(sum);
    if (n < c.tokens * c.heads && threadIdx.x % WARP == 0) g.delta[h * c.tokens + i] = sum;
}

// Statistics of a row; share = 1 / sum, or 0 if the row sees no key.
struct row_of {
    struct span see;
    float high, share, delta;
};

static __device__ inline struct row_of row_at(const struct attention_call &c,
                                              const struct gradients &g, int64_t i, int64_t h)
{
    struct row_of r = { span_of(c, i), 0, 0, 0 };
    if (r.see.from >= r.see.to) return r;
    const int64_t n = h * c.tokens + i;
    r.high = g.stats[2 * n];
    r.share = 1 / g.stats[2 * n + 1];
    r.delta = g.delta[n];
    return r;
}

// Returns p of a query and a key; stores ds in *slope.
static __device__ inline float probability(const struct row_of &r, int64_t key, float score,
                                           float dp, float *slope)
{
    const bool seen = key >= r.see.from && key < r.see.to;
    const float p = seen ? expf(score - r.high) * r.share : 0;
    *slope = seen ? p * (dp - r.delta) : 0;
    return p;
}

// --- queries -------------------------------------------------------------------------------------

template <int WIDE>
static __global__ void queries_kernel(const struct attention_call c, const struct gradients g)
{
    SHARED_MEMORY(float, shared);
    constexpr int SIZE = pitch<WIDE>::TILE_NUMBERS, PITCH = pitch<WIDE>::NUMBERS;
    float *q = shared, *dy = q + SIZE, *k = dy + SIZE, *v = k + SIZE, *ds = v + SIZE;
    const int row = threadIdx.x / FOUR, part = threadIdx.x % FOUR;
    const int64_t i = (int64_t)blockIdx.x * TILE, h = blockIdx.y, kv = h / (c.heads / c.kv_heads);
    const struct span all = span_of_tile(c, i);
    const float *keys = static_cast<const float *>(c.k), *values = static_cast<const float *>(c.v);
    const struct row_of mine = row_at(c, g, i + row, h);
    float *slopes = ds + row * SCORE_PITCH;
    float scores[EACH_KEYS], dp[EACH_KEYS];
    float4 dq[WIDE / 16];
    for (int j = 0; j < WIDE / 16; j++) dq[j] = { 0, 0, 0, 0 };
    load_tile<WIDE>(q, c.q, i, c.tokens, c.heads, h, c.width);
    load_tile<WIDE>(dy, g.dy, i, c.tokens, c.heads, h, c.value_width);
    for (int64_t from = all.from / TILE * TILE; from < all.to; from += TILE) {
        __syncthreads();
        load_tile<WIDE>(k, keys, from, c.keys, c.kv_heads, kv, c.width);
        load_tile<WIDE>(v, values, from, c.keys, c.kv_heads, kv, c.value_width);
        __syncthreads();
        tile_dots<WIDE>(scores, q + row * PITCH, k, part);
        tile_dots<WIDE>(dp, dy + row * PITCH, v, part);
        for (int n = 0; n < EACH_KEYS; n++)
            probability(mine, from + part + FOUR * n, scores[n] * c.scale, dp[n],
                        &slopes[part + FOUR * n]);
        __syncwarp();
        tile_add<WIDE>(dq, slopes, k, part);
    }
    if (i + row < c.tokens)
        put_columns<WIDE>(g.dq + ((i + row) * c.heads + h) * c.width, dq, c.scale, part, c.width,
                          true);
}

// --- keys and values -----------------------------------------------------------------------------

template <int WIDE>
static __global__ void keys_kernel(const struct attention_call c, const struct gradients g)
{
    SHARED_MEMORY(float, shared);
    constexpr int SIZE = pitch<WIDE>::TILE_NUMBERS, PITCH = pitch<WIDE>::NUMBERS;
    float *q = shared, *dy = q + SIZE, *k = dy + SIZE, *v = k + SIZE;
    float *p = v + SIZE, *ds = p + TILE * SCORE_PITCH;
    const int row = threadIdx.x / FOUR, part = threadIdx.x % FOUR; // row: in the tile of keys
    const int64_t from = (int64_t)blockIdx.x * TILE, kv = blockIdx.y, group = c.heads / c.kv_heads;
    const float *keys = static_cast<const float *>(c.k), *values = static_cast<const float *>(c.v);
    float *probabilities = p + row * SCORE_PITCH, *slopes = ds + row * SCORE_PITCH;
    float scores[EACH_KEYS], dp[EACH_KEYS];
    float4 dk[WIDE / 16], dv[WIDE / 16];
    for (int j = 0; j < WIDE / 16; j++) dk[j] = dv[j] = { 0, 0, 0, 0 };
    load_tile<WIDE>(k, keys, from, c.keys, c.kv_heads, kv, c.width);
    load_tile<WIDE>(v, values, from, c.keys, c.kv_heads, kv, c.value_width);
    for (int64_t i = 0; i < c.tokens; i += TILE) {
        const struct span all = span_of_tile(c, i);
        if (all.from >= from + TILE || all.to <= from) continue; // uniform across the block
        for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
            __syncthreads();
            load_tile<WIDE>(q, c.q, i, c.tokens, c.heads, h, c.width);
            load_tile<WIDE>(dy, g.dy, i, c.tokens, c.heads, h, c.value_width);
            __syncthreads();
            tile_dots<WIDE>(scores, k + row * PITCH, q, part);
            tile_dots<WIDE>(dp, v + row * PITCH, dy, part);
            for (int n = 0; n < EACH_KEYS; n++) {
                const int query = part + FOUR * n;
                probabilities[query] = probability(row_at(c, g, i + query, h), from + row,
                                                   scores[n] * c.scale, dp[n], &slopes[query]);
            }
            __syncwarp();
            tile_add<WIDE>(dv, probabilities, dy, part);
            tile_add<WIDE>(dk, slopes, q, part);
        }
    }
    const int64_t at = (from + row) * c.kv_heads + kv;
    if (from + row >= c.keys) return;
    if (g.dk) put_columns<WIDE>(g.dk + at * c.width, dk, c.scale, part, c.width, true);
    if (g.dv) put_columns<WIDE>(g.dv + at * c.value_width, dv, 1, part, c.value_width, true);
}

template <int WIDE> static int run(const struct attention_call *call, const struct gradients *all)
{
    const struct attention_call c = *call;
    const struct gradients g = *all;
    const size_t size =
        (size_t)(4 * pitch<WIDE>::TILE_NUMBERS + 2 * TILE * SCORE_PITCH) * sizeof(float);
    const auto queries = queries_kernel<WIDE>;
    const auto keys = keys_kernel<WIDE>;
    const dim3 query_tiles((unsigned)((c.tokens + TILE - 1) / TILE), (unsigned)c.heads);
    const dim3 key_tiles((unsigned)((c.keys + TILE - 1) / TILE), (unsigned)c.kv_heads);
    if (cuda_allow_shared("attention backward", queries, size) < 0 ||
        cuda_allow_shared("attention backward", keys, size) < 0)
        return -1;
    if (g.dq && LAUNCH(queries, query_tiles, TILE_THREADS, size, c, g) < 0) return -1;
    if (!g.dk && !g.dv) return 0;
    return LAUNCH(keys, key_tiles, TILE_THREADS, size, c, g);
}

int attention_backward_cuda(struct tensor *dq, struct tensor *dk, struct tensor *dv,
                            const struct tensor *dy, const struct tensor *y, const struct tensor *q,
                            const struct tensor *k, const struct tensor *v,
                            const struct tensor *first, const struct tensor *last, float scale,
                            enum matmul_mode mode)
{
    struct attention_call c = attention_call_of(q, k, v, first, last, scale);
    const int64_t rows = c.tokens * c.heads;
    if (!tensor_count(q) || !c.keys) return 0;
    if (c.width > WIDEST)
        return cuda_fail(
            "the backward pass of attention supports heads of at most %d elements, not %lld",
            WIDEST, (long long)c.width);
    if (mode == MATMUL_BF16 && c.width <= WIDEST_MMA)
        return attention_mma_backward(&c, floats(dq), floats(dk), floats(dv), floats(dy),
                                      floats(y));
    float *scratch = static_cast<float *>(cuda_scratch((size_t)rows * 3 * sizeof(float)));
    if (!scratch) return -1;
    const struct gradients g = { .dq = floats(dq),
                                 .dk = floats(dk),
                                 .dv = floats(dv),
                                 .dy = floats(dy),
                                 .y = floats(y),
                                 .stats = scratch,
                                 .delta = scratch + 2 * rows };
    c.stats = scratch;
    if (attention_tiles(&c) < 0 ||
        LAUNCH(delta_kernel, (size_t)((rows + EACH / WARP - 1) / (EACH / WARP)), EACH, 0, c, g) < 0)
        return -1;
    return FOR_WIDTH(c.width, run, &c, &g);
}
