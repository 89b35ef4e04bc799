// kernels/attention_backward.c -- the gradients of attention (kernels/attention.c).
//
// Probabilities are computed again from q and k, a piece of rows at a time (Dao et al. 2022). With
// s = q k scale, p = softmax(s), delta = dy . y:
//   dp = dy v^T,  ds = p (dp - delta),  dv += p^T dy,  dk += ds^T q scale,  dq += ds k scale
//
// A task is one key/value head of one run: rows that share keys with no others (a sample of several
// in one pass), so that dk and dv are added up by one thread and blocks begin where a run does.
#include <math.h>
#include <stdlib.h>

#include "kernels/attention.h"

enum {
    PIECE = 8 * TILE_ROWS,                                 // rows of a task at a time
    KEYS = (BLOCK + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS // a block in whole tiles of keys
};

// The call's gradients: each may be NULL.
struct gradients {
    float *dq, *dk, *dv;
    const float *dy;
};

// Tokens from..to, which see keys first..first+keys only; nobody else does.
struct run {
    int64_t from, to, first, keys;
};

// What a task needs. "turned": [tile][d][rows of the tile]; "panels": [padded / TILE_COLS][rows]
// [TILE_COLS].
struct head_room {
    float *keys_turned, *values_turned; // the run's keys, tiles of TILE_COLS
    float *keys;                        // the run's keys, panels for each block
    float *dk, *dv;                     // [keys in blocks + TILE_ROWS, padded]
    float *q_turned, *dy_turned;        // a piece, tiles of TILE_ROWS; q is scaled
    float *q, *dy;                      // a piece, panels
    float *p;                           // [blocks][PIECE, KEYS]: scores, then probabilities
    float *ds;                          // [PIECE, KEYS]
    float *dq;                          // [PIECE, padded]
    float *delta;                       // [PIECE]
};

// Hands out the parts of a task's scratch; its size when `memory` is NULL.
static size_t head_room(struct head_room *room, const struct call *c, int64_t keys, float *memory)
{
    int64_t blocks = (keys + BLOCK - 1) / BLOCK * BLOCK, width = c->width, padded = c->padded;
    struct {
        float **part;
        int64_t size;
    } parts[] = {
        { &room->keys_turned, blocks * width },
        { &room->values_turned, blocks * width },
        { &room->keys, blocks * padded },
        { &room->dk, (blocks + TILE_ROWS) * padded },
        { &room->dv, (blocks + TILE_ROWS) * padded },
        { &room->q_turned, PIECE * width },
        { &room->dy_turned, PIECE * width },
        { &room->q, PIECE * padded },
        { &room->dy, PIECE * padded },
        { &room->p, blocks / BLOCK * PIECE * KEYS },
        { &room->ds, PIECE * KEYS },
        { &room->dq, PIECE * padded },
        { &room->delta, PIECE },
    };
    size_t size = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (memory) *parts[i].part = memory + size;
        size += (size_t)(parts[i].size + 15) / 16 * 16;
    }
    return size;
}

// Keys and values of the run in the two orders that the products read; places past the end are 0.
static void head_pack(const struct call *c, const struct run *run, int64_t head,
                      const struct head_room *room)
{
    int64_t step = key_step(c), blocks = (run->keys + BLOCK - 1) / BLOCK * BLOCK;
    const float *k = (const float *)c->k + run->first * step + head * c->width;
    const float *v = (const float *)c->v + run->first * step + head * c->width;
    for (int64_t i = 0; i < blocks; i += TILE_COLS) {
        int64_t some = i < run->keys ? run->keys - i : 0;
        panel_pack_as(room->keys_turned + i * c->width, (const char *)(k + i * step),
                      (size_t)step * sizeof *k, some, 0, c->width, DTYPE_F32);
        panel_pack_as(room->values_turned + i * c->width, (const char *)(v + i * step),
                      (size_t)step * sizeof *v, some, 0, c->width, DTYPE_F32);
    }
    memset(room->keys, 0, (size_t)(blocks * c->padded) * sizeof(float));
    for (int64_t j = 0; j < run->keys; j++)
        for (int64_t e = 0; e < c->width; e += VEC) {
            int64_t some = c->width - e < VEC ? c->width - e : VEC;
            vf_store_part_n(room->keys + j / BLOCK * BLOCK * c->padded +
                                (e / TILE_COLS * BLOCK + j % BLOCK) * TILE_COLS + e % TILE_COLS,
                            vf_load_part_n(k + j * step + e, some), some);
        }
    memset(room->dk, 0, (size_t)((blocks + TILE_ROWS) * c->padded) * sizeof(float));
    memset(room->dv, 0, (size_t)((blocks + TILE_ROWS) * c->padded) * sizeof(float));
}

