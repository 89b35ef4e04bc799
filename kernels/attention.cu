// kernels/attention.cu -- softmax(q k^T scale) v with grouped heads, in tiles, and the
// probabilities if requested.
//
// Easy to get wrong: a row may see no key of a tile, or no key at all. A row that sees no key keeps
// the maximum -infinity and the sum 0, and its result is 0.
#include "kernels/attention_cuda.h"

// Position of a key in the tile that begins at key `from`, clamped to 0..TILE.
static __device__ inline int clamp_to_tile(int64_t key, int64_t from)
{
    return key < from ? 0 : key - from < TILE ? (int)(key - from) : TILE;
}

template <int WIDE> static __global__ void tiles_kernel(const struct attention_call c)
{
    SHARED_MEMORY(float, shared);
    constexpr int SIZE = pitch<WIDE>::TILE_NUMBERS, PITCH = pitch<WIDE>::NUMBERS;
    float *q = shared, *k = q + SIZE, *v = k + SIZE, *p = v + SIZE;
    const int row = threadIdx.x / FOUR, part = threadIdx.x % FOUR;
    const int64_t i = (int64_t)blockIdx.x * TILE, h = blockIdx.y, kv = h / (c.heads / c.kv_heads);
    const struct span all = span_of_tile(c, i), mine = span_of(c, i + row);
    float *weights = p + row * SCORE_PITCH;
    float high = -INFINITY, sum = 0, scores[EACH_KEYS];
    float4 out[WIDE / 16];
    for (int j = 0; j < WIDE / 16; j++) out[j] = { 0, 0, 0, 0 };
    load_tile<WIDE>(q, c.q, i, c.tokens, c.heads, h, c.width);

    for (int64_t from = all.from / TILE * TILE; from < all.to; from += TILE) {
        __syncthreads(); // all threads have read the previous tiles and weights
        load_keys<WIDE>(k, c.k, c, from, kv, c.width);
        if (c.y) load_keys<WIDE>(v, c.v, c, from, kv, c.value_width);
        __syncthreads();
        tile_dots<WIDE>(scores, q + row * PITCH, k, part);
        float most = high;
        for (int n = 0; n < EACH_KEYS; n++) {
            const int64_t key = from + part + FOUR * n;
            scores[n] *= c.scale;
            if (key >= mine.from && key < mine.to) most = fmaxf(most, scores[n]);
        }
        most = four_most(most);
        const float fade = most == high ? 1 : expf(high - most);
        float added = 0;
        for (int n = 0; n < EACH_KEYS; n++) {
            const int64_t key = from + part + FOUR * n;
            const float e = key >= mine.from && key < mine.to ? expf(scores[n] - most) : 0;
            weights[part + FOUR * n] = e;
            added += e;
        }
        sum = sum * fade + four_sum(added);
        high = most;
        __syncwarp();
        for (int j = 0; j < WIDE / 16; j++)
            out[j] = { out[j].x * fade, out[j].y * fade, out[j].z * fade, out[j].w * fade };
        if (!c.y) continue;
        // 0 times infinity is NaN, so a row reads only the values that it sees.
        if (mine.from <= from && from + TILE <= mine.to)
            tile_add<WIDE>(out, weights, v, part);
        else
            tile_add<WIDE>(out, weights, v, part, clamp_to_tile(mine.from, from),
                           clamp_to_tile(mine.to, from));
    }
    if (i + row >= c.tokens) return;
    if (c.stats && part == 0) {
        float *to = c.stats + (h * c.tokens + i + row) * 2;
        to[0] = high;
        to[1] = sum;
    }
    const float share = sum != sum ? sum : sum > 0 ? 1 / sum : 0; // NaN stays visible
    if (c.y)
        put_columns<WIDE>(c.y + ((i + row) * c.heads + h) * c.value_width, out, share, part,
                          c.value_width, false);
}

template <int WIDE> static int run(const struct attention_call *c)
{
    const size_t size =
        (size_t)(3 * pitch<WIDE>::TILE_NUMBERS + TILE * SCORE_PITCH) * sizeof(float);
    const auto kernel = tiles_kernel<WIDE>;
    const struct attention_call call = *c;
    if (cuda_allow_shared("attention", kernel, size) < 0) return -1;
    const dim3 grid((unsigned)((c->tokens + TILE - 1) / TILE), (unsigned)c->heads);
    return LAUNCH(kernel, grid, TILE_THREADS, size, call);
}

int attention_tiles(const struct attention_call *c)
{
    return FOR_WIDTH(c->width, run, c);
}

// --- probabilities -------------------------------------------------------------------------------

static constexpr int PROBS_THREADS = 128;

template <typename T>
static __device__ inline float row_dot(const float *q, const T *k, int64_t width)
{
    float dot = 0;
    for (int64_t e = 0; e < width; e++) dot += q[e] * widened(k[e]);
    return dot;
}

// One block per row of probs [H,N,P].
static __global__ void probs_kernel(float *probs, const struct attention_call c)
{
    const int64_t i = blockIdx.x, h = blockIdx.y, kv = h / (c.heads / c.kv_heads);
    const float *q = c.q + (i * c.heads + h) * c.width;
    const float *stats = c.stats + (h * c.tokens + i) * 2;
    const float high = stats[0], sum = stats[1];
    const struct span see = span_of(c, i);
    float *to = probs + (h * c.tokens + i) * c.keys;
    for (int64_t j = threadIdx.x; j < c.keys; j += PROBS_THREADS) {
        const int64_t at = (j * c.kv_heads + kv) * c.width;
        const float dot = c.dtype == DTYPE_BF16
                              ? row_dot(q, static_cast<const uint16_t *>(c.k) + at, c.width)
                              : row_dot(q, static_cast<const float *>(c.k) + at, c.width);
        to[j] = j >= see.from && j < see.to ? expf(dot * c.scale - high) / sum : 0;
    }
}

int attention_cuda(struct tensor *y, const struct tensor *q, const struct tensor *k,
                   const struct tensor *v, const struct tensor *first, const struct tensor *last,
                   float scale, struct tensor *probs, enum matmul_mode mode)
{
    struct attention_call c = attention_call_of(q, k, v, first, last, scale);
    if (!tensor_count(q)) return 0;
    c.y = floats(y);
    const bool few = c.tokens <= FEW_QUERIES || c.width > WIDEST;
    if (mode == MATMUL_BF16 && !few && c.width <= WIDEST_MMA)
        return attention_mma(&c, floats(probs));
    const size_t parts = few ? attention_few_floats(&c) : 0;
    const size_t stats = probs ? (size_t)(c.heads * c.tokens) * 2 : 0;
    float *scratch = static_cast<float *>(cuda_scratch((stats + parts) * sizeof(float)));
    if (!scratch) return -1;
    if (probs) c.stats = scratch;
    if ((few ? attention_few(&c, scratch + stats) : attention_tiles(&c)) < 0) return -1;
    if (!probs || !c.keys) return 0;
    return LAUNCH(probs_kernel, dim3((unsigned)c.tokens, (unsigned)c.heads), PROBS_THREADS, 0,
                  floats(probs), c);
}
