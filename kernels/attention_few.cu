// kernels/attention_few.cu -- attention of a few rows, as in decoding. With one block per row, most
// of the GPU would be idle, so several blocks each process a part of a row's keys; the last block
// to finish combines the parts, in order.
//
//   part c: highest score m_c, s_c = sum e^(score - m_c), out_c = sum e^(score - m_c) v
//   m = max m_c,  y = sum out_c e^(m_c - m) / sum s_c e^(m_c - m)
//
// Memory bandwidth is the limit, so each block reads a whole key or value once for several heads of
// a group. Eight threads share a key (f32: 128 bytes at a time), and a warp shares a value. Keys
// and values are f32 or bf16.
#include "kernels/attention_cuda.h"

static constexpr int FEW_THREADS = 128, FEW_WARPS = FEW_THREADS / WARP;
static constexpr int SHARE = 8; // threads that share a key
// Number of keys per part: a multiple of LEAST, at most MOST, and if possible so small that each
// multiprocessor gets BLOCKS_EACH blocks.
static constexpr int64_t LEAST = 32, MOST = 256, BLOCKS_EACH = 4;
// For up to FEW_QUERIES rows, the part size of a row, and with it the order of its sums, depends
// only on its last visible key, rounded up to a multiple of STRETCH. So the bits of a row do not
// depend on other rows, or on the unseen keys that a recorded step passes
// (core/model/decoder_step.c).
static constexpr int64_t STRETCH = 256;

// Counters in `done`; with more blocks per part, join_kernel combines the parts.
static constexpr int64_t COUNTED = 4096;

// A block computes several heads only if their width d is at most WIDEST, or at most this if keys
// have `more` elements.
static constexpr int64_t WIDEST_LATENT = 512;

// How the work is split.
struct split {
    int64_t wanted; // desired number of parts of a row's keys
    int part;       // maximum number of keys per part
    int heads;      // heads of a group per block: 1, 2, 4, 8
    int together;   // blocks that share a group's heads
    int64_t parts;  // maximum number of parts of a row's keys
    bool join;      // the last block to finish combines the parts
};

// Keys per part of a row that sees keys up to `to`.
static __host__ __device__ inline int part_of(const struct split &s, int64_t to)
{
    const int64_t all = (to + STRETCH - 1) / STRETCH * STRETCH;
    const int64_t keys = ((all + s.wanted - 1) / s.wanted + LEAST - 1) / LEAST * LEAST;
    return (int)(keys < LEAST ? LEAST : keys < MOST ? keys : MOST);
}

static struct split split_of(const struct attention_call *c)
{
    const int group = (int)(c->heads / c->kv_heads);
    struct split s = {
        .wanted = 0, .part = 0, .heads = 1, .together = 0, .parts = 0, .join = false
    };
    const int64_t widest = c->more ? WIDEST_LATENT : WIDEST;
    while (c->width <= widest && s.heads < group && s.heads < 8) s.heads *= 2;
    s.together = (group + s.heads - 1) / s.heads;
    const int64_t blocks = c->tokens * c->kv_heads * s.together; // per part
    const int64_t alone = c->tokens <= FEW_QUERIES ? c->kv_heads * s.together : blocks;
    s.wanted = (BLOCKS_EACH * cuda_processors() + alone - 1) / alone;
    s.part = part_of(s, c->keys);
    for (int64_t to = STRETCH; to - STRETCH < c->keys; to += STRETCH) {
        const int64_t keys = to < c->keys ? to : c->keys, part = part_of(s, to);
        if ((keys + part - 1) / part > s.parts) s.parts = (keys + part - 1) / part;
    }
    s.join = s.parts && blocks <= COUNTED;
    return s;
}

// Keys and values are read one element at a time, or four at a time if all widths are multiples of
// 4: as the type K (float, float4; uint16_t, four_bf16), which is converted to V (float, float4).
template <typename K> struct reading {
    using V = decltype(widened(K{}));
    static constexpr int NUMBERS = (int)(sizeof(V) / sizeof(float));
};

static __device__ inline float add_product(float sum, float a, float b)
{
    return sum + a * b;
}

static __device__ inline float add_product(float sum, float4 a, float4 b)
{
    return dot_four(a, b, sum);
}

static __device__ inline float add_times(float sum, float weight, float x)
{
    return sum + weight * x;
}

static __device__ inline float4 add_times(float4 sum, float weight, float4 x)
{
    return { sum.x + weight * x.x, sum.y + weight * x.y, sum.z + weight * x.z,
             sum.w + weight * x.w };
}

