// kernels/blocks_dot.h -- dot products of f32 with weights in blocks, for kernels/matmul_few.c.
//
// A run has 256 weights scale * q + offset, q a byte. x is prepared once, so that of each weight
// only the byte has to become a float:
//
//   the 4 bytes of a lane are masked, not shifted: float(lane & 0xff00) is 256 q, and the x that
//   it meets was divided by 256. So lane l of vector b of x is number 4 l + b of a unit.
//   sum (scale q + offset) x = scale sum q x + offset sum x, the sums over a group: sum x is the
//   same for all rows of weights.
//
// A row's sums have one order, whatever is computed beside it; fused additions are spelled out
// because the compiler could fuse a x + b y either way.
#ifndef KERNELS_BLOCKS_DOT_H
#define KERNELS_BLOCKS_DOT_H

#include "kernels/blocks_vec.h"

// A run of a row of x.
struct x_run {
    _Alignas(64) float x[RUN]; // vectors b = 0..3 of each unit
    float sum[16];             // of the groups; the last eight are 0 where these have 32 numbers
};

VEC_INLINE vf vf_fused(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

// Runs of a row of n numbers.
VEC_INLINE int64_t x_runs(int64_t n)
{
    return (n + RUN - 1) / RUN;
}

// n <= RUN numbers.
static void x_prepare_run(struct x_run *to, const float *x, int64_t n, int size)
{
    static const float part[4] = { 1, 0x1p-8f, 0x1p-16f, 1 };
    _Alignas(64) float in[RUN] = { 0 };
    memcpy(in, x, (size_t)n * sizeof *x);
    for (int u = 0; u < RUN; u += UNIT)
        for (int b = 0; b < 4; b++)
            for (int l = 0; l < VEC; l++) to->x[u + b * VEC + l] = in[u + 4 * l + b] * part[b];
    for (int g = 0; g < 16; g++) {
        vf sum = { 0 };
        for (int i = g * size; i < g * size + size && i < RUN; i += VEC) sum += vf_load(in + i);
        to->sum[g] = vf_sum(sum);
    }
}

static void x_prepare(struct x_run *to, const float *x, int64_t rows, int64_t n, int size)
{
    for (int64_t r = 0; r < rows; r++, x += n)
        for (int64_t k = 0; k < n; k += RUN)
            x_prepare_run(to++, x + k, n - k < RUN ? n - k : RUN, size);
}

// Byte b of each lane, times 256^b but for the last.
VEC_INLINE vf unit_float(vu unit, int b)
{
    unit = b < 3 ? unit & 0xffu << 8 * b : unit >> 24;
    return __builtin_convertvector((vi)unit, vf);
}

// The scale of each lane of a unit. size: numbers of a group.
VEC_INLINE vf unit_scale(const float *scale, int u, int size)
{
    scale += u * UNIT / size;
#if defined(__AVX512F__)
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i group = _mm512_srli_epi32(lane, size == 32 ? 3 : 2);
    const __m512 some = size == 32 ? (__m512)_mm512_broadcastsd_pd(_mm_load_sd((const void *)scale))
                                   : _mm512_broadcast_f32x4(_mm_loadu_ps(scale));
    return (vf)_mm512_permutexvar_ps(group, some);
#elif defined(__AVX2__)
    if (size == 32) return vf_set(scale[0]);
    return (vf)_mm256_set_m128(_mm_set1_ps(scale[1]), _mm_set1_ps(scale[0]));
#else
    return vf_set(*scale);
#endif
}

// Vector i of the groups' offsets.
VEC_INLINE vf groups_vector(const float *offset, int i, int size)
{
#if defined(__AVX512F__)
    (void)i;
    const __m512 low = _mm512_zextps256_ps512(_mm256_loadu_ps(offset));
    return size == 32 ? (vf)low : (vf)_mm512_insertf32x8(low, _mm256_loadu_ps(offset + 8), 1);
#else
    (void)size;
    return vf_load(offset + i * VEC);
#endif
}

// s[r][t] += run t of the weights times row r of x. The bytes of a run are put together here, or
// with DTYPE_COUNT were already.
VEC_INLINE void dot_runs(vf s[][4], const struct x_run *x, int64_t x_runs,
                         const char *const run[4], const struct block_run *ready, const int rows,
                         const int streams, const int size, const enum dtype dtype)
{
    _Alignas(64) float scale[4][16], offset[4][16];
#pragma GCC unroll 4
    for (int t = 0; t < streams && dtype != DTYPE_COUNT; t++)
        run_groups(scale[t], offset[t], run[t], dtype);
#pragma GCC unroll 1
    for (int u = 0; u < RUN / UNIT; u++) {
        vf f[4][4], of[4];
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++) {
            const vu unit = dtype == DTYPE_COUNT ? (vu)vf_load(ready[t].q + u * UNIT)
                                                 : run_unit(run[t], u, dtype);
#pragma GCC unroll 4
            for (int b = 0; b < 4; b++) f[t][b] = unit_float(unit, b);
            of[t] = unit_scale(dtype == DTYPE_COUNT ? ready[t].scale : scale[t], u, size);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const float *at = x[r * x_runs].x + u * UNIT;
#pragma GCC unroll 4
            for (int t = 0; t < streams; t++) {
                vf sum = vf_load(at) * f[t][0];
#pragma GCC unroll 3
                for (int b = 1; b < 4; b++) sum = vf_fused(vf_load(at + b * VEC), f[t][b], sum);
                s[r][t] = vf_fused(sum, of[t], s[r][t]);
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i * VEC < RUN / size; i++)
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++) {
            const vf add =
                groups_vector(dtype == DTYPE_COUNT ? ready[t].offset : offset[t], i, size);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
                s[r][t] = vf_fused(add, vf_load(x[r * x_runs].sum + i * VEC), s[r][t]);
        }
}

#endif
