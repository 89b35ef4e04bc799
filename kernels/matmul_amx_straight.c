// kernels/matmul_amx_straight.c -- y[N,M] = x[N,K] w[M,K]^T + bias[M] in bf16 through AMX, with
// weights straight from memory.
//
// Rows of w as they lie are rows of a tile, if they are the left side of the product: y^T = w x^T.
// So weights need no packing. x is packed instead, once for all weights, as pairs along K:
//
//   x: [64 rows][K / 32][up to FOUR tiles of 16 rows]
//   for each 16 rows of w: one tile of them with FOUR tiles of x, along all of K; then the sums are
//   turned and go to y
//
// That is for rows so few that x stays in the second-level cache, which feeds the tiles nearly as
// fast as the first. Where they are an expert's fifty, products are twice as fast as with packed
// weights. The same numbers are added in the same order as in kernels/matmul_amx.c.
#include "kernels/matmul_amx.h"

#if defined(__AMX_BF16__)

enum {
    FOUR = 4,     // tiles of rows that share a load of weights
    ROOM = 512,   // tiles of x: a quarter of a second-level cache of 2 MB
    CHUNK = 4,    // tiles of weights that a thread takes at a time
    LEAST_M = 128 // threads share the columns
};

struct straight {
    const struct amx_product *p;
    char *x;              // packed
    int64_t steps, tiles; // along K; of rows
};

bool KERNEL(matmul_is_straight)(const struct amx_product *p)
{
    const int64_t tiles = (p->rows + AMX_SIDE - 1) / AMX_SIDE;
    return p->w.dtype == DTYPE_BF16 && !p->w.turned && !p->x.turned && p->k % AMX_STEP == 0 &&
           p->m % AMX_SIDE == 0 && p->m >= LEAST_M && tiles <= ROOM &&
           tiles * (p->k / AMX_STEP) <= ROOM;
}

static int64_t tiles_from(const struct straight *s, int64_t tile)
{
    return s->tiles - tile < FOUR ? s->tiles - tile : FOUR;
}

static void pack_x(const struct straight *s, int64_t tile)
{
    const struct amx_product *p = s->p;
    const int64_t first = tile / FOUR * FOUR, wide = tiles_from(s, first);
    const int64_t row = tile * AMX_SIDE, left = p->rows - row;
    char *to = s->x + (first * s->steps + tile - first) * AMX_TILE;
    for (int64_t k = 0; k < p->k; k += AMX_STEP, to += wide * AMX_TILE)
        amx_pack_pairs(to, &p->x, row, left < AMX_SIDE ? left : AMX_SIDE, k, AMX_STEP);
}

// A line of each of 16 rows into the second-level cache.
VEC_INLINE void ask_for(const char *w, size_t row_bytes)
{
    for (int r = 0; r < AMX_SIDE; r++, w += row_bytes) __builtin_prefetch(w, 0, 2);
}

// sums[tile of x][16 rows of w][16 rows of x] of 16 rows of w. Asks for the 16 rows from `next` on
// (or NULL) meanwhile: the rows are so long that the processor does not see where others begin.
VEC_INLINE void multiply(float *sums, const char *w, const char *next, size_t row_bytes,
                         const char *x, int64_t steps, const int wide)
{
    _tile_zero(0);
    if (wide > 1) _tile_zero(1);
    if (wide > 2) _tile_zero(2);
    if (wide > 3) _tile_zero(3);
    for (int64_t s = 0; s < steps; s++, w += 2 * AMX_STEP, x += wide * AMX_TILE) {
        if (next) ask_for(next + s * 2 * AMX_STEP, row_bytes);
        _tile_loadd(4, w, row_bytes);
        _tile_loadd(5, x, 64);
        _tile_dpbf16ps(0, 4, 5);
        if (wide > 1) {
            _tile_loadd(6, x + AMX_TILE, 64);
            _tile_dpbf16ps(1, 4, 6);
        }
        if (wide > 2) {
            _tile_loadd(7, x + 2 * AMX_TILE, 64);
            _tile_dpbf16ps(2, 4, 7);
        }
        if (wide > 3) {
            _tile_loadd(5, x + 3 * AMX_TILE, 64);
            _tile_dpbf16ps(3, 4, 5);
        }
    }
    _tile_stored(0, sums, 64);
    if (wide > 1) _tile_stored(1, sums + AMX_SIDE * AMX_SIDE, 64);
    if (wide > 2) _tile_stored(2, sums + 2 * AMX_SIDE * AMX_SIDE, 64);
    if (wide > 3) _tile_stored(3, sums + 3 * AMX_SIDE * AMX_SIDE, 64);
}

