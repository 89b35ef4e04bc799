// kernels/blocks_dot_avx2.h -- dot products with a run of weights, computed in integers (AVX2;
// kernels/blocks_dot.h).
//
// x becomes 16-bit integers times a scale per group, with an error of up to about 2^-16 of the
// group's largest element (1/256 of the error of bf16). The integer sums are exact; only the later
// f32 sums round.
//
// For bytes q up to 63, an integer is split into two signed bytes; VPMADDUBSW multiplies them by q
// and adds pairs of products to sums of 16 bits. A sum saturates at 32767: it holds eight products
// for q up to 31 (31 * 128 each), four for q up to 63. VPMADDWD then multiplies these sums by 256
// or 1 and widens them to 32 bits. Only elements of one group may be added, so 128 elements are
// transposed into a quad: four vectors in which each 32-bit lane belongs to one group. If byte c
// encodes 0, c times the sum of x is subtracted from the integers.
//
// Signed bytes (Q8_0, levels) are widened to 16 bits and need VPMADDWD only.
#ifndef KERNELS_BLOCKS_DOT_AVX2_H
#define KERNELS_BLOCKS_DOT_AVX2_H

#include "kernels/blocks_integers.h"
#include "kernels/blocks_vec.h"

// MOST: the largest integer that two signed bytes represent.
enum { QUADS = RUN / 128, PARTS = 2, MOST = 127 * 256 + 127 };

VEC_INLINE __m256i load_bytes(const void *p)
{
    return _mm256_loadu_si256(p);
}

// --- weights: quads ------------------------------------------------------------------------------

struct quad {
    __m256i v[4];
};

// Lane l of vector i becomes lane i of vector l, in each 128-bit half.
VEC_INLINE struct quad quad_transposed(__m256i a, __m256i b, __m256i c, __m256i d)
{
    const __m256i low = _mm256_unpacklo_epi32(a, b), high = _mm256_unpackhi_epi32(a, b);
    const __m256i low2 = _mm256_unpacklo_epi32(c, d), high2 = _mm256_unpackhi_epi32(c, d);
    return (struct quad){ { _mm256_unpacklo_epi64(low, low2), _mm256_unpackhi_epi64(low, low2),
                            _mm256_unpacklo_epi64(high, high2),
                            _mm256_unpackhi_epi64(high, high2) } };
}

// Loads four vectors of 32 bytes, `apart` bytes apart, and transposes them.
VEC_INLINE struct quad quad_at(const void *bytes, int apart)
{
    const char *at = bytes;
    return quad_transposed(load_bytes(at), load_bytes(at + apart), load_bytes(at + 2 * apart),
                           load_bytes(at + 3 * apart));
}

// True if a quad contains every other group of 32 elements of a run: Q4_K stores these in the lower
// (or upper) halves of its bytes.
VEC_INLINE bool quad_crossed(const enum dtype dtype)
{
    return dtype == DTYPE_Q4_K;
}

VEC_INLINE struct quad run_quad(const char *run, int h, const enum dtype dtype)
{
    if (!quad_crossed(dtype))
        return quad_transposed(
            (__m256i)run_part(run, 4 * h, dtype), (__m256i)run_part(run, 4 * h + 1, dtype),
            (__m256i)run_part(run, 4 * h + 2, dtype), (__m256i)run_part(run, 4 * h + 3, dtype));
    struct quad q = quad_at(((const struct block_q4_k *)(const void *)run)->q, 32);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        q.v[i] = _mm256_and_si256(_mm256_srli_epi16(q.v[i], 4 * h), _mm256_set1_epi8(15));
    return q;
}

// The group of each lane of a dtype's quads.
struct quad_form {
    __m256i group[QUADS]; // [h]: each lane's group, minus 8 * h if of_16
    bool of_16, has_min;
};

