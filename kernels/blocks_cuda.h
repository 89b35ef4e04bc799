// kernels/blocks_cuda.h -- weights in blocks (kernels/blocks.h) on the GPU: reads eight elements at
// a time; in every dtype, these share a scale and a minimum.
#ifndef KERNELS_BLOCKS_CUDA_H
#define KERNELS_BLOCKS_CUDA_H

#include <cstddef>

#include "kernels/cuda.h"

extern "C" {
#include "kernels/blocks.h"
}

// Reads eight bytes in the largest pieces that the alignment of blocks of `BYTES` bytes allows;
// their offset in the block is a multiple of that alignment (at most 8).
template <int BYTES> static __device__ inline uint2 eight_bytes(const uint8_t *from)
{
    if constexpr (BYTES % 8 == 0) {
        return *reinterpret_cast<const uint2 *>(from);
    } else if constexpr (BYTES % 4 == 0) {
        const unsigned *p = reinterpret_cast<const unsigned *>(from);
        return { p[0], p[1] };
    } else {
        const uint16_t *p = reinterpret_cast<const uint16_t *>(from);
        return { p[0] | (unsigned)p[1] << 16, p[2] | (unsigned)p[3] << 16 };
    }
}

// Shifts right, then keeps the lowest `bits` bits of each byte.
static __device__ inline uint2 some_bits(uint2 v, int shift, unsigned bits)
{
    const unsigned mask = ((1u << bits) - 1) * 0x01010101u;
    return { v.x >> shift & mask, v.y >> shift & mask };
}

static __device__ inline uint2 join(uint2 low, uint2 high, int shift)
{
    return { low.x | high.x << shift, low.y | high.y << shift };
}

// Expands bit i of a byte to byte i, 0 or 1.
static __device__ inline uint2 spread(unsigned bits)
{
    const unsigned low = bits & 15, high = bits >> 4 & 15;
    return { (low | low << 7 | low << 14 | low << 21) & 0x01010101u,
             (high | high << 7 | high << 14 | high << 21) & 0x01010101u };
}

static __device__ inline unsigned byte_of(uint2 v, int i)
{
    return (i < 4 ? v.x >> (8 * i) : v.y >> (8 * (i - 4))) & 255;
}

// Entry q of block_levels.
static __device__ inline int level(unsigned q)
{
    constexpr uint64_t LOW = 0xf6eaddcfbfad9881u, HIGH = 0x7159453526190d01u;
    return (int8_t)(uint8_t)((q < 8 ? LOW : HIGH) >> (8 * (q & 7)));
}

// Elements i..i+7 of a block, where i is a multiple of 8: x = scale * (q - from) - min with
// unsigned bytes q.
struct eight {
    float scale, min;
    uint2 q;
    int from;
};

// Returns the 4-bit elements i..i+7: HALF elements are stored in the lower halves of bytes, the
// next HALF elements in the upper halves of the same bytes.
template <int BYTES, int HALF> static __device__ inline uint2 halves(const uint8_t *q, int i)
{
    return some_bits(eight_bytes<BYTES>(q + i / (2 * HALF) * HALF + i % HALF), i / HALF % 2 * 4, 4);
}

template <int BYTES> static __device__ inline uint2 quarters(const uint8_t *q, int i)
{
    return some_bits(eight_bytes<BYTES>(q + i / 128 * 32 + i % 32), i / 32 % 4 * 2, 2);
}

// Returns bit i / 32 of each of the eight bytes from byte i % 32 on.
template <int BYTES> static __device__ inline uint2 bit_of_groups(const uint8_t *bits, int i)
{
    return some_bits(eight_bytes<BYTES>(bits + i % 32), i / 32, 1);
}

// Sets the scale and minimum of group g of q4_k or q5_k: integers of 6 bits times the block's d and
// m.
static __device__ inline void scale_k(struct eight *e, const uint8_t *scales, int g, float d,
                                      float m)
{
    const bool late = g >= 4;
    const unsigned a = scales[g % 4], b = scales[4 + g % 4], low = scales[8 + g % 4];
    e->scale = d * (float)(late ? (low & 15) | a >> 6 << 4 : a & 63);
    e->min = m * (float)(late ? low >> 4 | b >> 6 << 4 : b & 63);
}

static __device__ inline struct eight eight_of(const struct block_q8_0 *b, int i)
{
    uint2 q = eight_bytes<sizeof *b>(reinterpret_cast<const uint8_t *>(b->q) + i);
    return { from_f16(b->d), 0, { q.x ^ 0x80808080u, q.y ^ 0x80808080u }, 128 };
}

static __device__ inline struct eight eight_of(const struct block_q4_0 *b, int i)
{
    return { from_f16(b->d), 0, halves<sizeof *b, 16>(b->q, i), 8 };
}

static __device__ inline struct eight eight_of(const struct block_q4_1 *b, int i)
{
    return { from_f16(b->d), -from_f16(b->m), halves<sizeof *b, 16>(b->q, i), 0 };
}

static __device__ inline struct eight eight_of(const struct block_q5_0 *b, int i)
{
    return { from_f16(b->d), 0, join(halves<sizeof *b, 16>(b->q, i), spread(b->high[i / 8]), 4),
             16 };
}

