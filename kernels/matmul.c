// kernels/matmul.c -- y[N,M] = x[N,K] w[M,K]^T + bias[M].
//
// Few rows: dot products, limited by memory bandwidth (kernels/matmul_few.c). Many rows:
//
//   x is packed once, in tiles of TILE_ROWS rows and pieces of INNER along K
//   each thread computes a group of panels (of TILE_COLS weight rows); for every piece and panel:
//     widen the weights to f32 and transpose them into a panel that stays in the L1 and L2 caches
//     multiply the panel by every tile of x and add the sums to y
// With many rows, the bits of a row of y do not depend on the number of rows.
//
// With AVX512-BF16 and MATMUL_BF16, pairs of bf16 (elements 2i and 2i+1 along K) replace floats in
// the packed x and in the panels, and one instruction adds both products of a pair. A panel is then
// multiplied so fast that, with only about fifty rows (as experts have), waiting for the next
// weights would take a third of the time; so the next weights are prefetched. (With AMX:
// kernels/matmul_amx.c, and for most bf16 weights kernels/matmul_amx_direct.c.)
#include "kernels/matmul_amx.h"
#include "kernels/matmul_few.h"
#include "kernels/tile.h"

enum {
    INNER = 512,            // elements along K per piece
    GROUP = 512 / TILE_COLS // maximum number of panels per group
};

// A product and how it is split.
struct product {
    float *y;
    const char *w;
    const float *bias; // or NULL
    int64_t rows, k, m;
    enum dtype dtype;
    size_t row_bytes;  // from one stored row of w to the next
    bool pairs;        // multiplies x and w as pairs of bf16; k counts pairs
    int64_t numbers;   // elements along K, even if k counts pairs
    int64_t ld;        // elements from one row of x to the next
    bool x_transposed; // x is given as [k][rows]
    bool w_transposed; // w is given as [k][m]
    bool add;          // adds to y
    float *x;          // packed: for each piece of K, for each tile, [piece][rows of the tile]
    int64_t tiles;     // row tiles; their sizes differ by at most one row
    float *panels;     // [threads][panel_size]
};

// --- many rows ----------------------------------------------------------------------------------

// First row of a tile.
static int64_t tile_start(const struct product *p, int64_t tile)
{
    int64_t small = p->rows / p->tiles, large = p->rows % p->tiles;
    return tile * small + (tile < large ? tile : large);
}

// Like tile_pack, from transposed rows.
static void pack_transposed(float *to, const float *x, int64_t ld, int64_t rows, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t from = 0; from < rows; from += VEC) {
            int64_t some = rows - from < VEC ? rows - from : VEC;
            vf_store_part_n(to + k * rows + from, vf_load_part_n(x + k * ld + from, some), some);
        }
}

// Like pack_transposed, for `numbers` rows of x in pairs; pairs an odd last row with 0.
static void pack_transposed_pairs(float *to, const float *x, int64_t ld, int64_t rows,
                                  int64_t numbers)
{
    for (int64_t k = 0; k < numbers; k += 2, to += rows)
        for (int64_t from = 0; from < rows; from += VEC) {
            int64_t some = rows - from < VEC ? rows - from : VEC;
            vf a = vf_load_part_n(x + k * ld + from, some), b = vf_set(0);
            if (k + 1 < numbers) b = vf_load_part_n(x + (k + 1) * ld + from, some);
            vf_store_part_n(to + from, vf_pair(a, b), some);
        }
}

// Like tile_pack, for 2 n elements of each row as n pairs.
static void pack_pairs(float *to, const float *x, int64_t ld, int64_t rows, int64_t n)
{
    float pairs[TILE_ROWS * INNER + VEC];
    for (int64_t r = 0; r < rows; r++)
        put_row(pairs + r * n, x + r * ld, 2 * n, 1, DTYPE_F32, true);
    tile_pack(to, pairs, n, rows, n);
}

// Packs the rows of a tile, elements (or pairs) k..k+inner of each.
static void pack_piece(const struct product *p, const float *x, int64_t tile, int64_t k,
                       int64_t inner)
{
    const int64_t from = tile_start(p, tile), rows = tile_start(p, tile + 1) - from;
    const int64_t left = p->numbers - 2 * k;
    float *to = p->x + k * p->rows + inner * from;
    if (p->x_transposed && p->pairs)
        pack_transposed_pairs(to, x + 2 * k * p->ld + from, p->ld, rows,
                              left < 2 * inner ? left : 2 * inner);
    else if (p->x_transposed)
        pack_transposed(to, x + k * p->ld + from, p->ld, rows, inner);
    else if (p->pairs)
        pack_pairs(to, x + from * p->ld + 2 * k, p->ld, rows, inner);
    else
        tile_pack(to, x + from * p->ld + k, p->ld, rows, inner);
}