// Rows r.. of the task: queries and dy in both orders, delta.
static void piece_pack(const struct call *c, const struct gradients *g, const struct task *t,
                       int64_t r, const struct head_room *room)
{
    int64_t rows = t->rows - r < PIECE ? t->rows - r : PIECE;
    if (rows < PIECE || c->padded > c->width) {
        memset(room->q_turned, 0, (size_t)(PIECE * c->width) * sizeof(float));
        memset(room->dy_turned, 0, (size_t)(PIECE * c->width) * sizeof(float));
        memset(room->q, 0, (size_t)(PIECE * c->padded) * sizeof(float));
        memset(room->dy, 0, (size_t)(PIECE * c->padded) * sizeof(float));
    }
    memset(room->dq, 0, (size_t)(PIECE * c->padded) * sizeof(float));
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = row_at(c, t, r + i);
        int64_t turned = i / TILE_ROWS * TILE_ROWS * c->width + i % TILE_ROWS;
        room->delta[i] = dot(g->dy + at, c->y + at, c->width);
        for (int64_t e = 0; e < c->width; e++) {
            room->q_turned[turned + e * TILE_ROWS] = c->q[at + e] * c->scale;
            room->dy_turned[turned + e * TILE_ROWS] = g->dy[at + e];
        }
        for (int64_t e = 0; e < c->width; e += VEC) {
            int64_t some = c->width - e < VEC ? c->width - e : VEC;
            int64_t panel = (e / TILE_COLS * PIECE + i) * TILE_COLS + e % TILE_COLS;
            vf_store_part_n(room->q + panel, vf_load_part_n(c->q + at + e, some) * vf_set(c->scale),
                            some);
            vf_store_part_n(room->dy + panel, vf_load_part_n(g->dy + at + e, some), some);
        }
    }
}

// Places of the block of keys from j that each row of a tile sees, and all of them together.
struct view {
    int64_t from[TILE_ROWS], to[TILE_ROWS]; // from >= to: none
    int64_t low, high;                      // low in whole panels
};

// False when the tile of rows r.. sees nothing there.
static bool tile_view(const struct call *c, const struct task *t, int64_t r, int64_t j,
                      struct view *view)
{
    view->low = BLOCK;
    view->high = 0;
    for (int64_t i = 0; i < TILE_ROWS; i++) {
        view->from[i] = view->to[i] = 0;
        if (r + i >= t->rows) continue;
        int64_t from = row_first(c, t, r + i) - j, to = row_last(c, t, r + i) - j;
        from = from > 0 ? from : 0;
        to = to < BLOCK ? to : BLOCK;
        if (from >= to) continue;
        view->from[i] = from;
        view->to[i] = to;
        view->low = from < view->low ? from : view->low;
        view->high = to > view->high ? to : view->high;
    }
    view->low = view->low / TILE_COLS * TILE_COLS;
    return view->low < view->high;
}

// scores[TILE_ROWS, KEYS] = a tile of turned rows times what it sees of a block of turned keys or
// values.
static void tile_scores(const struct call *c, float *scores, const float *rows, const float *keys,
                        const struct view *view)
{
    for (int64_t i = view->low; i < view->high; i += TILE_COLS)
        put_tile(scores + i, KEYS, NULL, rows, 1, TILE_ROWS, keys + i * c->width, c->width,
                 TILE_ROWS);
}

// Probabilities of a tile of rows r.. over all blocks, into room->p; 0 where a row sees nothing.
static void tile_probs(const struct call *c, const struct task *t, const struct run *run, int64_t r,
                       int64_t tile, const struct head_room *room)
{
    struct view view;
    float high[TILE_ROWS];
    vf sum[TILE_ROWS];
    int64_t block = PIECE * KEYS;
    float *p = room->p + tile * KEYS;
    for (int i = 0; i < TILE_ROWS; i++) {
        high[i] = -INFINITY;
        sum[i] = vf_set(0);
    }
    for (int64_t j = 0; j < run->keys; j += BLOCK) {
        float *scores = p + j / BLOCK * block;
        if (!tile_view(c, t, r + tile, run->first + j, &view)) continue;
        tile_scores(c, scores, room->q_turned + tile * c->width, room->keys_turned + j * c->width,
                    &view);
        for (int64_t i = 0; i < TILE_ROWS; i++) {
            float *row = scores + i * KEYS;
            vf top = vf_set(high[i]);
            for (int64_t k = view.low; k < view.from[i]; k++) row[k] = -INFINITY;
            for (int64_t k = view.to[i]; k < BLOCK && k % VEC; k++) row[k] = -INFINITY;
            for (int64_t k = view.from[i] / VEC * VEC; k < view.to[i]; k += VEC)
                top = vf_max(vf_load(row + k), top);
            high[i] = vf_highest(top);
        }
    }
    for (int64_t j = 0; j < run->keys; j += BLOCK) {
        float *scores = p + j / BLOCK * block;
        tile_view(c, t, r + tile, run->first + j, &view);
        for (int64_t i = 0; i < TILE_ROWS; i++) {
            float *row = scores + i * KEYS;
            int64_t from = view.from[i] / VEC * VEC, to = (view.to[i] + VEC - 1) / VEC * VEC;
            memset(row, 0, (size_t)from * sizeof *row);
            for (int64_t k = from; k < to; k += VEC) {
                vf e = vf_exp(vf_load(row + k) - vf_set(high[i]));
                vf_store(row + k, e);
                sum[i] += e;
            }
            memset(row + to, 0, (size_t)(KEYS - to) * sizeof *row);
        }
    }
    for (int64_t j = 0; j < run->keys; j += BLOCK) {
        tile_view(c, t, r + tile, run->first + j, &view);
        for (int64_t i = 0; i < TILE_ROWS; i++) {
            float *row = p + j / BLOCK * block + i * KEYS;
            vf share = vf_set(1 / vf_sum(sum[i]));
            for (int64_t k = view.from[i] / VEC * VEC; k < view.to[i]; k += VEC)
                vf_store(row + k, vf_load(row + k) * share);
        }
    }
}

