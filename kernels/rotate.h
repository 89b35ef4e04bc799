// kernels/rotate.h -- rotary positions (Su et al. 2021) of one head: pairs a, b become
// a cos - b sin and b cos + a sin.
#ifndef KERNELS_ROTATE_H
#define KERNELS_ROTATE_H

#include "kernels/vec.h"

// Rotates elements i and i + half of a head x [2 half] into the same elements of `to`, which may be
// x.
VEC_INLINE void rotate_halves(float *to, const float *x, const float *cos, const float *sin,
                              int64_t half)
{
    for (int64_t i = 0; i < half; i += VEC) {
        const int64_t n = half - i < VEC ? half - i : VEC;
        const vf a = vf_load_part_n(x + i, n), b = vf_load_part_n(x + half + i, n);
        const vf c = vf_load_part_n(cos + i, n), s = vf_load_part_n(sin + i, n);
        vf_store_part_n(to + i, a * c - b * s, n);
        vf_store_part_n(to + half + i, b * c + a * s, n);
    }
}

#if defined(__AVX512F__)

// Rotates elements 2i and 2i + 1 of x into elements i and i + half of `to`, which must not be x.
VEC_INLINE void rotate_adjacent(float *to, const float *x, const float *cos, const float *sin,
                                int64_t half)
{
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int64_t i = 0; i < half; i += VEC) {
        const int64_t n = half - i < VEC ? half - i : VEC, low = 2 * n < VEC ? 2 * n : VEC;
        const __m512 p = (__m512)vf_load_part_n(x + 2 * i, low);
        const __m512 q = (__m512)vf_load_part_n(x + 2 * i + low, 2 * n - low);
        const vf a = (vf)_mm512_permutex2var_ps(p, even, q);
        const vf b = (vf)_mm512_permutex2var_ps(p, odd, q);
        const vf c = vf_load_part_n(cos + i, n), s = vf_load_part_n(sin + i, n);
        vf_store_part_n(to + i, a * c - b * s, n);
        vf_store_part_n(to + half + i, b * c + a * s, n);
    }
}

#endif

#endif
