// kernels/attention_mma_cuda.h -- shared by attention and its gradient on tensor cores: bf16 tiles,
// products of a warp's rows with a tile, and the keys that rows see.
//
// A block has WARPS warps; each warp has its own rows (16, or 16 times MANY), and all warps step
// through the same tiles of KEYS keys (for the gradients of k and v, a warp's rows are keys, and
// the tiles hold queries). Scores, probabilities and sums never leave the warp's registers: the
// scores of 16 rows by 16 keys, rounded, already have the layout of the left operand of the product
// with the values (kernels/mma_cuda.h).
//
// k and v, and in the backward pass q and dy, are first rounded to bf16, [heads, rows, WIDE]:
// columns past the head's width and rows past the last are 0, so tiles are read whole and without
// bounds checks. In the forward pass a block rounds its own q. Before rounding, q is multiplied by
// scale log2 e, and probabilities are powers of two: 2^(q k) = e^(score). Keys and values that a
// cache holds as bf16 are read in place in the forward pass, [rows, heads, d], if 16-byte pieces do
// not cross heads (d is a multiple of 8); then bounds are checked.
//
// Most models' heads have 64, 72, 80, 96 or 128 elements: WIDE is the smallest of 64, 80, 96 and
// 128 that fits.
#ifndef KERNELS_ATTENTION_MMA_CUDA_H
#define KERNELS_ATTENTION_MMA_CUDA_H

#include "kernels/attention_cuda.h"
#include "kernels/mma_cuda.h"

static constexpr int WARPS = 4, MMA_THREADS = WARPS * WARP, KEYS = 64;
static constexpr int ROUND_ROWS = 64; // rows are padded to a multiple of this, so tiles are whole
static constexpr float LOG2_E = 1.44269504f, LN_2 = 0.69314718f;

// Calls run<WIDE>(...) with the smallest compiled WIDE that fits heads of `width` elements.
#define FOR_MMA_WIDTH(width, run, ...)      \
    ((width) <= 64   ? run<64>(__VA_ARGS__) \
     : (width) <= 80 ? run<80>(__VA_ARGS__) \
     : (width) <= 96 ? run<96>(__VA_ARGS__) \
                     : run<128>(__VA_ARGS__))

static __host__ __device__ inline int64_t mma_width(int64_t width)
{
    return width <= 64 ? 64 : width <= 80 ? 80 : width <= 96 ? 96 : 128;
}

static __host__ __device__ inline int64_t mma_rows(int64_t rows)
{
    return (rows + ROUND_ROWS - 1) / ROUND_ROWS * ROUND_ROWS;
}

// A side (q, k, v or dy) and its bf16 copy: to[heads, mma_rows(rows), wide] = from[rows, heads,
// width] * times.
struct mma_side {
    uint16_t *to;
    const void *from;
    enum dtype dtype; // f32 or bf16
    int64_t rows, heads, width, wide;
    float times;
};

static constexpr int MOST_SIDES = 4;
struct mma_sides {
    struct mma_side side[MOST_SIDES];
    int count;
};

// Bytes of a rounded side with heads of `width` elements; a multiple of 256.
static inline size_t mma_side_size(int64_t rows, int64_t heads, int64_t width)
{
    return (size_t)(mma_rows(rows) * heads * mma_width(width)) * sizeof(uint16_t);
}
int mma_sides_round(const struct mma_sides *all);

// Keys and values as bf16: packed, or in place in a cache (`cached`).
struct mma_keys {
    const uint16_t *k, *v;
    bool cached;
};

// Computes y (unless NULL) and lse (unless NULL) from rounded k and v. lse [H,N] is the binary
// logarithm of the sum of e^score, or infinity if a row sees no key: a probability is 2^(q k -
// lse).
int mma_attend(const struct attention_call *c, const struct mma_keys *keys, float *lse);

// --- device code ---------------------------------------------------------------------------------

static __device__ inline int lane_of(void)
{
    return (int)threadIdx.x % WARP;
}

// Row stride of a tile in shared memory, in elements: a row and 16 bytes, so that 16 bytes of each
// of 8 rows use all 32 banks (WIDE / 8 + 1 is odd).
template <int WIDE> struct row {
    static constexpr int STEP = WIDE + 8;
};