// A tile of sums, turned, to rows from `row` on and columns m..m+16 of y.
static void put_sums(const struct amx_product *p, const float *sums, int64_t row, int64_t m)
{
    const vf bias = p->bias ? vf_load(p->bias + m) : vf_set(0);
    float *y = p->y + row * p->m + m;
    vf v[AMX_SIDE];
    for (int i = 0; i < AMX_SIDE; i++) v[i] = vf_load(sums + i * AMX_SIDE);
    vec_turn(v);
    for (int64_t r = 0; r < AMX_SIDE && row + r < p->rows; r++, y += p->m)
        vf_store(y, v[r] + (p->add ? vf_load(y) : bias));
}

// Where the thread will probably go on after column m: CHUNK tiles of each thread are in turn.
static const char *weights_after(const struct amx_product *p, int64_t m)
{
    const bool last = m / AMX_SIDE % CHUNK == CHUNK - 1;
    const int64_t others = last ? (omp_get_num_threads() - 1) * CHUNK : 0;
    const int64_t next = m + (1 + others) * AMX_SIDE;
    return next < p->m ? (const char *)p->w.data + (size_t)next * p->w.row_bytes : NULL;
}

// Columns m..m+16 of all rows.
static void multiply_rows(const struct straight *s, int64_t m)
{
    const struct amx_product *p = s->p;
    const size_t row_bytes = p->w.row_bytes;
    const char *w = (const char *)p->w.data + (size_t)m * row_bytes, *next = weights_after(p, m);
    float sums[FOUR * AMX_SIDE * AMX_SIDE] __attribute__((aligned(64)));
    for (int64_t t = 0; t < s->tiles; t += FOUR, next = NULL) {
        const int64_t wide = tiles_from(s, t);
        const char *x = s->x + t * s->steps * AMX_TILE;
        switch (wide) {
        case 1: multiply(sums, w, next, row_bytes, x, s->steps, 1); break;
        case 2: multiply(sums, w, next, row_bytes, x, s->steps, 2); break;
        case 3: multiply(sums, w, next, row_bytes, x, s->steps, 3); break;
        default: multiply(sums, w, next, row_bytes, x, s->steps, 4); break;
        }
        for (int64_t i = 0; i < wide; i++)
            put_sums(p, sums + i * AMX_SIDE * AMX_SIDE, (t + i) * AMX_SIDE, m);
    }
}

int KERNEL(matmul_straight)(const struct amx_product *p)
{
    struct straight s = { .p = p,
                          .steps = p->k / AMX_STEP,
                          .tiles = (p->rows + AMX_SIDE - 1) / AMX_SIDE };
    s.x = cpu_scratch((size_t)(s.tiles * s.steps) * AMX_TILE);
    if (!s.x) return -1;
#pragma omp parallel if (vec_worth_threads(p->rows * p->k * p->m / 8))
    {
        amx_open();
#pragma omp for schedule(static)
        for (int64_t t = 0; t < s.tiles; t++) pack_x(&s, t);
#pragma omp for schedule(dynamic, CHUNK)
        for (int64_t m = 0; m < p->m; m += AMX_SIDE) multiply_rows(&s, m);
        amx_close();
    }
    return 0;
}

#endif
