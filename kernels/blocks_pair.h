// kernels/blocks_pair.h -- 128 weights in blocks as two vectors of bytes, one below the other
// (AVX-512), the operands of kernels/blocks_dot_vnni.h.
//
//   groups of 32:  first   g0 0..15   g1 0..15    g2 0..15    g3 0..15
//                  second  g0 16..31  g1 16..31   g2 16..31   g3 16..31
//   groups of 16:  first   g0 0..7 g4 0..7        g1 .. g5 ..        ...
//                  second  g0 8..15 g4 8..15      ...
//
// So a 32-bit lane holds elements of one group in both vectors, and the integer sums can be added
// before scaling. Pairs of Q4_K and Q5_K hold the groups in the order 0, 2, 1, 3.
#ifndef KERNELS_BLOCKS_PAIR_H
#define KERNELS_BLOCKS_PAIR_H

#include "kernels/blocks_vec.h"

struct pair {
    __m512i first, second;
};

VEC_INLINE bool pair_crossed(const enum dtype dtype)
{
    return dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K;
}

// The group of each lane of pair p of a run. size: elements per group.
VEC_INLINE __m512i pair_groups(int p, int size, bool crossed)
{
    const __m512i of_32 = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i cross = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 3, 3, 3, 3);
    const __m512i of_16 = _mm512_setr_epi32(0, 0, 4, 4, 1, 1, 5, 5, 2, 2, 6, 6, 3, 3, 7, 7);
    const __m512i at = size == 16 ? of_16 : crossed ? cross : of_32;
    return _mm512_add_epi32(at, _mm512_set1_epi32(p * (size == 16 ? 8 : 4)));
}

// Byte offset of elements i..i+15 in the pairs of a run. With groups of 16, it is the offset of
// elements i..i+7; the next 8 elements lie 64 bytes further.
VEC_INLINE int pair_offset(int i, int size, bool crossed)
{
    const int p = i / 128, in = i % 128;
    if (size == 16) return 128 * p + 16 * (in / 16 % 4) + 8 * (in / 64);
    const int group = in / 32, lane = crossed && group % 3 ? 3 - group : group;
    return 128 * p + 64 * (in / 16 % 2) + 16 * lane;
}

// --- making pairs --------------------------------------------------------------------------------

// Makes a pair of 64 elements (`low`) and the next 64 (`high`).
VEC_INLINE struct pair pair_of_32(__m512i low, __m512i high)
{
    return (struct pair){ _mm512_shuffle_i64x2(low, high, 0x88),
                          _mm512_shuffle_i64x2(low, high, 0xdd) };
}

VEC_INLINE struct pair pair_of_16(__m512i low, __m512i high)
{
    return (struct pair){ _mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high) };
}

VEC_INLINE __m512i bytes_low4(__m512i v)
{
    return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

VEC_INLINE __m512i bytes_high4(__m512i v)
{
    return bytes_low4(_mm512_srli_epi16(v, 4));
}

// Loads 16 bytes of each of 4 blocks, which are `apart` bytes apart.
VEC_INLINE __m512i bytes_of_4(const char *at, int apart)
{
    const __m128i a = _mm_loadu_si128((const void *)at);
    const __m128i c = _mm_loadu_si128((const void *)(at + 2 * apart));
    const __m128i b = _mm_loadu_si128((const void *)(at + apart));
    const __m128i d = _mm_loadu_si128((const void *)(at + 3 * apart));
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(b, a)),
                              _mm256_set_m128i(d, c), 1);
}

// Loads four pieces of 16 bits, `apart` bytes apart.
VEC_INLINE __mmask64 bits_of_4(const char *at, int apart)
{
    return halves_of_4(at, apart);
}

// Adds bits to the elements: 32 bytes rotated left by `first` for the first 32 elements and by
// `second` for the other 32, masked by `mask`.
VEC_INLINE __m512i with_bits(__m512i numbers, __m512i bytes, int first, int second, int mask)
{
    const __m512i count =
        _mm512_setr_epi64(first, first, first, first, second, second, second, second);
    return _mm512_or_si512(
        numbers, _mm512_and_si512(_mm512_rolv_epi64(bytes, count), _mm512_set1_epi8((char)mask)));
}

VEC_INLINE __m512i twice_32(const uint8_t *bytes)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)bytes));
}

// --- the types -----------------------------------------------------------------------------------

