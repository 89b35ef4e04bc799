// kernels/vec.h -- vectors of a kernel's instruction set, and helpers for kernels.
//
// vf holds VEC floats (4, 8 or 16). The arithmetic operators of C work on it; a * b + c becomes one
// fused instruction if the instruction set has one. Loads and stores need no alignment, because
// weights in mapped files may have any even address.
//
//   for (; i + VEC <= n; i += VEC) vf_store(y + i, vf_load(x + i) * vf_set(2));
//   if (i < n) vf_store_part(y + i, vf_load_part(x + i, n - i) * vf_set(2), n - i);
#ifndef KERNELS_VEC_H
#define KERNELS_VEC_H

#include <omp.h>
#include <stdbool.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/isa.h"

#if defined(__AVX512F__)
#define VEC_BYTES 64
#elif defined(__AVX2__)
#define VEC_BYTES 32
#else
#define VEC_BYTES 16
#endif

enum { VEC = VEC_BYTES / 4 };

typedef float vf __attribute__((vector_size(VEC_BYTES)));
typedef int32_t vi __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t vu __attribute__((vector_size(VEC_BYTES)));
typedef uint16_t vh __attribute__((vector_size(VEC_BYTES / 2)));

#define VEC_INLINE static inline __attribute__((always_inline, unused))

VEC_INLINE vf vf_set(float x)
{
    return x - (vf){ 0 };
}

VEC_INLINE vi vi_set(int32_t x)
{
    return x - (vi){ 0 };
}

VEC_INLINE vf vf_load(const void *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

VEC_INLINE void vf_store(void *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

// Loads the first n < VEC lanes; the others are 0.
VEC_INLINE vf vf_load_part(const void *p, int64_t n)
{
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    vf v = { 0 };
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
#endif
}

VEC_INLINE void vf_store_part(void *p, vf v, int64_t n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    memcpy(p, &v, (size_t)n * sizeof(float));
#endif
}

// Loads the first n <= VEC lanes; the others are 0.
VEC_INLINE vf vf_load_part_n(const void *p, int64_t n)
{
    return n == VEC ? vf_load(p) : vf_load_part(p, n);
}

VEC_INLINE void vf_store_part_n(void *p, vf v, int64_t n)
{
    if (n == VEC)
        vf_store(p, v);
    else
        vf_store_part(p, v, n);
}

// Returns a in lanes where the mask is all ones, and b where it is 0.
VEC_INLINE vf vf_choose(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

VEC_INLINE vf vf_max(vf a, vf b)
{
    return vf_choose(a > b, a, b);
}

VEC_INLINE float vf_sum(vf v)
{
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#elif defined(__AVX2__)
    __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#else
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

VEC_INLINE float vf_highest(vf v)
{
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float m = v[0];
    for (int i = 1; i < VEC; i++) m = v[i] > m ? v[i] : m;
    return m;
#endif
}

// --- half precision ------------------------------------------------------------------------------

VEC_INLINE vf vf_from_bf16(vh h)
{
    return (vf)(__builtin_convertvector(h, vu) << 16);
}

VEC_INLINE vf vf_from_f16(vh h)
{
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps((__m256i)h);
#elif defined(__F16C__)
    return (vf)_mm256_cvtph_ps((__m128i)h);
#else
    // Moves the 5-bit exponent to the 8-bit field and multiplies by 2^(127-15), which is also right
    // for subnormals; then gives infinity and NaN the largest exponent.
    vu u = __builtin_convertvector(h, vu), size = (u & 0x7fff) << 13;
    vf scaled = (vf)size * vf_set(0x1p112f);
    vu special = (vu)(size >= (0x7c00u << 13)) & 0x7f800000;
    return (vf)((vu)scaled | special | (u & 0x8000) << 16);
#endif
}

// Loads VEC elements from element i on, stored in the given dtype, as f32. dtype should be a
// compile-time constant.
VEC_INLINE vf vf_load_as(const void *p, int64_t i, enum dtype dtype)
{
    if (dtype == DTYPE_F32) return vf_load((const char *)p + 4 * i);
    vh h;
    memcpy(&h, (const char *)p + 2 * i, sizeof h);
    return dtype == DTYPE_BF16 ? vf_from_bf16(h) : vf_from_f16(h);
}

VEC_INLINE vf vf_load_part_as(const void *p, int64_t i, int64_t n, enum dtype dtype)
{
    if (dtype == DTYPE_F32) return vf_load_part((const char *)p + 4 * i, n);
    vh h = { 0 };
    memcpy(&h, (const char *)p + 2 * i, (size_t)n * 2);
    return dtype == DTYPE_BF16 ? vf_from_bf16(h) : vf_from_f16(h);
}

// Loads n <= VEC elements from element i on; the other lanes are 0.
VEC_INLINE vf vf_load_part_n_as(const void *p, int64_t i, int64_t n, enum dtype dtype)
{
    return n == VEC ? vf_load_as(p, i, dtype) : vf_load_part_as(p, i, n, dtype);
}

// Calls run(..., dtype) for f32 or bf16 with the dtype as a compile-time constant.
#define VEC_AS(dtype, run, ...) \
    ((dtype) == DTYPE_BF16 ? run(__VA_ARGS__, DTYPE_BF16) : run(__VA_ARGS__, DTYPE_F32))

// y[0..n) = n elements of x from element `from` on, as f32.
VEC_INLINE void vec_widen_as(float *y, const void *x, int64_t from, int64_t n, enum dtype dtype)
{
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) vf_store(y + i, vf_load_as(x, from + i, dtype));
    if (i < n) vf_store_part(y + i, vf_load_part_as(x, from + i, n - i, dtype), n - i);
}

// Like vec_widen_as, for elements in blocks (kernels/blocks_widen.c).
void KERNEL(blocks_widen)(float *y, const char *x, int64_t from, int64_t n, enum dtype dtype);

static inline __attribute__((unused)) void vec_widen(float *y, const void *x, int64_t from,
                                                     int64_t n, enum dtype dtype)
{
    if (dtype == DTYPE_BF16)
        vec_widen_as(y, x, from, n, DTYPE_BF16);
    else if (dtype == DTYPE_F16)
        vec_widen_as(y, x, from, n, DTYPE_F16);
    else if (dtype_in_blocks(dtype))
        KERNEL(blocks_widen)(y, x, from, n, dtype);
    else
        vec_widen_as(y, x, from, n, DTYPE_F32);
}

// Rounds each element to the nearest bf16, ties to even; NaN stays NaN.
static inline __attribute__((unused)) void vec_to_bf16(uint16_t *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, x + i, sizeof u);
        uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
        y[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
    }
}

// y[0..n) += x[0..n).
static inline __attribute__((unused)) void vec_add(float *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) vf_store(y + i, vf_load(y + i) + vf_load(x + i));
    if (i < n) vf_store_part(y + i, vf_load_part(y + i, n - i) + vf_load_part(x + i, n - i), n - i);
}

// y[0..n) += x[0..n) * value.
static inline __attribute__((unused)) void vec_add_scaled(float *y, const float *x, float value,
                                                          int64_t n)
{
    const vf v = vf_set(value);
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) vf_store(y + i, vf_load(y + i) + vf_load(x + i) * v);
    if (i < n)
        vf_store_part(y + i, vf_load_part(y + i, n - i) + vf_load_part(x + i, n - i) * v, n - i);
}

