// kernels/tile.h -- the inner piece of matrix products: a tile of results held in registers.
//
// A tile is up to TILE_ROWS rows by TILE_COLS columns of c = a b. b is a panel [inner][TILE_COLS]
// (weights that panel_pack has widened and transposed), so each step of the inner dimension loads
// two vectors of b and multiplies them by one element of each row of a. A result is one chain of
// multiply-adds over the inner dimension, so it does not depend on how many rows are computed
// together.
#ifndef KERNELS_TILE_H
#define KERNELS_TILE_H

#include "kernels/vec.h"

// The results fit into the registers (32 with AVX-512, else 16), beside two vectors of b.
enum { TILE_ROWS = VEC == 16 ? 12 : 6, TILE_COLS = 2 * VEC };

// --- pairs of bf16 -------------------------------------------------------------------------------

// A lane may hold a pair of bf16, the first in its lower half. One instruction multiplies two pairs
// elementwise and adds both products to a sum.

// True if this CPU multiplies pairs; otherwise vf_to_pairs, vf_pair and vf_add_pairs must not be
// called.
static inline __attribute__((unused)) bool vec_has_pairs(void)
{
#if VEC_BYTES == 64 && !defined(__clang__)
    return __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

// Rounds x to the nearest bf16, ties to even; the instruction turns subnormal numbers into 0.
VEC_INLINE vh vf_to_pairs(vf x)
{
#if VEC_BYTES == 64 && !defined(__clang__)
    vh y;
    // Not an intrinsic, because callers would then have to be compiled for CPUs that have the
    // instruction.
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(y) : "v"(x));
    return y;
#else
    vh y;
    vec_to_bf16((void *)&y, (const void *)&x, VEC);
    return y;
#endif
}

// Makes pairs of bf16, with a in the lower and b in the upper half of each lane.
VEC_INLINE vf vf_pair(vf a, vf b)
{
#if VEC_BYTES == 64 && !defined(__clang__)
    typedef uint16_t words __attribute__((vector_size(VEC_BYTES)));
    static const words interleaved = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
    };
    words both; // all of a, then all of b
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(a), "v"(b));
    return (vf)__builtin_shuffle(both, interleaved);
#else
    return (vf)(__builtin_convertvector(vf_to_pairs(a), vu) |
                __builtin_convertvector(vf_to_pairs(b), vu) << 16);
#endif
}

// Stores x as elements i.. of `to`, in f32 or, with `pairs`, in bf16.
VEC_INLINE void put_numbers(float *to, int64_t i, vf x, const bool pairs)
{
    if (!pairs) {
        vf_store(to + i, x);
        return;
    }
    const vh narrow = vf_to_pairs(x);
    memcpy((char *)to + 2 * i, &narrow, sizeof narrow);
}

// Writes x[width] times scale to `to` as elements or pairs, in whole vectors; pads the last vector
// with 0.
VEC_INLINE void put_row(float *to, const void *x, int64_t width, float scale,
                        const enum dtype dtype, const bool pairs)
{
    for (int64_t k = 0; k < width; k += VEC) {
        const int64_t some = width - k < VEC ? width - k : VEC;
        put_numbers(to, k, vf_load_part_n_as(x, k, some, dtype) * vf_set(scale), pairs);
    }
}

// Adds both products of the pairs in each lane of a and b to s.
VEC_INLINE vf vf_add_pairs(vf s, vf a, vf b)
{
#if VEC_BYTES == 64 && !defined(__clang__)
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(s) : "v"(a), "v"(b));
    return s;
#else
    return s + a * b;
#endif
}

// --- tiles ---------------------------------------------------------------------------------------

// Adds `inner` steps, of elements or pairs, to the sums of `rows` rows by `halves` vectors of
// columns. Element or pair k of row r of a is a[r * row_step + k * step]. rows, halves, pairs and,
// if possible, the steps are compile-time constants, so that s stays in registers.
VEC_INLINE void tile_more(vf s[TILE_ROWS][2], const float *a, int64_t row_step, int64_t step,
                          const float *b, int64_t inner, const int rows, const int halves,
                          const bool pairs)
{
    for (int64_t k = 0; k < inner; k++, b += TILE_COLS, a += step) {
        const vf left = vf_load(b), right = halves == 2 ? vf_load(b + VEC) : left;
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            const vf x = vf_set(a[r * row_step]);
            s[r][0] = pairs ? vf_add_pairs(s[r][0], x, left) : s[r][0] + x * left;
            if (halves == 2)
                s[r][1] = pairs ? vf_add_pairs(s[r][1], x, right) : s[r][1] + x * right;
        }
    }
}

VEC_INLINE void tile_zero(vf s[TILE_ROWS][2], const int rows)
{
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) s[r][0] = s[r][1] = (vf){ 0 };
}

// --- panels -------------------------------------------------------------------------------------