// Called by every thread of the OpenMP team.
static void pack_x(const struct product *p, const float *x)
{
#pragma omp for schedule(static)
    for (int64_t t = 0; t < p->tiles; t++)
        for (int64_t k = 0; k < p->k; k += INNER)
            pack_piece(p, x, t, k, p->k - k < INNER ? p->k - k : INNER);
}

// The destination of one tile's sums, columns 0..cols of y. With `first` they overwrite y, else
// they are added.
struct target {
    float *y;
    int64_t ld, cols, inner;
    const float *bias; // from column 0 on, added with `first`; or NULL
    bool first;
    // Weights to prefetch: `prefetch_rows` rows, `prefetch_bytes` bytes of each row per step along
    // K.
    const char *prefetch;
    int64_t prefetch_rows, prefetch_bytes;
    size_t prefetch_step; // bytes from one row to the next
};

VEC_INLINE void tile_put(const struct target *t, float *y, vf left, vf right, int64_t a, int64_t b)
{
    if (!t->first) {
        left += vf_load_part(y, a);
        right += vf_load_part(y + a, b);
    } else if (t->bias) {
        left += vf_load_part(t->bias, a);
        right += vf_load_part(t->bias + a, b);
    }
    vf_store_part(y, left, a);
    vf_store_part(y + a, right, b);
}

VEC_INLINE void tile_add(const struct target *t, vf (*s)[2], const int rows)
{
    float *y = t->y;
    if (t->cols == TILE_COLS && !t->first) {
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++, y += t->ld) {
            vf_store(y, vf_load(y) + s[r][0]);
            vf_store(y + VEC, vf_load(y + VEC) + s[r][1]);
        }
        return;
    }
    int64_t a = t->cols < VEC ? t->cols : VEC;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++, y += t->ld) tile_put(t, y, s[r][0], s[r][1], a, t->cols - a);
}

// Prefetches the cache line that holds the bytes of step k of each row into the L2 cache.
VEC_INLINE void prefetch(const struct target *t, int64_t k)
{
    const char *row = t->prefetch + k * t->prefetch_bytes;
    for (int64_t r = 0; r < t->prefetch_rows; r++, row += t->prefetch_step)
        __builtin_prefetch(row, 0, 2);
}

VEC_INLINE void tile_rows(const struct target *t, const float *x, const float *panel,
                          const int rows, const bool pairs)
{
    vf s[TILE_ROWS][2];
    tile_zero(s, rows);
    for (int64_t k = 0; k < t->inner; k += VEC) {
        prefetch(t, k);
        tile_more(s, x + k * rows, 1, rows, panel + k * TILE_COLS,
                  t->inner - k < VEC ? t->inner - k : VEC, rows, 2, pairs);
    }
    tile_add(t, s, rows);
}

// Defines a function NAME that computes a tile of 1..TILE_ROWS rows, of elements or pairs.
#if VEC_BYTES == 64
#define TILE_MORE(PAIRS)                               \
    case 7: tile_rows(t, x, panel, 7, PAIRS); break;   \
    case 8: tile_rows(t, x, panel, 8, PAIRS); break;   \
    case 9: tile_rows(t, x, panel, 9, PAIRS); break;   \
    case 10: tile_rows(t, x, panel, 10, PAIRS); break; \
    case 11: tile_rows(t, x, panel, 11, PAIRS); break; \
    case 12:                                           \
        tile_rows(t, x, panel, 12, PAIRS);             \
        break;
#else
#define TILE_MORE(PAIRS)
#endif
#define TILE_FUNCTION(NAME, PAIRS)                                                             \
    static void NAME(const struct target *t, const float *x, const float *panel, int64_t rows) \
    {                                                                                          \
        switch (rows) {                                                                        \
        case 1: tile_rows(t, x, panel, 1, PAIRS); break;                                       \
        case 2: tile_rows(t, x, panel, 2, PAIRS); break;                                       \
        case 3: tile_rows(t, x, panel, 3, PAIRS); break;                                       \
        case 4: tile_rows(t, x, panel, 4, PAIRS); break;                                       \
        case 5: tile_rows(t, x, panel, 5, PAIRS); break;                                       \
        case 6:                                                                                \
            tile_rows(t, x, panel, 6, PAIRS);                                                  \
            break;                                                                             \
            TILE_MORE(PAIRS)                                                                   \
        default: break;                                                                        \
        }                                                                                      \
    }