VEC_INLINE struct quad_form quad_form(const enum dtype dtype)
{
    static const int32_t group[][QUADS][8] = {
        { { 0, 1, 2, 3, 0, 1, 2, 3 }, { 4, 5, 6, 7, 4, 5, 6, 7 } },
        { { 0, 2, 4, 6, 0, 2, 4, 6 }, { 1, 3, 5, 7, 1, 3, 5, 7 } }, // crossed
        { { 0, 2, 4, 6, 1, 3, 5, 7 }, { 0, 2, 4, 6, 1, 3, 5, 7 } }, // groups of 16
    };
    const bool of_16 = block_group(dtype) == 16;
    const int kind = of_16 ? 2 : quad_crossed(dtype) ? 1 : 0;
    return (struct quad_form){ { load_bytes(group[kind][0]), load_bytes(group[kind][1]) },
                               of_16,
                               block_has_min(dtype) };
}

// --- weights: signed bytes -----------------------------------------------------------------------

VEC_INLINE bool in_signed_bytes(const enum dtype dtype)
{
    return block_centre(dtype) == 128;
}

// 32 elements of 16 bits.
struct wide {
    __m256i v[2];
};

VEC_INLINE struct wide wide_at(const void *bytes)
{
    const __m128i *at = bytes;
    return (struct wide){ { _mm256_cvtepi8_epi16(_mm_loadu_si128(at)),
                            _mm256_cvtepi8_epi16(_mm_loadu_si128(at + 1)) } };
}

VEC_INLINE __m256i run_signed(const char *run, int part, const enum dtype dtype)
{
    return (__m256i)(run_part(run, part, dtype) ^ 128);
}

VEC_INLINE struct wide run_wide(const char *run, int part, const enum dtype dtype)
{
    if (dtype == DTYPE_Q8_0) return wide_at(((const struct block_q8_0 *)(const void *)run)[part].q);
    const __m256i q = run_signed(run, part, dtype);
    return (struct wide){ { _mm256_cvtepi8_epi16(_mm256_castsi256_si128(q)),
                            _mm256_cvtepi8_epi16(_mm256_extracti128_si256(q, 1)) } };
}

// --- x -------------------------------------------------------------------------------------------

// A run of a row of x: an element is scale * (256 part[0] + part[1]), the bytes in the order of
// quads; if weights are signed bytes, an element is scale * number, in order.
struct x_run {
    union {
        _Alignas(64) int8_t part[PARTS][RUN];
        int16_t number[RUN];
    };
    int32_t centre[QUADS][8]; // correction for the byte that encodes 0
    float scale[16],
        sum[16]; // of the groups; the last eight are unused if groups have 32 elements
};

// --- sums ----------------------------------------------------------------------------------------

// Each 16-bit lane becomes the sum of 2 + 2 products.
VEC_INLINE __m256i products_twice(const __m256i *q, const int8_t *x)
{
    return _mm256_add_epi16(_mm256_maddubs_epi16(q[0], load_bytes(x)),
                            _mm256_maddubs_epi16(q[1], load_bytes(x + 32)));
}

// The sums of the 16 products of each lane. to_63: q has more than 5 bits.
VEC_INLINE __m256i quad_sums(const struct quad *q, const struct x_run *x, int h, const bool to_63)
{
    __m256i n = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (int part = 0; part < PARTS; part++) {
        const int8_t *at = x->part[part] + 128 * h;
        const __m256i times = _mm256_set1_epi16(part ? 1 : 256);
        const __m256i a = products_twice(q->v, at), b = products_twice(q->v + 2, at + 64);
        const __m256i sum =
            to_63 ? _mm256_add_epi32(_mm256_madd_epi16(a, times), _mm256_madd_epi16(b, times))
                  : _mm256_madd_epi16(_mm256_add_epi16(a, b), times);
        n = _mm256_add_epi32(n, sum);
    }
    return n;
}

// The sums of the 4 products of each lane.
VEC_INLINE __m256i wide_sums(const struct wide *q, const struct x_run *x, int part)
{
    const int16_t *at = x->number + 32 * part;
    return _mm256_add_epi32(_mm256_madd_epi16(q->v[0], load_bytes(at)),
                            _mm256_madd_epi16(q->v[1], load_bytes(at + 16)));
}

