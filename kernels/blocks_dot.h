// kernels/blocks_dot.h -- dot products of f32 with weights in blocks, for kernels/matmul_few.c.
//
// A run has 256 weights scale * q + offset, q a byte. With
//
//   sum (scale q + offset) x = scale sum q x + offset sum x        (over a group)
//
// what is to be done for each weight is q x; sum x is the same for all rows of weights, and x is
// prepared once:
//
//   AVX-512: as integers times a power of two, one for each group, in three signed bytes, which
//   VPDPBUSD multiplies with q. These sums are exact, and x moves by 2^-22 of the group's largest
//   number at most (2^-21 where q needs all 8 bits). That is what sums in f32 lose as well: one
//   that has met the largest number rounds whatever is added to it to some 2^-24 of it.
//
//   Others: with the numbers in the order in which bytes of lanes become floats. The 4 bytes of a
//   lane are masked, not shifted: float(lane & 0xff00) is 256 q, and its x was divided by 256.
//
// The sums of a row have one order, whatever is computed beside it; fused additions are spelled out
// because the compiler could fuse a x + b y either way.
#ifndef KERNELS_BLOCKS_DOT_H
#define KERNELS_BLOCKS_DOT_H

#include "kernels/blocks_vec.h"

// Runs of a row of n numbers.
VEC_INLINE int64_t x_runs(int64_t n)
{
    return (n + RUN - 1) / RUN;
}

#if defined(__AVX512VNNI__)
// --- integers ------------------------------------------------------------------------------------

// A run of a row of x: number i is scale * (65536 part[0][i] + 256 part[1][i] + part[2][i]).
struct x_run {
    _Alignas(64) int8_t part[3][RUN];
    float scale[16], sum[16]; // of the groups; the last eight are 0 where these have 32 numbers
};

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

// A group. Four products of the integers with bytes add up to less than 2^31: `bits` says so.
static void x_prepare_group(struct x_run *to, const float *in, int g, int size, int bits)
{
    vf sum = { 0 }, largest = { 0 };
    for (int i = g * size; i < (g + 1) * size; i += VEC) {
        const vf x = vf_load(in + i);
        sum += x;
        largest = (vf)_mm512_max_ps((__m512)largest, _mm512_abs_ps((__m512)x));
    }
    to->sum[g] = vf_sum(sum);
    to->scale[g] = x_scale(vf_highest(largest), bits);
    for (int i = g * size; i < (g + 1) * size; i += VEC) {
        __m512i n = _mm512_cvtps_epi32((__m512)(vf_load(in + i) * vf_set(1 / to->scale[g])));
        for (int part = 2; part >= 0; part--) {
            _mm_storeu_si128((void *)(to->part[part] + i), _mm512_cvtepi32_epi8(n));
            n = _mm512_srai_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(128)), 8);
        }
    }
}

// n <= RUN numbers.
static void x_prepare_run(struct x_run *to, const float *x, int64_t n, enum dtype dtype)
{
    const int size = block_group(dtype);
    _Alignas(64) float in[RUN] = { 0 };
    memcpy(in, x, (size_t)n * sizeof *x);
    memset(to->scale, 0, sizeof to->scale + sizeof to->sum);
    for (int g = 0; g < RUN / size; g++)
        x_prepare_group(to, in, g, size, block_centre(dtype) == 128 ? 21 : 22);
}

// Eight or sixteen numbers of groups.
VEC_INLINE __m512 groups_vector(const float *of, int size)
{
    const __m512 low = _mm512_zextps256_ps512(_mm256_loadu_ps(of));
    return size == 32 ? low : _mm512_insertf32x8(low, _mm256_loadu_ps(of + 8), 1);
}

// The number of each lane's group in unit u.
VEC_INLINE __m512 groups_spread(__m512 of, int u, int size)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i group = _mm512_srli_epi32(lane, size == 32 ? 3 : 2);
    const int first = size == 32 ? 2 * u : 4 * u;
    return _mm512_permutexvar_ps(_mm512_add_epi32(group, _mm512_set1_epi32(first)), of);
}

