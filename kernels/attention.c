// kernels/attention.c -- softmax(q k^T * scale) v with grouped queries, one pass over the keys.
//
// A running maximum and sum per query row (Milakov and Gimelshein 2018) let the keys be taken block
// by block, so that no matrix of queries by keys exists:
//   high' = max(high, scores of the block),  fade = e^(high - high')
//   sum' = sum fade + sum of e^(score - high'),  out' = out fade + those times v;  y = out / sum
//
// A task is one key/value head with some query rows: all heads of its group read the same keys.
// Few rows (one token) take dot products with the keys as they lie; many rows take products of
// tiles (kernels/tile.h) with a block of keys turned once for all of them.
//
// Probabilities, when asked for, are written in a pass of their own from the final maximum and sum:
// no bit of y changes.
#include <math.h>
#include <stdlib.h>

#include "kernels/tile.h"

enum {
    BLOCK = 128,    // keys at a time; a multiple of TILE_COLS
    FEW_ROWS = 8,   // rows of a task up to which dot products are taken
    TASK_ROWS = 192 // rows of a task aimed at: they share the work of turning the keys
};

// The call, and one of its tasks: heads of one group, tokens from..to.
struct call {
    float *y;
    const float *q, *k, *v;
    const int32_t *first, *last; // [tokens] or NULL
    float scale;
    float *probs;                          // [heads, tokens, keys] or NULL
    int64_t tokens, heads, keys, kv_heads; // N, H, P, Hkv
    int64_t width, padded;                 // d, and d rounded up to whole tiles
    int64_t group;                         // H / Hkv: heads that share keys
    int64_t task_tokens, task_rows;        // tokens of a task; its rows, rounded up to whole tiles
};

// Row r of a task is head r % group of token from + r / group.
struct task {
    int64_t head, from, rows; // kv head, first token, rows
    float *high, *sum;        // [rows]
    float *out;               // [rows, padded]
};

static int64_t row_first(const struct call *c, const struct task *t, int64_t r)
{
    int64_t first = c->first ? c->first[t->from + r / c->group] : 0;
    return first > 0 ? first : 0;
}

static int64_t row_last(const struct call *c, const struct task *t, int64_t r)
{
    int64_t last = c->last ? c->last[t->from + r / c->group] : c->keys;
    return last < c->keys ? last : c->keys;
}

// Offset of row r in q and y.
static int64_t row_at(const struct call *c, const struct task *t, int64_t r)
{
    return ((t->from + r / c->group) * c->heads + t->head * c->group + r % c->group) * c->width;
}

// Numbers from one key to the next, and where the task's first key or value lies.
static int64_t key_step(const struct call *c)
{
    return c->kv_heads * c->width;
}

static float dot(const float *a, const float *b, int64_t n)
{
    vf s0 = { 0 }, s1 = { 0 };
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        s0 += vf_load(a + i) * vf_load(b + i);
        s1 += vf_load(a + i + VEC) * vf_load(b + i + VEC);
    }
    for (; i < n; i += VEC) {
        int64_t some = n - i < VEC ? n - i : VEC;
        s0 += vf_load_part(a + i, some) * vf_load_part(b + i, some);
    }
    return vf_sum(s0 + s1);
}

// scores[BLOCK] -> e^(score - high'), outside 0; updates maximum and sum. Returns the fade. Places
// from..to of the block are seen.
static float soften(float *scores, int64_t from, int64_t to, float *high, float *sum)
{
    for (int64_t i = 0; i < from; i++) scores[i] = -INFINITY;
    for (int64_t i = to; i < BLOCK; i++) scores[i] = -INFINITY;
    vf top = vf_load(scores);
    for (int64_t i = VEC; i < BLOCK; i += VEC) top = vf_max(vf_load(scores + i), top);
    float highest = vf_highest(top);
    if (highest < *high) highest = *high;
    vf total = { 0 };
    for (int64_t i = 0; i < BLOCK; i += VEC) {
        vf e = vf_exp(vf_load(scores + i) - vf_set(highest));
        vf_store(scores + i, e);
        total += e;
    }
    float fade = *high == highest ? 1 : vf_exp(vf_set(*high - highest))[0];
    *high = highest;
    *sum = *sum * fade + vf_sum(total);
    return fade;
}

// --- few rows -----------------------------------------------------------------------------------

