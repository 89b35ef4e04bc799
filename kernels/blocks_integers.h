// kernels/blocks_integers.h -- floats as integers times a scale, for products with weights
// in blocks (AVX2, AVX-512).
#ifndef KERNELS_BLOCKS_INTEGERS_H
#define KERNELS_BLOCKS_INTEGERS_H

#include "kernels/vec.h"

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

// Rounds a group of `size` floats to a scale times integers in -most..most; returns the scale. *sum
// is the sum of the rounded elements, so that the only error is that of rounding x.
static float x_integers(int32_t *to, const float *x, int size, int32_t most, float *sum)
{
    vf total = { 0 }, largest = { 0 };
    for (int i = 0; i < size; i += VEC) {
        const vf v = vf_load(x + i);
        total += v;
        largest = vf_max(largest, (vf)((vu)v & 0x7fffffff));
    }
    // Uses at least 2^-100 as the largest element, so that 1 / scale is finite.
    const float high = vf_highest(largest);
    const float scale = (high > 0x1p-100f ? high : 0x1p-100f) / (float)most;
    vi all = { 0 };
    for (int i = 0; i < size; i += VEC) {
        const vi n = x_nearest(vf_load(x + i) * vf_set(1 / scale), most);
        memcpy(to + i, &n, sizeof n);
        all += n;
    }
    for (int i = 1; i < VEC; i++) all[0] += all[i];
    // Passes on infinities and NaN, which integers cannot represent.
    const float zero = vf_sum(total) * 0; // or NaN
    *sum = scale * (float)all[0] + zero;
    return scale + zero;
}

#endif
