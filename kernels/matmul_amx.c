// kernels/matmul_amx.c -- y[N,M] = x[N,K] w[M,K]^T + bias[M] of many rows in bf16, with AMX.
//
//   x is packed once: [piece of K][16 rows][32 elements], a tile each
//   each thread computes a group of columns (rows of w), for BLOCK tiles of rows at a time:
//     for every piece along K: pack the group's weights (for the first BLOCK), and multiply two by
//       two tiles of columns and rows; sums are kept in tiles between pieces, and written to y
//       (with the bias) after the last piece
//
// If columns are few, threads share the rows instead, and pack them just before multiplying.
//
// Four tiles of sums, two of x and two of weights occupy all eight tile registers: four products
// share four loads. The group's piece of weights (at most 900 KB) stays in the L2 cache for all
// rows, while the next two tiles of x, sums and part of y are prefetched. So the widest group and
// the longest piece that fit into the cache are fastest. Most layers of encoders need one piece,
// whose sums never leave the L1 cache. Sums use whole aligned tiles, because y may be unaligned and
// its last rows and columns may not fill a tile.
#include "kernels/matmul_amx_epilogue.h"

#if defined(__AMX_BF16__)

enum {
    GROUP = 20,                        // maximum number of tiles of columns per group
    NARROW = 4,                        // up to this many tiles of columns, threads share the rows
    BLOCK = 256,                       // maximum number of tiles of rows at a time
    IN_BLOCKS = 512,                   // elements along K per piece of weights in blocks
    WIDE = GROUP * AMX_SIDE * AMX_STEP // widened weights: [32][GROUP tiles], or [16][IN_BLOCKS]
};

// How a product is split.
struct plan {
    const struct amx_product *p;
    struct amx_rows x;
    int64_t tiles, block; // tiles of rows; tiles per block
    put_fn *put;
    bool keep;        // a group's weights are packed once for all blocks
    bool past_caches; // stores to y bypass the caches
};

// Memory of a thread.
struct worker {
    char *weights; // [piece of K][tile of columns][step]; without `keep`, one piece only
    float *sums; // [pair of row tiles][pair of column tiles][4 tiles]; if K is one piece, [4 tiles]
    float *wide; // [WIDE]
};

// Packs row tiles from..to.
static void pack_x(const struct plan *plan, int64_t from, int64_t to)
{
    const struct amx_product *p = plan->p;
    for (int64_t t = from; t < to; t++)
        for (int64_t k = 0; k < p->k; k += AMX_STEP)
            amx_pack_rows(amx_rows_tile(&plan->x, t, k), &p->x, t * AMX_SIDE,
                          at_most(p->rows - t * AMX_SIDE, AMX_SIDE), k,
                          at_most(p->k - k, AMX_STEP));
}

// Widens stored rows from..from+rows of weights in blocks, elements k..k+n of each, to f32.
static struct amx_source widened(float *to, const struct amx_source *w, int64_t from, int64_t rows,
                                 int64_t k, int64_t n)
{
    const char *row = (const char *)w->data + (size_t)from * w->row_bytes;
    for (int64_t r = 0; r < rows; r++, row += w->row_bytes)
        vec_widen(to + r * n, row, k, n, w->dtype);
    return (struct amx_source){ to, (size_t)n * sizeof *to, DTYPE_F32, w->transposed };
}

// Packs columns m..m+cols, elements k..k+n along K, of transposed weights.
static void pack_transposed_weights(const struct worker *b, const struct plan *plan, char *to,
                                    int64_t m, int64_t cols, int64_t k, int64_t n)
{
    const struct amx_product *p = plan->p;
    const int64_t steps = amx_steps_from(&plan->x, k);
    const bool blocks = dtype_in_blocks(p->w.dtype);
    for (int64_t s = 0; s < steps; s++) {
        const int64_t from = k + s * AMX_STEP, some = at_most(k + n - from, AMX_STEP);
        const struct amx_source w = blocks ? widened(b->wide, &p->w, from, some, m, cols) : p->w;
        for (int64_t c = 0; c < cols; c += AMX_SIDE)
            amx_pack_pairs(to + (c / AMX_SIDE * steps + s) * AMX_TILE, &w, blocks ? c : m + c,
                           at_most(cols - c, AMX_SIDE), blocks ? 0 : from, some);
    }
}

