// kernels/blocks_vec.h -- blocks of weights (kernels/blocks.h) unpacked in registers.
//
//   struct block_groups g;
//   run_open(&g, run, 256, DTYPE_Q4_K);                 // one block of 256, or 8 of 32
//   for (int unit = 0; unit < 4; unit++) {              // 64 numbers
//       run_bytes(bytes, run, unit, DTYPE_Q4_K);
//       for (int i = 0; i < 64 / VEC; i++) ... run_vector(run, &g, bytes, unit, i, DTYPE_Q4_K) ...
//   }
//
// Numbers stay in order. They are put together as bytes, 32 at a time, and then widened. Those of 4
// bits are widened as they are stored; with AVX-512 they are then looked up among a group's 16
// numbers.
#ifndef KERNELS_BLOCKS_VEC_H
#define KERNELS_BLOCKS_VEC_H

#include "kernels/blocks_groups.h"
#include "kernels/vec.h"

enum { RUN = 256 }; // numbers whose scales are read at a time

typedef uint8_t vb32 __attribute__((vector_size(32)));
typedef uint16_t vh32 __attribute__((vector_size(32)));

// Numbers of a unit.
VEC_INLINE int run_unit(const enum dtype dtype)
{
    return dtype_form(dtype).numbers == 32 ? 32 : 64;
}

VEC_INLINE bool block_uneven(const enum dtype dtype)
{
    return dtype == DTYPE_IQ4_NL || dtype == DTYPE_IQ4_XS;
}

// Of 4 bits, widened as stored? (Uneven levels are looked up: with AVX-512 after widening.)
VEC_INLINE bool block_direct(const enum dtype dtype)
{
    return dtype == DTYPE_Q4_0 || dtype == DTYPE_Q4_1 || dtype == DTYPE_Q4_K ||
           (VEC == 16 && block_uneven(dtype));
}

VEC_INLINE bool block_has_min(const enum dtype dtype)
{
    return dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1 || dtype == DTYPE_Q2_K ||
           dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K;
}

// The integer, as stored, that stands for 0.
VEC_INLINE uint8_t block_centre(const enum dtype dtype)
{
    return dtype == DTYPE_Q4_0   ? 8
           : dtype == DTYPE_Q5_0 ? 16
           : dtype == DTYPE_Q3_K ? 4
           : dtype == DTYPE_Q6_K ? 32
                                 : 0;
}

// --- scales -------------------------------------------------------------------------------------

// The halves at `run` and every `apart` bytes from there, 4 times.
VEC_INLINE void run_halves(float *to, const char *run, int apart)
{
    uint16_t half[4];
    for (int i = 0; i < 4; i++) memcpy(half + i, run + i * apart, sizeof *half);
#if defined(__F16C__)
    const uint64_t all =
        half[0] | (uint64_t)half[1] << 16 | (uint64_t)half[2] << 32 | (uint64_t)half[3] << 48;
    _mm_storeu_ps(to, _mm_cvtph_ps(_mm_cvtsi64_si128((int64_t)all)));
#else
    for (int i = 0; i < 4; i++) to[i] = half_to_float(half[i]);
#endif
}

// Scales and minima of 8 blocks of 32.
VEC_INLINE void run_groups(struct block_groups *g, const char *run, const enum dtype dtype)
{
    const int bytes = dtype_form(dtype).bytes;
    for (int i = 0; i < 8; i += 4) run_halves(g->scale + i, run + i * bytes, bytes);
    if (!block_has_min(dtype)) return;
    for (int i = 0; i < 8; i += 4) run_halves(g->min + i, run + 2 + i * bytes, bytes);
    for (int i = 0; i < 8; i++) g->min[i] = -g->min[i];
}

// Scales and minima of a run of `numbers`, fewer than RUN at the end of a row of blocks of 32.
VEC_INLINE void run_open(struct block_groups *g, const char *run, int numbers,
                         const enum dtype dtype)
{
    const struct dtype_form form = dtype_form(dtype);
    struct block_groups one;
    if (form.numbers == RUN)
        block_groups_of(g, run, dtype);
    else if (numbers == RUN)
        run_groups(g, run, dtype);
    else
        for (int i = 0; i < numbers / 32; i++) {
            block_groups_of(&one, run + i * form.bytes, dtype);
            g->scale[i] = one.scale[0];
            g->min[i] = one.min[0];
        }
}

// --- integers -----------------------------------------------------------------------------------

VEC_INLINE vb32 bytes32(const uint8_t *p)
{
    vb32 v = { 0 };
    memcpy(&v, p, sizeof v);
    return v;
}

// Shifts that carry bits from byte to byte: what arrives is masked.
VEC_INLINE vb32 bytes_down(vb32 v, int count)
{
    return (vb32)((vh32)v >> count);
}

VEC_INLINE vb32 bytes_up(vb32 v, int count)
{
    return (vb32)((vh32)v << count);
}

