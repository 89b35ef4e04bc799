// kernels/blocks_factors.h -- scales and offsets of a run of weights in blocks as vectors
// (AVX-512), for kernels/blocks_dot_vnni.h.
//
// Scales and offsets keep the order in which they are stored: a block header of Q4_K becomes one
// vector of 8 scales and 8 minima; eight blocks of Q4_1 or Q5_1 become a vector in which scales and
// minima alternate.
#ifndef KERNELS_BLOCKS_FACTORS_H
#define KERNELS_BLOCKS_FACTORS_H

#include "kernels/blocks_vec.h"

// An element of group g is scale[scale_lane(g)] * q + offset_sign * offset[offset_lane(g)]; if the
// dtype has no minima, it is scale[scale_lane(g)] * (q - block_centre).
struct factors {
    __m512 scale, offset;
};

VEC_INLINE bool two_halves(const enum dtype dtype)
{
    return dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1;
}

VEC_INLINE int scale_lane(int g, const enum dtype dtype)
{
    return two_halves(dtype) ? 2 * g : g;
}

VEC_INLINE int offset_lane(int g, const enum dtype dtype)
{
    if (dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K) return 8 + g;
    return two_halves(dtype) ? 2 * g + 1 : g;
}

VEC_INLINE float offset_sign(const enum dtype dtype)
{
    return two_halves(dtype) ? 1 : -1;
}

// Factors of 8 blocks of 32 elements that each store one half-precision scale.
VEC_INLINE __m512 factors_halves(const char *run, int apart)
{
    const uint64_t low = halves_of_4(run, apart), high = halves_of_4(run + 4 * apart, apart);
    return _mm512_zextps256_ps512(_mm256_cvtph_ps(_mm_set_epi64x((int64_t)high, (int64_t)low)));
}

// Loads the half-precision scale and minimum of each of 4 blocks.
VEC_INLINE __m128i halves_twice_4(const char *run, int apart)
{
    const __m128i a = _mm_loadu_si32(run), b = _mm_loadu_si32(run + apart);
    const __m128i c = _mm_loadu_si32(run + 2 * apart), d = _mm_loadu_si32(run + 3 * apart);
    return _mm_unpacklo_epi64(_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
}

// Factors of 8 blocks of 32 elements that each store a half-precision scale and minimum.
VEC_INLINE __m512 factors_two_halves(const char *run, int apart)
{
    return _mm512_cvtph_ps(
        _mm256_set_m128i(halves_twice_4(run + 4 * apart, apart), halves_twice_4(run, apart)));
}

// Multiplies the integer in lane i by element which[i] (0 to 3) of `halves`.
VEC_INLINE __m512 factors_of(__m512i integers, __m128i halves, __m512i which)
{
    const __m512 of = _mm512_permutexvar_ps(which, _mm512_castps128_ps512(_mm_cvtph_ps(halves)));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(integers), of);
}

// q4_k and q5_k: d, m, 8 scales and 8 minima of 6 bits (block_groups_k says where they are).
VEC_INLINE __m512 factors_k(const char *block)
{
    const __m128i all = _mm_loadu_si128((const void *)block);
    const __m128i low = _mm_shuffle_epi8(
        all, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m128i high = _mm_shuffle_epi8(
        all, _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    const __m128i bits =
        _mm_and_si128(_mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4)),
                      _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
    const __m128i above = _mm_and_si128(_mm_srli_epi32(high, 2), _mm_set1_epi8(0x30));
    return factors_of(_mm512_cvtepu8_epi32(_mm_or_si128(bits, above)), all,
                      _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
}

VEC_INLINE __m512 factors_q6_k(const char *block)
{
    const struct block_q6_k *b = (const void *)block;
    return factors_of(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)b->scales)),
                      _mm_cvtsi32_si128(b->d), _mm512_setzero_si512());
}

// Loads 16 floats that were stored 8 at a time, in two loads: a single one would stall on both
// stores.
VEC_INLINE __m512 vector_of_16(const float *of)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(of)), _mm256_loadu_ps(of + 8),
                              1);
}

// Factors from the scales and minima of kernels/blocks_groups.h.
VEC_INLINE struct factors factors_groups(const char *block, const enum dtype dtype)
{
    struct block_groups g;
    block_groups_of(&g, block, dtype);
    if (block_group(dtype) == 32)
        return (struct factors){ .scale = _mm512_zextps256_ps512(_mm256_load_ps(g.scale)) };
    const __m512 scale = vector_of_16(g.scale);
    return (struct factors){ scale, dtype == DTYPE_Q2_K ? vector_of_16(g.min) : scale };
}

VEC_INLINE struct factors run_factors(const char *run, const enum dtype dtype)
{
    __m512 f;
    switch (dtype) {
    case DTYPE_Q2_K:
    case DTYPE_Q3_K:
    case DTYPE_IQ4_XS: return factors_groups(run, dtype);
    case DTYPE_Q4_K:
    case DTYPE_Q5_K: f = factors_k(run); break;
    case DTYPE_Q6_K: f = factors_q6_k(run); break;
    case DTYPE_Q4_1:
    case DTYPE_Q5_1: f = factors_two_halves(run, dtype_form(dtype).bytes); break;
    default: f = factors_halves(run, dtype_form(dtype).bytes);
    }
    return (struct factors){ f, f };
}

#endif
