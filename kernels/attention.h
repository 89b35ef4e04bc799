// kernels/attention.h -- calls and tasks, shared by attention and its backward kernel.
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include <math.h>

#include "kernels/tile.h"

enum {
    BLOCK = 128, // keys per step; a multiple of TILE_COLS
    // Maximum number of tokens for attention_few; at least FEW_ROWS (kernels/matmul_few.h).
    ATTENTION_FEW = 8
};

// A call of attention. Each of its tasks (struct task) computes the heads of one group for a range
// of tokens.
struct call {
    float *y;
    const float *q;
    const void *k, *v;
    // Of k, and of v (except as attention_packed says): f32, or bf16 in the forward kernel.
    enum dtype dtype;
    const int32_t *first, *last; // [tokens] or NULL
    float scale;
    float *probs;                          // [heads, tokens, keys] or NULL
    int64_t tokens, heads, keys, kv_heads; // N, H, P, Hkv
    int64_t width;                         // d of queries and keys
    int64_t value_width, padded;           // d of values; value_width rounded up to whole tiles
    int64_t group;                         // H / Hkv: heads that share keys
    bool pairs;                            // products of many rows use pairs of bf16
    int64_t inner;                         // elements per key, or pairs of elements with `pairs`
    int64_t task_tokens, task_rows;        // tokens per task; rows, rounded up to whole tiles
};

VEC_INLINE struct call call_of(const struct tensor *y, const struct tensor *q,
                               const struct tensor *k, const struct tensor *v,
                               const struct tensor *first, const struct tensor *last, float scale)
{
    return (struct call){ .y = y->data,
                          .q = q->data,
                          .k = k->data,
                          .v = v->data,
                          .dtype = k->dtype,
                          .first = first ? first->data : NULL,
                          .last = last ? last->data : NULL,
                          .scale = scale,
                          .tokens = q->shape[0],
                          .heads = q->shape[1],
                          .keys = k->shape[0],
                          .kv_heads = k->shape[1],
                          .width = q->shape[2],
                          .value_width = v->shape[2],
                          .padded = (v->shape[2] + TILE_COLS - 1) / TILE_COLS * TILE_COLS,
                          .group = q->shape[1] / k->shape[1] };
}

// Approximate number of multiply-adds of all rows with `keys` keys.
VEC_INLINE int64_t call_steps(const struct call *c, int64_t keys)
{
    return c->tokens * c->heads * keys * c->width;
}

// Row r of a task is head r % group of token from + r / group.
struct task {
    int64_t head, from, rows; // kv head, first token, number of rows
    float *high, *sum;        // [rows]
    float *out;               // [rows, padded]
};

// Target number of rows per task: a task transposes the keys once for all its rows. divide() halves
// it, down to TASK_ROWS_LEAST, until each thread gets several tasks.
enum { TASK_ROWS = 768, TASK_ROWS_LEAST = 192 };

// Number of tasks per key/value head.
VEC_INLINE int64_t count_parts(const struct call *c)
{
    return (c->tokens + c->task_tokens - 1) / c->task_tokens;
}

VEC_INLINE int64_t count_tasks(const struct call *c)
{
    return count_parts(c) * c->kv_heads;
}

// Sets the size of tasks so that each thread gets several tasks; task_rows is a multiple of `tile`.
static inline __attribute__((unused)) void divide(struct call *c, int64_t tile)
{
    for (int64_t rows = TASK_ROWS;; rows /= 2) {
        c->task_tokens = c->group < rows ? rows / c->group : 1;
        if (c->task_tokens > c->tokens) c->task_tokens = c->tokens;
        if (rows <= TASK_ROWS_LEAST || count_tasks(c) >= 8 * omp_get_max_threads()) break;
    }
    c->task_rows = (c->task_tokens * c->group + tile - 1) / tile * tile;
}

