// kernels/attention_cuda.h -- calls and tiles, shared by the kernels of attention and its gradient.
//
// Many rows are processed in tiles of TILE rows by TILE keys (Dao et al. 2022): no matrix of
// queries by keys exists. FOUR threads of a block work on each row: they split its keys (thread
// `part` has the keys part, part + 4 ...) and its columns (groups of four elements, part, part + 4
// ...). The four threads are in one warp, so a row's data needs no block barrier.
#ifndef KERNELS_ATTENTION_CUDA_H
#define KERNELS_ATTENTION_CUDA_H

#include "kernels/cuda.h"

static constexpr int TILE = 32, FOUR = 4, TILE_THREADS = TILE * FOUR, EACH_KEYS = TILE / FOUR;
static constexpr int SCORE_PITCH = TILE + 4, FEW_QUERIES = CUDA_FEW_ROWS, WIDEST = 256,
                     WIDEST_MMA = 128;

struct attention_call {
    float *y;                    // [N,H,dv], or NULL: only the statistics
    const float *q;              // [N,H,d]
    const void *k, *v;           // [P,Hkv,d], [P,Hkv,dv]
    const int32_t *first, *last; // [N] or NULL
    float scale;
    enum dtype dtype;                             // of k and v: f32, or bf16 in the forward pass
    int64_t tokens, heads, keys, kv_heads, width; // N, H, P, Hkv, d
    int64_t value_width;                          // dv, at most d
    float *stats;       // [H,N,2] highest score and sum of e^(score - highest), or NULL
    enum dtype y_dtype; // f32; for attention_mma also bf16 or f16
    // attention_few only: the elements of a key after its first d, [P,Hkv,more_width]; a query has
    // d + more_width elements. NULL: none.
    const void *more;
    int64_t more_width;
};

static inline struct attention_call attention_call_of(const struct tensor *q,
                                                      const struct tensor *k,
                                                      const struct tensor *v,
                                                      const struct tensor *first,
                                                      const struct tensor *last, float scale)
{
    return { .y = nullptr,
             .q = floats(q),
             .k = k->data,
             .v = v->data,
             .first = integers(first),
             .last = integers(last),
             .scale = scale,
             .dtype = k->dtype,
             .tokens = q->shape[0],
             .heads = q->shape[1],
             .keys = k->shape[0],
             .kv_heads = k->shape[1],
             .width = q->shape[2],
             .value_width = v->shape[2],
             .stats = nullptr,
             .y_dtype = DTYPE_F32,
             .more = nullptr,
             .more_width = 0 };
}

// These compute y, and stats if requested. attention_tiles computes in tiles (attention.cu).
// attention_few splits the keys over blocks, for few rows or heads of any width (attention_few.cu).
int attention_tiles(const struct attention_call *c);
int attention_few(const struct attention_call *c, float *parts);
// Computes y, and probabilities if requested, on tensor cores (attention_mma.cu); allocates its own
// scratch.
int attention_mma(const struct attention_call *c, float *probs);
// True if attention_mma reads keys and values in place; without probabilities it then needs no
// scratch.
bool attention_mma_ready(const struct attention_call *c);
// Adds the gradients of attention_mma to dq, dk and dv, each of which may be NULL
// (attention_mma_backward.cu).
int attention_mma_backward(const struct attention_call *c, float *dq, float *dk, float *dv,
                           const float *dy, const float *y);
// Floats of scratch that attention_few needs.
size_t attention_few_floats(const struct attention_call *c);

// Keys from..to-1 that token i sees.
struct span {
    int64_t from, to;
};

static __device__ inline struct span span_of(const struct attention_call &c, int64_t i)
{
    struct span s = { 0, 0 };
    if (i >= c.tokens) return s;
    const int64_t first = c.first ? c.first[i] : 0, last = c.last ? c.last[i] : c.keys;
    s.from = first > 0 ? first : 0;
    s.to = last < c.keys ? last : c.keys;
    return s;
}

// The smallest span that covers the keys seen by tokens i..i+TILE-1.
static __device__ inline struct span span_of_tile(const struct attention_call &c, int64_t i)
{
    struct span all = { c.keys, 0 };
    for (int r = 0; r < TILE; r++) {
        const struct span one = span_of(c, i + r);
        if (one.from >= one.to) continue;
        all.from = one.from < all.from ? one.from : all.from;
        all.to = one.to > all.to ? one.to : all.to;
    }
    return all;
}

// Row stride of a tile in shared memory, padded so that rows begin in different banks.
template <int WIDE> struct pitch {
    static constexpr int NUMBERS = WIDE + 4;
    static constexpr int TILE_NUMBERS = TILE * (WIDE + 4);
};

// Four bf16 elements, two per word, the lower half first.
struct alignas(8) four_bf16 {
    unsigned low, high;
};