// Starts copying ROWS whole rows to a tile.
template <int WIDE, int ROWS>
static __device__ inline void fetch_tile(uint16_t *tile, const uint16_t *from)
{
    constexpr int PIECES = WIDE / 8; // per row
    UNROLL
    for (int j = 0; j < ROWS * PIECES; j += MMA_THREADS) {
        const int n = (int)threadIdx.x + j;
        if (ROWS * PIECES % MMA_THREADS && n >= ROWS * PIECES) break;
        fetch(tile + n / PIECES * row<WIDE>::STEP + n % PIECES * 8, from + (int64_t)n * 8);
    }
}

// Starts copying rows from.. of a head in a cache, `width` elements each, to a tile; pads rows and
// columns with 0. A thread copies one column of pieces, and offsets have 32 bits, because registers
// are scarce here.
template <int WIDE, int ROWS>
static __device__ inline void fetch_cached(uint16_t *tile, const uint16_t *cache,
                                           const struct attention_call &c, int from, int kv,
                                           int width)
{
    constexpr int PIECES = WIDE / 8, AT_ONCE = MMA_THREADS / PIECES;
    const int e = (int)threadIdx.x % PIECES * 8, first = (int)threadIdx.x / PIECES;
    const int step = (int)c.kv_heads * width, rows = (int)c.keys - from;
    int at = (from + first) * step + kv * width + e, to = first * row<WIDE>::STEP + e;
    if (first >= AT_ONCE) return;
    ROLLED
    for (int r = first; r < ROWS; r += AT_ONCE) {
        if (r < rows && e < width)
            fetch(tile + to, cache + at);
        else
            *reinterpret_cast<uint4 *>(tile + to) = { 0, 0, 0, 0 };
        to += AT_ONCE * row<WIDE>::STEP;
        at += AT_ONCE * step;
    }
}

// Reads a left operand: the first 16 rows of a tile, columns k..k+15.
template <int WIDE>
static __device__ inline void read_rows(unsigned a[4], const uint16_t *tile, int k)
{
    const int lane = lane_of();
    read_four(a, tile + lane % 16 * row<WIDE>::STEP + k + lane / 16 * 8);
}

// Reads two right operands, b and b + 2: rows n..n+15 of a tile, columns k..k+15, for products with
// the transposed tile (q k^T).
template <int WIDE>
static __device__ inline void read_across(unsigned b[4], const uint16_t *tile, int n, int k)
{
    const int lane = lane_of();
    read_four(b, tile + (n + lane / 16 * 8 + lane % 8) * row<WIDE>::STEP + k + lane / 8 % 2 * 8);
}

// Reads two right operands, b and b + 2: columns n..n+15 of a tile, rows k..k+15, for products with
// the tile not transposed (p v).
template <int WIDE>
static __device__ inline void read_along(unsigned b[4], const uint16_t *tile, int n, int k)
{
    const int lane = lane_of();
    read_four_transposed(b, tile + (k + lane % 16) * row<WIDE>::STEP + n + lane / 16 * 8);
}

// s[16 MANY, N] = the rows of `left` times the N rows of `right`; both are tiles.
template <int WIDE, int MANY, int N>
static __device__ inline void tile_scores(float s[MANY][N / 8][4], const uint16_t *left,
                                          const uint16_t *right)
{
    UNROLL
    for (int m = 0; m < MANY; m++) UNROLL
    for (int n = 0; n < N / 8; n++) s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0;
    UNROLL
    for (int k = 0; k < WIDE; k += SIXTEEN) {
        unsigned a[MANY][4], b[4];
        UNROLL
        for (int m = 0; m < MANY; m++) read_rows<WIDE>(a[m], left + m * 16 * row<WIDE>::STEP, k);
        UNROLL
        for (int n = 0; n < N; n += SIXTEEN) {
            read_across<WIDE>(b, right, n, k);
            UNROLL
            for (int m = 0; m < MANY; m++) {
                multiply(s[m][n / 8], a[m], b);
                multiply(s[m][n / 8 + 1], a[m], b + 2);
            }
        }
    }
}

// Rounds columns k..k+15 of scores [16,..] to the left operand of a product.
static __device__ inline void round_scores(unsigned a[4], const float (*s)[4], int k)
{
    a[0] = pack(s[k / 8][0], s[k / 8][1]);
    a[1] = pack(s[k / 8][2], s[k / 8][3]);
    a[2] = pack(s[k / 8 + 1][0], s[k / 8 + 1][1]);
    a[3] = pack(s[k / 8 + 1][2], s[k / 8 + 1][3]);
}

