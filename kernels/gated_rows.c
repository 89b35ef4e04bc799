// kernels/gated_rows.c -- the gated FFN of many rows as one kernel, with AMX.
//
//   1. rows are normed and packed, 16 at a time
//   2. 16 rows of gate's weights and 16 of up's are multiplied by two tiles of x; their sums become
//      act(gate) * up, packed for `down`, while the next tiles are multiplied
//   3. the product with `down` is stored in y, or added to it
//
// So the results of gate and up, the widest in a layer, are f32 only while they are in the caches,
// and nothing is packed twice. All three products read weights directly from memory
// (kernels/matmul_amx_direct.h): a tile of sums covers 16 inner columns and 16 rows; two such
// tiles, one above the other, form a step of a packed tile.
#include "kernels/gated_rows.h"

#include "kernels/gelu.h"
#include "kernels/matmul_amx.h"
#include "kernels/matmul_amx_direct.h"
#include "kernels/matmul_few.h"

#if defined(__AMX_BF16__)

enum { GROUP = 4 }; // maximum number of steps of the inner width per task

struct gated {
    const struct gated_rows *p;
    int64_t width, inner; // D, F
    struct direct_x x;
    int64_t groups; // number of groups of steps of the inner width
    struct amx_product down;
    struct direct last; // how `down` is split; last.x holds the packed inner rows
};

// Sums of gate and up that wait for the activation: inner columns 16 j.. of row tiles `tile` and
// tile + 1.
struct waiting {
    const struct gated *g;
    const float *sums;
    int64_t tile, j;
};

// Memory of a thread.
struct worker {
    float *rows; // [16,D] normed rows
    float *sums; // sums over the pieces of K so far
    struct waiting waiting;
    struct direct_rest rest;
    float here[4 * DIRECT_SUMS] __attribute__((aligned(64)));
};

// A thread's task: inner columns from..to, in units of 16, and row tiles first..first+rows.
struct part {
    int64_t from, to, first, rows;
};

static bool is_plain(const struct fused_linear *l, int64_t m, int64_t k)
{
    return l->w->dtype == DTYPE_BF16 && !l->run && l->w->shape[0] == m && tensor_row(l->w) == k;
}

bool KERNEL(gated_rows_fit)(const struct gated_rows *p)
{
    const int64_t D = p->down.w->shape[0], F = p->gate.w->shape[0];
    return p->mode == MATMUL_BF16 && p->rows > FEW_ROWS && D % AMX_STEP == 0 && F % AMX_STEP == 0 &&
           is_plain(&p->gate, F, D) && is_plain(&p->up, F, D) && is_plain(&p->down, D, F);
}

static const char *weights(const struct fused_linear *l, int64_t row, int64_t step)
{
    const int64_t k = tensor_row(l->w);
    return (const char *)l->w->data + (row * k + step * AMX_STEP) * (int64_t)sizeof(uint16_t);
}

static vf biased(const float *sums, const struct fused_linear *l, int64_t row)
{
    return vf_load(sums) + vf_set(l->bias ? ((const float *)l->bias->data)[row] : 0);
}

// The activation of inner column `number` for 16 rows of x.
static vf activation(const struct gated_rows *p, const float *gate, const float *up, int64_t number)
{
    const vf a = biased(gate, &p->gate, number);
    return (p->gelu ? gelu_tanh(a) : a * vf_sigmoid(a)) * biased(up, &p->up, number);
}

// A share: two inner columns for the rows of a tile.
enum { SHARES = AMX_SIDE / 2 };

static void put_share(const void *of, int64_t share)
{
    const struct waiting *w = of;
    const int64_t t = share / SHARES, i = share % SHARES * 2, number = w->j * AMX_SIDE + i;
    const float *gate = w->sums + t * DIRECT_SUMS + i * AMX_SIDE, *up = gate + 2 * DIRECT_SUMS;
    const vf first = activation(w->g->p, gate, up, number);
    const vf second = activation(w->g->p, gate + AMX_SIDE, up + AMX_SIDE, number + 1);
    char *to = direct_tile(&w->g->last.x, w->tile + t, w->j / 2);
    vf_store(to + (w->j % 2 * SHARES + i / 2) * 64, vf_pair(first, second));
}

// Multiplies inner columns 16 j.. over the piece of K from `step` on. `next`: the next rows of gate
// and up, to prefetch, or NULL.
static void multiply_pair(const struct gated *g, const struct part *part, struct worker *b,
                          int64_t j, int64_t step, const char *const next[2])
{
    const struct gated_rows *p = g->p;
    const int64_t pairs = (part->rows + 1) / 2;
    const int64_t steps = at_most(g->x.steps - step, g->x.piece);
    const bool first = step == 0, last = step + steps == g->x.steps;
    float *sums = b->sums + (j - part->from) * pairs * 4 * DIRECT_SUMS;
    struct direct_part tiles = { .w = weights(&p->gate, j * AMX_SIDE, step),
                                 .v = weights(&p->up, j * AMX_SIDE, step),
                                 .row_bytes = (size_t)g->width * sizeof(uint16_t),
                                 .steps = steps,
                                 .first = first };
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t tile = part->first + 2 * i, wide = at_most(part->rows - 2 * i, 2);
        const struct direct_prefetch ahead =
            direct_prefetch(next[0], next[1], tiles.row_bytes, i, pairs);
        float *to = first && last ? b->here : sums + i * 4 * DIRECT_SUMS;
        tiles.x = direct_tile(&g->x, tile, step);
        direct_multiply(to, &tiles, &ahead, &b->rest, 2, wide);
        b->waiting = (struct waiting){ g, to, tile, j };
        b->rest = (struct direct_rest){ put_share, &b->waiting, last ? wide * SHARES : 0, 0 };
    }
}