// Returns the weight that gives columns m..m+16 of the product; its rows for these columns are
// *from..*from + *count. With PRODUCT_GATED, tiles of gate alternate with tiles of up.
static struct amx_source weights_at(const struct amx_product *p, int64_t m, int64_t *from,
                                    int64_t *count)
{
    const bool gated = p->up.data, second = gated && m / AMX_SIDE % 2;
    *from = gated ? m / (2 * AMX_SIDE) * AMX_SIDE : m;
    *count = at_most((gated ? p->to.k : p->m) - *from, AMX_SIDE);
    return second ? p->up : p->w;
}

static void pack_weights(const struct worker *b, const struct plan *plan, char *to, int64_t m,
                         int64_t cols, int64_t k, int64_t n)
{
    const struct amx_product *p = plan->p;
    const int64_t steps = amx_steps_from(&plan->x, k);
    const bool blocks = dtype_in_blocks(p->w.dtype);
    for (int64_t c = 0; c < cols; c += AMX_SIDE) {
        int64_t from, some;
        const struct amx_source stored = weights_at(p, m + c, &from, &some);
        const struct amx_source w = blocks ? widened(b->wide, &stored, from, some, k, n) : stored;
        for (int64_t s = 0; s < steps; s++)
            amx_pack_pairs(to + (c / AMX_SIDE * steps + s) * AMX_TILE, &w, blocks ? 0 : from, some,
                           (blocks ? 0 : k) + s * AMX_STEP, at_most(n - s * AMX_STEP, AMX_STEP));
    }
}

enum { SUMS = AMX_SIDE * AMX_SIDE }; // elements in a tile of sums

// Addresses to prefetch while tiles are multiplied; NULL: none.
struct prefetch {
    const char *x; // `lines` cache lines per step, into the L2 cache
    int64_t lines;
    const float *sums; // four tiles
    const float *y;    // 32 rows of two cache lines
    int64_t y_row;     // elements from one row to the next
};

VEC_INLINE void prefetch_lines(const struct prefetch *next, int64_t step)
{
    for (int64_t i = 0; next->x && i < next->lines; i++)
        __builtin_prefetch(next->x + (step * next->lines + i) * 64, 0, 2);
    if (step >= AMX_SIDE) return;
    for (int64_t i = 0; next->sums && i < 4; i++)
        __builtin_prefetch(next->sums + (4 * step + i) * AMX_SIDE, 1, 3);
    for (int64_t i = 0; next->y && i < 4; i++)
        __builtin_prefetch(next->y + (step + i / 2 * AMX_SIDE) * next->y_row + i % 2 * AMX_SIDE, 1,
                           3);
}