// Returns two adjacent bf16 elements, with 0 for an infinity or NaN.
static __device__ inline unsigned finite_pair(unsigned x)
{
    const unsigned low = (x & 0x7f80) == 0x7f80 ? 0 : 0xffff;
    const unsigned high = (x & 0x7f800000) == 0x7f800000 ? 0 : 0xffff0000;
    return x & (low | high);
}

// sum[16 MANY, WIDE] += p[16 MANY, N] times a tile of N rows. FINITE: skips elements of the tile
// that are infinite or NaN; returns whether the lane met one.
template <int WIDE, int MANY, int N, bool FINITE = false>
static __device__ inline bool tile_sums(float sum[MANY][WIDE / 8][4], const float p[MANY][N / 8][4],
                                        const uint16_t *tile)
{
    unsigned left_out = 0;
    UNROLL
    for (int k = 0; k < N; k += SIXTEEN) {
        unsigned a[MANY][4], b[4];
        UNROLL
        for (int m = 0; m < MANY; m++) round_scores(a[m], p[m], k);
        UNROLL
        for (int n = 0; n < WIDE; n += SIXTEEN) {
            read_along<WIDE>(b, tile, n, k);
            UNROLL
            for (int j = 0; FINITE && j < 4; j++) {
                const unsigned x = finite_pair(b[j]);
                left_out |= b[j] ^ x;
                b[j] = x;
            }
            UNROLL
            for (int m = 0; m < MANY; m++) {
                multiply(sum[m][n / 8], a[m], b);
                multiply(sum[m][n / 8 + 1], a[m], b + 2);
            }
        }
    }
    return left_out != 0;
}

// --- visible keys --------------------------------------------------------------------------------

struct keys_seen {
    int from, to;
};

// Keys that at least one of several rows sees, and keys that all of them see.
struct sight {
    struct keys_seen any, each;
};

static __device__ inline bool sees_one_of(const struct keys_seen &s, int from, int n)
{
    return s.from < from + n && from < s.to;
}

static __device__ inline bool sees_all_of(const struct keys_seen &s, int from, int n)
{
    return s.from <= from && from + n <= s.to;
}

static __device__ inline bool sees(const struct keys_seen &s, int key)
{
    return key >= s.from && key < s.to;
}

static __device__ inline struct keys_seen keys_of(const struct attention_call &c, int64_t i)
{
    const struct span s = span_of(c, i);
    return { (int)s.from, (int)s.to };
}

static __device__ inline int smaller(int a, int b)
{
    return a < b ? a : b;
}

static __device__ inline int larger(int a, int b)
{
    return a > b ? a : b;
}

static __device__ inline struct sight sight_join(const struct sight &a, const struct sight &b)
{
    return { { smaller(a.any.from, b.any.from), larger(a.any.to, b.any.to) },
             { larger(a.each.from, b.each.from), smaller(a.each.to, b.each.to) } };
}

// Returns the sight of a warp's rows i..i+rows-1 (rows <= WARP) and stores the keys that each row
// sees in seen[rows]. Rows past the last token are ignored: their results are not written.
static __device__ inline struct sight sight_of_warp(struct keys_seen *seen,
                                                    const struct attention_call &c, int64_t i,
                                                    int rows)
{
    const int lane = lane_of();
    const struct keys_seen mine = keys_of(c, i + lane);
    struct sight all = { { INT32_MAX, 0 }, { 0, INT32_MAX } };
    if (lane < rows) seen[lane] = mine;
    if (lane < rows && i + lane < c.tokens) {
        all.each = mine;
        if (mine.from < mine.to) all.any = mine;
    }
    for (int lanes = WARP / 2; lanes; lanes /= 2)
        all = sight_join(all, { { __shfl_xor_sync(ALL_LANES, all.any.from, lanes),
                                  __shfl_xor_sync(ALL_LANES, all.any.to, lanes) },
                                { __shfl_xor_sync(ALL_LANES, all.each.from, lanes),
                                  __shfl_xor_sync(ALL_LANES, all.each.to, lanes) } });
    return all;
}

// The range that covers the keys seen by the block's warps.
static __device__ inline struct keys_seen block_sees(const struct keys_seen &mine)
{
    __shared__ struct keys_seen part[WARPS];
    if (lane_of() == 0) part[threadIdx.x / WARP] = mine;
    __syncthreads();
    struct keys_seen all = part[0];
    for (int w = 1; w < WARPS; w++)
        all = { smaller(all.from, part[w].from), larger(all.to, part[w].to) };
    return all;
}