// out = out * fade + weight[0..n) times the rows of v.
static void add_values(float *out, const float *v, int64_t step, int64_t width, const float *weight,
                       int64_t n, float fade)
{
    for (int64_t c = 0; c < width; c += 4 * VEC) {
        int64_t some = width - c;
        if (some >= 4 * VEC) {
            vf s[4] = { { 0 } };
            for (int64_t i = 0; i < n; i++)
                for (int j = 0; j < 4; j++)
                    s[j] += vf_set(weight[i]) * vf_load(v + i * step + c + j * VEC);
            for (int j = 0; j < 4; j++)
                vf_store(out + c + j * VEC, vf_load(out + c + j * VEC) * vf_set(fade) + s[j]);
            continue;
        }
        for (int64_t j = 0; j < some; j += VEC) {
            int64_t part = some - j < VEC ? some - j : VEC;
            vf s = { 0 };
            for (int64_t i = 0; i < n; i++)
                s += vf_set(weight[i]) * vf_load_part(v + i * step + c + j, part);
            vf_store(out + c + j, vf_load(out + c + j) * vf_set(fade) + s);
        }
    }
}

static void attend_few(const struct call *c, const struct task *t, float *scores)
{
    int64_t step = key_step(c);
    const float *k = c->k + t->head * c->width, *v = c->v + t->head * c->width;
    for (int64_t j = 0; j < c->keys; j += BLOCK)
        for (int64_t r = 0; r < t->rows; r++) {
            int64_t from = row_first(c, t, r) - j, to = row_last(c, t, r) - j;
            from = from > 0 ? from : 0;
            to = to < BLOCK ? to : BLOCK;
            if (from >= to) continue;
            const float *q = c->q + row_at(c, t, r);
            for (int64_t i = from; i < to; i++)
                scores[i] = dot(q, k + (j + i) * step, c->width) * c->scale;
            float fade = soften(scores, from, to, &t->high[r], &t->sum[r]);
            add_values(t->out + r * c->padded, v + (j + from) * step, step, c->width, scores + from,
                       to - from, fade);
        }
}

// --- many rows ----------------------------------------------------------------------------------

// What a task of many rows needs beside its results.
struct room {
    float *q;      // [tile][d][rows of the tile], scaled
    float *keys;   // a block: [BLOCK / TILE_COLS][d][TILE_COLS]
    float *values; // a block: [padded / TILE_COLS][BLOCK][TILE_COLS]
    float *scores; // [TILE_ROWS][BLOCK]
};

// c[rows, .. + TILE_COLS] = a b, rows <= TILE_ROWS.
VEC_INLINE void put_tile(float *c, int64_t ld, const float *fade, const float *a, int64_t row_step,
                         int64_t step, const float *b, int64_t inner, const int rows)
{
    vf s[TILE_ROWS][2];
    tile_sum(s, a, row_step, step, b, inner, rows);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++, c += ld) {
        if (fade) {
            s[r][0] += vf_load(c) * vf_set(fade[r]);
            s[r][1] += vf_load(c + VEC) * vf_set(fade[r]);
        }
        vf_store(c, s[r][0]);
        vf_store(c + VEC, s[r][1]);
    }
}

static void pack_queries(const struct call *c, const struct task *t, float *to)
{
    for (int64_t r = 0; r < t->rows; r++) {
        const float *q = c->q + row_at(c, t, r);
        float *column = to + r / TILE_ROWS * TILE_ROWS * c->width + r % TILE_ROWS;
        for (int64_t i = 0; i < c->width; i++) column[i * TILE_ROWS] = q[i] * c->scale;
    }
}

// Keys and values j.. of the task's head; places past the end are 0.
static void pack_block(const struct call *c, const struct task *t, const struct room *room,
                       int64_t j)
{
    int64_t step = key_step(c), n = c->keys - j < BLOCK ? c->keys - j : BLOCK;
    const float *k = c->k + j * step + t->head * c->width;
    const float *v = c->v + j * step + t->head * c->width;
    for (int64_t i = 0; i < BLOCK; i += TILE_COLS)
        panel_pack_as(room->keys + i * c->width, (const char *)(k + i * step),
                      (size_t)step * sizeof *k, i < n ? n - i : 0, 0, c->width, DTYPE_F32);
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < c->width; e += VEC) {
            int64_t some = c->width - e < VEC ? c->width - e : VEC;
            float *to = room->values + (e / TILE_COLS * BLOCK + i) * TILE_COLS + e % TILE_COLS;
            vf_store(to, vf_load_part(v + i * step + e, some));
        }
    for (int64_t e = 0; e < c->padded; e += TILE_COLS)
        memset(room->values + (e * BLOCK + n * TILE_COLS), 0,
               (size_t)((BLOCK - n) * TILE_COLS) * sizeof(float));
}