// The work of one block.
struct few_block {
    struct span see; // keys of the part that the row sees, counted from the part's first key
    int64_t row, kv, head, from;
    int heads; // number of heads in this block; the first is `head`
    int part;  // keys per part
};

static __device__ inline struct few_block few_block_of(const struct attention_call &c,
                                                       const struct split &s)
{
    const int group = (int)c.heads / (int)c.kv_heads, kv = (int)blockIdx.y / s.together;
    const int some = (int)blockIdx.y % s.together * s.heads; // preceding heads of the group
    struct few_block b = { .see = span_of(c, blockIdx.z),
                           .row = blockIdx.z,
                           .kv = kv,
                           .head = kv * group + some,
                           .from = 0,
                           .heads = group - some < s.heads ? group - some : s.heads,
                           .part = 0 };
    b.part = part_of(s, b.see.to);
    b.from = (int64_t)blockIdx.x * b.part;
    b.see.from = b.see.from > b.from ? b.see.from - b.from : 0;
    b.see.to = b.see.to - b.from < b.part ? b.see.to - b.from : b.part;
    return b;
}

// Sets scores[HEADS, part] for the block's keys; unseen keys get -infinity.
template <typename K, int HEADS>
static __device__ inline void few_scores(float *scores, const float *query,
                                         const struct attention_call &c, const struct few_block &b,
                                         int part)
{
    using V = typename reading<K>::V;
    const int n = (int)c.width / reading<K>::NUMBERS, mine = (int)threadIdx.x % SHARE;
    const int more = (int)c.more_width / reading<K>::NUMBERS, wide = n + more; // of a query
    const V *q = reinterpret_cast<const V *>(query);
    for (int j = (int)threadIdx.x / SHARE; j < part; j += FEW_THREADS / SHARE) {
        const bool seen = j >= b.see.from && j < b.see.to;
        const K *k = static_cast<const K *>(c.k) + ((b.from + j) * c.kv_heads + b.kv) * n;
        float dot[HEADS];
        for (int h = 0; h < HEADS; h++) dot[h] = 0;
        for (int e = mine; seen && e < n; e += SHARE) {
            const V x = widened(k[e]);
            for (int h = 0; h < HEADS; h++) dot[h] = add_product(dot[h], x, q[h * wide + e]);
        }
        const K *rest = static_cast<const K *>(c.more) + ((b.from + j) * c.kv_heads + b.kv) * more;
        for (int e = mine; seen && e < more; e += SHARE) {
            const V x = widened(rest[e]);
            for (int h = 0; h < HEADS; h++) dot[h] = add_product(dot[h], x, q[h * wide + n + e]);
        }
        for (int h = 0; h < HEADS; h++) {
            for (int lanes = SHARE / 2; lanes; lanes /= 2)
                dot[h] += __shfl_xor_sync(ALL_LANES, dot[h], lanes);
            if (mine == 0) scores[h * part + j] = seen ? dot[h] * c.scale : -INFINITY;
        }
    }
}

// Replaces a head's scores with e^(score - highest), or with 0 for unseen keys. Sets *high to the
// highest score and *sum to the sum of the new scores. Called by one warp per head.
static __device__ inline void few_exp_scores(float *scores, int part, const struct span &see,
                                             float *high, float *sum)
{
    const int lane = (int)threadIdx.x % WARP;
    float most = -INFINITY, all = 0;
    for (int j = lane; j < part; j += WARP) most = fmaxf(most, scores[j]);
    most = warp_most(most);
    for (int j = lane; j < part; j += WARP) {
        scores[j] = j >= see.from && j < see.to ? expf(scores[j] - most) : 0;
        all += scores[j];
    }
    *high = most;
    *sum = warp_sum(all);
}

// Computes a warp's sums[HEADS, dv] of weight times value, over every FEW_WARPS-th visible key.
template <typename K, int HEADS>
static __device__ inline void few_sums(float *sums, const float *weights,
                                       const struct attention_call &c, const struct few_block &b,
                                       int part)
{
    using V = typename reading<K>::V;
    const int n = (int)c.value_width / reading<K>::NUMBERS;
    const int64_t step = c.kv_heads * n;
    const K *v = static_cast<const K *>(c.v) + (b.from * c.kv_heads + b.kv) * n;
    for (int e = (int)threadIdx.x % WARP; e < n; e += WARP) {
        V sum[HEADS];
        for (int h = 0; h < HEADS; h++) sum[h] = V{};
        for (int64_t j = b.see.from + threadIdx.x / WARP; j < b.see.to; j += FEW_WARPS) {
            const V x = widened(v[j * step + e]);
            for (int h = 0; h < HEADS; h++) sum[h] = add_times(sum[h], weights[h * part + j], x);
        }
        for (int h = 0; h < HEADS; h++) reinterpret_cast<V *>(sums)[h * n + e] = sum[h];
    }
}

