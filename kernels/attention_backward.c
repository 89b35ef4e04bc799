// kernels/attention_backward.c -- the gradients of attention (kernels/attention.c).
//
// Probabilities are recomputed from q and k, a piece of rows at a time (Dao et al. 2022). With
// s = q k scale, p = softmax(s), delta = dy . y:
//   dp = dy v^T,  ds = p (dp - delta),  dv += p^T dy,  dk += ds^T q scale,  dq += ds k scale
//
// A task is one key/value head of one run. A run is a range of rows that share no keys with other
// rows, such as one sample of a pass over several. So one thread computes each sum of dk and dv,
// and blocks of keys begin at the start of a run.
#include <math.h>
#include <stdlib.h>

#include "kernels/attention.h"

enum {
    PIECE = 8 * TILE_ROWS,                                 // rows processed at a time
    KEYS = (BLOCK + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS // BLOCK, rounded up to whole tiles
};

// The call's gradients; dq, dk and dv may each be NULL.
struct gradients {
    float *dq, *dk, *dv;
    const float *dy;
};

// Tokens from..to. They see only keys first..first+keys, which no other token sees.
struct run {
    int64_t from, to, first, keys;
};

// The width of a query or key head, or of a value or dy head; `padded` is rounded up to whole
// tiles.
struct side {
    int64_t width, padded;
};

static struct side key_side(const struct call *c)
{
    return (struct side){ c->width, (c->width + TILE_COLS - 1) / TILE_COLS * TILE_COLS };
}

static struct side value_side(const struct call *c)
{
    return (struct side){ c->value_width, c->padded };
}

// Scratch of a task. "transposed": [tile][d][rows of the tile]; "panels": [padded /
// TILE_COLS][rows][TILE_COLS]. Buffers of keys, dk, q and dq use the width and padding of keys;
// those of values, dv and dy use the width and padding of values.
struct head_buffers {
    float *keys_transposed, *values_transposed; // of the run, in tiles of TILE_COLS
    float *keys;                                // of the run, in panels for each block
    float *dk, *dv;                             // [keys in blocks + TILE_ROWS, padded]
    float *q_transposed, *dy_transposed;        // of a piece, in tiles of TILE_ROWS; q is scaled
    float *q, *dy;                              // of a piece, in panels
    float *p;                                   // [blocks][PIECE, KEYS]: scores, then probabilities
    float *ds;                                  // [PIECE, KEYS]
    float *dq;                                  // [PIECE, padded]
    float *delta;                               // [PIECE]
};

// Lays out a task's scratch in `memory` unless that is NULL; returns its size in floats.
static size_t lay_out(struct head_buffers *buffers, const struct call *c, int64_t keys,
                      float *memory)
{
    const int64_t blocks = (keys + BLOCK - 1) / BLOCK * BLOCK;
    const struct side k = key_side(c), v = value_side(c);
    struct {
        float **part;
        int64_t size;
    } parts[] = {
        { &buffers->keys_transposed, blocks * k.width },
        { &buffers->values_transposed, blocks * v.width },
        { &buffers->keys, blocks * k.padded },
        { &buffers->dk, (blocks + TILE_ROWS) * k.padded },
        { &buffers->dv, (blocks + TILE_ROWS) * v.padded },
        { &buffers->q_transposed, PIECE * k.width },
        { &buffers->dy_transposed, PIECE * v.width },
        { &buffers->q, PIECE * k.padded },
        { &buffers->dy, PIECE * v.padded },
        { &buffers->p, blocks / BLOCK * PIECE * KEYS },
        { &buffers->ds, PIECE * KEYS },
        { &buffers->dq, PIECE * k.padded },
        { &buffers->delta, PIECE },
    };
    size_t size = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (memory) *parts[i].part = memory + size;
        size += (size_t)(parts[i].size + 15) / 16 * 16;
    }
    return size;
}