// Sets the scores of unseen keys to -infinity. `from`: the tile's first key.
template <int MANY>
static __device__ inline void hide(float s[MANY][KEYS / 8][4], const struct keys_seen *seen,
                                   int from)
{
    const int lane = lane_of();
    UNROLL
    for (int m = 0; m < MANY; m++) UNROLL
    for (int half = 0; half < 2; half++) {
        const struct keys_seen mine = seen[m * 16 + half * 8 + lane / 4];
        UNROLL
        for (int n = 0; n < KEYS / 8; n++) UNROLL
        for (int e = 0; e < 2; e++)
            if (!sees(mine, from + n * 8 + lane % 4 * 2 + e)) s[m][n][2 * half + e] = -INFINITY;
    }
}

// --- loads and stores ----------------------------------------------------------------------------

// Returns elements e..e+7 of a row of `width` elements, times `times`, as bf16; elements past the
// end of the row, or all if the row is not `there`, are 0.
template <typename T>
static __device__ inline uint4 round_eight(const T *row, bool there, int e, int width, float times)
{
    using four = typename four_of<T>::type;
    float x[8];
    if (there && width % 4 == 0 && e + 8 <= width) {
        const float4 a = widened(*reinterpret_cast<const four *>(row + e));
        const float4 b = widened(*reinterpret_cast<const four *>(row + e + 4));
        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
        x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    } else {
        UNROLL
        for (int j = 0; j < 8; j++) x[j] = there && e + j < width ? widened(row[e + j]) : 0;
    }
    return { pack(x[0] * times, x[1] * times), pack(x[2] * times, x[3] * times),
             pack(x[4] * times, x[5] * times), pack(x[6] * times, x[7] * times) };
}

// Stores two adjacent elements, or adds them if `add`.
static __device__ inline void put_pair(float *at, float one, float two, bool add)
{
    float2 *const to = reinterpret_cast<float2 *>(at);
    const float2 old = add ? *to : float2{ 0, 0 };
    *to = { add ? old.x + one : one, add ? old.y + two : two };
}

// Stores elements e and e + 1 (e even) of a row if they are within `width`.
static __device__ inline void put_two(float *row, int e, int width, float one, float two, bool add)
{
    if (e + 1 < width && width % 2 == 0) {
        put_pair(row + e, one, two, add);
        return;
    }
    if (e < width) row[e] = add ? row[e] + one : one;
    if (e + 1 < width) row[e + 1] = add ? row[e + 1] + two : two;
}

// put_pair and put_two for y of bf16 or f16: elements are rounded, `width` is even, and nothing is
// added.
static __device__ inline void put_pair(uint16_t *at, float one, float two, bool)
{
    *reinterpret_cast<unsigned *>(at) = pack(one, two);
}

struct half_number {
    uint16_t bits;
};

static __device__ inline void put_pair(struct half_number *at, float one, float two, bool)
{
    *reinterpret_cast<unsigned *>(at) = pack_half(one, two);
}

template <typename T>
static __device__ inline void put_two(T *row, int e, int width, float one, float two, bool)
{
    if (e < width) put_pair(row + e, one, two, false);
}

// Writes a warp's 16 rows i.., times factor (one for each of the lane's two rows), to head h of
// y[rows, heads, width], f32, bf16 or f16, or adds them if `add`.
template <int WIDE, typename T>
static __device__ inline void put_rows(T *y, const float sum[WIDE / 8][4], const float factor[2],
                                       int64_t i, int64_t rows, int64_t h, int64_t heads, int width,
                                       bool add)
{
    const int lane = lane_of();
    UNROLL
    for (int half = 0; half < 2; half++) {
        const int64_t r = i + lane / 4 + half * 8;
        if (r >= rows) continue;
        T *to = y + (r * heads + h) * width;
        UNROLL
        for (int n = 0; n < WIDE / 8; n++) {
            const int e = n * 8 + lane % 4 * 2;
            const float one = sum[n][2 * half] * factor[half];
            const float two = sum[n][2 * half + 1] * factor[half];
            if (width == WIDE)
                put_pair(to + e, one, two, add);
            else
                put_two(to, e, width, one, two, add);
        }
    }
}

#endif