// Rows r.. of the task, one tile, against the packed block of keys from j.
static void attend_tile(const struct call *c, const struct task *t, const struct room *room,
                        int64_t r, int64_t j)
{
    int64_t rows = t->rows - r < TILE_ROWS ? t->rows - r : TILE_ROWS, lowest = BLOCK, highest = 0;
    int64_t from[TILE_ROWS], to[TILE_ROWS];
    float fade[TILE_ROWS];
    for (int64_t i = 0; i < TILE_ROWS; i++) {
        from[i] = to[i] = 0;
        fade[i] = 1;
        if (i >= rows) continue;
        int64_t a = row_first(c, t, r + i) - j, b = row_last(c, t, r + i) - j;
        from[i] = a > 0 ? a : 0;
        to[i] = b < BLOCK ? b : BLOCK;
        if (from[i] >= to[i]) continue;
        lowest = from[i] < lowest ? from[i] : lowest;
        highest = to[i] > highest ? to[i] : highest;
    }
    if (lowest >= highest) return;
    lowest = lowest / TILE_COLS * TILE_COLS;
    const float *q = room->q + r * c->width;
    for (int64_t i = lowest; i < highest; i += TILE_COLS)
        put_tile(room->scores + i, BLOCK, NULL, q, 1, TILE_ROWS, room->keys + i * c->width,
                 c->width, TILE_ROWS);
    for (int64_t i = 0; i < TILE_ROWS; i++) {
        float *scores = room->scores + i * BLOCK;
        if (from[i] < to[i])
            fade[i] = soften(scores, from[i], to[i], &t->high[r + i], &t->sum[r + i]);
        else
            memset(scores, 0, BLOCK * sizeof *scores);
    }
    for (int64_t e = 0; e < c->padded; e += TILE_COLS)
        put_tile(t->out + r * c->padded + e, c->padded, fade, room->scores + lowest, BLOCK, 1,
                 room->values + e * BLOCK + lowest * TILE_COLS, highest - lowest, TILE_ROWS);
}

static void attend_many(const struct call *c, const struct task *t, float *scratch)
{
    struct room room = { .q = scratch };
    room.keys = room.q + c->task_rows * c->width;
    room.values = room.keys + BLOCK * c->width;
    room.scores = room.values + BLOCK * c->padded;
    memset(room.q, 0, (size_t)(c->task_rows * c->width) * sizeof(float));
    memset(room.values, 0, (size_t)(BLOCK * c->padded) * sizeof(float));
    pack_queries(c, t, room.q);
    int64_t first = c->keys, last = 0;
    for (int64_t r = 0; r < t->rows; r++) {
        first = row_first(c, t, r) < first ? row_first(c, t, r) : first;
        last = row_last(c, t, r) > last ? row_last(c, t, r) : last;
    }
    for (int64_t j = first / BLOCK * BLOCK; j < last; j += BLOCK) {
        pack_block(c, t, &room, j);
        for (int64_t r = 0; r < t->rows; r += TILE_ROWS) attend_tile(c, t, &room, r, j);
    }
}

// --- the call -----------------------------------------------------------------------------------

static void write_row(const struct call *c, const struct task *t, int64_t r)
{
    float *y = c->y + row_at(c, t, r), share = t->sum[r] > 0 ? 1 / t->sum[r] : 0;
    if (t->sum[r] != t->sum[r]) share = t->sum[r]; // NaN stays visible
    for (int64_t i = 0; i < c->width; i++) y[i] = t->out[r * c->padded + i] * share;
}

static void write_probs(const struct call *c, const struct task *t, int64_t r)
{
    int64_t head = t->head * c->group + r % c->group, token = t->from + r / c->group;
    float *to = c->probs + (head * c->tokens + token) * c->keys;
    const float *q = c->q + row_at(c, t, r), *k = c->k + t->head * c->width;
    int64_t first = row_first(c, t, r), last = row_last(c, t, r), step = key_step(c);
    memset(to, 0, (size_t)c->keys * sizeof *to);
    for (int64_t j = first; j < last; j++) to[j] = dot(q, k + j * step, c->width) * c->scale;
    for (int64_t j = first; j < last; j += VEC) {
        int64_t some = last - j < VEC ? last - j : VEC;
        vf e = vf_exp(vf_load_part(to + j, some) - vf_set(t->high[r]));
        vf_store_part(to + j, e / vf_set(t->sum[r]), some);
    }
}

