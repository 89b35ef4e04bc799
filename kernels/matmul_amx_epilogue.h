// kernels/matmul_amx_epilogue.h -- turns two tiles of sums of kernels/matmul_amx.c into results
// while they are in the first-level cache.
//
// a and b hold 16 rows of 16 sums each, from row `row` on: a holds columns m.., b holds columns m +
// 16.. (b NULL: no more columns). For PRODUCT_GATED, a holds columns m / 2.. of gate, and b the
// same columns of up.
#ifndef KERNELS_MATMUL_AMX_EPILOGUE_H
#define KERNELS_MATMUL_AMX_EPILOGUE_H

#include "kernels/matmul_amx.h"

#if defined(__AMX_BF16__)

typedef void put_fn(const struct amx_product *p, const float *a, const float *b, int64_t row,
                    int64_t m);

// Elements of a vector [M] from m on; 0 past its end, or everywhere if it is NULL.
VEC_INLINE vf numbers_from(const float *vector, int64_t m, int64_t count)
{
    const int64_t left = count - m;
    return vector && left > 0 ? vf_load_part_n(vector + m, at_most(left, VEC)) : vf_set(0);
}

// --- stores to y ---------------------------------------------------------------------------------

VEC_INLINE void put_tile_sums(const struct amx_product *p, const float *sums, int64_t row,
                              int64_t m)
{
    const int64_t rows = at_most(p->rows - row, AMX_SIDE), cols = at_most(p->m - m, AMX_SIDE);
    const vf bias = numbers_from(p->bias, m, p->m);
    float *y = p->y + row * p->m + m;
    for (int64_t r = 0; r < rows; r++, y += p->m) {
        const vf before = p->add ? vf_load_part_n(y, cols) : bias;
        vf_store_part_n(y, vf_load(sums + r * AMX_SIDE) + before, cols);
    }
}

static void put_sums(const struct amx_product *p, const float *a, const float *b, int64_t row,
                     int64_t m)
{
    put_tile_sums(p, a, row, m);
    if (b) put_tile_sums(p, b, row, m + AMX_SIDE);
}

// Like put_sums, but stores whole cache lines that bypass the caches, so that the lines of y are
// not read first. Not for `add`.
static void put_whole(const struct amx_product *p, const float *a, const float *b, int64_t row,
                      int64_t m)
{
    const int64_t rows = at_most(p->rows - row, AMX_SIDE);
    const vf bias = numbers_from(p->bias, m, p->m), next = numbers_from(p->bias, m + VEC, p->m);
    float *y = p->y + row * p->m + m;
    for (int64_t r = 0; r < rows; r++, y += p->m) {
        _mm512_stream_ps(y, (__m512)(vf_load(a + r * AMX_SIDE) + bias));
        if (b) _mm512_stream_ps(y + VEC, (__m512)(vf_load(b + r * AMX_SIDE) + next));
    }
}

// Stores y as bf16; stores of whole cache lines bypass the caches.
static void put_rounded(const struct amx_product *p, const float *a, const float *b, int64_t row,
                        int64_t m)
{
    const int64_t rows = at_most(p->rows - row, AMX_SIDE), cols = at_most(p->m - m, AMX_STEP);
    const vf bias = numbers_from(p->bias, m, p->m), next = numbers_from(p->bias, m + VEC, p->m);
    uint16_t *y = (uint16_t *)p->y + row * p->m + m;
    const bool whole = cols == AMX_STEP && p->m % AMX_STEP == 0 && (uintptr_t)p->y % 64 == 0;
    for (int64_t r = 0; r < rows; r++, y += p->m) {
        const vf beside = b ? vf_load(b + r * AMX_SIDE) + next : vf_set(0);
        const vf both = amx_narrow(vf_load(a + r * AMX_SIDE) + bias, beside);
        if (whole)
            _mm512_stream_ps((float *)(void *)y, (__m512)both);
        else
            _mm512_mask_storeu_epi16(y, (__mmask32)((UINT64_C(1) << cols) - 1), (__m512i)both);
    }
}

VEC_INLINE void add_tile_sums(const struct amx_product *p, const float *sums, int64_t row,
                              int64_t m)
{
    const int64_t rows = at_most(p->rows - row, AMX_SIDE), cols = at_most(p->m - m, AMX_SIDE);
    const struct tensor *by = p->after->scale;
    const vf bias = numbers_from(p->bias, m, p->m);
    const vf scale = by ? numbers_from(by->data, m, p->m) : vf_set(1);
    float *y = p->y + row * p->m + m;
    for (int64_t r = 0; r < rows; r++, y += p->m)
        vf_store_part_n(y, vf_load_part_n(y, cols) + (vf_load(sums + r * AMX_SIDE) + bias) * scale,
                        cols);
}