#if defined(__AVX512F__)
// Transposes 16 rows of 16 lanes.
VEC_INLINE void vec_transpose(vf *v)
{
    __m512 a[16], b[16];
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_ps((__m512)v[i], (__m512)v[i + 1]);
        a[i + 1] = _mm512_unpackhi_ps((__m512)v[i], (__m512)v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d x = (__m512d)a[i + j], y = (__m512d)a[i + j + 2];
            b[i + 2 * j] = (__m512)_mm512_unpacklo_pd(x, y);
            b[i + 2 * j + 1] = (__m512)_mm512_unpackhi_pd(x, y);
        }
    for (int i = 0; i < 4; i++) {
        __m512 x = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88);
        __m512 y = _mm512_shuffle_f32x4(b[i], b[i + 4], 0xdd);
        __m512 z = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0x88);
        __m512 w = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0xdd);
        v[i] = (vf)_mm512_shuffle_f32x4(x, z, 0x88);
        v[i + 8] = (vf)_mm512_shuffle_f32x4(x, z, 0xdd);
        v[i + 4] = (vf)_mm512_shuffle_f32x4(y, w, 0x88);
        v[i + 12] = (vf)_mm512_shuffle_f32x4(y, w, 0xdd);
    }
}
#elif defined(__AVX2__)
// Transposes 8 rows of 8 lanes.
VEC_INLINE void vec_transpose(vf *v)
{
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps((__m256)v[i], (__m256)v[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps((__m256)v[i], (__m256)v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            b[i + 2 * j] = _mm256_shuffle_ps(a[i + j], a[i + j + 2], 0x44);
            b[i + 2 * j + 1] = _mm256_shuffle_ps(a[i + j], a[i + j + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = (vf)_mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        v[i + 4] = (vf)_mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}
#else
VEC_INLINE void vec_transpose(vf *v)
{
    vf t[VEC];
    for (int i = 0; i < VEC; i++)
        for (int j = 0; j < VEC; j++) t[i][j] = v[j][i];
    memcpy(v, t, sizeof t);
}
#endif

// Transposes n elements of each of `rows` rows, which are ld elements apart, to [n][rows].
static inline __attribute__((unused)) void tile_pack(float *to, const float *x, int64_t ld,
                                                     int64_t rows, int64_t n)
{
    for (int64_t k = 0; k < n; k += VEC) {
        int64_t count = n - k < VEC ? n - k : VEC;
        for (int64_t from = 0; from < rows; from += VEC) {
            int64_t some = rows - from < VEC ? rows - from : VEC;
            vf v[VEC];
            for (int64_t i = 0; i < VEC; i++)
                v[i] = i >= some      ? vf_set(0)
                       : count == VEC ? vf_load(x + (from + i) * ld + k)
                                      : vf_load_part(x + (from + i) * ld + k, count);
            vec_transpose(v);
            for (int64_t i = 0; i < count; i++)
                vf_store_part(to + (k + i) * rows + from, v[i], some);
        }
    }
}

// Splits the pairs of bf16 in v (element 2k in the lower half of a lane, 2k+1 in the upper half)
// into two f32 vectors.
VEC_INLINE void vec_split_bf16(vf v, vf *even, vf *odd)
{
    *even = (vf)((vu)v << 16);
    *odd = (vf)((vu)v & 0xffff0000u);
}

// panel[inner][TILE_COLS] = elements from..from+inner of the first TILE_COLS of `rows` rows of w,
// `row_bytes` apart, as f32; missing rows are 0. Pairs of bf16 are transposed together and then
// split.
VEC_INLINE void panel_pack_as(float *panel, const char *w, size_t row_bytes, int64_t rows,
                              int64_t from, int64_t inner, enum dtype dtype)
{
    const int pair = dtype == DTYPE_BF16 ? 2 : 1, chunk = VEC * pair;
    for (int64_t half = 0; half < TILE_COLS; half += VEC)
        for (int64_t k = 0; k < inner; k += chunk) {
            int64_t n = inner - k < chunk ? inner - k : chunk;
            vf v[VEC], even, odd;
            for (int i = 0; i < VEC; i++) {
                v[i] = (vf){ 0 };
                const char *row = w + (size_t)(half + i) * row_bytes;
                if (half + i >= rows) continue;
                if (n == chunk)
                    v[i] = pair == 2 ? vf_load(row + 2 * (from + k))
                                     : vf_load_as(row, from + k, dtype);
                else if (pair == 2)
                    memcpy(&v[i], row + 2 * (from + k), (size_t)n * 2);
                else
                    v[i] = vf_load_part_as(row, from + k, n, dtype);
            }
            vec_transpose(v);
            float *to = panel + k * TILE_COLS + half;
            for (int i = 0; i * pair < n; i++, to += pair * TILE_COLS) {
                if (pair == 1) {
                    vf_store(to, v[i]);
                    continue;
                }
                vec_split_bf16(v[i], &even, &odd);
                vf_store(to, even);
                if (i * 2 + 1 < n) vf_store(to + TILE_COLS, odd);
            }
        }
}

static inline __attribute__((unused)) void panel_pack(float *panel, const char *w, size_t row_bytes,
                                                      int64_t rows, int64_t from, int64_t inner,
                                                      enum dtype dtype)
{
    if (dtype == DTYPE_BF16)
        panel_pack_as(panel, w, row_bytes, rows, from, inner, DTYPE_BF16);
    else if (dtype == DTYPE_F16)
        panel_pack_as(panel, w, row_bytes, rows, from, inner, DTYPE_F16);
    else
        panel_pack_as(panel, w, row_bytes, rows, from, inner, DTYPE_F32);
}

#endif
