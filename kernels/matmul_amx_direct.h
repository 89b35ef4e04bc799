// kernels/matmul_amx_direct.h -- shared by products that read weights directly from memory,
// unpacked: the packing of x, and the loop over tiles.
//
//   x: [block of rows][piece of K][pair of tiles of 16 rows][step][tile of the pair]
//
// A tile of x holds pairs along K (amx_pack_pairs); the tile of the other operand is 16 rows of w
// as stored. So a tile of sums has a row for each of the 16 rows of w and a column for each of 16
// rows of x.
//
//   struct direct_x x = direct_plan(rows, k);
//   x.data = ... direct_bytes(&x) ...
//   direct_pack(&x, tile, &source, 16 * tile);  // for each of x.tiles
//   struct direct_part p = { .w = .., .v = .., .x = direct_tile(&x, tile, step), .. };
//   direct_multiply(sums, &p, &ahead, &rest, 2, 2); // 32 rows of weights by 32 of x
#ifndef KERNELS_MATMUL_AMX_DIRECT_H
#define KERNELS_MATMUL_AMX_DIRECT_H

#include "kernels/amx.h"

#if defined(__AMX_BF16__)

enum {
    DIRECT_PIECE = 64,                // maximum number of steps along K per piece
    DIRECT_CACHED = 1152,             // tiles of x that stay in a second-level cache of 2 MB
    DIRECT_SUMS = AMX_SIDE * AMX_SIDE // elements in a tile of sums
};

// Packed rows. A block's piece stays in the second-level cache.
struct direct_x {
    char *data;
    int64_t rows, k;
    int64_t tiles, steps; // tiles of 16 rows; steps along K (the last may be partial)
    int64_t block, piece; // tiles in a block (even), steps in a piece
};

// Divides rows and K into few, about equal blocks and pieces; leaves data NULL.
static inline __attribute__((unused)) struct direct_x direct_plan(int64_t rows, int64_t k)
{
    struct direct_x x = { .rows = rows,
                          .k = k,
                          .tiles = (rows + AMX_SIDE - 1) / AMX_SIDE,
                          .steps = (k + AMX_STEP - 1) / AMX_STEP };
    const int64_t pieces = (x.steps + DIRECT_PIECE - 1) / DIRECT_PIECE;
    x.piece = (x.steps + pieces - 1) / pieces;
    const int64_t most = DIRECT_CACHED / x.piece, blocks = (x.tiles + most - 1) / most;
    x.block = ((x.tiles + blocks - 1) / blocks + 1) / 2 * 2;
    return x;
}

static inline __attribute__((unused)) size_t direct_bytes(const struct direct_x *x)
{
    return (size_t)(x->tiles * x->steps) * AMX_TILE;
}

// The packed tile of row tile `tile` and step `step`.
static inline __attribute__((unused)) char *direct_tile(const struct direct_x *x, int64_t tile,
                                                        int64_t step)
{
    const int64_t block = tile / x->block * x->block;
    const int64_t tiles = at_most(x->tiles - block, x->block);
    const int64_t piece = step / x->piece * x->piece;
    const int64_t steps = at_most(x->steps - piece, x->piece);
    const int64_t pair = (tile - block) / 2 * 2, both = at_most(tiles - pair, 2);
    return x->data + (block * x->steps + piece * tiles + pair * steps + (step - piece) * both +
                      (tile - block - pair)) *
                         AMX_TILE;
}

// Packs all steps of a tile, from rows `row`.. of the source.
static inline __attribute__((unused)) void direct_pack(const struct direct_x *x, int64_t tile,
                                                       const struct amx_source *from, int64_t row)
{
    const int64_t rows = at_most(x->rows - tile * AMX_SIDE, AMX_SIDE);
    for (int64_t s = 0; s < x->steps; s++)
        amx_pack_pairs(direct_tile(x, tile, s), from, row, rows, s * AMX_STEP,
                       at_most(x->k - s * AMX_STEP, AMX_STEP));
}

// Memory to prefetch while tiles are multiplied.
struct direct_prefetch {
    // Weights, or NULL: each step prefetches one cache line of each of their `rows` rows into the
    // second-level cache.
    const char *w, *v;
    int64_t rows;
    const float *y; // results, or NULL: the first 16 steps prefetch 32 rows of two cache lines
    size_t y_row;   // elements from one row of y to the next
};

// Returns the share of pair i of `pairs` in prefetching the next 16 rows of w and of v.
static inline __attribute__((unused)) struct direct_prefetch direct_prefetch(
    const char *w, const char *v, size_t row_bytes, int64_t i, int64_t pairs)
{
    const int64_t from = AMX_SIDE * i / pairs, to = AMX_SIDE * (i + 1) / pairs;
    const size_t skip = (size_t)from * row_bytes;
    return (struct direct_prefetch){ w ? w + skip : NULL, v ? v + skip : NULL, to - from, NULL, 0 };
}

// Work on the previous results, done in shares 0..count between the steps of a product, while tiles
// are multiplied.
struct direct_rest {
    void (*run)(const void *of, int64_t share); // NULL: none
    const void *of;
    int64_t count, done;
};

// Runs the remaining shares.
static inline __attribute__((unused)) void direct_finish(struct direct_rest *r)
{
    while (r->done < r->count) r->run(r->of, r->done++);
}

// One piece of a product: 16 rows w and 16 rows v of weights (or w alone) times `wide` (1 or 2)
// tiles of x. Tiles 0 and 1 of the sums belong to w, 2 and 3 to v. `tail`: weights of one more
// step, as two tiles (w, v); or NULL.
struct direct_part {
    const char *w, *v; // v is not read if direct_multiply's `high` is 1
    size_t row_bytes;
    const char *tail;
    const char *x;
    int64_t steps;
    bool first; // overwrites the sums; else adds to them
};

