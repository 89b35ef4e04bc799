// kernels/attention.c -- softmax(q k^T * scale) v with grouped queries, one pass over the keys.
//
// A running maximum and sum per query row (Milakov and Gimelshein 2018) allow a pass over the keys
// block by block, without a matrix of queries by keys:
//   high' = max(high, scores of the block),  fade = e^(high - high')
//   sum' = sum fade + sum of e^(score - high'),  out' = out fade + sum of e^(score - high') v
//   y = out / sum
//
// A task computes some tokens for one key/value head: their rows of all query heads that share the
// head. Few tokens use dot products with the keys in place (kernels/attention_few.c). Many tokens
// use products of tiles (kernels/tile.h) with blocks of keys, each transposed once per task. The
// choice depends on the number of tokens, not on the number of heads, so that each of up to
// backend->few_rows tokens has the same bits as if computed alone.
//
// Keys and values are f32, or bf16 in a cache; loads widen them. With MATMUL_BF16 and AMX,
// kernels/attention_amx.c computes many tokens. With MATMUL_BF16 and AVX512-BF16 but no AMX, this
// file rounds queries, keys, values and e^(score - high') of many tokens to bf16 and multiplies
// pairs: elements 2i and 2i + 1 of a head for the scores, keys 2i and 2i + 1 for the outputs.
// Scores, maxima and sums stay f32.
//
// A separate f32 pass computes requested probabilities from the final maximum and sum (recomputed
// in f32 if those come from rounded scores), so that the request changes no bit of y.
#include <math.h>
#include <stdlib.h>

#include "kernels/attention_amx.h"
#include "kernels/attention_few.h"

// Buffers of a task of many rows. `steps`: BLOCK / 2 with pairs, else BLOCK.
struct buffers {
    float *q;              // [tile][inner][rows of the tile], scaled
    float *keys;           // a block: [BLOCK / TILE_COLS][inner][TILE_COLS]
    float *values;         // a block: [padded / TILE_COLS][steps][TILE_COLS]
    float *scores;         // [TILE_ROWS][BLOCK]
    float *rows;           // [BLOCK][inner], then a spare vector: rows before transposition
    int32_t *first, *last; // [task_rows] range of keys that each row sees
    bool finite;           // all values of the block are finite
};

// Floats in a task's buffers.
static int64_t buffers_floats(const struct call *c)
{
    return (c->task_rows + 2 * BLOCK) * c->inner + VEC + BLOCK * c->padded + TILE_ROWS * BLOCK +
           2 * c->task_rows;
}

static struct buffers buffers_at(const struct call *c, float *memory)
{
    struct buffers buffers = { .q = memory };
    buffers.keys = buffers.q + c->task_rows * c->inner;
    buffers.values = buffers.keys + BLOCK * c->inner;
    buffers.scores = buffers.values + BLOCK * c->padded;
    buffers.rows = buffers.scores + TILE_ROWS * BLOCK;
    buffers.first = (void *)(buffers.rows + BLOCK * c->inner + VEC);
    buffers.last = buffers.first + c->task_rows;
    return buffers;
}

// Packs one tile of scaled queries, rows r.. of the task; rows past the end are 0.
VEC_INLINE void pack_tile(const struct call *c, const struct task *t, const struct buffers *buffers,
                          int64_t r, const bool pairs)
{
    for (int64_t i = 0; i < TILE_ROWS; i++) {
        float *to = buffers->rows + i * c->inner;
        if (r + i < t->rows)
            put_row(to, query_at(c, t, r + i), c->width, c->scale, DTYPE_F32, pairs);
        else
            memset(to, 0, (size_t)c->inner * sizeof *to);
    }
    tile_pack(buffers->q + r * c->inner, buffers->rows, c->inner, TILE_ROWS, c->inner);
}