// 16 bytes of two numbers each: first the lower halves, then the upper ones.
VEC_INLINE vb32 bytes_halves(const uint8_t *p)
{
#if defined(__AVX2__)
    const __m128i both = _mm_loadu_si128((const void *)p);
    return (vb32)_mm256_set_m128i(_mm_srli_epi16(both, 4), both) & 15;
#else
    vb32 v = { 0 };
    for (int i = 0; i < 32; i++) v[i] = i < 16 ? p[i] & 15 : p[i - 16] >> 4;
    return v;
#endif
}

// A byte of 16 for each of 32 bits that is set.
VEC_INLINE vb32 bytes_bits(const uint8_t *p)
{
    uint32_t bits;
    memcpy(&bits, p, sizeof bits);
#if defined(__AVX512F__)
    return (vb32)_mm256_maskz_set1_epi8(bits, 16);
#elif defined(__AVX2__)
    // Byte i of the bits to 8 bytes each, of which each keeps one bit.
    const __m256i each = _mm256_shuffle_epi8(
        _mm256_set1_epi32((int)bits),
        _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
    const __m256i one = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    return (vb32)_mm256_cmpeq_epi8(_mm256_and_si256(each, one), one) & 16;
#else
    vb32 v = { 0 };
    for (int i = 0; i < 32; i++) v[i] = (uint8_t)((bits >> i & 1) << 4);
    return v;
#endif
}

// The levels of iq4_nl and iq4_xs at indices 0..15.
VEC_INLINE vb32 bytes_levels(vb32 index)
{
#if defined(__AVX2__)
    const __m128i levels = _mm_loadu_si128((const void *)block_levels);
    return (vb32)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), (__m256i)index);
#else
    for (int i = 0; i < 32; i++) index[i] = (uint8_t)block_levels[index[i]];
    return index;
#endif
}

// The integers, as stored, of 32 numbers: number `part` of 32 of a block of 256, or a block of 32.
VEC_INLINE vb32 block_stored(const char *block, int part, const enum dtype dtype)
{
    const struct block_q4_0 *q4_0 = (const void *)block;
    const struct block_q4_1 *q4_1 = (const void *)block;
    const struct block_q5_0 *q5_0 = (const void *)block;
    const struct block_q5_1 *q5_1 = (const void *)block;
    const struct block_q2_k *q2_k = (const void *)block;
    const struct block_q3_k *q3_k = (const void *)block;
    const struct block_q4_k *q4_k = (const void *)block;
    const struct block_q5_k *q5_k = (const void *)block;
    const struct block_q6_k *q6_k = (const void *)block;
    const struct block_iq4_xs *iq4_xs = (const void *)block;
    const int half = part / 4, two = part % 4 * 2; // of 128 numbers; where 2 bits begin
    switch (dtype) {
    case DTYPE_Q4_0:
    case DTYPE_IQ4_NL: return bytes_halves(q4_0->q);
    case DTYPE_Q4_1: return bytes_halves(q4_1->q);
    case DTYPE_Q5_0: return bytes_halves(q5_0->q) | bytes_bits(q5_0->high);
    case DTYPE_Q5_1: return bytes_halves(q5_1->q) | bytes_bits(q5_1->high);
    case DTYPE_Q2_K: return bytes_down(bytes32(q2_k->q + 32 * half), two) & 3;
    case DTYPE_Q3_K:
        return (bytes_down(bytes32(q3_k->q + 32 * half), two) & 3) |
               bytes_up(bytes_down(bytes32(q3_k->high), part) & 1, 2);
    case DTYPE_Q4_K: return bytes_down(bytes32(q4_k->q + part / 2 * 32), part % 2 * 4) & 15;
    case DTYPE_Q5_K:
        return (bytes_down(bytes32(q5_k->q + part / 2 * 32), part % 2 * 4) & 15) |
               bytes_up(bytes_down(bytes32(q5_k->high), part) & 1, 4);
    case DTYPE_Q6_K:
        return (bytes_down(bytes32(q6_k->q + 64 * half + part % 2 * 32), two / 4 * 4) & 15) |
               bytes_up(bytes_down(bytes32(q6_k->high + 32 * half), two) & 3, 4);
    case DTYPE_IQ4_XS: return bytes_halves(iq4_xs->q + 16 * part);
    default: return (vb32){ 0 };
    }
}

// The integers of a unit as bytes, unless run_vector reads them where they are stored.
VEC_INLINE void run_bytes(int8_t *to, const char *run, int unit, const enum dtype dtype)
{
    const struct dtype_form form = dtype_form(dtype);
    if (dtype == DTYPE_Q8_0 || block_direct(dtype)) return;
    const char *block = form.numbers == RUN ? run : run + unit * form.bytes;
    const int parts = run_unit(dtype) / 32;
    for (int i = 0; i < parts; i++) {
        vb32 bytes = block_stored(block, parts * unit + i, dtype);
        if (block_uneven(dtype)) bytes = bytes_levels(bytes);
        bytes -= block_centre(dtype);
        memcpy(to + 32 * i, &bytes, sizeof bytes);
    }
}