static void put_added(const struct amx_product *p, const float *a, const float *b, int64_t row,
                      int64_t m)
{
    add_tile_sums(p, a, row, m);
    if (b) add_tile_sums(p, b, row, m + AMX_SIDE);
}

// --- packing for the next product ----------------------------------------------------------------

// x / (1 + 2^-z).
VEC_INLINE vf share_of(vf x, vf z)
{
    const vf below = vf_set(1) + amx_power_of_two(-z);
    return x * (vf)_mm512_rcp14_ps((__m512)below);
}

// All forms of GELU are x / (1 + 2^-z) with an odd polynomial z. For the exact form, z fits log2(P
// / (1 - P)), where P is the normal distribution function: the fitted P has a relative error
// below 2e-4 for |x| < 4.5. For x < -4.5 the result is at most 2e-5 in magnitude.
VEC_INLINE vf near_gelu(vf x, const enum gelu_form form)
{
    const vf s = x * x;
    if (form == GELU_QUICK) return share_of(x, x * vf_set(2.45546696f));
    if (form == GELU_TANH) return share_of(x, x * (s * vf_set(0.102943240f) + vf_set(2.30220819f)));
    const vf t = (vf)_mm512_min_ps((__m512)s, _mm512_set1_ps(20.25f));
    vf z = vf_set(-0x1.f57ca0p-25f);
    z = z * t + vf_set(0x1.ea52dep-19f);
    z = z * t + vf_set(-0x1.2848e6p-14f);
    z = z * t + vf_set(-0x1.3246b8p-11f);
    z = z * t + vf_set(0x1.b21fe8p-4f);
    z = z * t + vf_set(0x1.26957cp+1f);
    return share_of(x, x * z);
}

VEC_INLINE void put_gelu(const struct amx_product *p, const float *a, const float *b, int64_t row,
                         int64_t m, const enum gelu_form form)
{
    const vf bias = numbers_from(p->bias, m, p->m), next = numbers_from(p->bias, m + VEC, p->m);
    char *to = amx_rows_tile(&p->to, row / AMX_SIDE, m);
    for (int64_t r = 0; r < AMX_SIDE; r++) {
        const vf above = near_gelu(vf_load(a + r * AMX_SIDE) + bias, form);
        const vf other = b ? near_gelu(vf_load(b + r * AMX_SIDE) + next, form) : vf_set(0);
        _mm512_stream_ps((float *)(to + r * 64), (__m512)amx_narrow(above, other));
    }
}

static void put_gelu_erf(const struct amx_product *p, const float *a, const float *b, int64_t row,
                         int64_t m)
{
    put_gelu(p, a, b, row, m, GELU_ERF);
}

static void put_gelu_tanh(const struct amx_product *p, const float *a, const float *b, int64_t row,
                          int64_t m)
{
    put_gelu(p, a, b, row, m, GELU_TANH);
}

static void put_gelu_quick(const struct amx_product *p, const float *a, const float *b, int64_t row,
                           int64_t m)
{
    put_gelu(p, a, b, row, m, GELU_QUICK);
}

// Writes half a packed tile; if no columns follow, also writes zeros to the other half.
static void put_gated(const struct amx_product *p, const float *a, const float *b, int64_t row,
                      int64_t m)
{
    const int64_t column = m / 2, half = column % AMX_STEP;
    const struct tensor *up = p->after->up_bias;
    const vf bias = numbers_from(p->bias, column, p->to.k);
    const vf next = numbers_from(up ? up->data : NULL, column, p->to.k);
    const bool last = half == 0 && column + AMX_SIDE >= p->to.k;
    char *to = amx_rows_tile(&p->to, row / AMX_SIDE, column - half) + 2 * half;
    for (int64_t r = 0; r < AMX_SIDE; r++, to += 64) {
        const vf gate = vf_load(a + r * AMX_SIDE) + bias;
        const vf y =
            share_of(gate, gate * vf_set(1.44269504f)) * (vf_load(b + r * AMX_SIDE) + next);
        _mm256_store_si256((void *)to, (__m256i)_mm512_cvtneps_pbh((__m512)y));
        if (last) _mm256_store_si256((void *)(to + 32), _mm256_setzero_si256());
    }
}

static put_fn *put_of(const struct amx_product *p, bool past_caches)
{
    static put_fn *const gelu[] = {
        [GELU_ERF] = put_gelu_erf, [GELU_TANH] = put_gelu_tanh, [GELU_QUICK] = put_gelu_quick
    };
    switch (p->after ? p->after->epilogue : PRODUCT_STORED) {
    case PRODUCT_ADDED: return put_added;
    case PRODUCT_GELU: return gelu[p->after->form];
    case PRODUCT_GATED: return put_gated;
    default: return p->rounds ? put_rounded : past_caches ? put_whole : put_sums;
    }
}

#endif

#endif