// Computes the sums of `high` by `wide` (1 or 2) tiles. Successive row tiles of x, and successive
// column tiles of weights, are `steps` tiles apart.
VEC_INLINE void multiply(float *c, const char *x, const char *w, int64_t steps, bool first,
                         const struct prefetch *next, const int high, const int wide)
{
    char unread[AMX_TILE] __attribute__((aligned(64)));
    if (first)
        amx_sums_zero(high, wide);
    else
        amx_sums_load(c, 2 * SUMS, SUMS, high, wide);
    for (int64_t s = 0; s < steps; s++, x += AMX_TILE, w += AMX_TILE) {
        prefetch_lines(next, s);
        _tile_loadd(6, w, 64);
        _tile_loadd(4, x, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (high == 2) {
            _tile_loadd(5, x + steps * AMX_TILE, 64);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (wide == 2) {
            _tile_loadd(7, w + steps * AMX_TILE, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (high == 2 && wide == 2) _tile_dpbf16ps(3, 5, 7);
        if (s % AMX_STORE == AMX_STORE - 1) _tile_stored(4, unread, 64);
    }
    amx_sums_store(c, 2 * SUMS, SUMS, high, wide);
}

// A thread's task: `cols` tiles of columns, from column m on, and row tiles from..from+rows.
struct part {
    int64_t m, cols, from, rows;
};

// Addresses to prefetch while multiplying row tiles i.. and column tiles j.. of the part.
static struct prefetch prefetch_after(const struct plan *plan, const struct part *part,
                                      const float *sums, int64_t i, int64_t j, int64_t k)
{
    const struct amx_product *p = plan->p;
    const int64_t steps = amx_steps_from(&plan->x, k), pairs = (part->cols + 1) / 2;
    struct prefetch next = { .lines = (2 * AMX_SIDE + pairs - 1) / pairs, .sums = k ? sums : NULL };
    if (i + 2 < part->rows)
        next.x = amx_rows_tile(&plan->x, part->from + i + 2, k) + j / 2 * next.lines * steps * 64;
    if (k + plan->x.piece < p->k || plan->past_caches) return next;
    next.y = p->y + (part->from + i) * AMX_SIDE * p->m + part->m + j * AMX_SIDE;
    next.y_row = p->m;
    return next;
}

// Multiplies the piece that begins at k. After the last piece, writes the sums while they are in
// the L1 cache.
static void multiply_piece(const struct plan *plan, const struct worker *b, const struct part *part,
                           const char *weights, int64_t k)
{
    const int64_t steps = amx_steps_from(&plan->x, k);
    const bool first = k == 0, last = k + plan->x.piece >= plan->p->k;
    float *c = b->sums;
    for (int64_t i = 0; i < part->rows; i += 2)
        for (int64_t j = 0; j < part->cols; j += 2) {
            const char *x = amx_rows_tile(&plan->x, part->from + i, k),
                       *w = weights + j * steps * AMX_TILE;
            const bool high = i + 1 < part->rows, wide = j + 1 < part->cols;
            const struct prefetch next = prefetch_after(plan, part, c + 4 * SUMS, i, j, k);
            if (high && wide)
                multiply(c, x, w, steps, first, &next, 2, 2);
            else if (high)
                multiply(c, x, w, steps, first, &next, 2, 1);
            else if (wide)
                multiply(c, x, w, steps, first, &next, 1, 2);
            else
                multiply(c, x, w, steps, first, &next, 1, 1);
            for (int64_t h = 0; last && h < 1 + high; h++) {
                const float *row = c + 2 * h * SUMS;
                plan->put(plan->p, row, wide ? row + SUMS : NULL, (part->from + i + h) * AMX_SIDE,
                          part->m + j * AMX_SIDE);
            }
            if (!(first && last)) c += 4 * SUMS;
        }
}

// Computes columns m..m+cols of y for row tiles from..from+rows; `packed`: the weights are packed
// already.
static void multiply_block(const struct plan *plan, const struct worker *b, int64_t m, int64_t cols,
                           int64_t from, int64_t rows, bool packed)
{
    const struct amx_product *p = plan->p;
    const struct part part = { m, (cols + AMX_SIDE - 1) / AMX_SIDE, from, rows };
    for (int64_t k = 0; k < p->k; k += plan->x.piece) {
        const int64_t n = at_most(p->k - k, plan->x.piece);
        char *weights = b->weights + (plan->keep ? k / AMX_STEP * part.cols * AMX_TILE : 0);
        if (!packed && p->w.transposed)
            pack_transposed_weights(b, plan, weights, m, cols, k, n);
        else if (!packed)
            pack_weights(b, plan, weights, m, cols, k, n);
        multiply_piece(plan, b, &part, weights, k);
    }
}

// True for few columns, as in LoRA: these form one group, and threads share the rows.
static bool is_narrow(const struct amx_product *p)
{
    return p->m <= NARROW * AMX_SIDE;
}

// Number of pairs of column tiles. The last tile may be partial and unpaired.
static int64_t pairs_of(const struct amx_product *p)
{
    return (p->m + 2 * AMX_SIDE - 1) / (2 * AMX_SIDE);
}

// Number of column groups; each group reads x once.
static int64_t groups_of(const struct amx_product *p, int64_t threads)
{
    return is_narrow(p) ? 1 : amx_groups(pairs_of(p), GROUP / 2, threads);
}

// Called by every thread of the OpenMP team; each thread packs the rows that it multiplies.
static void multiply_narrow(const struct plan *plan, const struct worker *b)
{
#pragma omp for schedule(dynamic)
    for (int64_t from = 0; from < plan->tiles; from += plan->block) {
        const int64_t rows = at_most(plan->tiles - from, plan->block);
        if (!plan->p->packed.data) pack_x(plan, from, from + rows);
        multiply_block(plan, b, 0, plan->p->m, from, rows, false);
    }
}

static void multiply_wide(const struct plan *plan, const struct worker *b, int64_t groups)
{
    const int64_t m = plan->p->m, pairs = pairs_of(plan->p), pair = 2 * AMX_SIDE;
#pragma omp for schedule(static)
    for (int64_t t = 0; t < (plan->p->packed.data ? 0 : plan->tiles); t++) pack_x(plan, t, t + 1);
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < groups; i++) {
        const int64_t c = pairs * i / groups * pair,
                      to = at_most(m, pairs * (i + 1) / groups * pair);
        for (int64_t from = 0; from < plan->tiles; from += plan->block)
            multiply_block(plan, b, c, to - c, from, at_most(plan->tiles - from, plan->block),
                           plan->keep && from > 0);
    }
}

bool KERNEL(goes_past_caches)(const struct amx_product *p, int64_t threads)
{
    enum { CACHE = 4 << 20 }; // bytes per thread
    const bool whole = p->m % AMX_SIDE == 0 && (uintptr_t)p->y % 64 == 0;
    return whole && !p->add && (!p->after || p->after->epilogue == PRODUCT_STORED) &&
           p->rows * p->m * (int64_t)sizeof *p->y > threads * CACHE;
}

// Pieces of weights in blocks begin at block borders.
static struct amx_rows rows_of(const struct amx_product *p)
{
    const int64_t piece = dtype_in_blocks(p->w.dtype) ? IN_BLOCKS : amx_piece(p->k);
    return p->packed.data ? p->packed : (struct amx_rows){ NULL, p->rows, p->k, piece };
}

int KERNEL(matmul_tiles)(const struct amx_product *p)
{
    if (!p->after && KERNEL(matmul_is_direct)(p)) return KERNEL(matmul_direct)(p);
    const int64_t threads = omp_get_max_threads(), groups = groups_of(p, threads);
    const int64_t wide = is_narrow(p) ? NARROW : (pairs_of(p) + groups - 1) / groups * 2;
    struct plan plan = { .p = p, .tiles = amx_row_tiles(p->rows), .x = rows_of(p) };
    int64_t blocks = (plan.tiles + BLOCK - 1) / BLOCK;
    if (is_narrow(p) && blocks < 4 * threads) blocks = 4 * threads;
    plan.block = (plan.tiles + blocks - 1) / blocks;
    const int64_t steps = (p->k + AMX_STEP - 1) / AMX_STEP;
    const size_t x_size = plan.x.data ? 0 : amx_rows_bytes(p->rows, p->k);
    plan.keep = !is_narrow(p) && plan.tiles > plan.block;
    plan.past_caches = p->to.data || p->rounds || KERNEL(goes_past_caches)(p, threads);
    plan.put = put_of(p, plan.past_caches);
    const size_t weights =
        (size_t)(wide * (plan.keep ? steps : plan.x.piece / AMX_STEP)) * AMX_TILE;
    const int64_t waiting = plan.x.piece < p->k ? wide * (plan.block + 1) / 2 * 2 : 4;
    const size_t sums = (size_t)(waiting * SUMS) * sizeof(float);
    const size_t each = weights + sums + WIDE * sizeof(float);
    char *scratch = cpu_scratch(x_size + each * (size_t)threads);
    if (!scratch) return -1;
    if (!plan.x.data) plan.x.data = scratch;
#pragma omp parallel if (vec_worth_threads(p->rows * p->k * p->m / 8))
    {
        char *mine = scratch + x_size + each * (size_t)omp_get_thread_num();
        const struct worker b = { .weights = mine,
                                  .sums = (float *)(mine + weights),
                                  .wide = (float *)(mine + weights + sums) };
        amx_open();
        if (is_narrow(p))
            multiply_narrow(&plan, &b);
        else
            multiply_wide(&plan, &b, groups);
        if (plan.past_caches) _mm_sfence(); // other threads read y after the barrier
        amx_close();
    }
    return 0;
}

#endif
