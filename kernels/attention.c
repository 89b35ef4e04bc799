// kernels/attention.c -- softmax(q k^T * scale) v with grouped queries, one pass over the keys.
//
// A running maximum and sum per query row (Milakov and Gimelshein 2018) let the keys be taken block
// by block, so that no matrix of queries by keys exists:
//   high' = max(high, scores of the block),  fade = e^(high - high')
//   sum' = sum fade + sum of e^(score - high'),  out' = out fade + those times v;  y = out / sum
//
// A task is one key/value head with some query rows: all heads of its group read the same keys.
// Few tokens take dot products with the keys as they lie (kernels/attention_few.c); many take
// products of tiles (kernels/tile.h) with a block of keys turned once for all of them. The number
// of heads does not decide: a token's bits must be those of the token alone (backend->few_rows).
//
// Keys and values are f32, or bf16 as a cache may hold them; they become f32 when they are loaded.
//
// Probabilities, when asked for, are written in a pass of their own from the final maximum and sum:
// no bit of y changes.
#include <math.h>
#include <stdlib.h>

#include "kernels/attention_few.h"

// Rows of a task aimed at: they share the work of turning the keys; fewer where threads would wait.
enum { TASK_ROWS = 768, TASK_ROWS_LEAST = 192 };

// What a task of many rows needs beside its results.
struct room {
    float *q;      // [tile][d][rows of the tile], scaled
    float *keys;   // a block: [BLOCK / TILE_COLS][d][TILE_COLS]
    float *values; // a block: [padded / TILE_COLS][BLOCK][TILE_COLS]
    float *scores; // [TILE_ROWS][BLOCK]
    bool finite;   // the values of the block
};

// Queries r.. of the task, one tile, scaled; missing rows are 0.
static void pack_tile(const struct call *c, const struct task *t, int64_t r, float *to)
{
    for (int64_t k = 0; k < c->width; k += VEC)
        for (int64_t from = 0; from < TILE_ROWS; from += VEC) {
            const int64_t count = c->width - k < VEC ? c->width - k : VEC;
            const int64_t some = TILE_ROWS - from < VEC ? TILE_ROWS - from : VEC;
            vf v[VEC];
            for (int64_t i = 0; i < VEC; i++) {
                const int64_t row = r + from + i;
                v[i] = (vf){ 0 };
                if (i < some && row < t->rows)
                    v[i] = vf_load_part_n(c->q + row_at(c, t, row) + k, count) * vf_set(c->scale);
            }
            vec_turn(v);
            for (int64_t i = 0; i < count; i++)
                vf_store_part_n(to + (k + i) * TILE_ROWS + from, v[i], some);
        }
}

// Keys and values j.. of the task's head; places past the end are 0.
VEC_INLINE void pack_block(const struct call *c, const struct task *t, struct room *room, int64_t j,
                           const enum dtype dtype)
{
    vf strange = { 0 };
    int64_t step = key_step(c), n = c->keys - j < BLOCK ? c->keys - j : BLOCK;
    const void *k = numbers_at(c->k, j * step + t->head * c->width, dtype);
    const void *v = numbers_at(c->v, j * step + t->head * c->width, dtype);
    for (int64_t i = 0; i < BLOCK; i += TILE_COLS)
        panel_pack_as(room->keys + i * c->width, numbers_at(k, i * step, dtype),
                      (size_t)step * dtype_size(dtype), i < n ? n - i : 0, 0, c->width, dtype);
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < c->width; e += VEC) {
            int64_t some = c->width - e < VEC ? c->width - e : VEC;
            float *to = room->values + (e / TILE_COLS * BLOCK + i) * TILE_COLS + e % TILE_COLS;
            vf x = vf_load_part_n_as(v, i * step + e, some, dtype);
            vf_store(to, x);
            strange += x * vf_set(0); // NaN of an infinity or NaN
        }
    room->finite = vf_sum(strange) == 0;
    for (int64_t e = 0; e < c->padded; e += TILE_COLS)
        memset(room->values + (e * BLOCK + n * TILE_COLS), 0,
               (size_t)((BLOCK - n) * TILE_COLS) * sizeof(float));
}

