// kernels/blocks_dot_vnni.h -- dot products with a run of weights, computed in integers (AVX-512
// VNNI; kernels/blocks_dot.h).
//
// x becomes integers of three signed bytes times a scale per group; VPDPBUSD multiplies these bytes
// by the bytes q. The sums are exact, and the error of x is at most 2^-22 of the group's largest
// element (2^-21 if q needs all 8 bits). Sums in f32 lose about as much: each addition to a sum
// that contains the largest element is rounded to about 2^-24 of it.
//
// A row of x times 256 weights costs 12 VPDPBUSD and two conversions of sums to floats: the two
// vectors of a pair share one conversion (kernels/blocks_pair.h). If byte c encodes 0, c times the
// sum of x is subtracted from the integers, modulo 2^32, so only the result must fit.
#ifndef KERNELS_BLOCKS_DOT_VNNI_H
#define KERNELS_BLOCKS_DOT_VNNI_H

#include "kernels/blocks_factors.h"
#include "kernels/blocks_integers.h"
#include "kernels/blocks_pair.h"

enum { PAIRS = RUN / 128 };

// --- x -------------------------------------------------------------------------------------------

// A run of a row of x: an element is scale * (65536 part[0] + 256 part[1] + part[2]), the bytes in
// the order of pairs.
struct x_run {
    _Alignas(64) int8_t part[3][RUN];
    int32_t centre[PAIRS][16]; // correction for the byte that encodes 0
    float scale[16], sum[16];  // of the groups, in the lanes of their factors; 0 elsewhere
};

// Splits 16 integers, elements i.. of the run, into bytes.
static void x_put(struct x_run *to, __m512i n, int i, int size, bool crossed)
{
    const int at = pair_offset(i, size, crossed);
    for (int part = 2; part >= 0; part--) {
        const __m128i bytes = _mm512_cvtepi32_epi8(n);
        int8_t *to_bytes = to->part[part] + at;
        if (size == 32) {
            _mm_storeu_si128((void *)to_bytes, bytes);
        } else {
            _mm_storel_epi64((void *)to_bytes, bytes);
            _mm_storeh_pd((void *)(to_bytes + 64), _mm_castsi128_pd(bytes));
        }
        n = _mm512_srai_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(128)), 8);
    }
}

// Prepares a group. `most` keeps a sum of eight products, each of an integer and a byte minus the
// byte that encodes 0, below 2^31.
static void x_prepare_group(struct x_run *to, const float *in, int g, enum dtype dtype)
{
    const int size = block_group(dtype), most = (1 << (block_centre(dtype) == 128 ? 21 : 22)) - 1;
    _Alignas(64) int32_t n[32];
    float sum;
    to->scale[scale_lane(g, dtype)] = x_integers(n, in + g * size, size, most, &sum);
    to->sum[offset_lane(g, dtype)] = offset_sign(dtype) * sum;
    for (int i = 0; i < size; i += VEC)
        x_put(to, _mm512_load_si512(n + i), g * size + i, size, pair_crossed(dtype));
}

// --- sums ----------------------------------------------------------------------------------------

// The sums of 4 + 4 products of each lane.
VEC_INLINE __m512i pair_sums(struct pair q, const struct x_run *x, int p)
{
    __m512i n = _mm512_setzero_si512();
#pragma GCC unroll 3
    for (int part = 0; part < 3; part++) {
        const int8_t *at = x->part[part] + p * 128;
        if (part) n = _mm512_slli_epi32(n, 8);
        n = _mm512_dpbusd_epi32(n, q.first, _mm512_load_si512(at));
        n = _mm512_dpbusd_epi32(n, q.second, _mm512_load_si512(at + 64));
    }
    return n;
}

// Prepares a run of n <= RUN elements.
static void x_prepare_run(struct x_run *to, const float *x, int64_t n, enum dtype dtype)
{
    const int size = block_group(dtype), centre = (int)block_centre(dtype);
    _Alignas(64) float in[RUN] = { 0 };
    memcpy(in, x, (size_t)n * sizeof *x);
    memset(to->scale, 0, sizeof to->scale + sizeof to->sum);
    for (int g = 0; g < RUN / size; g++) x_prepare_group(to, in, g, dtype);
    if (block_has_min(dtype)) return;
    const __m512i byte = _mm512_set1_epi8((char)centre);
    for (int p = 0; p < PAIRS; p++)
        _mm512_store_si512(to->centre[p],
                           _mm512_sub_epi32(_mm512_setzero_si512(),
                                            pair_sums((struct pair){ byte, byte }, to, p)));
}