TILE_FUNCTION(tile, false)
TILE_FUNCTION(tile_pairs, true)

// Like panel_pack, for weights in blocks: widens some elements of each row to f32 first.
static void panel_blocks(float *panel, const char *w, size_t row_bytes, int64_t rows, int64_t from,
                         int64_t inner, enum dtype dtype)
{
    enum { SOME = 256 };
    float wide[TILE_COLS * SOME];
    for (int64_t k = 0; k < inner; k += SOME) {
        const int64_t n = inner - k < SOME ? inner - k : SOME;
        for (int64_t r = 0; r < rows; r++)
            vec_widen(wide + r * SOME, w + (size_t)r * row_bytes, from + k, n, dtype);
        panel_pack(panel + k * TILE_COLS, (const char *)wide, SOME * sizeof *wide, rows, 0, n,
                   DTYPE_F32);
    }
}

// Packs elements k..k+inner of rows from..from+cols of w into a panel.
static void panel_rows(float *panel, const struct product *p, int64_t from, int64_t cols, int64_t k,
                       int64_t inner)
{
    const char *w = p->w + (size_t)from * p->row_bytes;
    if (dtype_in_blocks(p->dtype))
        panel_blocks(panel, w, p->row_bytes, cols, k, inner, p->dtype);
    else
        panel_pack(panel, w, p->row_bytes, cols, k, inner, p->dtype);
}

// Packs columns from..from+cols of rows k..k+inner of w, stored as [k][m], into a panel.
static void panel_copy(float *panel, const struct product *p, int64_t from, int64_t cols, int64_t k,
                       int64_t inner)
{
    for (int64_t i = 0; i < inner; i++, panel += TILE_COLS) {
        vec_widen(panel, p->w + (size_t)(k + i) * p->row_bytes, from, cols, p->dtype);
        for (int64_t c = cols; c < TILE_COLS; c++) panel[c] = 0;
    }
}

// Like panel_copy, but packs rows k.. k + numbers, f32 or bf16, in pairs; pairs an odd last row
// with zeros.
VEC_INLINE void panel_transposed_pairs_as(float *panel, const struct product *p, int64_t from,
                                          int64_t cols, int64_t k, int64_t numbers,
                                          enum dtype dtype)
{
    for (int64_t i = 0; i < numbers; i += 2)
        for (int64_t c = 0; c < TILE_COLS; c += VEC, panel += VEC) {
            const int64_t some = cols - c < 0 ? 0 : cols - c < VEC ? cols - c : VEC;
            const char *w = p->w + (size_t)(k + i) * p->row_bytes;
            vf a = vf_load_part_n_as(w, from + c, some, dtype), b = vf_set(0);
            if (i + 1 < numbers) b = vf_load_part_n_as(w + p->row_bytes, from + c, some, dtype);
            vf_store(panel, vf_pair(a, b));
        }
}

// Packs output columns from..from+cols, pairs k..k+inner along K, of w into a panel of pairs.
static void panel_pairs(float *panel, const struct product *p, int64_t from, int64_t cols,
                        int64_t k, int64_t inner)
{
    int64_t numbers = p->numbers - 2 * k < 2 * inner ? p->numbers - 2 * k : 2 * inner;
    if (!p->w_transposed && p->dtype == DTYPE_BF16) { // already pairs, each the size of a float
        panel_pack(panel, p->w + (size_t)from * p->row_bytes, p->row_bytes, cols, k, inner,
                   DTYPE_F32);
        return;
    }
    if (p->w_transposed && (p->dtype == DTYPE_BF16 || p->dtype == DTYPE_F32)) {
        VEC_AS(p->dtype, panel_transposed_pairs_as, panel, p, from, cols, 2 * k, numbers);
        return;
    }
    // Otherwise packs floats first, then merges two rows of the panel into one.
    if (p->w_transposed)
        panel_copy(panel, p, from, cols, 2 * k, numbers);
    else
        panel_rows(panel, p, from, cols, 2 * k, numbers);
    if (numbers % 2) memset(panel + numbers * TILE_COLS, 0, TILE_COLS * sizeof *panel);
    for (int64_t i = 0; i < inner; i++)
        for (int64_t c = 0; c < TILE_COLS; c += VEC) {
            const float *pair = panel + 2 * i * TILE_COLS + c;
            vf_store(panel + i * TILE_COLS + c, vf_pair(vf_load(pair), vf_load(pair + TILE_COLS)));
        }
}

