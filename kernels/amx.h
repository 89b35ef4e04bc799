// kernels/amx.h -- Intel's AMX tiles: products of [16,32] and [32,16] bf16 matrices.
//
// There are eight tile registers, each 16 rows of 64 bytes. One instruction computes c += a b with
// f32 sums:
//
//   a: 16 rows of 32 bf16                   (amx_pack_rows)
//   b: 16 rows of 16 pairs of bf16; row i holds elements
//      2i and 2i+1 along K of each column   (amx_pack_pairs)
//   c: 16 rows of 16 f32
//
//   amx_open();                                // in each thread, before its first tile
//   _tile_zero(0);
//   for (k = 0; k < steps; k++) {
//       _tile_loadd(4, a + k * AMX_TILE, 64);
//       _tile_loadd(6, b + k * AMX_TILE, 64);
//       _tile_dpbf16ps(0, 4, 6);
//   }
//   _tile_stored(0, c, 64);
//   amx_close();                               // otherwise each context switch saves 8 KB
//
// Packed data must be aligned to 64 bytes (loads across two cache lines take twice as long). The
// bits of a row of c depend only on that row of a and on b, not on other rows. Subnormal inputs and
// results count as 0. Infinity and NaN behave as in any other product.
//
// Available only in kernels compiled for the instruction set `amx`, where AMX_TILE is defined.
#ifndef KERNELS_AMX_H
#define KERNELS_AMX_H

#include "kernels/tile.h"

#if defined(__AMX_BF16__)

#define AMX_TILE 1024 // bytes
enum {
    AMX_SIDE = 16, // rows of a and c, columns of b and c
    AMX_STEP = 32  // elements along K
};

// Sets all eight tiles of this thread to the maximum size.
VEC_INLINE void amx_open(void)
{
    static const struct {
        uint8_t palette, start, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } sizes = { .palette = 1,
                .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
                .rows = { 16, 16, 16, 16, 16, 16, 16, 16 } };
    _tile_loadconfig(&sizes);
}

VEC_INLINE void amx_close(void)
{
    _tile_release();
}

// Tiles 0 to 3 hold sums. If `wide` is 2, tile 1 is to the right of tile 0; if `high` is 2, tiles 2
// and 3 are below tiles 0 and 1. In memory, the right tile begins `beside` floats after the left
// one, and the lower tile `below` floats after the upper one.
VEC_INLINE void amx_sums_zero(const int high, const int wide)
{
    _tile_zero(0);
    if (wide == 2) _tile_zero(1);
    if (high == 2) _tile_zero(2);
    if (high == 2 && wide == 2) _tile_zero(3);
}

VEC_INLINE void amx_sums_load(const float *c, int64_t below, int64_t beside, const int high,
                              const int wide)
{
    _tile_loadd(0, c, 64);
    if (wide == 2) _tile_loadd(1, c + beside, 64);
    if (high == 2) _tile_loadd(2, c + below, 64);
    if (high == 2 && wide == 2) _tile_loadd(3, c + below + beside, 64);
}

VEC_INLINE void amx_sums_store(float *c, int64_t below, int64_t beside, const int high,
                               const int wide)
{
    _tile_stored(0, c, 64);
    if (wide == 2) _tile_stored(1, c + beside, 64);
    if (high == 2) _tile_stored(2, c + below, 64);
    if (high == 2 && wide == 2) _tile_stored(3, c + below + beside, 64);
}

// After some 2000 cycles without a tile store, the next one takes 900 cycles (measured on an Intel
// Xeon with AMX, docs/speed.md). So kernels store an unused tile every AMX_STORE steps.
enum { AMX_STORE = 8 }; // steps

VEC_INLINE int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

// Returns how many groups of about equal size to split `count` items into, with at most `most`
// items each. The number is a multiple of the number of threads, because otherwise one thread would
// compute the last group while others wait; with few items, it is `count`.
static inline __attribute__((unused)) int64_t amx_groups(int64_t count, int64_t most,
                                                         int64_t threads)
{
    enum { EACH = 2 }; // minimum number of groups per thread
    const int64_t each = ((count + most - 1) / most + threads - 1) / threads;
    return at_most((each < EACH ? EACH : each) * threads, count);
}

// A matrix to pack, indexed by row and element along K: x or queries; or weights, keys or values,
// whose rows become columns of c.
struct amx_source {
    const void *data;
    size_t row_bytes; // from one stored row to the next
    enum dtype dtype; // f32, bf16 or f16
    bool transposed;  // stored as [k][row] instead of [row][k]
};

// Converts the 2 VEC elements of two vectors to bf16, in order.
VEC_INLINE vf amx_narrow(vf a, vf b)
{
    return (vf)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
}

