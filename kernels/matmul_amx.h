// kernels/matmul_amx.h -- products of many rows in bf16 with AMX, for kernels/matmul.c.
#ifndef KERNELS_MATMUL_AMX_H
#define KERNELS_MATMUL_AMX_H

#include "kernels/amx.h"
#include "kernels/products.h"

#if defined(__AMX_BF16__)

// Rows packed for products, as tiles of 16 rows by 32 elements, in this order: pieces of K, tiles
// of rows, steps along K within the piece. Padding in the last tiles is finite.
struct amx_rows {
    char *data;
    int64_t rows, k;
    int64_t piece; // elements along K per piece, a multiple of AMX_STEP
};

enum { AMX_STEPS = 45 }; // maximum number of steps of AMX_STEP elements along K per piece

// Elements along K per piece: as few pieces as possible, of about equal size.
VEC_INLINE int64_t amx_piece(int64_t k)
{
    const int64_t steps = (k + AMX_STEP - 1) / AMX_STEP;
    const int64_t pieces = (steps + AMX_STEPS - 1) / AMX_STEPS;
    return pieces ? (steps + pieces - 1) / pieces * AMX_STEP : AMX_STEP;
}

VEC_INLINE int64_t amx_row_tiles(int64_t rows)
{
    return (rows + AMX_SIDE - 1) / AMX_SIDE;
}

// Number of tiles along K in the piece that begins at element k.
VEC_INLINE int64_t amx_steps_from(const struct amx_rows *x, int64_t k)
{
    const int64_t left = x->k - k;
    return ((left < x->piece ? left : x->piece) + AMX_STEP - 1) / AMX_STEP;
}

// The tile with elements k..k+31 of rows 16 t..16 t + 15; k is a multiple of AMX_STEP.
VEC_INLINE char *amx_rows_tile(const struct amx_rows *x, int64_t t, int64_t k)
{
    const int64_t begin = k / x->piece * x->piece;
    return x->data + (begin / AMX_STEP * amx_row_tiles(x->rows) + t * amx_steps_from(x, begin) +
                      (k - begin) / AMX_STEP) *
                         AMX_TILE;
}

VEC_INLINE size_t amx_rows_bytes(int64_t rows, int64_t k)
{
    return (size_t)(amx_row_tiles(rows) * ((k + AMX_STEP - 1) / AMX_STEP)) * AMX_TILE;
}

// y[rows,m] = x[rows,k] w[m,k]^T + bias[m]; with `add`, the result is added to y.
struct amx_product {
    float *y;
    struct amx_source x, w; // w may be quantised in blocks
    const float *bias;      // or NULL; with `add`, only direct products may have a bias
    int64_t rows, k, m;
    int64_t y_row; // row stride of y, in direct products; 0: m
    bool add;
    bool rounds; // y is bf16
    // Set for packed products (kernels/products.h), else NULL. `packed`: rows packed in advance,
    // which are read instead of x. `to`: receives the results as packed rows.
    const struct packed_product *after;
    struct amx_rows packed, to;
    // For PRODUCT_GATED, the second weight. m then counts the result columns of both weights, each
    // padded to whole tiles of 16 columns; tiles of the first and of the second weight alternate.
    // `to` has only as many columns as one weight.
    struct amx_source up;
};

// The bits of a row of y depend neither on the number of rows nor on the number of threads. Returns
// -1 if out of memory.
int KERNEL(matmul_tiles)(const struct amx_product *p);

// Computes the same bits, but reads weights directly from memory (kernels/matmul_amx_direct.c).
// Works for products that matmul_is_direct accepts: neither operand is transposed, weights are bf16
// [M,K], and M is a multiple of 16 and at least 128.
bool KERNEL(matmul_is_direct)(const struct amx_product *p);
int KERNEL(matmul_direct)(const struct amx_product *p);

// True if stores should bypass the caches: the caches of `threads` threads cannot hold y, nothing
// is added to y, and the stores fill whole cache lines. A product with weight rows of 1152 elements
// is a seventh faster if the lines of y are not read before they are written.
bool KERNEL(goes_past_caches)(const struct amx_product *p, int64_t threads);

#endif

#endif