static void multiply_part(const struct gated *g, const struct part *part, struct worker *b)
{
    const int64_t all = g->inner / AMX_SIDE;
    for (int64_t step = 0; step < g->x.steps; step += g->x.piece)
        for (int64_t j = part->from; j < part->to; j++) {
            // Prefetches the next inner columns, K piece or part.
            const bool again = j + 1 == part->to && step + g->x.piece < g->x.steps;
            const int64_t from = again ? part->from : j + 1,
                          then = again ? step + g->x.piece : step;
            const bool any = from < all;
            const char *const next[] = { any ? weights(&g->p->gate, from * AMX_SIDE, then) : NULL,
                                         any ? weights(&g->p->up, from * AMX_SIDE, then) : NULL };
            multiply_pair(g, part, b, j, step, next);
        }
    direct_finish(&b->rest);
}

// Called by every thread of the OpenMP team.
static void multiply_all(const struct gated *g, struct worker *b)
{
    const struct gated_rows *p = g->p;
    const struct direct_rows rows = { p->x, p->narrow, p->index, p->gain, p->eps };
    const int64_t steps = g->inner / AMX_STEP;
    const int64_t blocks = (g->x.tiles + g->x.block - 1) / g->x.block;
#pragma omp for schedule(static)
    for (int64_t t = 0; t < g->x.tiles; t++) KERNEL(direct_pack_from)(&g->x, &rows, b->rows, t);
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < blocks * g->groups; i++) {
        const int64_t k = i % g->groups, first = i / g->groups * g->x.block;
        const struct part part = { steps * k / g->groups * 2, steps * (k + 1) / g->groups * 2,
                                   first, at_most(g->x.tiles - first, g->x.block) };
        multiply_part(g, &part, b);
    }
    KERNEL(direct_columns)(&g->last, b->sums);
}

static struct amx_product down_of(const struct gated_rows *p)
{
    const int64_t D = p->down.w->shape[0], F = p->gate.w->shape[0];
    return (struct amx_product){ .y = p->y,
                                 .w = { p->down.w->data, (size_t)F * sizeof(uint16_t), DTYPE_BF16,
                                        false },
                                 .bias = p->down.bias ? p->down.bias->data : NULL,
                                 .rows = p->rows,
                                 .k = F,
                                 .m = D,
                                 .add = p->add };
}

void KERNEL(gated_rows_narrow)(void *to, const float *x, int64_t n)
{
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += AMX_STEP)
        vf_store((char *)to + 2 * i, amx_narrow(vf_load(x + i), vf_load(x + i + VEC)));
}

int KERNEL(gated_rows)(const struct gated_rows *p)
{
    const int64_t threads = omp_get_max_threads();
    struct gated g = { .p = p, .width = p->down.w->shape[0], .inner = p->gate.w->shape[0] };
    const int64_t steps = g.inner / AMX_STEP;
    g.x = direct_plan(p->rows, g.width);
    g.down = down_of(p);
    g.last = KERNEL(direct_cut)(&g.down, threads);
    if (p->past_caches && (uintptr_t)p->y % 64 == 0) g.last.past_caches = true;
    g.groups = amx_groups(steps, GROUP, threads);
    const size_t waiting = direct_waiting(&g.x, (steps + g.groups - 1) / g.groups * 2);
    const size_t sums = waiting > g.last.waiting ? waiting : g.last.waiting;
    const size_t each = sums + direct_scratch(g.width);
    const size_t x = direct_bytes(&g.x), inner = direct_bytes(&g.last.x);
    g.x.data = cpu_scratch(x + inner + each * (size_t)threads);
    if (!g.x.data) return -1;
    g.last.x.data = g.x.data + x;
#pragma omp parallel if (vec_worth_threads(p->rows * g.width * g.inner / 8))
    {
        float *mine = (float *)(g.last.x.data + inner + each * (size_t)omp_get_thread_num());
        struct worker b = { .rows = mine, .sums = mine + AMX_SIDE * g.width };
        amx_open();
        multiply_all(&g, &b);
        amx_close();
    }
    return 0;
}

#else

bool KERNEL(gated_rows_fit)(const struct gated_rows *p)
{
    return false;
}

void KERNEL(gated_rows_narrow)(void *to, const float *x, int64_t n)
{
}

int KERNEL(gated_rows)(const struct gated_rows *p)
{
    return cpu_fail("the gated FFN of many rows needs AMX");
}

#endif

int KERNEL(ffn_rows)(const struct fused_ffn *p)
{
    const struct gated_rows rows = { .x = p->h->data,
                                     .gain = p->gain ? p->gain->data : NULL,
                                     .eps = p->eps,
                                     .gate = p->gate,
                                     .up = p->up,
                                     .down = p->down,
                                     .y = p->y ? p->y->data : NULL,
                                     .rows = p->h->shape[0],
                                     .add = p->gain != NULL,
                                     .mode = p->mode };
    const bool in_place = p->y && p->y->data == p->h->data;
    const bool fits = p->y && in_place == (p->gain != NULL) && !p->after.gain && !p->saved_gate;
    return fits && KERNEL(gated_rows_fit)(&rows) ? KERNEL(gated_rows)(&rows) : FUSED_NOT;
}