// --- functions -----------------------------------------------------------------------------------

// Returns p near 1 and sets n so that e^x = 2^n p. n is x / ln2, rounded, and also in the low bits
// of `shifted`; p is Cephes' polynomial for expf, in x - n ln2.
VEC_INLINE vf vf_exp_parts(vf x, vf *n, vf *shifted)
{
    const vf magic = vf_set(0x1.8p23f);
    *shifted = x * vf_set(0x1.715476p+0f) + magic;
    *n = *shifted - magic;
    vf r = x - *n * vf_set(0x1.63p-1f) - *n * vf_set(-0x1.bd0106p-13f);
    vf p = vf_set(1.9875691500e-4f);
    p = p * r + vf_set(1.3981999507e-3f);
    p = p * r + vf_set(8.3334519073e-3f);
    p = p * r + vf_set(4.1665795894e-2f);
    p = p * r + vf_set(1.6666665459e-1f);
    p = p * r + vf_set(5.0000001201e-1f);
    return p * (r * r) + r + vf_set(1);
}

// e^x within 2 units in the last place; 0 below -87.3, infinity above 88.72.
VEC_INLINE vf vf_exp(vf x)
{
    vf n, shifted, p = vf_exp_parts(x, &n, &shifted);
    vf y = (vf)((vu)p + ((vu)shifted << 23));
    y = vf_choose(x < vf_set(-87.3f), vf_set(0), y);
    y = vf_choose(x > vf_set(88.72f), vf_set(__builtin_inff()), y);
    return vf_choose(x == x, y, x); // NOLINT(misc-redundant-expression): false for NaN
}

// Like vf_exp, for x <= 0, in fewer instructions.
VEC_INLINE vf vf_exp_fading(vf x)
{
    vf n, shifted, p = vf_exp_parts(x, &n, &shifted);
#if defined(__AVX512F__)
    const __mmask16 counts = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87.3f), _CMP_NLT_UQ);
    return (vf)_mm512_maskz_scalef_ps(counts, (__m512)p, (__m512)n);
#else
    vf y = vf_choose(x < vf_set(-87.3f), vf_set(0), (vf)((vu)p + ((vu)shifted << 23)));
    return vf_choose(x == x, y, x); // NOLINT(misc-redundant-expression): false for NaN
#endif
}

VEC_INLINE vf vf_sigmoid(vf x)
{
    return vf_set(1) / (vf_set(1) + vf_exp(-x));
}

// --- threads -------------------------------------------------------------------------------------

// The minimum work for which waking the other threads pays off, in elementary steps (about 20
// microseconds of work). Waking takes 10 to 100 microseconds in a virtual machine.
enum { WORTH_THREADS = 128 * 1024 };

VEC_INLINE bool vec_worth_threads(int64_t steps)
{
    return steps >= WORTH_THREADS;
}

#endif