// The part of w in a panel: rows m..m+cols, elements (or pairs) k..k+inner of each.
struct panel {
    int64_t m, cols, k, inner;
};

static struct panel panel_at(const struct product *p, int64_t m, int64_t to, int64_t k)
{
    return (struct panel){ .m = m,
                           .cols = to - m < TILE_COLS ? to - m : TILE_COLS,
                           .k = k,
                           .inner = p->k - k < INNER ? p->k - k : INNER };
}

static void fill_panel(float *panel, const struct product *p, const struct panel *at)
{
    if (p->pairs)
        panel_pairs(panel, p, at->m, at->cols, at->k, at->inner);
    else if (p->w_transposed)
        panel_copy(panel, p, at->m, at->cols, at->k, at->inner);
    else
        panel_rows(panel, p, at->m, at->cols, at->k, at->inner);
}

// Lets the tile prefetch its share of the weights of panel `next`, unless these are transposed or
// in blocks.
static void prefetch_share(struct target *t, const struct product *p, const struct panel *next,
                           int64_t tile)
{
    if (p->w_transposed || dtype_in_blocks(p->dtype)) return;
    const int64_t from = tile * next->cols / p->tiles, to = (tile + 1) * next->cols / p->tiles;
    t->prefetch_bytes = (int64_t)dtype_size(p->dtype) * (p->pairs ? 2 : 1);
    t->prefetch = p->w + (size_t)(next->m + from) * p->row_bytes + next->k * t->prefetch_bytes;
    t->prefetch_rows = to - from;
    t->prefetch_step = p->row_bytes;
}

// Multiplies a packed panel by all rows of x.
static void multiply_panel(const struct product *p, const float *panel, const struct panel *at,
                           const struct panel *next)
{
    for (int64_t t = 0; t < p->tiles; t++) {
        int64_t row = tile_start(p, t);
        struct target target = { .y = p->y + row * p->m + at->m,
                                 .ld = p->m,
                                 .cols = at->cols,
                                 .inner = at->inner,
                                 .bias = p->bias ? p->bias + at->m : NULL,
                                 .first = at->k == 0 && !p->add };
        const float *x = p->x + at->k * p->rows + at->inner * row;
        int64_t rows = tile_start(p, t + 1) - row;
        prefetch_share(&target, p, next, t);
        if (p->pairs)
            tile_pairs(&target, x, panel, rows);
        else
            tile(&target, x, panel, rows);
    }
}

// Multiplies weight rows from..to by all rows of x. `then`: the weight row where the thread
// probably continues.
static void multiply_group(const struct product *p, int64_t from, int64_t to, int64_t then,
                           float *panel)
{
    for (int64_t k = 0; k < p->k; k += INNER)
        for (int64_t m = from; m < to; m += TILE_COLS) {
            const struct panel at = panel_at(p, m, to, k);
            struct panel next = { 0 };
            if (m + TILE_COLS < to)
                next = panel_at(p, m + TILE_COLS, to, k);
            else if (k + INNER < p->k)
                next = panel_at(p, from, to, k + INNER);
            else if (then < p->m)
                next = panel_at(p, then, p->m, 0);
            fill_panel(panel, p, &at);
            multiply_panel(p, panel, &at, &next);
        }
}

// Weight rows per task: few enough that no thread waits long for the last task.
static int64_t group_size(const struct product *p, int64_t threads)
{
    const int64_t panels = (p->m + TILE_COLS - 1) / TILE_COLS, group = panels / (threads * 8);
    return (group < 1 ? 1 : group > GROUP ? GROUP : group) * TILE_COLS;
}

