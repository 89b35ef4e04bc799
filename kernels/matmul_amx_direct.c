// kernels/matmul_amx_direct.c -- y[N,M] = x[N,K] w[M,K]^T + bias[M] in bf16 with AMX, reading
// weights directly from memory.
//
// In y^T = w x^T, the left operand's tile rows are rows of w in memory, so weights need no packing.
// Instead x is packed, once for all weights (kernels/matmul_amx_direct.h):
//
//   for each block of rows of x and each group of rows of w, shared among threads:
//     for each piece along K and each pair of tiles of w:
//       multiply by all tiles of the block, two by two; prefetch the next tiles of w
//       after the last piece, transpose the sums into y while the next sums are computed
//
// A block's piece of x stays in the L2 cache, from which tiles load two thirds as fast as from L1.
// The order of sums equals that of kernels/matmul_amx.c.
#include "kernels/matmul_amx_direct.h"

#include "kernels/matmul_amx.h"
#include "kernels/norm_row.h"

#if defined(__AMX_BF16__)

enum {
    GROUP = 8,    // maximum number of pairs of tiles of weights per task
    LEAST_M = 128 // minimum number of columns of a direct product; threads share them
};

// A thread's task: column tiles m..to, row tiles from..from+rows.
struct part {
    int64_t m, to, from, rows;
};

// Sums to write later: `high` by `wide` tiles, from row `row` and column m on.
struct waiting {
    const struct direct *s;
    const float *sums;
    int64_t row, m, high, wide;
};

// Memory of a thread: sums between pieces, and finished sums, which are written while the next
// tiles are multiplied.
struct worker {
    float *sums;
    struct waiting waiting;
    struct direct_rest rest;
    float here[4 * DIRECT_SUMS] __attribute__((aligned(64)));
};

bool KERNEL(matmul_is_direct)(const struct amx_product *p)
{
    return p->w.dtype == DTYPE_BF16 && !p->w.transposed && !p->x.transposed &&
           p->m % AMX_SIDE == 0 && p->m >= LEAST_M;
}

// Writes a tile of sums, transposed, to rows from `row` on and columns m..m+16 of y.
static void put_sums(const struct direct *s, const float *sums, int64_t row, int64_t m,
                     const bool past_caches)
{
    const struct amx_product *p = s->p;
    const vf bias = p->bias ? vf_load(p->bias + m) : vf_set(0);
    float *y = p->y + row * s->y_row + m;
    vf v[AMX_SIDE];
    for (int i = 0; i < AMX_SIDE; i++) v[i] = vf_load(sums + i * AMX_SIDE);
    vec_transpose(v);
    for (int64_t r = 0; r < AMX_SIDE && row + r < p->rows; r++, y += s->y_row)
        if (past_caches)
            _mm512_stream_ps(y, (__m512)(v[r] + bias));
        else
            vf_store(y, p->add ? vf_load(y) + (v[r] + bias) : v[r] + bias);
}

static void put_share(const void *of, int64_t share)
{
    const struct waiting *w = of;
    const int64_t h = share / w->wide, i = share % w->wide;
    const float *tile = w->sums + (2 * h + i) * DIRECT_SUMS;
    const int64_t row = w->row + i * AMX_SIDE, m = w->m + h * AMX_SIDE;
    if (w->s->past_caches)
        put_sums(w->s, tile, row, m, true);
    else
        put_sums(w->s, tile, row, m, false);
}

static const char *weights(const struct direct *s, int64_t tile, int64_t step)
{
    const struct amx_source *w = &s->p->w;
    return (const char *)w->data + (size_t)(tile * AMX_SIDE) * w->row_bytes +
           step * AMX_STEP * (int64_t)sizeof(uint16_t);
}

// Copies the last partial step of `high` tiles of weights, padded with zeros.
static void copy_tail(const struct direct *s, char *tail, int64_t tile, int64_t high)
{
    const int64_t k = s->p->k / AMX_STEP * AMX_STEP;
    for (int64_t h = 0; h < high; h++)
        amx_pack_rows(tail + h * AMX_TILE, &s->p->w, (tile + h) * AMX_SIDE, AMX_SIDE, k,
                      s->p->k - k);
}

// Multiplies two tiles of weights, from column tile m on, by the block's rows, over the piece of K
// from `step` on. `next`: the two tiles to prefetch, or NULL.
static void multiply_pair(const struct direct *s, const struct part *part, struct worker *b,
                          int64_t m, int64_t step, const char *const next[2])
{
    const struct amx_product *p = s->p;
    const int64_t high = at_most(part->to - m, 2), pairs = (part->rows + 1) / 2;
    const int64_t steps = at_most(s->x.steps - step, s->x.piece);
    const bool first = step == 0, last = step + steps == s->x.steps;
    const bool whole = !last || p->k % AMX_STEP == 0;
    float *sums = b->sums + (m - part->m) / 2 * pairs * 4 * DIRECT_SUMS;
    char tail[2 * AMX_TILE] __attribute__((aligned(64)));
    if (!whole) copy_tail(s, tail, m, high);
    struct direct_part tiles = { .w = weights(s, m, step),
                                 .v = weights(s, m + high - 1, step),
                                 .row_bytes = p->w.row_bytes,
                                 .tail = whole ? NULL : tail,
                                 .steps = whole ? steps : steps - 1,
                                 .first = first };
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t row = part->from + 2 * i, wide = at_most(part->rows - 2 * i, 2);
        float *to = first && last ? b->here : sums + i * 4 * DIRECT_SUMS;
        struct direct_prefetch ahead = direct_prefetch(next[0], next[1], p->w.row_bytes, i, pairs);
        if (last && !s->past_caches) {
            ahead.y = p->y + row * AMX_SIDE * s->y_row + m * AMX_SIDE;
            ahead.y_row = (size_t)s->y_row;
        }
        tiles.x = direct_tile(&s->x, row, step);
        direct_multiply(to, &tiles, &ahead, &b->rest, high, wide);
        b->waiting = (struct waiting){ s, to, row * AMX_SIDE, m * AMX_SIDE, high, wide };
        b->rest = (struct direct_rest){ put_share, &b->waiting, last ? high * wide : 0, 0 };
    }
}