// Transposes rows 0..n of x, which are `step` elements apart; pads them with 0 to whole blocks.
static void transpose_rows(float *to, const float *x, int64_t step, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < (n + BLOCK - 1) / BLOCK * BLOCK; i += TILE_COLS)
        panel_pack_as(to + i * width, (const char *)(x + (i < n ? i * step : 0)),
                      (size_t)step * sizeof *x, i < n ? n - i : 0, 0, width, DTYPE_F32);
}

// Writes scale times x[width] to row i of panels of `rows` rows.
static void put_in_panels(float *panels, int64_t rows, int64_t i, const float *x, float scale,
                          int64_t width)
{
    for (int64_t e = 0; e < width; e += VEC) {
        const int64_t some = width - e < VEC ? width - e : VEC;
        vf_store_part_n(panels + (e / TILE_COLS * rows + i) * TILE_COLS + e % TILE_COLS,
                        vf_load_part_n(x + e, some) * vf_set(scale), some);
    }
}

// Packs the run's keys and values in the layouts that the products read, padded with 0; sets dk and
// dv to 0.
static void head_pack(const struct call *c, const struct run *run, int64_t head,
                      const struct head_buffers *buffers)
{
    const int64_t step = key_step(c), blocks = (run->keys + BLOCK - 1) / BLOCK * BLOCK;
    const struct side key = key_side(c), value = value_side(c);
    const float *k = (const float *)c->k + run->first * step + head * key.width;
    const float *v = (const float *)c->v + run->first * value_step(c) + head * value.width;
    transpose_rows(buffers->keys_transposed, k, step, run->keys, key.width);
    transpose_rows(buffers->values_transposed, v, value_step(c), run->keys, value.width);
    memset(buffers->keys, 0, (size_t)(blocks * key.padded) * sizeof(float));
    for (int64_t j = 0; j < run->keys; j++)
        put_in_panels(buffers->keys + j / BLOCK * BLOCK * key.padded, BLOCK, j % BLOCK,
                      k + j * step, 1, key.width);
    memset(buffers->dk, 0, (size_t)((blocks + TILE_ROWS) * key.padded) * sizeof(float));
    memset(buffers->dv, 0, (size_t)((blocks + TILE_ROWS) * value.padded) * sizeof(float));
}

// Writes scale times x[width] to row i of tiles of transposed rows.
static void put_transposed(float *to, int64_t i, const float *x, float scale, int64_t width)
{
    to += i / TILE_ROWS * TILE_ROWS * width + i % TILE_ROWS;
    for (int64_t e = 0; e < width; e++) to[e * TILE_ROWS] = x[e] * scale;
}

// Packs queries and dy of rows r.. of the task in both layouts; computes delta.
static void piece_pack(const struct call *c, const struct gradients *g, const struct task *t,
                       int64_t r, const struct head_buffers *buffers)
{
    int64_t rows = t->rows - r < PIECE ? t->rows - r : PIECE;
    const struct side key = key_side(c), value = value_side(c);
    if (rows < PIECE || key.padded > key.width || value.padded > value.width) {
        memset(buffers->q_transposed, 0, (size_t)(PIECE * key.width) * sizeof(float));
        memset(buffers->dy_transposed, 0, (size_t)(PIECE * value.width) * sizeof(float));
        memset(buffers->q, 0, (size_t)(PIECE * key.padded) * sizeof(float));
        memset(buffers->dy, 0, (size_t)(PIECE * value.padded) * sizeof(float));
    }
    memset(buffers->dq, 0, (size_t)(PIECE * key.padded) * sizeof(float));
    for (int64_t i = 0; i < rows; i++) {
        const float *q = query_at(c, t, r + i);
        const float *dy = g->dy + row_at(c, t, r + i) * value.width;
        buffers->delta[i] = dot(dy, c->y + row_at(c, t, r + i) * value.width, value.width);
        put_transposed(buffers->q_transposed, i, q, c->scale, key.width);
        put_transposed(buffers->dy_transposed, i, dy, 1, value.width);
        put_in_panels(buffers->q, PIECE, i, q, c->scale, key.width);
        put_in_panels(buffers->dy, PIECE, i, dy, 1, value.width);
    }
}

