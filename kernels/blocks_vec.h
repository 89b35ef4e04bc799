// kernels/blocks_vec.h -- unpacks a run of 256 weights in blocks (kernels/blocks.h) of any dtype to
// bytes with scales and offsets, in registers.
//
//   run_groups(scale, offset, at, DTYPE_Q4_K);
//   for (int part = 0; part < RUN / 32; part++) ... run_part(at, part, DTYPE_Q4_K) ...
//
// Element i is scale * byte i + offset, with the scale and offset of its group; the bytes stay in
// order.
#ifndef KERNELS_BLOCKS_VEC_H
#define KERNELS_BLOCKS_VEC_H

#include "kernels/blocks_groups.h"
#include "kernels/vec.h"

enum { RUN = 256 };

// Bytes of the largest run in blocks of 32.
enum { RUN_BYTES = RUN / 32 * 34 };

typedef uint8_t vb32 __attribute__((vector_size(32)));
typedef uint16_t vh32 __attribute__((vector_size(32)));

VEC_INLINE bool block_has_min(const enum dtype dtype)
{
    return dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1 || dtype == DTYPE_Q2_K ||
           dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K;
}

// The byte that encodes 0; 0 for dtypes with minima.
VEC_INLINE float block_centre(const enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_Q8_0:
    case DTYPE_IQ4_NL:
    case DTYPE_IQ4_XS: return 128;
    case DTYPE_Q4_0: return 8;
    case DTYPE_Q5_0: return 16;
    case DTYPE_Q3_K: return 4;
    case DTYPE_Q6_K: return 32;
    default: return 0;
    }
}

// --- scales -------------------------------------------------------------------------------------

// Loads four half-precision numbers, `apart` bytes apart.
VEC_INLINE uint64_t halves_of_4(const char *at, int apart)
{
    uint64_t all = 0;
    for (int i = 0; i < 4; i++) {
        uint16_t half;
        memcpy(&half, at + i * apart, sizeof half);
        all |= (uint64_t)half << 16 * i;
    }
    return all;
}

// Loads a half-precision number of each of 8 blocks as floats.
VEC_INLINE void halves_of_8(float *to, const char *at, int apart)
{
    const uint64_t low = halves_of_4(at, apart), high = halves_of_4(at + 4 * apart, apart);
#if defined(__F16C__)
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_set_epi64x((int64_t)high, (int64_t)low)));
#else
    for (int i = 0; i < 8; i++)
        to[i] = half_to_float((uint16_t)((i < 4 ? low : high) >> i % 4 * 16));
#endif
}

// Loads the scales and minima of 8 blocks of 32 elements.
VEC_INLINE void groups_of_8(struct block_groups *g, const char *run, const enum dtype dtype)
{
    const int bytes = dtype_form(dtype).bytes;
    halves_of_8(g->scale, run, bytes);
    if (block_has_min(dtype)) halves_of_8(g->min, run + 2, bytes);
}

typedef float vf8 __attribute__((vector_size(32)));

VEC_INLINE vf8 vf8_load(const float *p)
{
    vf8 v = { 0 };
    memcpy(&v, p, sizeof v);
    return v;
}

// Computes the scales and offsets of a run's groups, of which there are 8 or 16.
VEC_INLINE void run_groups(float *scale, float *offset, const char *run, const enum dtype dtype)
{
    struct block_groups g;
    if (dtype_form(dtype).numbers == RUN)
        block_groups_of(&g, run, dtype);
    else
        groups_of_8(&g, run, dtype);
    // The minima of Q4_1 and Q5_1 are added; those of other dtypes are subtracted.
    const bool plus = dtype == DTYPE_Q4_1 || dtype == DTYPE_Q5_1;
    for (int i = 0; i < RUN / block_group(dtype); i += 8) {
        const vf8 of = vf8_load(g.scale + i);
        vf8 add = { 0 };
        if (block_centre(dtype) > 0) add = of * -block_centre(dtype);
        if (block_has_min(dtype)) add = plus ? vf8_load(g.min + i) : -vf8_load(g.min + i);
        memcpy(scale + i, &of, sizeof of);
        memcpy(offset + i, &add, sizeof add);
    }
}

// --- integers -----------------------------------------------------------------------------------

VEC_INLINE vb32 bytes32(const uint8_t *p)
{
    vb32 v = { 0 };
    memcpy(&v, p, sizeof v);
    return v;
}

// These shifts move bits across bytes, so callers mask the results.
VEC_INLINE vb32 bytes_down(vb32 v, int count)
{
    return (vb32)((vh32)v >> count);
}

VEC_INLINE vb32 bytes_up(vb32 v, int count)
{
    return (vb32)((vh32)v << count);
}