// 2^x with a relative error below 1e-4, enough for bf16: 2^floor(x) times a polynomial in x -
// floor(x).
VEC_INLINE vf amx_power_of_two(vf x)
{
    const __m512 part = _mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    vf p = vf_set(0x1.3baacap-4f);
    p = p * (vf)part + vf_set(0x1.d23776p-3f);
    p = p * (vf)part + vf_set(0x1.63e65ap-1f);
    p = p * (vf)part + vf_set(1);
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)x);
}

// Loads n <= 32 elements, from k on, as bf16 and pads them with 0.
VEC_INLINE vf amx_row(const char *row, int64_t k, int64_t n, const enum dtype dtype)
{
    if (dtype == DTYPE_BF16)
        return n == AMX_STEP ? vf_load(row + 2 * k)
                             : (vf)_mm512_maskz_loadu_epi16((1u << n) - 1, row + 2 * k);
    const int64_t a = n < VEC ? n : VEC;
    return amx_narrow(vf_load_part_n_as(row, k, a, dtype),
                      n > VEC ? vf_load_part_n_as(row, k + VEC, n - VEC, dtype) : vf_set(0));
}

// Pairs elements k and k + 1 (0 unless `two`) of each of n <= 16 rows, from `row` on.
VEC_INLINE vf amx_pairs(const struct amx_source *s, int64_t row, int64_t n, int64_t k, bool two,
                        const enum dtype dtype)
{
    const char *first = (const char *)s->data + (size_t)k * s->row_bytes;
    const vf a = vf_load_part_n_as(first, row, n, dtype);
    const vf b = two ? vf_load_part_n_as(first + s->row_bytes, row, n, dtype) : vf_set(0);
    return vf_pair(a, b);
}

VEC_INLINE void amx_pack_as(void *to, const struct amx_source *s, int64_t row, const int64_t rows,
                            int64_t k, const int64_t n, const bool transposed, const bool pairs,
                            const enum dtype dtype)
{
    vf v[AMX_SIDE];
    for (int i = 0; i < AMX_SIDE; i++) {
        v[i] = vf_set(0);
        if (transposed && 2 * i < n)
            v[i] = amx_pairs(s, row, rows, k + 2 * (int64_t)i, 2 * i + 1 < n, dtype);
        else if (!transposed && i < rows)
            v[i] = amx_row((const char *)s->data + (size_t)(row + i) * s->row_bytes, k, n, dtype);
    }
    if (transposed != pairs) vec_transpose(v);
    for (int i = 0; i < AMX_SIDE; i++) vf_store((char *)to + (size_t)i * 64, v[i]);
}

// Packs a whole tile, the common case, without checks for its ends.
VEC_INLINE void amx_pack_whole(void *to, const struct amx_source *s, int64_t row, int64_t k,
                               const bool pairs, const enum dtype dtype)
{
    if (s->transposed)
        amx_pack_as(to, s, row, AMX_SIDE, k, AMX_STEP, true, pairs, dtype);
    else
        amx_pack_as(to, s, row, AMX_SIDE, k, AMX_STEP, false, pairs, dtype);
}

// Packs elements k..k+n (n <= 32) of rows row..row+rows (at most 16) into a tile: row by row (a),
// or in pairs (b); missing elements are 0.
VEC_INLINE void amx_pack(void *to, const struct amx_source *s, int64_t row, int64_t rows, int64_t k,
                         int64_t n, const bool pairs)
{
    const bool whole = rows == AMX_SIDE && n == AMX_STEP;
    if (whole && s->dtype == DTYPE_BF16)
        amx_pack_whole(to, s, row, k, pairs, DTYPE_BF16);
    else if (whole && s->dtype == DTYPE_F32)
        amx_pack_whole(to, s, row, k, pairs, DTYPE_F32);
    else if (s->dtype == DTYPE_BF16)
        amx_pack_as(to, s, row, rows, k, n, s->transposed, pairs, DTYPE_BF16);
    else if (s->dtype == DTYPE_F16)
        amx_pack_as(to, s, row, rows, k, n, s->transposed, pairs, DTYPE_F16);
    else
        amx_pack_as(to, s, row, rows, k, n, s->transposed, pairs, DTYPE_F32);
}

static inline __attribute__((unused)) void amx_pack_rows(void *to, const struct amx_source *s,
                                                         int64_t row, int64_t rows, int64_t k,
                                                         int64_t n)
{
    amx_pack(to, s, row, rows, k, n, false);
}

static inline __attribute__((unused)) void amx_pack_pairs(void *to, const struct amx_source *s,
                                                          int64_t row, int64_t rows, int64_t k,
                                                          int64_t n)
{
    amx_pack(to, s, row, rows, k, n, true);
}

#endif

#endif