// Task `part` of a head, with NULL for high, sum and out.
VEC_INLINE struct task task_at(const struct call *c, int64_t head, int64_t part)
{
    struct task t = { .head = head, .from = part * c->task_tokens };
    const int64_t left = c->tokens - t.from;
    t.rows = (left < c->task_tokens ? left : c->task_tokens) * c->group;
    return t;
}

VEC_INLINE int64_t row_first(const struct call *c, const struct task *t, int64_t r)
{
    int64_t first = c->first ? c->first[t->from + r / c->group] : 0;
    return first > 0 ? first : 0;
}

VEC_INLINE int64_t row_last(const struct call *c, const struct task *t, int64_t r)
{
    int64_t last = c->last ? c->last[t->from + r / c->group] : c->keys;
    return last < c->keys ? last : c->keys;
}

// Sets from[task_rows] and to[task_rows] to the range of keys that each of the task's rows sees
// (empty for padding rows), and *first..*last to a range that covers all of them.
static inline __attribute__((unused)) void find_seen(const struct call *c, const struct task *t,
                                                     int32_t *from, int32_t *to, int64_t *first,
                                                     int64_t *last)
{
    *first = c->keys, *last = 0;
    for (int64_t r = 0; r < c->task_rows; r++) {
        const bool row = r < t->rows;
        const int64_t a = row ? row_first(c, t, r) : 0, b = row ? row_last(c, t, r) : 0;
        from[r] = (int32_t)a;
        to[r] = (int32_t)b;
        if (a >= b) continue;
        *first = a < *first ? a : *first;
        *last = b > *last ? b : *last;
    }
}

// Index of row r among the rows of q and y.
VEC_INLINE int64_t row_at(const struct call *c, const struct task *t, int64_t r)
{
    return (t->from + r / c->group) * c->heads + t->head * c->group + r % c->group;
}

VEC_INLINE const float *query_at(const struct call *c, const struct task *t, int64_t r)
{
    return c->q + row_at(c, t, r) * c->width;
}

// Elements between consecutive keys (or values) of a head.
VEC_INLINE int64_t key_step(const struct call *c)
{
    return c->kv_heads * c->width;
}

VEC_INLINE int64_t value_step(const struct call *c)
{
    return c->kv_heads * c->value_width;
}

// Pointer to element i of keys or values.
VEC_INLINE const void *numbers_at(const void *x, int64_t i, enum dtype dtype)
{
    return (const char *)x + i * (int64_t)dtype_size(dtype);
}

VEC_INLINE float dot_as(const float *a, const void *b, int64_t n, enum dtype dtype)
{
    vf s0 = { 0 }, s1 = { 0 };
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        s0 += vf_load(a + i) * vf_load_as(b, i, dtype);
        s1 += vf_load(a + i + VEC) * vf_load_as(b, i + VEC, dtype);
    }
    for (; i < n; i += VEC) {
        int64_t some = n - i < VEC ? n - i : VEC;
        s0 += vf_load_part_n(a + i, some) * vf_load_part_n_as(b, i, some, dtype);
    }
    return vf_sum(s0 + s1);
}

VEC_INLINE float dot(const float *a, const float *b, int64_t n)
{
    return dot_as(a, b, n, DTYPE_F32);
}

// c[rows, halves * VEC] = a b, in elements or pairs, for rows <= TILE_ROWS; with `fade`, adds
// fade[r] times the old row r of c.
VEC_INLINE void put_tile_of(float *c, int64_t ld, const float *fade, const float *a,
                            int64_t row_step, int64_t step, const float *b, int64_t inner,
                            const int rows, const int halves, const bool pairs)
{
    vf s[TILE_ROWS][2];
    tile_zero(s, rows);
    tile_more(s, a, row_step, step, b, inner, rows, halves, pairs);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++, c += ld)
#pragma GCC unroll 2
        for (int h = 0; h < halves; h++) {
            if (fade) s[r][h] += vf_load(c + h * VEC) * vf_set(fade[r]);
            vf_store(c + h * VEC, s[r][h]);
        }
}