// The keys that each row of a tile sees in the block from j on, and their union.
struct view {
    int64_t from[TILE_ROWS], to[TILE_ROWS]; // from >= to: the row sees no key
    int64_t low, high;                      // low is rounded down to whole panels
};

// Sets *view for the tile of rows r..; returns false if the tile sees no key of the block.
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

// scores[TILE_ROWS, KEYS] = a tile of transposed rows times the part that it sees of a block of
// transposed keys or values; each row, key or value is `width` elements wide.
static void tile_scores(float *scores, const float *rows, const float *keys, int64_t width,
                        const struct view *view)
{
    for (int64_t i = view->low; i < view->high; i += TILE_COLS)
        put_tile(scores + i, KEYS, NULL, rows, 1, TILE_ROWS, keys + i * width, width, TILE_ROWS);
}

// Computes the probabilities of the tile of rows r + tile.. over all blocks into buffers->p; unseen
// keys get 0.
static void tile_probs(const struct call *c, const struct task *t, const struct run *run, int64_t r,
                       int64_t tile, const struct head_buffers *buffers)
{
    struct view view;
    float high[TILE_ROWS];
    vf sum[TILE_ROWS];
    int64_t block = PIECE * KEYS;
    float *p = buffers->p + tile * KEYS;
    for (int i = 0; i < TILE_ROWS; i++) {
        high[i] = -INFINITY;
        sum[i] = vf_set(0);
    }
    for (int64_t j = 0; j < run->keys; j += BLOCK) {
        float *scores = p + j / BLOCK * block;
        if (!tile_view(c, t, r + tile, run->first + j, &view)) continue;
        tile_scores(scores, buffers->q_transposed + tile * c->width,
                    buffers->keys_transposed + j * c->width, c->width, &view);
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

// Computes ds of a tile of rows into buffers->ds from its probabilities and dp = dy v^T.
static void tile_slopes(const struct call *c, const struct head_buffers *buffers, int64_t tile,
                        int64_t j, const struct view *view)
{
    const float *p = buffers->p + j / BLOCK * PIECE * KEYS + tile * KEYS;
    float *ds = buffers->ds + tile * KEYS;
    tile_scores(ds, buffers->dy_transposed + tile * c->value_width,
                buffers->values_transposed + j * c->value_width, c->value_width, view);
    for (int64_t i = 0; i < TILE_ROWS; i++, p += KEYS, ds += KEYS) {
        vf delta = vf_set(buffers->delta[tile + i]);
        int64_t from = view->from[i] / VEC * VEC, to = (view->to[i] + VEC - 1) / VEC * VEC;
        memset(ds, 0, (size_t)from * sizeof *ds);
        for (int64_t k = from; k < to; k += VEC)
            vf_store(ds + k, vf_load(p + k) * (vf_load(ds + k) - delta));
        memset(ds + to, 0, (size_t)(KEYS - to) * sizeof *ds);
    }
}

// Processes block j for rows r.. of a piece: adds to the piece's dq and the block's dk and dv.
static void piece_backward(const struct call *c, const struct task *t, const struct run *run,
                           int64_t r, int64_t j, const struct head_buffers *buffers)
{
    static const float keep[TILE_ROWS] = { [0 ... TILE_ROWS - 1] = 1 };
    const float *p = buffers->p + j / BLOCK * PIECE * KEYS;
    const int64_t wide = key_side(c).padded;
    int64_t low[PIECE / TILE_ROWS], high[PIECE / TILE_ROWS]; // keys that each tile sees
    for (int64_t i = 0; i < PIECE; i += TILE_ROWS) {
        struct view view;
        low[i / TILE_ROWS] = high[i / TILE_ROWS] = 0;
        if (!tile_view(c, t, r + i, run->first + j, &view)) {
            memset(buffers->ds + i * KEYS, 0, TILE_ROWS * KEYS * sizeof(float));
            continue;
        }
        low[i / TILE_ROWS] = view.low;
        high[i / TILE_ROWS] = view.high;
        tile_slopes(c, buffers, i, j, &view);
        for (int64_t e = 0; e < wide; e += TILE_COLS)
            put_tile(buffers->dq + i * wide + e, wide, keep, buffers->ds + i * KEYS + view.low,
                     KEYS, 1, buffers->keys + j * wide + e * BLOCK + view.low * TILE_COLS,
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
        for (int64_t e = 0; e < c->padded; e += TILE_COLS)
            put_tile(buffers->dv + (j + k) * c->padded + e, c->padded, keep, p + from * KEYS + k, 1,
                     KEYS, buffers->dy + e * PIECE + from * TILE_COLS, to - from, TILE_ROWS);
        for (int64_t e = 0; e < wide; e += TILE_COLS)
            put_tile(buffers->dk + (j + k) * wide + e, wide, keep, buffers->ds + from * KEYS + k, 1,
                     KEYS, buffers->q + e * PIECE + from * TILE_COLS, to - from, TILE_ROWS);
    }
}

static void head_backward(const struct call *c, const struct gradients *g, const struct run *run,
                          int64_t head, float *scratch)
{
    const struct side key = key_side(c), value = value_side(c);
    struct head_buffers buffers = { 0 };
    struct task t = { .head = head, .from = run->from, .rows = (run->to - run->from) * c->group };
    lay_out(&buffers, c, run->keys, scratch);
    head_pack(c, run, head, &buffers);
    for (int64_t r = 0; r < t.rows; r += PIECE) {
        piece_pack(c, g, &t, r, &buffers);
        for (int64_t i = 0; i < PIECE; i += TILE_ROWS) tile_probs(c, &t, run, r, i, &buffers);
        for (int64_t j = 0; j < run->keys; j += BLOCK) piece_backward(c, &t, run, r, j, &buffers);
        for (int64_t i = 0; g->dq && i < PIECE && r + i < t.rows; i++) {
            float *dq = g->dq + row_at(c, &t, r + i) * key.width;
            for (int64_t e = 0; e < key.width; e++)
                dq[e] += buffers.dq[i * key.padded + e] * c->scale;
        }
    }
    for (int64_t j = 0; j < run->keys; j++) {
        const int64_t at = (run->first + j) * c->kv_heads + head;
        if (g->dk) vec_add(g->dk + at * key.width, buffers.dk + j * key.padded, key.width);
        if (g->dv) vec_add(g->dv + at * value.width, buffers.dv + j * value.padded, value.width);
    }
}

// Splits the call into runs that share no keys with each other; returns their number.
// lowest[tokens] is scratch.
static int64_t find_runs(const struct call *c, struct run *runs, int64_t *lowest)
{
    struct task all = { 0 };
    int64_t count = 0, low = c->keys;
    for (int64_t i = c->tokens; i-- > 0;) {
        int64_t first = row_first(c, &all, i * c->group), last = row_last(c, &all, i * c->group);
        if (first < last && first < low) low = first;
        lowest[i] = low; // lowest key that token i or a later token sees
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
    struct head_buffers buffers = { 0 };
    size_t size = lay_out(&buffers, c, longest, NULL);
    int64_t threads = omp_get_max_threads() < tasks ? omp_get_max_threads() : tasks;
    float *scratch = cpu_scratch(size * (size_t)threads * sizeof(float));
    if (!scratch) return -1;
#pragma omp parallel for schedule(dynamic) \
    num_threads(threads) if (vec_worth_threads(call_steps(c, longest)))
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