static int many_rows(struct product *p, const float *x, enum matmul_mode mode)
{
#if defined(__AMX_BF16__)
    if (mode == MATMUL_BF16)
        return KERNEL(matmul_tiles)(&(struct amx_product){
            .y = p->y,
            .x = { x, (size_t)p->ld * sizeof *x, DTYPE_F32, p->x_transposed },
            .w = { p->w, p->row_bytes, p->dtype, p->w_transposed },
            .bias = p->bias,
            .rows = p->rows,
            .k = p->k,
            .m = p->m,
            .add = p->add });
#endif
    // Untransposed rows are read as pairs in place, so their width must be even.
    p->numbers = p->k;
    p->pairs = mode == MATMUL_BF16 && vec_has_pairs() &&
               (p->k % 2 == 0 || (p->x_transposed && p->w_transposed));
    if (p->pairs) p->k = (p->k + 1) / 2;
    const int64_t threads = omp_get_max_threads(), group = group_size(p, threads);
    p->tiles = (p->rows + TILE_ROWS - 1) / TILE_ROWS;
    size_t panel_size = (size_t)INNER * TILE_COLS * (p->pairs ? 2 : 1);
    size_t x_size = (size_t)(p->rows * p->k + 15) / 16 * 16;
    p->x = cpu_scratch((x_size + panel_size * (size_t)threads) * sizeof(float));
    if (!p->x) return -1;
    p->panels = p->x + x_size;
#pragma omp parallel if (vec_worth_threads(p->rows * p->k * p->m))
    {
        pack_x(p, x);
#pragma omp for schedule(dynamic)
        for (int64_t m = 0; m < p->m; m += group)
            multiply_group(p, m, m + group < p->m ? m + group : p->m, m + threads * group,
                           p->panels + panel_size * (size_t)omp_get_thread_num());
    }
    return 0;
}

int KERNEL(matmul)(struct tensor *y, const struct tensor *x, const struct tensor *w,
                   const struct tensor *bias, enum matmul_mode mode)
{
    struct product p = { .y = y->data,
                         .w = w->data,
                         .bias = bias ? bias->data : NULL,
                         .m = w->shape[0],
                         .k = tensor_row(w),
                         .ld = tensor_row(w),
                         .dtype = w->dtype };
    p.rows = p.m ? tensor_count(y) / p.m : 0;
    p.row_bytes = dtype_bytes(p.dtype, p.k);
    if (!p.rows) return 0;
    if (p.rows <= FEW_ROWS)
        return KERNEL(matmul_few)(
            &(struct few_product){ p.y, x->data, p.w, p.bias, p.rows, p.k, p.m, p.dtype });
    return many_rows(&p, x->data, mode);
}

// --- backward ------------------------------------------------------------------------------------
// The same product with transposed operands: dx = dy w sums over the M rows of w, dw = dy^T x over
// the N rows of x.

int KERNEL(matmul_dx)(struct tensor *dx, const struct tensor *dy, const struct tensor *w, bool add,
                      enum matmul_mode mode)
{
    struct product p = { .y = dx->data,
                         .w = w->data,
                         .m = tensor_row(w),
                         .k = w->shape[0],
                         .ld = w->shape[0],
                         .dtype = w->dtype,
                         .w_transposed = true,
                         .add = add };
    p.rows = p.k ? tensor_count(dy) / p.k : 0;
    p.row_bytes = dtype_bytes(p.dtype, p.m);
    return p.rows && p.m ? many_rows(&p, dy->data, mode) : 0;
}

enum { BLOCK = 2048, COLUMNS = 512 }; // rows of dw, and columns of dy for the bias, at a time

static void sum_columns(float *to, const float *dy, int64_t rows, int64_t m)
{
#pragma omp parallel for schedule(static) if (vec_worth_threads(rows * m))
    for (int64_t c = 0; c < m; c += COLUMNS)
        for (int64_t r = 0; r < rows; r++)
            vec_add(to + c, dy + r * m + c, m - c < COLUMNS ? m - c : COLUMNS);
}

int KERNEL(matmul_dw)(struct tensor *dw, struct tensor *dbias, const struct tensor *dy,
                      const struct tensor *x, enum matmul_mode mode)
{
    int64_t rows = dy->shape[0], m = tensor_row(dy), width = tensor_row(x);
    if (dbias) sum_columns(dbias->data, dy->data, rows, m);
    if (!dw || !width) return 0;
    // Computes BLOCK rows of dw at a time, so that the transposed dy stays small.
    for (int64_t from = 0; from < m; from += BLOCK) {
        struct product p = { .y = (float *)dw->data + from * width,
                             .w = x->data,
                             .rows = m - from < BLOCK ? m - from : BLOCK,
                             .m = width,
                             .k = rows,
                             .ld = m,
                             .row_bytes = (size_t)width * sizeof(float),
                             .dtype = DTYPE_F32,
                             .x_transposed = true,
                             .w_transposed = true,
                             .add = true };
        if (many_rows(&p, (const float *)dy->data + from, mode) < 0) return -1;
    }
    return 0;
}