VEC_INLINE vb32 bytes_left(vb32 v, int count)
{
    return count < 0 ? bytes_down(v, -count) : bytes_up(v, count);
}

// Unpacks 16 bytes of two elements each: first the lower halves, then the upper halves.
VEC_INLINE vb32 bytes_halves(const uint8_t *p)
{
#if defined(__AVX2__)
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)p));
    return (vb32)_mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)) & 15;
#else
    vb32 v = { 0 };
    for (int i = 0; i < 32; i++) v[i] = i < 16 ? p[i] & 15 : p[i - 16] >> 4;
    return v;
#endif
}

// Expands each of 32 bits to a byte: 16 if the bit is set, else 0.
VEC_INLINE vb32 bytes_bits(const uint8_t *p)
{
    uint32_t bits;
    memcpy(&bits, p, sizeof bits);
#if defined(__AVX512F__)
    return (vb32)_mm256_maskz_set1_epi8(bits, 16);
#elif defined(__AVX2__)
    // Copies each byte of bits to 8 bytes, each of which keeps one bit.
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

// 128 plus the levels of iq4_nl and iq4_xs for indices 0..15.
VEC_INLINE vb32 bytes_levels(vb32 index)
{
#if defined(__AVX2__)
    const __m128i levels = _mm_loadu_si128((const void *)block_levels);
    index = (vb32)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), (__m256i)index);
#else
    for (int i = 0; i < 32; i++) index[i] = (uint8_t)block_levels[index[i]];
#endif
    return index ^ 128;
}

// The stored integers of 32 elements (for q8_0 plus 128): part `part` of a block of 256, or a block
// of 32.
VEC_INLINE vb32 block_stored(const char *block, int part, const enum dtype dtype)
{
    const struct block_q8_0 *q8_0 = (const void *)block;
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
    const int half = part / 4, two = part % 4 * 2; // which 128 elements; shift of the 2 bits
    switch (dtype) {
    case DTYPE_Q8_0: return bytes32((const uint8_t *)q8_0->q) ^ 128;
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
               (bytes_left(bytes32(q6_k->high + 32 * half), 4 - two) & 0x30);
    case DTYPE_IQ4_XS: return bytes_halves(iq4_xs->q + 16 * part);
    default: return (vb32){ 0 };
    }
}

// The bytes of the run's 32 elements from element 32 * part on.
VEC_INLINE vb32 run_part(const char *run, int part, const enum dtype dtype)
{
    const struct dtype_form form = dtype_form(dtype);
    const char *block = form.numbers == RUN ? run : run + part * form.bytes;
    const vb32 bytes = block_stored(block, part, dtype);
    return dtype == DTYPE_IQ4_NL || dtype == DTYPE_IQ4_XS ? bytes_levels(bytes) : bytes;
}

// Elements per unit: one per byte of a vector.
enum { UNIT = 4 * VEC };

VEC_INLINE vu run_unit(const char *run, int u, const enum dtype dtype)
{
#if defined(__AVX512F__)
    const __m256i low = (__m256i)run_part(run, 2 * u, dtype);
    return (vu)_mm512_inserti64x4(_mm512_castsi256_si512(low),
                                  (__m256i)run_part(run, 2 * u + 1, dtype), 1);
#elif defined(__AVX2__)
    return (vu)run_part(run, u, dtype);
#else
    const vb32 part = run_part(run, u / 2, dtype);
    vu unit;
    memcpy(&unit, (const char *)&part + u % 2 * sizeof unit, sizeof unit);
    return unit;
#endif
}

// An unpacked run. blocks_run and each run_ready (kernels/blocks_dot_*.h) have their own layouts.
struct block_run {
    _Alignas(64) uint8_t q[RUN];
    float scale[16], offset[16];
};

// Unpacks a run (kernels/blocks_widen.c): q in order; if groups have 32 elements, the last eight
// scales and offsets are 0.
void KERNEL(blocks_run)(struct block_run *to, const char *from, enum dtype dtype);

// Returns a whole run: `run` itself or, if the row ends before RUN elements, a copy in `rest`
// padded with zeros. `numbers`: elements from `run` to the end of the row; fewer than RUN are
// possible only with blocks of 32.
VEC_INLINE const char *run_whole(const char *run, int64_t numbers, char rest[RUN_BYTES],
                                 const enum dtype dtype)
{
    if (numbers >= RUN) return run;
    memset(rest, 0, RUN_BYTES);
    return memcpy(rest, run, dtype_bytes(dtype, numbers));
}

// Calls run(..., dtype) with the dtype as a compile-time constant.
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