// s[r][t] += a run of weights times row r of x. The bytes of the run are put together here, or with
// DTYPE_COUNT were already.
VEC_INLINE void dot_run(vf s[][4], const int t, const struct x_run *x, int64_t x_runs,
                        const char *run, const struct block_run *ready, const int rows,
                        const int size, const enum dtype dtype)
{
    const bool known = dtype != DTYPE_COUNT;
    float scale[16], offset[16];
    __m512i unit[4];
    if (known) run_groups(scale, offset, run, dtype);
    const __m512 times = groups_vector(known ? scale : ready->scale, size);
    const __m512 add = groups_vector(known ? offset : ready->offset, size);
#pragma GCC unroll 4
    for (int u = 0; u < 4; u++)
        unit[u] = known ? (__m512i)run_unit(run, u, dtype) : _mm512_load_si512(ready->q + u * UNIT);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++, x += x_runs) {
        const __m512 scales = _mm512_mul_ps(times, _mm512_load_ps(x->scale));
        __m512 sum = (__m512)s[r][t];
#pragma GCC unroll 4
        for (int u = 0; u < 4; u++) {
            __m512i n = _mm512_setzero_si512();
#pragma GCC unroll 3
            for (int part = 0; part < 3; part++)
                n = _mm512_dpbusd_epi32(part ? _mm512_slli_epi32(n, 8) : n, unit[u],
                                        _mm512_load_si512(x->part[part] + u * UNIT));
            sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(n), groups_spread(scales, u, size), sum);
        }
        s[r][t] = (vf)_mm512_fmadd_ps(add, _mm512_load_ps(x->sum), sum);
    }
}

#else
// --- floats --------------------------------------------------------------------------------------

// A run of a row of x.
struct x_run {
    _Alignas(64) float x[RUN]; // vectors b = 0..3 of each unit
    float sum[16];             // of the groups; the last eight are 0 where these have 32 numbers
};

VEC_INLINE vf vf_fused(vf a, vf b, vf c)
{
#if defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

// n <= RUN numbers.
static void x_prepare_run(struct x_run *to, const float *x, int64_t n, enum dtype dtype)
{
    const int size = block_group(dtype);
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

// Byte b of each lane, times 256^b but for the last.
VEC_INLINE vf unit_float(vu unit, int b)
{
    unit = b < 3 ? unit & 0xffu << 8 * b : unit >> 24;
    return __builtin_convertvector((vi)unit, vf);
}

// The scale of each lane of a unit. size: numbers of a group.
VEC_INLINE vf unit_scale(const float *scale, int u, int size)
{
    scale += u * UNIT >> (size == 32 ? 5 : 4);
#if defined(__AVX2__)
    if (size == 16) return (vf)_mm256_set_m128(_mm_set1_ps(scale[1]), _mm_set1_ps(scale[0]));
#else
    (void)size;
#endif
    return vf_set(*scale);
}

// s[r][t] += a run of weights times row r of x. The bytes of the run are put together here, or with
// DTYPE_COUNT were already.
VEC_INLINE void dot_run(vf s[][4], const int t, const struct x_run *x, int64_t x_runs,
                        const char *run, const struct block_run *ready, const int rows,
                        const int size, const enum dtype dtype)
{
    const bool known = dtype != DTYPE_COUNT;
    float of[16], add[16];
    if (known) run_groups(of, add, run, dtype);
    const float *scale = known ? of : ready->scale, *offset = known ? add : ready->offset;
    for (int u = 0; u < RUN / UNIT; u++) {
        const vu unit = known ? run_unit(run, u, dtype) : (vu)vf_load(ready->q + u * UNIT);
        const vf times = unit_scale(scale, u, size);
        vf q[4];
#pragma GCC unroll 4
        for (int b = 0; b < 4; b++) q[b] = unit_float(unit, b);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const float *at = x[r * x_runs].x + u * UNIT;
            vf sum = vf_load(at) * q[0];
#pragma GCC unroll 3
            for (int b = 1; b < 4; b++) sum = vf_fused(vf_load(at + b * VEC), q[b], sum);
            s[r][t] = vf_fused(sum, times, s[r][t]);
        }
    }
    for (int i = 0; i < RUN / size; i += VEC)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            s[r][t] = vf_fused(vf_load(offset + i), vf_load(x[r * x_runs].sum + i), s[r][t]);
}

#endif

static void x_prepare(struct x_run *to, const float *x, int64_t rows, int64_t n, enum dtype dtype)
{
    for (int64_t r = 0; r < rows; r++, x += n)
        for (int64_t k = 0; k < n; k += RUN)
            x_prepare_run(to++, x + k, n - k < RUN ? n - k : RUN, dtype);
}

#endif