// Widens one or four elements of keys or values to f32.
static __device__ inline float widened(float x)
{
    return x;
}

static __device__ inline float4 widened(float4 x)
{
    return x;
}

static __device__ inline float widened(uint16_t x)
{
    return from_bf16(x);
}

static __device__ inline float4 widened(struct four_bf16 x)
{
    return { __uint_as_float(x.low << 16), __uint_as_float(x.low & 0xffff0000),
             __uint_as_float(x.high << 16), __uint_as_float(x.high & 0xffff0000) };
}

// The type of four elements read together.
template <typename T> struct four_of;
template <> struct four_of<float> {
    using type = float4;
};
template <> struct four_of<uint16_t> {
    using type = struct four_bf16;
};

// Copies head h of rows i..i+TILE-1 of x [rows, heads, width] to a tile; pads rows and columns with
// 0.
template <int WIDE, typename T>
static __device__ inline void load_tile(float *tile, const T *x, int64_t i, int64_t rows,
                                        int64_t heads, int64_t h, int64_t width)
{
    for (int n = threadIdx.x; n < TILE * WIDE; n += TILE_THREADS) {
        const int r = n / WIDE, e = n % WIDE;
        tile[r * pitch<WIDE>::NUMBERS + e] =
            i + r < rows && e < width ? widened(x[((i + r) * heads + h) * width + e]) : 0;
    }
}

// Like load_tile, for the call's keys or values, which have `width` elements per head.
template <int WIDE>
static __device__ inline void load_keys(float *tile, const void *x, const struct attention_call &c,
                                        int64_t from, int64_t kv, int64_t width)
{
    if (c.dtype == DTYPE_BF16)
        load_tile<WIDE>(tile, static_cast<const uint16_t *>(x), from, c.keys, c.kv_heads, kv,
                        width);
    else
        load_tile<WIDE>(tile, static_cast<const float *>(x), from, c.keys, c.kv_heads, kv, width);
}

static __device__ inline float dot_four(float4 a, float4 b, float sum)
{
    return sum + ((a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w));
}

// dots[n] = `row` of one tile times row part + FOUR n of the tile `other`.
template <int WIDE>
static __device__ inline void tile_dots(float dots[EACH_KEYS], const float *row, const float *other,
                                        int part)
{
    for (int n = 0; n < EACH_KEYS; n++) dots[n] = 0;
    for (int e = 0; e < WIDE; e += 4) {
        const float4 a = *reinterpret_cast<const float4 *>(row + e);
        for (int n = 0; n < EACH_KEYS; n++)
            dots[n] = dot_four(a,
                               *reinterpret_cast<const float4 *>(
                                   other + (part + FOUR * n) * pitch<WIDE>::NUMBERS + e),
                               dots[n]);
    }
}

// Adds weight[r] times row r of the tile `other`, for r = from..to-1, to this thread's columns of a
// row.
template <int WIDE>
static __device__ inline void tile_add(float4 sum[WIDE / 16], const float *weight,
                                       const float *other, int part, int from = 0, int to = TILE)
{
    for (int r = from; r < to; r++) {
        const float w = weight[r];
        const float *from = other + r * pitch<WIDE>::NUMBERS + 4 * part;
        for (int j = 0; j < WIDE / 16; j++) {
            const float4 x = *reinterpret_cast<const float4 *>(from + 16 * j);
            sum[j].x += w * x.x;
            sum[j].y += w * x.y;
            sum[j].z += w * x.z;
            sum[j].w += w * x.w;
        }
    }
}

// Sum and maximum over the FOUR threads of a row.
static __device__ inline float four_sum(float x)
{
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}

static __device__ inline float four_most(float x)
{
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
}

// Writes this thread's columns of a row, times `factor`, to row `to` [width], or adds them if
// `add`.
template <int WIDE>
static __device__ inline void put_columns(float *to, const float4 sum[WIDE / 16], float factor,
                                          int part, int64_t width, bool add)
{
    for (int j = 0; j < WIDE / 16; j++) {
        const float x[4] = { sum[j].x, sum[j].y, sum[j].z, sum[j].w };
        for (int n = 0; n < 4; n++) {
            const int e = 16 * j + 4 * part + n;
            if (e < width) to[e] = (add ? to[e] : 0) + x[n] * factor;
        }
    }
}

// Calls run<WIDE>(...) with the smallest compiled WIDE that fits heads of `width` elements.
#define FOR_WIDTH(width, run, ...)            \
    ((width) <= 64    ? run<64>(__VA_ARGS__)  \
     : (width) <= 96  ? run<96>(__VA_ARGS__)  \
     : (width) <= 128 ? run<128>(__VA_ARGS__) \
                      : run<256>(__VA_ARGS__))

#endif
