// kernels/blocks_groups.h -- the scales and minima of a block's groups, on the CPU.
#ifndef KERNELS_BLOCKS_GROUPS_H
#define KERNELS_BLOCKS_GROUPS_H

#include "kernels/blocks.h"

// Scales and minima of a block's groups.
struct block_groups {
    _Alignas(64) float scale[16], min[16];
};

// Elements per group.
static inline int block_group(enum dtype dtype)
{
    return dtype == DTYPE_Q2_K || dtype == DTYPE_Q3_K || dtype == DTYPE_Q6_K ? 16 : 32;
}

// to[8] = d times 8 signed bytes.
static inline void block_times8(float *to, uint64_t integers, float d)
{
#if defined(__AVX2__)
    const __m256i wide = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128((int64_t)integers));
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(d)));
#else
    for (int i = 0; i < 8; i++) to[i] = d * (float)(int8_t)(integers >> 8 * i);
#endif
}

static inline uint64_t block_bytes8(const void *bytes)
{
    uint64_t integers;
    memcpy(&integers, bytes, sizeof integers);
    return integers;
}

// Subtracts 32 from each byte; the bytes are 0..63.
static inline uint64_t block_minus32(uint64_t bytes)
{
    return ((bytes | 0x8080808080808080) - 0x2020202020202020) ^ 0x8080808080808080;
}

// q4_k and q5_k: 8 scales and 8 minima of 6 bits. The first four scales are the lower 6 bits of
// bytes 0..3, and the first four minima are the lower 6 bits of bytes 4..7. The other scales and
// minima have their lower 4 bits in bytes 8..11 (scales in the lower halves, minima in the upper
// halves) and their upper 2 bits in the top bits of bytes 0..3 (scales) and 4..7 (minima).
static inline void block_groups_k(struct block_groups *g, const uint8_t *scales, uint16_t d,
                                  uint16_t m)
{
    uint32_t a, b, c;
    memcpy(&a, scales, 4);
    memcpy(&b, scales + 4, 4);
    memcpy(&c, scales + 8, 4);
    const uint64_t scale = (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
    const uint64_t min = (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);
    block_times8(g->scale, (a & 0x3f3f3f3f) | scale << 32, half_to_float(d));
    block_times8(g->min, (b & 0x3f3f3f3f) | min << 32, half_to_float(m));
}

static inline void block_groups_q2_k(struct block_groups *g, const struct block_q2_k *b)
{
    const uint64_t lower = 0x0f0f0f0f0f0f0f0f;
    const float d = half_to_float(b->d), m = half_to_float(b->m);
    for (int i = 0; i < 16; i += 8) {
        const uint64_t both = block_bytes8(b->scales + i);
        block_times8(g->scale + i, both & lower, d);
        block_times8(g->min + i, both >> 4 & lower, m);
    }
}

// 16 scales of 6 bits: their lower 4 bits are in the halves of 8 bytes, their upper 2 bits in the
// quarters of 4 bytes.
static inline void block_groups_q3_k(struct block_groups *g, const struct block_q3_k *b)
{
    const uint64_t low = block_bytes8(b->scales);
    const float d = half_to_float(b->d);
    uint32_t quarters;
    memcpy(&quarters, b->scales + 8, sizeof quarters);
    for (int i = 0; i < 2; i++) {
        const uint64_t first = quarters >> 4 * i & 0x03030303;
        const uint64_t high = first | (uint64_t)(quarters >> (4 * i + 2) & 0x03030303) << 32;
        block_times8(g->scale + 8 * i,
                     block_minus32((low >> 4 * i & 0x0f0f0f0f0f0f0f0f) | high << 4), d);
    }
}

static inline void block_groups_q6_k(struct block_groups *g, const struct block_q6_k *b)
{
    const float d = half_to_float(b->d);
    for (int i = 0; i < 16; i += 8) block_times8(g->scale + i, block_bytes8(b->scales + i), d);
}

// 8 scales of 6 bits: moves the lower 4 and the upper 2 bits of each scale to one byte.
static inline void block_groups_iq4_xs(struct block_groups *g, const struct block_iq4_xs *b)
{
    uint32_t halves;
    memcpy(&halves, b->scales_low, sizeof halves);
    uint64_t low = halves, high = b->scales_high;
    low = (low | low << 16) & 0x0000ffff0000ffff;
    low = (low | low << 8) & 0x00ff00ff00ff00ff;
    low = (low | low << 4) & 0x0f0f0f0f0f0f0f0f;
    high = (high | high << 24) & 0x000000ff000000ff;
    high = (high | high << 12) & 0x000f000f000f000f;
    high = (high | high << 6) & 0x0303030303030303;
    block_times8(g->scale, block_minus32(low | high << 4), half_to_float(b->d));
}

// A block of 32 elements, which form one group.
static inline void block_groups_one(struct block_groups *g, const void *block, enum dtype dtype)
{
    uint16_t half[2]; // d, and m if there is one
    memcpy(half, block, sizeof half);
    g->scale[0] = half_to_float(half[0]);
    g->min[0] = dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1 ? -half_to_float(half[1]) : 0;
}

// dtype should be a compile-time constant. For dtypes without minima, g->min may stay unset.
static inline void block_groups_of(struct block_groups *g, const void *block, enum dtype dtype)
{
    const struct block_q4_k *q4_k = block;
    const struct block_q5_k *q5_k = block;
    switch (dtype) {
    case DTYPE_Q2_K: block_groups_q2_k(g, block); break;
    case DTYPE_Q3_K: block_groups_q3_k(g, block); break;
    case DTYPE_Q4_K: block_groups_k(g, q4_k->scales, q4_k->d, q4_k->m); break;
    case DTYPE_Q5_K: block_groups_k(g, q5_k->scales, q5_k->d, q5_k->m); break;
    case DTYPE_Q6_K: block_groups_q6_k(g, block); break;
    case DTYPE_IQ4_XS: block_groups_iq4_xs(g, block); break;
    default: block_groups_one(g, block, dtype); break;
    }
}

#endif