static void x_prepare_quads(struct x_run *to, const int32_t *n, enum dtype dtype)
{
    const bool crossed = quad_crossed(dtype);
    _Alignas(64) int8_t part[PARTS][RUN];
    for (int i = 0; i < RUN; i++) {
        part[0][i] = (int8_t)((n[i] + 128) >> 8);
        part[1][i] = (int8_t)n[i];
    }
    for (int p = 0; p < PARTS; p++)
        for (int h = 0; h < QUADS; h++) {
            const struct quad x = quad_at(part[p] + h * (crossed ? 32 : 128), crossed ? 64 : 32);
            memcpy(to->part[p] + 128 * h, x.v, sizeof x.v);
        }
    const __m256i byte = _mm256_set1_epi8((char)block_centre(dtype));
    const struct quad centre = { { byte, byte, byte, byte } };
    for (int h = 0; h < QUADS; h++) {
        const __m256i sums = quad_sums(&centre, to, h, true);
        _mm256_storeu_si256((void *)to->centre[h], _mm256_sub_epi32(_mm256_setzero_si256(), sums));
    }
}

// Prepares a run of n <= RUN elements.
static void x_prepare_run(struct x_run *to, const float *x, int64_t n, enum dtype dtype)
{
    const int size = block_group(dtype);
    _Alignas(64) float in[RUN] = { 0 };
    _Alignas(64) int32_t integers[RUN];
    memcpy(in, x, (size_t)n * sizeof *x);
    for (int g = 0, i = 0; i < RUN; g++, i += size)
        to->scale[g] = x_integers(integers + i, in + i, size, MOST, &to->sum[g]);
    if (in_signed_bytes(dtype))
        for (int i = 0; i < RUN; i++) to->number[i] = (int16_t)integers[i];
    else
        x_prepare_quads(to, integers, dtype);
}

// --- runs ----------------------------------------------------------------------------------------

VEC_INLINE void ready_as(struct block_run *to, const char *run, const enum dtype dtype)
{
    run_groups(to->scale, to->offset, run, dtype);
    // Reads both quads before the first store, because the compiler must assume that a store
    // changes the run.
    const struct quad q[] = { run_quad(run, 0, dtype), run_quad(run, 1, dtype) };
#pragma GCC unroll 8
    for (int i = 0; i < RUN / 32; i++) {
        const __m256i v = in_signed_bytes(dtype) ? run_signed(run, i, dtype) : q[i / 4].v[i % 4];
        _mm256_store_si256((void *)(to->q + 32 * i), v);
    }
}

// Unpacks a run of weights to quads or signed bytes.
static void run_ready(struct block_run *to, const char *run, enum dtype dtype)
{
    BLOCK_AS(dtype, ready_as, to, run);
}

// A run of weights: blocks of a dtype or, with DTYPE_COUNT, a run that run_ready has unpacked.
struct open_run {
    const char *bytes;
    const struct block_run *ready;
    float scale[16], offset[16]; // of the run's groups; unset if it is unpacked
};

VEC_INLINE void run_open(struct open_run *o, const char *run, const struct block_run *ready,
                         const enum dtype dtype)
{
    o->bytes = run;
    o->ready = ready;
    if (dtype != DTYPE_COUNT) run_groups(o->scale, o->offset, run, dtype);
}

VEC_INLINE struct quad open_quad(const struct open_run *run, int h, const enum dtype dtype)
{
    if (dtype != DTYPE_COUNT) return run_quad(run->bytes, h, dtype);
    const uint8_t *q = run->ready->q + 128 * h;
    return (struct quad){ { load_bytes(q), load_bytes(q + 32), load_bytes(q + 64),
                            load_bytes(q + 96) } };
}