// Packs n keys, the first at `k`; keys past n are 0.
VEC_INLINE void pack_keys(const struct call *c, const struct buffers *buffers, const void *k,
                          int64_t n, const enum dtype dtype, const bool pairs)
{
    const char *from = k;
    size_t row_bytes = (size_t)key_step(c) * dtype_size(dtype);
    for (int64_t i = 0; i < n && pairs; i++)
        put_row(buffers->rows + i * c->inner, from + (size_t)i * row_bytes, c->width, 1, dtype,
                true);
    if (pairs) {
        from = (const char *)buffers->rows;
        row_bytes = (size_t)c->inner * sizeof(float);
    }
    for (int64_t i = 0; i < BLOCK; i += TILE_COLS)
        panel_pack_as(buffers->keys + i * c->inner, from + (size_t)i * row_bytes, row_bytes,
                      i < n ? n - i : 0, 0, c->inner, pairs ? DTYPE_F32 : dtype);
}

VEC_INLINE void pack_values(const struct call *c, struct buffers *buffers, const void *v, int64_t n,
                            const enum dtype dtype, const bool pairs)
{
    const int64_t step = value_step(c), each = pairs ? 2 : 1, steps = BLOCK / each;
    const vf above = vf_set(0x1.02p0f); // rounding to bf16 enlarges x by less than this factor
    vf nonfinite = { 0 };
    for (int64_t i = 0; i < n; i += each)
        for (int64_t e = 0; e < c->value_width; e += VEC) {
            int64_t some = c->value_width - e < VEC ? c->value_width - e : VEC;
            float *to =
                buffers->values + (e / TILE_COLS * steps + i / each) * TILE_COLS + e % TILE_COLS;
            vf x = vf_load_part_n_as(v, i * step + e, some, dtype), next = { 0 };
            if (pairs && i + 1 < n) next = vf_load_part_n_as(v, (i + 1) * step + e, some, dtype);
            nonfinite += (x * above + next * above) * vf_set(0); // NaN if not finite once rounded
            vf_store(to, pairs ? vf_pair(x, next) : x);
        }
    buffers->finite = vf_sum(nonfinite) == 0;
    const int64_t filled = (n + each - 1) / each;
    for (int64_t e = 0; e < c->padded; e += TILE_COLS)
        memset(buffers->values + e * steps + filled * TILE_COLS, 0,
               (size_t)((steps - filled) * TILE_COLS) * sizeof(float));
}

// Packs keys and values j.. of the task's head.
VEC_INLINE void pack_block(const struct call *c, const struct task *t, struct buffers *buffers,
                           int64_t j, const bool pairs, const enum dtype dtype)
{
    const int64_t key = j * key_step(c) + t->head * c->width;
    const int64_t value = j * value_step(c) + t->head * c->value_width;
    const int64_t n = c->keys - j < BLOCK ? c->keys - j : BLOCK;
    pack_keys(c, buffers, numbers_at(c->k, key, dtype), n, dtype, pairs);
    pack_values(c, buffers, numbers_at(c->v, value, dtype), n, dtype, pairs);
}

// Copies a panel of values, with 0 outside from..end.
VEC_INLINE void copy_seen(float *to, const float *values, int64_t from, int64_t end,
                          const bool pairs)
{
    for (int64_t i = 0; i < BLOCK; i += pairs ? 2 : 1, to += TILE_COLS, values += TILE_COLS) {
        const bool seen = i >= from && i < end, next = i + 1 >= from && i + 1 < end;
        const uint32_t mask = !pairs ? seen * 0xffffffff : seen * 0xffffU | next * 0xffff0000U;
        for (int64_t e = 0; e < TILE_COLS; e += VEC)
            vf_store(to + e, (vf)((vu)vf_load(values + e) & mask));
    }
}