VEC_INLINE void direct_step(const char *w, const char *v, size_t row_bytes, const char *x,
                            const int high, const int wide)
{
    _tile_loadd(4, w, row_bytes);
    _tile_loadd(6, x, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (high == 2) {
        _tile_loadd(5, v, row_bytes);
        _tile_dpbf16ps(2, 5, 6);
    }
    if (wide == 2) {
        _tile_loadd(7, x + AMX_TILE, 64);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (high == 2 && wide == 2) _tile_dpbf16ps(3, 5, 7);
}

VEC_INLINE void direct_prefetch_lines(const struct direct_prefetch *ahead, size_t row_bytes,
                                      int64_t step)
{
    const size_t at = (size_t)step * 2 * AMX_STEP;
    for (int64_t r = 0; r < ahead->rows; r++) {
        if (ahead->w) __builtin_prefetch(ahead->w + at + (size_t)r * row_bytes, 0, 2);
        if (ahead->v) __builtin_prefetch(ahead->v + at + (size_t)r * row_bytes, 0, 2);
    }
    if (!ahead->y || step >= AMX_SIDE) return;
    const float *y = ahead->y + (size_t)step * ahead->y_row;
    __builtin_prefetch(y, 1, 3);
    __builtin_prefetch(y + AMX_SIDE, 1, 3);
    y += AMX_SIDE * ahead->y_row;
    __builtin_prefetch(y, 1, 3);
    __builtin_prefetch(y + AMX_SIDE, 1, 3);
}

VEC_INLINE void direct_sums(float *sums, const struct direct_part *p,
                            const struct direct_prefetch *ahead, struct direct_rest *rest,
                            const int high, const int wide)
{
    int64_t due = 0; // shares due, times p->steps
    char unread[AMX_TILE] __attribute__((aligned(64)));
    if (p->first)
        amx_sums_zero(high, wide);
    else
        amx_sums_load(sums, 2 * DIRECT_SUMS, DIRECT_SUMS, high, wide);
    const char *w = p->w, *v = p->v, *x = p->x;
    for (int64_t s = 0; s < p->steps; s++, w += 2 * AMX_STEP, v += 2 * AMX_STEP) {
        direct_prefetch_lines(ahead, p->row_bytes, s);
        direct_step(w, v, p->row_bytes, x, high, wide);
        x += wide * AMX_TILE;
        if (s % AMX_STORE == AMX_STORE - 1) _tile_stored(4, unread, 64);
        due += rest->count;
        if (due >= p->steps && rest->done < rest->count) {
            due -= p->steps;
            rest->run(rest->of, rest->done++);
        }
    }
    direct_finish(rest); // before the sums that `rest` reads are overwritten
    if (p->tail) direct_step(p->tail, p->tail + AMX_TILE, 64, x, high, wide);
    amx_sums_store(sums, 2 * DIRECT_SUMS, DIRECT_SUMS, high, wide);
}

// `high`: 2, or 1 to multiply w alone.
static inline __attribute__((unused)) void direct_multiply(float *sums, const struct direct_part *p,
                                                           const struct direct_prefetch *ahead,
                                                           struct direct_rest *rest, int64_t high,
                                                           int64_t wide)
{
    if (high == 2 && wide == 2)
        direct_sums(sums, p, ahead, rest, 2, 2);
    else if (high == 2)
        direct_sums(sums, p, ahead, rest, 2, 1);
    else if (wide == 2)
        direct_sums(sums, p, ahead, rest, 1, 2);
    else
        direct_sums(sums, p, ahead, rest, 1, 1);
}

// Bytes of the sums of `wide` pairs of weight tiles times a block, which wait for the next piece; 0
// if K is one piece.
static inline __attribute__((unused)) size_t direct_waiting(const struct direct_x *x, int64_t wide)
{
    const size_t all = (size_t)(wide * (x->block / 2) * 4 * DIRECT_SUMS) * sizeof(float);
    return x->steps > x->piece ? all : 0;
}

// --- whole products ------------------------------------------------------------------------------

struct amx_product;

// How a product is split: into groups of pairs of column tiles.
struct direct {
    const struct amx_product *p;
    struct direct_x x;
    int64_t groups;
    int64_t y_row;    // elements from one row of y to the next
    size_t waiting;   // bytes of the sums of one thread
    bool past_caches; // stores to y bypass the caches
};

// Rows of k f32 elements to pack; with `gain`, they are normed first.
struct direct_rows {
    const float *x;
    const void *narrow;   // x in bf16, read instead of x if there is no norm; or NULL
    const int32_t *index; // row of x for each row of the product; NULL: 0, 1 ..
    const float *gain;    // [k] of an RMSNorm; NULL: none
    float eps;
};

// Bytes of scratch for a tile of normed rows.
static inline __attribute__((unused)) size_t direct_scratch(int64_t k)
{
    return (size_t)(AMX_SIDE * k) * sizeof(float);
}

// Packs all steps of a tile; `scratch` has direct_scratch(k) bytes. With `narrow`, k must be a
// multiple of AMX_STEP.
void KERNEL(direct_pack_from)(const struct direct_x *x, const struct direct_rows *from,
                              float *scratch, int64_t tile);

// Divides a product among threads; leaves x.data NULL.
struct direct KERNEL(direct_cut)(const struct amx_product *p, int64_t threads);

// Computes all of y from packed rows: each thread of the OpenMP team calls this between amx_open
// and amx_close, with its own `sums`. Other threads' parts of y are complete only after a barrier.
void KERNEL(direct_columns)(const struct direct *s, float *sums);

#endif

#endif