// Scales of 8 groups of weights, times the scales of the same groups of x.
VEC_INLINE __m256 open_scales(const struct open_run *run, const struct x_run *x, int from,
                              const enum dtype dtype)
{
    const float *scale = dtype == DTYPE_COUNT ? run->ready->scale : run->scale;
    return _mm256_mul_ps(_mm256_loadu_ps(scale + from), _mm256_loadu_ps(x->scale + from));
}

VEC_INLINE void add_offsets(vf *s, const struct open_run *run, const struct x_run *x, int from,
                            const enum dtype dtype)
{
    const float *offset = dtype == DTYPE_COUNT ? run->ready->offset : run->offset;
    *s = (vf)_mm256_fmadd_ps(_mm256_loadu_ps(offset + from), _mm256_loadu_ps(x->sum + from),
                             (__m256)*s);
}

// s[r][t] += run t of weights in quads, times row r of x.
VEC_INLINE void dot_quads(vf s[][4], const struct x_run *x, int64_t x_runs,
                          const struct open_run *run, const int rows, const int t,
                          const enum dtype dtype, const struct quad_form *form, const bool to_63)
{
#pragma GCC unroll 2
    for (int h = 0; h < QUADS; h++) {
        const struct quad q = open_quad(run, h, dtype);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const struct x_run *at = x + r * x_runs;
            const __m256 scales = open_scales(run, at, form->of_16 ? 8 * h : 0, dtype);
            // Keeps the compiler from loading ahead until it runs out of registers.
            if (dtype == DTYPE_COUNT) __asm__ volatile("" ::: "memory");
            __m256i n = quad_sums(&q, at, h, to_63);
            if (!form->has_min) n = _mm256_add_epi32(n, load_bytes(at->centre[h]));
            s[r][t] = (vf)_mm256_fmadd_ps(_mm256_cvtepi32_ps(n),
                                          _mm256_permutevar8x32_ps(scales, form->group[h]),
                                          (__m256)s[r][t]);
        }
    }
    if (!form->has_min) return;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        add_offsets(&s[r][t], run, x + r * x_runs, 0, dtype);
        if (form->of_16) add_offsets(&s[r][t], run, x + r * x_runs, 8, dtype);
    }
}

// Like dot_quads, for weights in signed bytes.
VEC_INLINE void dot_wide(vf s[][4], const struct x_run *x, int64_t x_runs,
                         const struct open_run *run, const int rows, const int t,
                         const enum dtype dtype)
{
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        const struct x_run *at = x + r * x_runs;
        float scale[8];
        _mm256_storeu_ps(scale, open_scales(run, at, 0, dtype));
#pragma GCC unroll 8
        for (int i = 0; i < RUN / 32; i++) {
            const struct wide q = dtype == DTYPE_COUNT ? wide_at(run->ready->q + 32 * i)
                                                       : run_wide(run->bytes, i, dtype);
            s[r][t] = (vf)_mm256_fmadd_ps(_mm256_cvtepi32_ps(wide_sums(&q, at, i)),
                                          _mm256_set1_ps(scale[i]), (__m256)s[r][t]);
        }
    }
}

// s[r][t] += run t of weights times row r of x. `is` is the dtype of the weights; `dtype` equals
// it, or is DTYPE_COUNT if the weights are unpacked.
VEC_INLINE void dot_runs(vf s[][4], const struct x_run *x, int64_t x_runs,
                         const struct open_run *run, const int rows, const int runs,
                         const enum dtype dtype, const enum dtype is)
{
    const struct quad_form form = quad_form(is);
    if (in_signed_bytes(is)) {
#pragma GCC unroll 4
        for (int t = 0; t < runs; t++) dot_wide(s, x, x_runs, &run[t], rows, t, dtype);
    } else if (is == DTYPE_Q6_K) {
#pragma GCC unroll 4
        for (int t = 0; t < runs; t++)
            dot_quads(s, x, x_runs, &run[t], rows, t, dtype, &form, true);
    } else {
#pragma GCC unroll 4
        for (int t = 0; t < runs; t++)
            dot_quads(s, x, x_runs, &run[t], rows, t, dtype, &form, false);
    }
}

#endif