// Multiplies a part. b->sums holds the sums of the part's pairs one after the other.
static void multiply_part(const struct direct *s, const struct part *part, struct worker *b)
{
    const int64_t all = s->p->m / AMX_SIDE;
    for (int64_t step = 0; step < s->x.steps; step += s->x.piece)
        for (int64_t m = part->m; m < part->to; m += 2) {
            // Prefetches the next columns, K piece or part.
            const bool again = m + 2 >= part->to && step + s->x.piece < s->x.steps;
            const int64_t from = again ? part->m : m + 2, then = again ? step + s->x.piece : step;
            const char *const next[] = { from < all ? weights(s, from, then) : NULL,
                                         from + 1 < all ? weights(s, from + 1, then) : NULL };
            multiply_pair(s, part, b, m, step, next);
        }
    direct_finish(&b->rest);
}

// Packs bf16 rows, which only need reordering.
static void pack_narrow(const struct direct_x *x, const struct direct_rows *from, int64_t tile)
{
    const int64_t row = tile * AMX_SIDE, n = at_most(x->rows - row, AMX_SIDE);
    const char *line[AMX_SIDE];
    for (int64_t i = 0; i < n; i++)
        line[i] = (const char *)from->narrow +
                  (from->index ? from->index[row + i] : row + i) * x->k * (int64_t)sizeof(uint16_t);
    for (int64_t s = 0; s < x->steps; s++) {
        char *to = direct_tile(x, tile, s);
        vf v[AMX_SIDE];
        for (int64_t i = 0; i < AMX_SIDE; i++)
            v[i] = i < n ? vf_load(line[i] + s * 2 * AMX_STEP) : vf_set(0);
        vec_transpose(v);
        for (int64_t i = 0; i < AMX_SIDE; i++) vf_store(to + i * 64, v[i]);
    }
}

void KERNEL(direct_pack_from)(const struct direct_x *x, const struct direct_rows *from,
                              float *scratch, int64_t tile)
{
    const int64_t row = tile * AMX_SIDE, n = at_most(x->rows - row, AMX_SIDE);
    if (from->narrow && !from->gain) {
        pack_narrow(x, from, tile);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const float *one = from->x + (from->index ? from->index[row + i] : row + i) * x->k;
        if (from->gain)
            norm_row(scratch + i * x->k, one, from->gain, x->k, from->eps);
        else
            memcpy(scratch + i * x->k, one, (size_t)x->k * sizeof *one);
    }
    const struct amx_source rows = { scratch, (size_t)x->k * sizeof *scratch, DTYPE_F32, false };
    direct_pack(x, tile, &rows, 0);
}

void KERNEL(direct_columns)(const struct direct *s, float *sums)
{
    const int64_t columns = s->p->m / AMX_SIDE, pairs = (columns + 1) / 2;
    const int64_t blocks = (s->x.tiles + s->x.block - 1) / s->x.block;
    struct worker b = { .sums = sums };
#pragma omp for schedule(dynamic) nowait
    for (int64_t i = 0; i < blocks * s->groups; i++) {
        const int64_t g = i % s->groups, from = i / s->groups * s->x.block;
        const struct part part = { pairs * g / s->groups * 2,
                                   at_most(columns, pairs * (g + 1) / s->groups * 2), from,
                                   at_most(s->x.tiles - from, s->x.block) };
        multiply_part(s, &part, &b);
    }
    if (s->past_caches) _mm_sfence(); // other threads read y after the barrier
}

struct direct KERNEL(direct_cut)(const struct amx_product *p, int64_t threads)
{
    const int64_t pairs = (p->m / AMX_SIDE + 1) / 2;
    struct direct s = { .p = p,
                        .x = direct_plan(p->rows, p->k),
                        .y_row = p->y_row ? p->y_row : p->m,
                        .groups = amx_groups(pairs, GROUP, threads),
                        .past_caches = KERNEL(goes_past_caches)(p, threads) };
    const int64_t wide = (pairs + s.groups - 1) / s.groups;
    s.waiting = direct_waiting(&s.x, wide);
    return s;
}

int KERNEL(matmul_direct)(const struct amx_product *p)
{
    const int64_t threads = omp_get_max_threads();
    struct direct s = KERNEL(direct_cut)(p, threads);
    const size_t x_size = direct_bytes(&s.x);
    s.x.data = cpu_scratch(x_size + s.waiting * (size_t)threads);
    if (!s.x.data) return -1;
#pragma omp parallel if (vec_worth_threads(p->rows * p->k * p->m / 8))
    {
        char *sums = s.x.data + x_size + s.waiting * (size_t)omp_get_thread_num();
        amx_open();
#pragma omp for schedule(static)
        for (int64_t t = 0; t < s.x.tiles; t++) direct_pack(&s.x, t, &p->x, t * AMX_SIDE);
        KERNEL(direct_columns)(&s, (float *)sums);
        amx_close();
    }
    return 0;
}

#endif