// The combined statistics of a head's parts: the highest score and the factor 1 / sum for the
// outputs.
struct whole {
    float high, share;
};

// Combines the statistics of `parts` parts: the first is at `part`, the others follow at intervals
// of `step` elements. Parts without a visible key add 0. Called by a whole warp.
static __device__ inline struct whole whole_of(const float *part, int64_t parts, int64_t step,
                                               float *stats)
{
    const int lane = (int)threadIdx.x % WARP;
    float high = -INFINITY, sum = 0;
    for (int64_t p = lane; p < parts; p += WARP) high = fmaxf(high, part[p * step]);
    high = warp_most(high);
    const float base = high == -INFINITY ? 0 : high;
    for (int64_t p = lane; p < parts; p += WARP)
        sum += part[p * step + 1] * expf(part[p * step] - base);
    sum = warp_sum(sum);
    if (stats && lane == 0) {
        stats[0] = high;
        stats[1] = sum;
    }
    return { base, sum != sum ? sum : sum > 0 ? 1 / sum : 0 }; // keeps NaN visible
}

// Computes y and stats of row i, heads h..h+heads-1, from all parts; called by a whole block.
template <int HEADS>
static __device__ inline void few_join(const struct attention_call &c, const float *part,
                                       int64_t parts, int64_t i, int64_t h, int heads)
{
    __shared__ struct whole whole[HEADS];
    const int64_t width = c.value_width, step = width + 2, first = i * c.heads + h;
    const float *from = part + first * parts * step;
    for (int n = (int)threadIdx.x / WARP; n < HEADS; n += FEW_WARPS) {
        float *stats = c.stats ? c.stats + ((h + n) * c.tokens + i) * 2 : nullptr;
        struct whole w = { 0, 0 }; // initialised to silence warnings about absent heads
        if (n < heads) w = whole_of(from + n * parts * step, parts, step, stats);
        if (threadIdx.x % WARP == 0) whole[n] = w;
    }
    __syncthreads();
    for (int64_t e = threadIdx.x; c.y && e < width; e += FEW_THREADS) {
        float out[HEADS];
        for (int n = 0; n < HEADS; n++) out[n] = 0;
        for (int64_t p = 0; p < parts; p++)
            for (int n = 0; n < HEADS; n++) {
                const float *one = from + ((n < heads ? n : 0) * parts + p) * step;
                out[n] += one[2 + e] * expf(one[0] - whole[n < heads ? n : 0].high);
            }
        for (int n = 0; n < HEADS; n++)
            if (n < heads) c.y[(first + n) * width + e] = out[n] * whole[n].share;
    }
}

// The number of finished blocks for each row and set of heads; the last block resets the number to
// 0.
static __device__ unsigned done[COUNTED];

// Returns true in the last of `of` blocks to finish, which sees the writes of all other blocks.
static __device__ inline bool last_of(unsigned *count, unsigned of)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(count, of - 1) == of - 1;
    __syncthreads();
    __threadfence();
    return last;
}

// Prefetches the block's keys and values if 16-byte reads are possible.
template <typename K>
static __device__ inline void few_prefetch(const struct attention_call &c,
                                           const struct few_block &b)
{
    const int64_t key = c.width / reading<K>::NUMBERS * (int64_t)sizeof(K);
    const int64_t value = c.value_width / reading<K>::NUMBERS * (int64_t)sizeof(K);
    const int64_t wanted = b.see.to > b.see.from ? b.see.to - b.see.from : 0;
    if ((key | value) % 16 || ((uintptr_t)c.k | (uintptr_t)c.v) % 16) return;
    for (int64_t n = threadIdx.x; n < 2 * wanted; n += FEW_THREADS) {
        const char *all = static_cast<const char *>(n < wanted ? c.k : c.v);
        const int64_t j = b.from + b.see.from + n % wanted, size = n < wanted ? key : value;
        cuda_prefetch(all + (j * c.kv_heads + b.kv) * size, (unsigned)size);
    }
}