// ds of a tile of rows, in room->ds, from its probabilities and dp = dy v^T.
static void tile_slopes(const struct call *c, const struct head_room *room, int64_t tile, int64_t j,
                        const struct view *view)
{
    const float *p = room->p + j / BLOCK * PIECE * KEYS + tile * KEYS;
    float *ds = room->ds + tile * KEYS;
    tile_scores(c, ds, room->dy_turned + tile * c->width, room->values_turned + j * c->width, view);
    for (int64_t i = 0; i < TILE_ROWS; i++, p += KEYS, ds += KEYS) {
        vf delta = vf_set(room->delta[tile + i]);
        int64_t from = view->from[i] / VEC * VEC, to = (view->to[i] + VEC - 1) / VEC * VEC;
        memset(ds, 0, (size_t)from * sizeof *ds);
        for (int64_t k = from; k < to; k += VEC)
            vf_store(ds + k, vf_load(p + k) * (vf_load(ds + k) - delta));
        memset(ds + to, 0, (size_t)(KEYS - to) * sizeof *ds);
    }
}

// Block j for the rows r.. of a piece: adds to dq of the piece, to dk and dv of the block.
static void piece_backward(const struct call *c, const struct task *t, const struct run *run,
                           int64_t r, int64_t j, const struct head_room *room)
{
    static const float keep[TILE_ROWS] = { [0 ... TILE_ROWS - 1] = 1 };
    const float *p = room->p + j / BLOCK * PIECE * KEYS;
    int64_t low[PIECE / TILE_ROWS], high[PIECE / TILE_ROWS]; // keys that each tile sees
    for (int64_t i = 0; i < PIECE; i += TILE_ROWS) {
        struct view view;
        low[i / TILE_ROWS] = high[i / TILE_ROWS] = 0;
        if (!tile_view(c, t, r + i, run->first + j, &view)) {
            memset(room->ds + i * KEYS, 0, TILE_ROWS * KEYS * sizeof(float));
            continue;
        }
        low[i / TILE_ROWS] = view.low;
        high[i / TILE_ROWS] = view.high;
        tile_slopes(c, room, i, j, &view);
        for (int64_t e = 0; e < c->padded; e += TILE_COLS)
            put_tile(room->dq + i * c->padded + e, c->padded, keep, room->ds + i * KEYS + view.low,
                     KEYS, 1, room->keys + j * c->padded + e * BLOCK + view.low * TILE_COLS,
                     view.high - view.low, TILE_ROWS);
    }
    for (int64_t k = 0; k < BLOCK; k += TILE_ROWS) {
        int64_t from = PIECE, to = 0; // rows that see a key of the tile
        for (int64_t i = 0; i < PIECE; i += TILE_ROWS) {
            if (low[i / TILE_ROWS] >= k + TILE_ROWS || high[i / TILE_ROWS] <= k) continue;
            from = i < from ? i : from;
            to = i + TILE_ROWS;
        }
        if (from >= to) continue;
        for (int64_t e = 0; e < c->padded; e += TILE_COLS) {
            int64_t at = (j + k) * c->padded + e, row = e * PIECE + from * TILE_COLS;
            put_tile(room->dv + at, c->padded, keep, p + from * KEYS + k, 1, KEYS, room->dy + row,
                     to - from, TILE_ROWS);
            put_tile(room->dk + at, c->padded, keep, room->ds + from * KEYS + k, 1, KEYS,
                     room->q + row, to - from, TILE_ROWS);
        }
    }
}

