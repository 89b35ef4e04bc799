// kernels/blocks_integers.h -- numbers as integers times a power of two, for products with weights
// in blocks (AVX2, AVX-512).
#ifndef KERNELS_BLOCKS_INTEGERS_H
#define KERNELS_BLOCKS_INTEGERS_H

#include "kernels/vec.h"

// The power of two that makes numbers up to `largest` integers up to 2^bits.
static float x_scale(float largest, int bits)
{
    uint32_t u;
    memcpy(&u, &largest, sizeof u);
    int exponent = (int)(u >> 23 & 255) + 1 - bits;
    u = (uint32_t)(exponent < 1 ? 1 : exponent) << 23;
    memcpy(&largest, &u, sizeof u);
    return largest;
}

// Rounds to integers, clamped to -most..most.
VEC_INLINE vi x_nearest(vf x, int32_t most)
{
#if defined(__AVX512F__)
    const __m512i n = _mm512_cvtps_epi32((__m512)x), end = _mm512_set1_epi32(most);
    const __m512i other_end = _mm512_sub_epi32(_mm512_setzero_si512(), end);
    return (vi)_mm512_max_epi32(_mm512_min_epi32(n, end), other_end);
#else
    const __m256i n = _mm256_cvtps_epi32((__m256)x), end = _mm256_set1_epi32(most);
    const __m256i other_end = _mm256_sub_epi32(_mm256_setzero_si256(), end);
    return (vi)_mm256_max_epi32(_mm256_min_epi32(n, end), other_end);
#endif
}

// Rounds a group of `size` numbers to integers below 2^bits times a scale, which it returns. *sum
// is the sum of the numbers.
static float x_integers(int32_t *to, const float *x, int size, int bits, float *sum)
{
    vf total = { 0 }, largest = { 0 };
    for (int i = 0; i < size; i += VEC) {
        const vf v = vf_load(x + i);
        total += v;
        largest = vf_max(largest, (vf)((vu)v & 0x7fffffff));
    }
    const float scale = x_scale(vf_highest(largest), bits);
    for (int i = 0; i < size; i += VEC) {
        const vi n = x_nearest(vf_load(x + i) * vf_set(1 / scale), (1 << bits) - 1);
        memcpy(to + i, &n, sizeof n);
    }
    *sum = vf_sum(total);
    // What is not finite stays so: integers have no such numbers.
    return *sum - *sum == 0 ? scale : *sum - *sum;
}

#endif