// Writes m, s and out [dv] of each part [N,H,parts]. If s.join, the last block combines the parts.
template <typename K, int HEADS>
static __global__ void parts_kernel(float *part, const struct attention_call c,
                                    const struct split s)
{
    SHARED_MEMORY(float, query); // [HEADS, wide]
    const int width = (int)c.value_width, wide = (int)(c.width + c.more_width),
              warp = (int)threadIdx.x / WARP;
    float *weights = query + HEADS * wide;  // [HEADS, part]
    float *sums = weights + HEADS * s.part; // [FEW_WARPS, HEADS, dv]
    cuda_let_next_start();
    // Prefetches before the previous kernel has ended. This is safe because few_block_of reads only
    // the visible ranges, which the host, not a kernel, writes.
    few_prefetch<K>(c, few_block_of(c, s));
    cuda_wait_previous();
    const struct few_block b = few_block_of(c, s);
    float *to = part + ((b.row * c.heads + b.head) * s.parts + blockIdx.x) * (width + 2);
    const int64_t head_step = s.parts * (width + 2);
    for (int e = (int)threadIdx.x; e < HEADS * wide; e += FEW_THREADS)
        query[e] = e < b.heads * wide ? c.q[(b.row * c.heads + b.head) * wide + e] : 0;
    __syncthreads();
    few_scores<K, HEADS>(weights, query, c, b, b.part);
    __syncthreads();
    for (int h = warp; h < b.heads; h += FEW_WARPS) {
        float high, sum;
        few_exp_scores(weights + h * b.part, b.part, b.see, &high, &sum);
        if (threadIdx.x % WARP) continue;
        to[h * head_step] = high;
        to[h * head_step + 1] = sum;
    }
    __syncthreads();
    few_sums<K, HEADS>(sums + warp * HEADS * width, weights, c, b, b.part);
    __syncthreads();
    for (int e = (int)threadIdx.x; e < b.heads * width; e += FEW_THREADS) {
        float sum = 0;
        for (int w = 0; w < FEW_WARPS; w++) sum += sums[w * HEADS * width + e];
        to[e / width * head_step + 2 + e % width] = sum;
    }
    if (s.join && last_of(&done[blockIdx.z * gridDim.y + blockIdx.y], gridDim.x))
        few_join<HEADS>(c, part, s.parts, b.row, b.head, b.heads);
}

// Combines the parts with one block per row and head. Used if there are no keys, or too many blocks
// for the counters in `done`.
static __global__ void join_kernel(const float *part, int64_t parts, const struct attention_call c)
{
    few_join<1>(c, part, parts, blockIdx.x, blockIdx.y, 1);
}

// Returns the number of floats for all parts. Rounds the number of keys up to a multiple of
// STRETCH, so that the result suffices for all replays of a recording.
size_t attention_few_floats(const struct attention_call *c)
{
    struct attention_call whole = *c;
    whole.keys = (c->keys + STRETCH - 1) / STRETCH * STRETCH;
    return (size_t)(c->tokens * c->heads * split_of(&whole).parts * (c->value_width + 2));
}

template <typename K, int HEADS>
static int run_parts(float *part, const struct attention_call *call, const struct split *split)
{
    const struct attention_call c = *call;
    const struct split s = *split;
    const auto kernel = parts_kernel<K, HEADS>;
    const dim3 grid((size_t)s.parts, (size_t)(c.kv_heads * s.together), (size_t)c.tokens);
    const size_t shared = (size_t)HEADS *
                          (size_t)(c.width + c.more_width + FEW_WARPS * c.value_width + s.part) *
                          sizeof(float);
    if (shared > SHARED_PLAIN && cuda_allow_shared("attention", kernel, shared) < 0) return -1;
    return LAUNCH_EARLY(kernel, grid, FEW_THREADS, shared, part, c, s);
}

template <typename K>
static int run_heads(float *part, const struct attention_call *c, const struct split *s)
{
    return s->heads == 1   ? run_parts<K, 1>(part, c, s)
           : s->heads == 2 ? run_parts<K, 2>(part, c, s)
           : s->heads == 4 ? run_parts<K, 4>(part, c, s)
                           : run_parts<K, 8>(part, c, s);
}

template <typename T>
static int run_width(float *part, const struct attention_call *c, const struct split *s)
{
    return (c->width | c->value_width | c->more_width) % 4
               ? run_heads<T>(part, c, s)
               : run_heads<typename four_of<T>::type>(part, c, s);
}

int attention_few(const struct attention_call *call, float *part)
{
    const struct attention_call c = *call;
    const struct split s = split_of(call);
    const auto run = c.dtype == DTYPE_BF16 ? run_width<uint16_t> : run_width<float>;
    if (s.parts && run(part, call, &s) < 0) return -1;
    if (s.join) return 0;
    return LAUNCH(join_kernel, dim3((unsigned)c.tokens, (unsigned)c.heads), FEW_THREADS, 0, part,
                  s.parts, c);
}