// --- numbers ------------------------------------------------------------------------------------

VEC_INLINE vf bytes_float(const int8_t *bytes)
{
#if defined(__AVX512F__)
    const vi wide = (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)bytes));
#elif defined(__AVX2__)
    const vi wide = (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)bytes));
#else
    const vi wide = { bytes[0], bytes[1], bytes[2], bytes[3] };
#endif
    return __builtin_convertvector(wide, vf);
}

// VEC bytes of two numbers each, one in each lane.
VEC_INLINE vu bytes_wide(const uint8_t *bytes)
{
#if defined(__AVX512F__)
    return (vu)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)bytes));
#elif defined(__AVX2__)
    return (vu)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)bytes));
#else
    return (vu){ bytes[0], bytes[1], bytes[2], bytes[3] };
#endif
}

// Numbers n.. of a unit of 4 bits.
VEC_INLINE vf block_direct_vector(const char *block, int unit, int n, vf scale, vf min,
                                  const enum dtype dtype)
{
    const uint8_t *q = (const uint8_t *)block + (dtype == DTYPE_Q4_1 ? 4 : 2) + n % 16;
    if (dtype == DTYPE_Q4_K)
        q = ((const struct block_q4_k *)(const void *)block)->q + 32 * unit + n % 32;
    if (dtype == DTYPE_IQ4_XS)
        q = ((const struct block_iq4_xs *)(const void *)block)->q + 32 * unit + n / 32 * 16;
    const bool upper = dtype == DTYPE_Q4_K ? n / 32 % 2 : n / 16 % 2;
    vu index = bytes_wide(q);
    if (upper) index >>= 4;
#if defined(__AVX512F__)
    // (The lookup takes no notice of what is above 4 bits.)
    const __m128i uneven = _mm_loadu_si128((const void *)block_levels);
    const vf even = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    vf levels = block_uneven(dtype) ? (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(uneven))
                                    : even - vf_set(block_centre(dtype));
    levels *= scale;
    if (block_has_min(dtype)) levels -= min;
    return (vf)_mm512_permutexvar_ps((__m512i)index, (__m512)levels);
#else
    if (!upper) index &= 15;
    if (!block_has_min(dtype)) min = scale * vf_set(block_centre(dtype));
    return __builtin_convertvector((vi)index, vf) * scale - min;
#endif
}

// Vector i of a unit.
VEC_INLINE vf run_vector(const char *run, const struct block_groups *g, const int8_t *bytes,
                         int unit, int i, const enum dtype dtype)
{
    const struct dtype_form form = dtype_form(dtype);
    const char *block = form.numbers == RUN ? run : run + unit * form.bytes;
    const int n = i * VEC, size = block_group(dtype);
    const int group = unit * (run_unit(dtype) / size) + n / size;
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): all groups of a block are set
    const vf scale = vf_set(g->scale[group]);
    const vf min = block_has_min(dtype) ? vf_set(g->min[group]) : vf_set(0);
    if (block_direct(dtype)) return block_direct_vector(block, unit, n, scale, min, dtype);
    if (dtype == DTYPE_Q8_0) bytes = ((const struct block_q8_0 *)(const void *)block)->q;
    const vf numbers = bytes_float(bytes + n) * scale;
    return block_has_min(dtype) ? numbers - min : numbers;
}

// run(..., dtype) with the dtype of blocks known when compiling.
#define BLOCK_AS(dtype, run, ...)                             \
    switch (dtype) {                                          \
    case DTYPE_Q8_0: run(__VA_ARGS__, DTYPE_Q8_0); break;     \
    case DTYPE_Q4_0: run(__VA_ARGS__, DTYPE_Q4_0); break;     \
    case DTYPE_Q4_1: run(__VA_ARGS__, DTYPE_Q4_1); break;     \
    case DTYPE_Q5_0: run(__VA_ARGS__, DTYPE_Q5_0); break;     \
    case DTYPE_Q5_1: run(__VA_ARGS__, DTYPE_Q5_1); break;     \
    case DTYPE_Q2_K: run(__VA_ARGS__, DTYPE_Q2_K); break;     \
    case DTYPE_Q3_K: run(__VA_ARGS__, DTYPE_Q3_K); break;     \
    case DTYPE_Q4_K: run(__VA_ARGS__, DTYPE_Q4_K); break;     \
    case DTYPE_Q5_K: run(__VA_ARGS__, DTYPE_Q5_K); break;     \
    case DTYPE_Q6_K: run(__VA_ARGS__, DTYPE_Q6_K); break;     \
    case DTYPE_IQ4_NL: run(__VA_ARGS__, DTYPE_IQ4_NL); break; \
    case DTYPE_IQ4_XS: run(__VA_ARGS__, DTYPE_IQ4_XS); break; \
    default: break;                                           \
    }

#endif