static void head_backward(const struct call *c, const struct gradients *g, const struct run *run,
                          int64_t head, float *scratch)
{
    struct head_room room = { 0 };
    struct task t = { .head = head, .from = run->from, .rows = (run->to - run->from) * c->group };
    head_room(&room, c, run->keys, scratch);
    head_pack(c, run, head, &room);
    for (int64_t r = 0; r < t.rows; r += PIECE) {
        piece_pack(c, g, &t, r, &room);
        for (int64_t i = 0; i < PIECE; i += TILE_ROWS) tile_probs(c, &t, run, r, i, &room);
        for (int64_t j = 0; j < run->keys; j += BLOCK) piece_backward(c, &t, run, r, j, &room);
        for (int64_t i = 0; g->dq && i < PIECE && r + i < t.rows; i++) {
            float *dq = g->dq + row_at(c, &t, r + i);
            for (int64_t e = 0; e < c->width; e++) dq[e] += room.dq[i * c->padded + e] * c->scale;
        }
    }
    for (int64_t j = 0; j < run->keys; j++) {
        int64_t at = (run->first + j) * key_step(c) + head * c->width;
        if (g->dk) vec_add(g->dk + at, room.dk + j * c->padded, c->width);
        if (g->dv) vec_add(g->dv + at, room.dv + j * c->padded, c->width);
    }
}

// Cuts the call where no row sees keys of rows on both sides; returns how many runs there are.
// lowest[tokens] is scratch.
static int64_t find_runs(const struct call *c, struct run *runs, int64_t *lowest)
{
    struct task all = { 0 };
    int64_t count = 0, low = c->keys;
    for (int64_t i = c->tokens; i-- > 0;) {
        int64_t first = row_first(c, &all, i * c->group), last = row_last(c, &all, i * c->group);
        if (first < last && first < low) low = first;
        lowest[i] = low; // of this row and those after it
    }
    struct run run = { .first = low };
    int64_t end = run.first;
    for (int64_t i = 0; i < c->tokens; i++) {
        if (i > run.from && lowest[i] >= end) {
            run.to = i;
            run.keys = end - run.first;
            runs[count++] = run;
            run = (struct run){ .from = i, .first = lowest[i] };
        }
        int64_t first = row_first(c, &all, i * c->group), last = row_last(c, &all, i * c->group);
        if (first < last && last > end) end = last;
    }
    run.to = c->tokens;
    run.keys = end > run.first ? end - run.first : 0;
    runs[count++] = run;
    return count;
}

static int runs_backward(const struct call *c, const struct gradients *g, const struct run *runs,
                         int64_t count)
{
    int64_t longest = 0, tasks = count * c->kv_heads;
    for (int64_t i = 0; i < count; i++) longest = runs[i].keys > longest ? runs[i].keys : longest;
    struct head_room room = { 0 };
    size_t size = head_room(&room, c, longest, NULL);
    int64_t threads = omp_get_max_threads() < tasks ? omp_get_max_threads() : tasks;
    float *scratch = cpu_scratch(size * (size_t)threads * sizeof(float));
    if (!scratch) return -1;
#pragma omp parallel for schedule(dynamic) \
    num_threads(threads) if (vec_worth_threads(c->tokens * c->heads * longest * c->width))
    for (int64_t i = 0; i < tasks; i++)
        head_backward(c, g, &runs[i / c->kv_heads], i % c->kv_heads,
                      scratch + size * (size_t)omp_get_thread_num());
    return 0;
}

int KERNEL(attention_backward)(struct tensor *dq, struct tensor *dk, struct tensor *dv,
                               const struct tensor *dy, const struct tensor *y,
                               const struct tensor *q, const struct tensor *k,
                               const struct tensor *v, const struct tensor *first,
                               const struct tensor *last, float scale, enum matmul_mode mode)
{
    struct gradients g = { .dq = dq ? dq->data : NULL,
                           .dk = dk ? dk->data : NULL,
                           .dv = dv ? dv->data : NULL,
                           .dy = dy->data };
    if (!tensor_count(q) || !k->shape[0]) return 0;
    const struct call c = call_of(y, q, k, v, first, last, scale);
    struct run *runs = malloc((size_t)c.tokens * sizeof *runs);
    int64_t *lowest = malloc((size_t)c.tokens * sizeof *lowest);
    int status = runs && lowest ? runs_backward(&c, &g, runs, find_runs(&c, runs, lowest))
                                : cpu_fail("out of memory: a kernel needs %.1f MB of scratch",
                                           (double)c.tokens * (sizeof *runs + 8) / 1e6);
    free(runs);
    free(lowest);
    return status;
}