// Blocks of 32 elements, two per byte: the lower halves of 64 bytes are the first vector of the
// pair, the upper halves the second.
VEC_INLINE struct pair pair_halves(const char *run, int p, const enum dtype dtype)
{
    const int bytes = dtype_form(dtype).bytes, head = bytes - 16;
    const char *at = run + 4 * p * bytes;
    const __m512i both = bytes_of_4(at + head, bytes);
    struct pair v = { bytes_low4(both), bytes_high4(both) };
    if (dtype == DTYPE_Q5_0 || dtype == DTYPE_Q5_1) {
        const __mmask64 first = bits_of_4(at + head - 4, bytes);
        const __mmask64 second = bits_of_4(at + head - 2, bytes);
        v.first = _mm512_or_si512(v.first, _mm512_maskz_set1_epi8(first, 16));
        v.second = _mm512_or_si512(v.second, _mm512_maskz_set1_epi8(second, 16));
    }
    return v;
}

// 128 plus the levels of iq4_nl and iq4_xs for indices 0..15.
VEC_INLINE struct pair pair_levels(__m512i both)
{
    const __m512i levels =
        _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)block_levels)),
                         _mm512_set1_epi8(-128));
    return (struct pair){ _mm512_shuffle_epi8(levels, bytes_low4(both)),
                          _mm512_shuffle_epi8(levels, bytes_high4(both)) };
}

// The lower halves of 64 bytes hold groups 0 and 2, the upper halves groups 1 and 3.
VEC_INLINE struct pair pair_k(const uint8_t *q, const uint8_t *high, int p, const enum dtype dtype)
{
    const __m512i both = _mm512_loadu_si512(q + 64 * p);
    __m512i even = bytes_low4(both), odd = bytes_high4(both);
    if (dtype == DTYPE_Q5_K) {
        even = with_bits(even, twice_32(high), 4 - 4 * p, 2 - 4 * p, 16);
        odd = with_bits(odd, twice_32(high), 3 - 4 * p, 1 - 4 * p, 16);
    }
    return pair_of_32(even, odd);
}

VEC_INLINE struct pair pair_q6_k(const struct block_q6_k *b, int p)
{
    const __m512i both = _mm512_loadu_si512(b->q + 64 * p), high = twice_32(b->high + 32 * p);
    return pair_of_16(with_bits(bytes_low4(both), high, 4, 2, 0x30),
                      with_bits(bytes_high4(both), high, 0, -2, 0x30));
}

// Two bits of each element and, with Q3_K, a third bit.
VEC_INLINE struct pair pair_two_bits(const uint8_t *q, const uint8_t *high, int p,
                                     const enum dtype dtype)
{
    const __m512i none = _mm512_setzero_si512(), two = twice_32(q + 32 * p);
    __m512i a = with_bits(none, two, 0, -2, 3), b = with_bits(none, two, -4, -6, 3);
    if (dtype == DTYPE_Q3_K) {
        a = with_bits(a, twice_32(high), 2 - 4 * p, 1 - 4 * p, 4);
        b = with_bits(b, twice_32(high), -4 * p, -1 - 4 * p, 4);
    }
    return pair_of_16(a, b);
}

VEC_INLINE struct pair run_pair(const char *run, int p, const enum dtype dtype)
{
    const struct block_q2_k *q2_k = (const void *)run;
    const struct block_q3_k *q3_k = (const void *)run;
    const struct block_q4_k *q4_k = (const void *)run;
    const struct block_q5_k *q5_k = (const void *)run;
    const struct block_iq4_xs *iq4_xs = (const void *)run;
    switch (dtype) {
    case DTYPE_Q4_0:
    case DTYPE_Q4_1:
    case DTYPE_Q5_0:
    case DTYPE_Q5_1: return pair_halves(run, p, dtype);
    case DTYPE_IQ4_NL: return pair_levels(bytes_of_4(run + 2 + 4 * p * 18, 18));
    case DTYPE_IQ4_XS: return pair_levels(_mm512_loadu_si512(iq4_xs->q + 64 * p));
    case DTYPE_Q2_K: return pair_two_bits(q2_k->q, NULL, p, dtype);
    case DTYPE_Q3_K: return pair_two_bits(q3_k->q, q3_k->high, p, dtype);
    case DTYPE_Q4_K: return pair_k(q4_k->q, NULL, p, dtype);
    case DTYPE_Q5_K: return pair_k(q5_k->q, q5_k->high, p, dtype);
    case DTYPE_Q6_K: return pair_q6_k((const void *)run, p);
    default: // Q8_0
        return pair_of_32((__m512i)run_unit(run, 2 * p, dtype),
                          (__m512i)run_unit(run, 2 * p + 1, dtype));
    }
}

#endif