// Values that a row does not see have weight 0, and 0 times an infinity is NaN: where one is among
// them, each row takes what it sees alone.
static void add_seen(const struct call *c, const struct task *t, const struct room *room, int64_t r,
                     const int64_t *from, const int64_t *to, const float *fade)
{
    for (int64_t i = 0; i < TILE_ROWS; i++)
        for (int64_t e = 0; e < c->padded && from[i] < to[i]; e += TILE_COLS)
            put_tile(t->out + (r + i) * c->padded + e, c->padded, &fade[i],
                     room->scores + i * BLOCK + from[i], BLOCK, 1,
                     room->values + e * BLOCK + from[i] * TILE_COLS, to[i] - from[i], 1);
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
    const int64_t size = (highest - lowest + VEC - 1) / VEC * VEC;
    const float *q = room->q + r * c->width;
    for (int64_t i = lowest; i < highest; i += TILE_COLS)
        put_tile(room->scores + i, BLOCK, NULL, q, 1, TILE_ROWS, room->keys + i * c->width,
                 c->width, TILE_ROWS);
    for (int64_t i = 0; i < TILE_ROWS; i++) {
        float *scores = room->scores + i * BLOCK + lowest;
        if (from[i] < to[i])
            fade[i] = soften(scores, size, from[i] - lowest, to[i] - lowest, &t->high[r + i],
                             &t->sum[r + i]);
        else
            memset(scores, 0, (size_t)size * sizeof *scores);
    }
    if (!room->finite) {
        add_seen(c, t, room, r, from, to, fade);
        return;
    }
    for (int64_t e = 0; e < c->width; e += TILE_COLS) {
        float *out = t->out + r * c->padded + e;
        const float *weights = room->scores + lowest;
        const float *values = room->values + e * BLOCK + lowest * TILE_COLS;
        if (c->width - e > VEC)
            put_tile(out, c->padded, fade, weights, BLOCK, 1, values, highest - lowest, TILE_ROWS);
        else
            put_half_tile(out, c->padded, fade, weights, BLOCK, values, highest - lowest);
    }
}

static void attend_many(const struct call *c, const struct task *t, float *scratch)
{
    struct room room = { .q = scratch };
    room.keys = room.q + c->task_rows * c->width;
    room.values = room.keys + BLOCK * c->width;
    room.scores = room.values + BLOCK * c->padded;
    memset(room.values, 0, (size_t)(BLOCK * c->padded) * sizeof(float));
    for (int64_t r = 0; r < t->rows; r += TILE_ROWS) pack_tile(c, t, r, room.q + r * c->width);
    int64_t first = c->keys, last = 0;
    for (int64_t r = 0; r < t->rows; r++) {
        first = row_first(c, t, r) < first ? row_first(c, t, r) : first;
        last = row_last(c, t, r) > last ? row_last(c, t, r) : last;
    }
    for (int64_t j = first / BLOCK * BLOCK; j < last; j += BLOCK) {
        VEC_AS(c->dtype, pack_block, c, t, &room, j);
        for (int64_t r = 0; r < t->rows; r += TILE_ROWS) attend_tile(c, t, &room, r, j);
    }
}

// --- the call -----------------------------------------------------------------------------------

static int64_t count_tasks(const struct call *c)
{
    return (c->tokens + c->task_tokens - 1) / c->task_tokens * c->kv_heads;
}

// Sets the size of tasks, so that each thread gets some.
static void divide(struct call *c)
{
    for (int64_t rows = TASK_ROWS;; rows /= 2) {
        c->task_tokens = c->group < rows ? rows / c->group : 1;
        if (c->task_tokens > c->tokens) c->task_tokens = c->tokens;
        if (rows <= TASK_ROWS_LEAST || count_tasks(c) >= 8 * omp_get_max_threads()) break;
    }
    c->task_rows = (c->task_tokens * c->group + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
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
    attend_many(c, &t, scratch);
    for (int64_t r = 0; r < t.rows; r++) task_row_done(c, &t, r);
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
                      float scale, struct tensor *probs, enum matmul_mode mode)
{
    if (!tensor_count(q)) return 0;
    struct call c = call_of(y, q, k, v, first, last, scale);
    c.probs = probs ? probs->data : NULL;
    if (c.tokens <= ATTENTION_FEW) return KERNEL(attention_few)(&c);
    divide(&c);
    int64_t tasks = count_tasks(&c);
    size_t size = task_scratch(&c);
    float *scratch = cpu_scratch(size * (size_t)omp_get_max_threads() * sizeof(float));
    if (!scratch) return -1;
#pragma omp parallel for schedule( \
    dynamic) if (tasks > 1 && vec_worth_threads(c.tokens * c.heads * c.keys * c.width))
    for (int64_t i = 0; i < tasks; i++)
        run_task(&c, i, scratch + size * (size_t)omp_get_thread_num());
    return 0;
}