VEC_INLINE void ready_as(struct block_run *to, const char *run, const enum dtype dtype)
{
    const struct factors f = run_factors(run, dtype);
    _mm512_storeu_ps(to->scale, f.scale);
    _mm512_storeu_ps(to->offset, f.offset);
    for (int p = 0; p < PAIRS; p++) {
        const struct pair q = run_pair(run, p, dtype);
        _mm512_store_si512(to->q + 128 * p, q.first);
        _mm512_store_si512(to->q + 128 * p + 64, q.second);
    }
}

// Unpacks a run of weights to pairs.
static void run_ready(struct block_run *to, const char *run, enum dtype dtype)
{
    BLOCK_AS(dtype, ready_as, to, run);
}

VEC_INLINE struct factors ready_factors(const struct block_run *ready)
{
    return (struct factors){ _mm512_loadu_ps(ready->scale), _mm512_loadu_ps(ready->offset) };
}

VEC_INLINE struct pair ready_pair(const struct block_run *ready, int p)
{
    return (struct pair){ _mm512_load_si512(ready->q + 128 * p),
                          _mm512_load_si512(ready->q + 128 * p + 64) };
}

// A run of weights: blocks of a dtype or, with DTYPE_COUNT, a run that run_ready has unpacked.
struct open_run {
    const char *bytes;
    const struct block_run *ready;
    struct factors by;
};

VEC_INLINE void run_open(struct open_run *o, const char *run, const struct block_run *ready,
                         const enum dtype dtype)
{
    const bool known = dtype != DTYPE_COUNT;
    *o = (struct open_run){ run, ready, known ? run_factors(run, dtype) : ready_factors(ready) };
}

VEC_INLINE struct pair open_pair(const struct open_run *run, int p, const enum dtype dtype)
{
    return dtype == DTYPE_COUNT ? ready_pair(run->ready, p) : run_pair(run->bytes, p, dtype);
}

// For each lane of pair p of a run, returns the lane that holds the factor of its group.
VEC_INLINE __m512i pair_lanes(int p, const enum dtype dtype)
{
    const __m512i group = pair_groups(p, block_group(dtype), pair_crossed(dtype));
    return dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1 ? _mm512_slli_epi32(group, 1) : group;
}

// s[r][t] += run t of weights times row r of x, pair by pair, so that all runs share the loads of
// x. `is` is the dtype of the weights; `dtype` equals it, or is DTYPE_COUNT if the weights are
// unpacked.
VEC_INLINE void dot_runs(vf s[][4], const struct x_run *x, int64_t x_runs,
                         const struct open_run *run, const int rows, const int runs,
                         const enum dtype dtype, const enum dtype is)
{
#pragma GCC unroll 2
    for (int p = 0; p < PAIRS; p++) {
        const __m512i group = pair_lanes(p, is);
        struct pair q[4];
#pragma GCC unroll 4
        for (int t = 0; t < runs; t++) q[t] = open_pair(&run[t], p, dtype);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int t = 0; t < runs; t++) {
                const struct x_run *at = x + r * x_runs;
                const __m512 scales = _mm512_mul_ps(run[t].by.scale, _mm512_load_ps(at->scale));
                __m512i n = pair_sums(q[t], at, p);
                if (!block_has_min(is)) n = _mm512_add_epi32(n, _mm512_load_si512(at->centre[p]));
                s[r][t] = (vf)_mm512_fmadd_ps(
                    _mm512_cvtepi32_ps(n), _mm512_permutexvar_ps(group, scales), (__m512)s[r][t]);
            }
    }
    if (!block_has_min(is)) return;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < runs; t++)
            s[r][t] = (vf)_mm512_fmadd_ps(run[t].by.offset, _mm512_load_ps(x[r * x_runs].sum),
                                          (__m512)s[r][t]);
}

#endif