static void run_task(const struct call *c, int64_t number, float *scratch)
{
    struct task t = { .head = number % c->kv_heads, .from = number / c->kv_heads * c->task_tokens };
    int64_t tokens = c->tokens - t.from < c->task_tokens ? c->tokens - t.from : c->task_tokens;
    t.rows = tokens * c->group;
    t.high = scratch;
    t.sum = t.high + c->task_rows;
    t.out = t.sum + c->task_rows;
    scratch = t.out + c->task_rows * c->padded;
    for (int64_t r = 0; r < c->task_rows; r++) {
        t.high[r] = -INFINITY;
        t.sum[r] = 0;
    }
    memset(t.out, 0, (size_t)(c->task_rows * c->padded) * sizeof(float));
    if (t.rows <= FEW_ROWS)
        attend_few(c, &t, scratch);
    else
        attend_many(c, &t, scratch);
    for (int64_t r = 0; r < t.rows; r++) {
        write_row(c, &t, r);
        if (c->probs) write_probs(c, &t, r);
    }
}

// Floats of scratch a task needs: see run_task and attend_many.
static size_t task_scratch(const struct call *c)
{
    int64_t results = c->task_rows * (2 + c->padded);
    int64_t room = (c->task_rows + BLOCK) * c->width + BLOCK * c->padded + TILE_ROWS * BLOCK;
    return (size_t)((results + room + 15) / 16 * 16);
}

int KERNEL(attention)(struct tensor *y, const struct tensor *q, const struct tensor *k,
                      const struct tensor *v, const struct tensor *first, const struct tensor *last,
                      float scale, struct tensor *probs)
{
    struct call c = { .y = y->data,
                      .q = q->data,
                      .k = k->data,
                      .v = v->data,
                      .first = first ? first->data : NULL,
                      .last = last ? last->data : NULL,
                      .scale = scale,
                      .probs = probs ? probs->data : NULL,
                      .tokens = q->shape[0],
                      .heads = q->shape[1],
                      .keys = k->shape[0],
                      .kv_heads = k->shape[1],
                      .width = q->shape[2] };
    if (!tensor_count(q)) return 0;
    c.padded = (c.width + TILE_COLS - 1) / TILE_COLS * TILE_COLS;
    c.group = c.heads / c.kv_heads;
    c.task_tokens = c.group < TASK_ROWS ? TASK_ROWS / c.group : 1;
    if (c.task_tokens > c.tokens) c.task_tokens = c.tokens;
    c.task_rows = (c.task_tokens * c.group + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    int64_t tasks = (c.tokens + c.task_tokens - 1) / c.task_tokens * c.kv_heads;
    size_t size = task_scratch(&c);
    float *scratch = cpu_scratch(size * (size_t)omp_get_max_threads() * sizeof(float));
    if (!scratch) return -1;
#pragma omp parallel for schedule( \
    dynamic) if (tasks > 1 && vec_worth_threads(c.tokens * c.heads * c.keys * c.width))
    for (int64_t i = 0; i < tasks; i++)
        run_task(&c, i, scratch + size * (size_t)omp_get_thread_num());
    return 0;
}

// --- backward ------------------------------------------------------------------------------------
// Probabilities are computed again from q and k, a piece of rows at a time (Dao et al. 2022). With
// s = q k scale, p = softmax(s), delta = dy . y:
//   dp = dy v^T,  ds = p (dp - delta),  dv += p^T dy,  dk += ds^T q scale,  dq += ds k scale
//
// A task is one key/value head of one run: rows that share keys with no others (a sample of several
// in one pass), so that dk and dv are added up by one thread and blocks begin where a run does.

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
    const float *k = c->k + run->first * step + head * c->width;
    const float *v = c->v + run->first * step + head * c->width;
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
                               const struct tensor *last, float scale)
{
    struct gradients g = { .dq = dq ? dq->data : NULL,
                           .dk = dk ? dk->data : NULL,
                           .dv = dv ? dv->data : NULL,
                           .dy = dy->data };
    struct call c = { .y = y->data,
                      .q = q->data,
                      .k = k->data,
                      .v = v->data,
                      .first = first ? first->data : NULL,
                      .last = last ? last->data : NULL,
                      .scale = scale,
                      .tokens = q->shape[0],
                      .heads = q->shape[1],
                      .keys = k->shape[0],
                      .kv_heads = k->shape[1],
                      .width = q->shape[2] };
    if (!tensor_count(q) || !c.keys) return 0;
    c.padded = (c.width + TILE_COLS - 1) / TILE_COLS * TILE_COLS;
    c.group = c.heads / c.kv_heads;
    struct run *runs = malloc((size_t)c.tokens * sizeof *runs);
    int64_t *lowest = malloc((size_t)c.tokens * sizeof *lowest);
    int status = runs && lowest ? runs_backward(&c, &g, runs, find_runs(&c, runs, lowest))
                                : cpu_fail("out of memory: a kernel needs %.1f MB of scratch",
                                           (double)c.tokens * (sizeof *runs + 8) / 1e6);
    free(runs);
    free(lowest);
    return status;
}