// Replaces add_values if the block holds infinities or NaNs: multiplies each row with its visible
// values only, because unseen values have weight 0, and 0 times infinity is NaN.
VEC_INLINE void add_seen(const struct call *c, const struct task *t, const struct buffers *buffers,
                         int64_t r, const int64_t *from, const int64_t *to, int64_t lowest,
                         const float *fade, const bool pairs)
{
    const int64_t steps = pairs ? BLOCK / 2 : BLOCK, first = pairs ? lowest / 2 : lowest;
    float seen[BLOCK * TILE_COLS];
    for (int64_t i = 0; i < TILE_ROWS; i++)
        for (int64_t e = 0; e < c->padded && from[i] < to[i]; e += TILE_COLS) {
            copy_seen(seen, buffers->values + e * steps, from[i], to[i], pairs);
            put_tile_of(t->out + (r + i) * c->padded + e, c->padded, &fade[i],
                        buffers->scores + i * BLOCK + lowest, BLOCK, 1, seen + first * TILE_COLS,
                        (pairs ? (to[i] + 1) / 2 : to[i]) - first, 1, 2, pairs);
        }
}

// Adds the weighted values of keys lowest..end of the block to a tile's rows.
VEC_INLINE void add_values(const struct call *c, const struct task *t,
                           const struct buffers *buffers, int64_t r, int64_t lowest, int64_t end,
                           const float *fade, const bool pairs)
{
    const int64_t steps = pairs ? BLOCK / 2 : BLOCK, first = pairs ? lowest / 2 : lowest;
    const int64_t inner = (pairs ? (end + 1) / 2 : end) - first;
    const float *weights = buffers->scores + lowest;
    for (int64_t e = 0; e < c->value_width; e += TILE_COLS) {
        float *out = t->out + r * c->padded + e;
        const float *values = buffers->values + e * steps + first * TILE_COLS;
        if (c->value_width - e > VEC)
            put_tile_of(out, c->padded, fade, weights, BLOCK, 1, values, inner, TILE_ROWS, 2,
                        pairs);
        else
            put_tile_of(out, c->padded, fade, weights, BLOCK, 1, values, inner, TILE_ROWS, 1,
                        pairs);
    }
}

// Processes one tile, rows r.. of the task, with the packed block of keys that begins at key j.
VEC_INLINE void attend_tile(const struct call *c, const struct task *t,
                            const struct buffers *buffers, int64_t r, int64_t j, const bool pairs)
{
    int64_t lowest = BLOCK, end = 0, from[TILE_ROWS], to[TILE_ROWS];
    float fade[TILE_ROWS], highest[TILE_ROWS];
    for (int64_t i = 0; i < TILE_ROWS; i++) {
        const int64_t a = buffers->first[r + i] - j, b = buffers->last[r + i] - j;
        from[i] = a > 0 ? a : 0;
        to[i] = b < BLOCK ? b : BLOCK;
        fade[i] = 1;
        if (from[i] >= to[i]) continue;
        lowest = from[i] < lowest ? from[i] : lowest;
        end = to[i] > end ? to[i] : end;
    }
    if (lowest >= end) return;
    lowest = lowest / TILE_COLS * TILE_COLS;
    const int64_t size = (end - lowest + VEC - 1) / VEC * VEC;
    for (int64_t i = lowest; i < end; i += TILE_COLS)
        put_tile_of(buffers->scores + i, BLOCK, NULL, buffers->q + r * c->inner, 1, TILE_ROWS,
                    buffers->keys + i * c->inner, c->inner, TILE_ROWS, 2, pairs);
    // Finds all maxima first, so that no row's computation waits for another's.
    for (int64_t i = 0; i < TILE_ROWS; i++)
        if (from[i] < to[i])
            highest[i] = highest_score(buffers->scores + i * BLOCK + lowest, size, from[i] - lowest,
                                       to[i] - lowest, t->high[r + i]);
    for (int64_t i = 0; i < TILE_ROWS; i++) {
        float *scores = buffers->scores + i * BLOCK + lowest;
        if (from[i] < to[i])
            fade[i] = exp_scores(scores, size, highest[i], &t->high[r + i], &t->sum[r + i], pairs);
        else
            memset(scores, 0, (size_t)size * sizeof *scores);
    }
    if (buffers->finite)
        add_values(c, t, buffers, r, lowest, end, fade, pairs);
    else
        add_seen(c, t, buffers, r, from, to, lowest, fade, pairs);
}

