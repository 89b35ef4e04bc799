// kernels/blocks.h -- weights in blocks, as GGUF files store them: a block holds small integers q
// in groups that share a scale and a minimum; an element is scale * q - minimum.
//
// Layouts follow ggml-common.h of ggml; values follow quants.py of ggml's Python package `gguf`,
// whose results are in tests/goldens/blocks. Blocks have even addresses. Products scale * q are
// exact in f32 (11 bits of d; a group's scale and q together have at most 12 bits), so a fused and
// an unfused subtraction give the same bits.
#ifndef KERNELS_BLOCKS_H
#define KERNELS_BLOCKS_H

#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/tensor.h"

// Blocks of 32 elements, which form one group. If elements take 4 bits of q, the lower halves of
// the bytes hold the first 16 elements, the upper halves the others.
struct block_q8_0 {
    uint16_t d; // half precision, like m
    int8_t q[32];
};

struct block_q4_0 { // also iq4_nl: q is an index into block_levels
    uint16_t d;
    uint8_t q[16];
};

struct block_q4_1 {
    uint16_t d, m;
    uint8_t q[16];
};

struct block_q5_0 {
    uint16_t d;
    uint8_t high[4]; // bit i: the fifth bit of element i
    uint8_t q[16];
};

struct block_q5_1 {
    uint16_t d, m;
    uint8_t high[4];
    uint8_t q[16];
};

// Blocks of 256 elements in groups of 32 (q4_k, q5_k, iq4_xs) or 16. Group scales are multiples of
// d.
struct block_q2_k {
    uint8_t scales[16]; // lower halves: scales / d; upper halves: minima / m
    uint8_t q[64];      // 32 bytes per 128 elements: byte j holds 2 bits of elements j, j + 32, ..
    uint16_t d, m;
};

struct block_q3_k {
    uint8_t high[32]; // bit i of byte j: third bit of element 32 i + j
    uint8_t q[64];    // as in q2_k
    uint8_t scales[12];
    uint16_t d;
};

struct block_q4_k {
    uint16_t d, m;
    uint8_t scales[12];
    uint8_t q[128]; // 32 bytes per 64 elements: the first 32 elements in the lower halves
};

struct block_q5_k {
    uint16_t d, m;
    uint8_t scales[12];
    uint8_t high[32]; // bit i of byte j: fifth bit of element j of group i
    uint8_t q[128];   // as in q4_k
};

struct block_q6_k {
    uint8_t q[128];   // 64 bytes per 128 elements: the first 64 elements in the lower halves
    uint8_t high[64]; // 32 bytes per 128 elements, like q of q2_k
    int8_t scales[16];
    uint16_t d;
};

struct block_iq4_xs {
    uint16_t d, scales_high;
    uint8_t scales_low[4];
    uint8_t q[128]; // 16 bytes per 32 elements: indices into block_levels
};

// The levels of iq4_nl and iq4_xs.
static const int8_t block_levels[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113 };

// Widens n elements of a dtype with blocks, from the start of a block; n is a multiple of the block
// size.
void blocks_unpack(float *to, const void *blocks, enum dtype dtype, int64_t n);

// Quantises n elements to q8_0, q4_k or q6_k (blocks_can_pack); n is a multiple of the block size.
// BLOCKS_PACKING is the version of the algorithm: increase it when the bits change.
enum { BLOCKS_PACKING = 2 };
bool blocks_can_pack(enum dtype dtype);
void blocks_pack(void *blocks, enum dtype dtype, const float *from, int64_t n);

static inline float half_to_float(uint16_t half)
{
#if defined(__F16C__)
    return _cvtsh_ss(half);
#else
    // Rebiases the exponent; subnormals are multiples of 2^-24.
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    const uint32_t mantissa = half & 1023;
    if (exponent == 0) return (sign ? -0x1p-24f : 0x1p-24f) * (float)mantissa;
    const uint32_t bits = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
#endif
}

// Rounds to nearest, ties to even; returns infinity beyond the range of half precision.
static inline uint16_t half_of_float(float x)
{
    float sum;
    uint32_t bits, tiny;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00); // would round to 65536
    if (size < 0x38800000) { // multiples of 2^-24, the spacing of floats just above 0.5
        memcpy(&sum, &size, sizeof sum);
        sum += 0.5f;
        memcpy(&tiny, &sum, sizeof tiny);
        return (uint16_t)(sign | (tiny - 0x3f000000));
    }
    size += 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | (size - 0x38000000) >> 13);
}

#endif