static __device__ inline struct eight eight_of(const struct block_q5_1 *b, int i)
{
    return { from_f16(b->d), -from_f16(b->m),
             join(halves<sizeof *b, 16>(b->q, i), spread(b->high[i / 8]), 4), 0 };
}

static __device__ inline struct eight eight_of(const struct block_q2_k *b, int i)
{
    const unsigned s = b->scales[i / 16];
    return { from_f16(b->d) * (float)(s & 15), from_f16(b->m) * (float)(s >> 4),
             quarters<sizeof *b>(b->q, i), 0 };
}

static __device__ inline struct eight eight_of(const struct block_q3_k *b, int i)
{
    const int g = i / 16;
    const int low = b->scales[g % 8] >> (g / 8 * 4) & 15,
              high = b->scales[8 + g % 4] >> (g / 4 * 2);
    return { from_f16(b->d) * (float)((low | (high & 3) << 4) - 32), 0,
             join(quarters<sizeof *b>(b->q, i), bit_of_groups<sizeof *b>(b->high, i), 2), 4 };
}

static __device__ inline struct eight eight_of(const struct block_q4_k *b, int i)
{
    struct eight e = { 0, 0, halves<sizeof *b, 32>(b->q, i), 0 };
    scale_k(&e, b->scales, i / 32, from_f16(b->d), from_f16(b->m));
    return e;
}

static __device__ inline struct eight eight_of(const struct block_q5_k *b, int i)
{
    struct eight e = {
        0, 0, join(halves<sizeof *b, 32>(b->q, i), bit_of_groups<sizeof *b>(b->high, i), 4), 0
    };
    scale_k(&e, b->scales, i / 32, from_f16(b->d), from_f16(b->m));
    return e;
}

static __device__ inline struct eight eight_of(const struct block_q6_k *b, int i)
{
    return { from_f16(b->d) * (float)b->scales[i / 16], 0,
             join(halves<sizeof *b, 64>(b->q, i), quarters<sizeof *b>(b->high, i), 4), 32 };
}

// iq4_nl has q4_0's layout but other levels: a separate type selects its eight_of.
struct block_iq4_nl {
    struct block_q4_0 of;
};

static __device__ inline struct eight levels(float scale, uint2 q)
{
    unsigned x = 0, y = 0;
    UNROLL
    for (int i = 0; i < 4; i++) {
        x |= (unsigned)(level(byte_of(q, i)) + 128) << (8 * i);
        y |= (unsigned)(level(byte_of(q, 4 + i)) + 128) << (8 * i);
    }
    return { scale, 0, { x, y }, 128 };
}

static __device__ inline struct eight eight_of(const struct block_iq4_nl *b, int i)
{
    return levels(from_f16(b->of.d), halves<sizeof *b, 16>(b->of.q, i));
}

static __device__ inline struct eight eight_of(const struct block_iq4_xs *b, int i)
{
    const int g = i / 32;
    const int low = b->scales_low[g / 2] >> (g % 2 * 4) & 15, high = b->scales_high >> (2 * g) & 3;
    return levels(from_f16(b->d) * (float)((low | high << 4) - 32), halves<sizeof *b, 16>(b->q, i));
}

// Elements per block of type B.
template <typename B> static constexpr int block_numbers = 256;
template <> constexpr int block_numbers<struct block_q8_0> = 32;
template <> constexpr int block_numbers<struct block_q4_0> = 32;
template <> constexpr int block_numbers<struct block_q4_1> = 32;
template <> constexpr int block_numbers<struct block_q5_0> = 32;
template <> constexpr int block_numbers<struct block_q5_1> = 32;
template <> constexpr int block_numbers<struct block_iq4_nl> = 32;

static __device__ inline void widen_eight(float x[8], const struct eight &e)
{
    UNROLL
    for (int j = 0; j < 8; j++) x[j] = e.scale * (float)((int)byte_of(e.q, j) - e.from) - e.min;
}

// Calls the function template F<B>(...) for the type of a dtype's blocks.
#define FOR_BLOCKS(dtype, F, ...)                                    \
    ((dtype) == DTYPE_Q8_0     ? F<struct block_q8_0>(__VA_ARGS__)   \
     : (dtype) == DTYPE_Q4_0   ? F<struct block_q4_0>(__VA_ARGS__)   \
     : (dtype) == DTYPE_Q4_1   ? F<struct block_q4_1>(__VA_ARGS__)   \
     : (dtype) == DTYPE_Q5_0   ? F<struct block_q5_0>(__VA_ARGS__)   \
     : (dtype) == DTYPE_Q5_1   ? F<struct block_q5_1>(__VA_ARGS__)   \
     : (dtype) == DTYPE_Q2_K   ? F<struct block_q2_k>(__VA_ARGS__)   \
     : (dtype) == DTYPE_Q3_K   ? F<struct block_q3_k>(__VA_ARGS__)   \
     : (dtype) == DTYPE_Q4_K   ? F<struct block_q4_k>(__VA_ARGS__)   \
     : (dtype) == DTYPE_Q5_K   ? F<struct block_q5_k>(__VA_ARGS__)   \
     : (dtype) == DTYPE_Q6_K   ? F<struct block_q6_k>(__VA_ARGS__)   \
     : (dtype) == DTYPE_IQ4_NL ? F<struct block_iq4_nl>(__VA_ARGS__) \
                               : F<struct block_iq4_xs>(__VA_ARGS__))

#endif