VEC_INLINE void attend_many(const struct call *c, const struct task *t, float *scratch,
                            const bool pairs)
{
    struct buffers buffers = buffers_at(c, scratch);
    int64_t first, last;
    find_seen(c, t, buffers.first, buffers.last, &first, &last);
    memset(buffers.values, 0, (size_t)(BLOCK * c->padded) * sizeof(float));
    for (int64_t r = 0; r < t->rows; r += TILE_ROWS) pack_tile(c, t, &buffers, r, pairs);
    for (int64_t j = first / BLOCK * BLOCK; j < last; j += BLOCK) {
        VEC_AS(c->dtype, pack_block, c, t, &buffers, j, pairs);
        for (int64_t r = 0; r < t->rows; r += TILE_ROWS) attend_tile(c, t, &buffers, r, j, pairs);
    }
}

static void attend_numbers(const struct call *c, const struct task *t, float *scratch)
{
    attend_many(c, t, scratch, false);
}

static void attend_pairs(const struct call *c, const struct task *t, float *scratch)
{
    attend_many(c, t, scratch, true);
}

// --- the call -----------------------------------------------------------------------------------

static void run_task(const struct call *c, int64_t number, float *scratch)
{
    struct task t = task_at(c, number % c->kv_heads, number / c->kv_heads);
    t.high = scratch;
    t.sum = t.high + c->task_rows;
    t.out = t.sum + c->task_rows;
    scratch = t.out + c->task_rows * c->padded;
    for (int64_t r = 0; r < c->task_rows; r++) {
        t.high[r] = -INFINITY;
        t.sum[r] = 0;
    }
    memset(t.out, 0, (size_t)(c->task_rows * c->padded) * sizeof(float));
    (c->pairs ? attend_pairs : attend_numbers)(c, &t, scratch);
    for (int64_t r = 0; r < t.rows; r++) task_row_done(c, &t, r);
}

// Scratch per task in floats, laid out in run_task and attend_many.
static size_t task_scratch(const struct call *c)
{
    return (size_t)((c->task_rows * (2 + c->padded) + buffers_floats(c) + 15) / 16 * 16);
}

int KERNEL(attention)(struct tensor *y, const struct tensor *q, const struct tensor *k,
                      const struct tensor *v, const struct tensor *first, const struct tensor *last,
                      float scale, struct tensor *probs, enum matmul_mode mode)
{
    if (!tensor_count(q)) return 0;
    struct call c = call_of(y, q, k, v, first, last, scale);
    c.probs = probs ? probs->data : NULL;
    if (c.tokens <= ATTENTION_FEW) return KERNEL(attention_few)(&c);
#if defined(__AMX_BF16__)
    if (mode == MATMUL_BF16) return KERNEL(attention_tiles)(&c, NULL);
#endif
    c.pairs = mode == MATMUL_BF16 && vec_has_pairs();
    c.inner = c.pairs ? (c.width + 1) / 2 : c.width;
    divide(&c, TILE_ROWS);
    int64_t tasks = count_tasks(&c);
    size_t size = task_scratch(&c);
    float *scratch = cpu_scratch(size * (size_t)omp_get_max_threads() * sizeof(float));
    if (!scratch) return -1;
#pragma omp parallel for schedule(dynamic) if (tasks > 1 && \
                                               vec_worth_threads(call_steps(&c, c.keys)))
    for (int64_t i = 0; i < tasks; i++)
        run_task(&c, i, scratch + size * (size_t)omp_get_thread_num());
    return 0;
}