VEC_INLINE void put_tile(float *c, int64_t ld, const float *fade, const float *a, int64_t row_step,
                         int64_t step, const float *b, int64_t inner, const int rows)
{
    put_tile_of(c, ld, fade, a, row_step, step, b, inner, rows, 2, false);
}

// Sets scores outside from..to to -infinity; then returns the maximum of scores[size] and `high`.
// size is a multiple of VEC.
VEC_INLINE float highest_score(float *scores, int64_t size, int64_t from, int64_t to, float high)
{
    for (int64_t i = 0; i < from; i++) scores[i] = -INFINITY;
    for (int64_t i = to; i < size; i++) scores[i] = -INFINITY;
    vf top = vf_load(scores);
    for (int64_t i = VEC; i < size; i += VEC) top = vf_max(vf_load(scores + i), top);
    const float highest = vf_highest(top);
    return highest < high ? high : highest;
}

// Replaces scores[size] with e^(score - highest), with `pairs` as bf16, two per float; updates
// *high and *sum. Returns the factor by which the caller must multiply the row's previous output.
VEC_INLINE float exp_scores(float *scores, int64_t size, float highest, float *high, float *sum,
                            const bool pairs)
{
    vf total = { 0 };
    for (int64_t i = 0; i < size; i += VEC) {
        vf e = vf_exp_fading(vf_load(scores + i) - vf_set(highest));
        put_numbers(scores, i, e, pairs);
        total += e;
    }
    float fade = *high == highest ? 1 : vf_exp_fading(vf_set(*high - highest))[0];
    *high = highest;
    *sum = *sum * fade + vf_sum(total);
    return fade;
}

VEC_INLINE void write_row(const struct call *c, const struct task *t, int64_t r)
{
    float *y = c->y + row_at(c, t, r) * c->value_width, share = t->sum[r] > 0 ? 1 / t->sum[r] : 0;
    if (t->sum[r] != t->sum[r]) share = t->sum[r]; // NaN stays visible
    for (int64_t i = 0; i < c->value_width; i++) y[i] = t->out[r * c->padded + i] * share;
}

VEC_INLINE void write_probs(const struct call *c, const struct task *t, int64_t r,
                            const enum dtype dtype)
{
    int64_t head = t->head * c->group + r % c->group, token = t->from + r / c->group;
    float *to = c->probs + (head * c->tokens + token) * c->keys;
    const float *q = query_at(c, t, r);
    const void *k = numbers_at(c->k, t->head * c->width, dtype);
    int64_t first = row_first(c, t, r), last = row_last(c, t, r), step = key_step(c);
    memset(to, 0, (size_t)c->keys * sizeof *to);
    // With pairs, the task's maximum and sum come from rounded operands, so both are recomputed
    // here.
    float high = c->pairs ? -INFINITY : t->high[r], sum = c->pairs ? 0 : t->sum[r];
    for (int64_t j = first; j < last; j++) {
        to[j] = dot_as(q, numbers_at(k, j * step, dtype), c->width, dtype) * c->scale;
        if (c->pairs && to[j] > high) high = to[j];
    }
    for (int64_t j = first; j < last; j += VEC) {
        int64_t some = last - j < VEC ? last - j : VEC;
        vf_store_part_n(to + j, vf_exp(vf_load_part_n(to + j, some) - vf_set(high)), some);
    }
    for (int64_t j = first; j < last && c->pairs; j++) sum += to[j];
    for (int64_t j = first; j < last; j++) to[j] /= sum;
}

// Finishes row r of the task: writes y, and the probabilities if requested.
VEC_INLINE void task_row_done(const struct call *c, const struct task *t, int64_t r)
{
    write_row(c, t, r);
    if (c->probs) VEC_AS(c->dtype, write_probs, c, t, r);
}

#endif
