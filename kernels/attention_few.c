// kernels/attention_few.c -- attention of few tokens: dot products with the keys in place.
//
// One token reads the whole cache, so memory bandwidth is the limit, and only reads in address
// order reach it. In the cache, all heads of a key are contiguous. Hardware prefetchers do not
// follow reads head by head (256 bytes of every 2 KB, for 8 heads of 64 elements), which get only a
// quarter of the bandwidth. So the work is split into pieces, each a run of keys with all heads:
//
//   for every piece, in parallel
//       for every key: the scores of all rows
//       softmax with the piece's own maximum and sum
//       for every VALUES values: add them to the outputs of all rows
//   for every row: combine its pieces in order, each times e^(its maximum - the highest)
//
// Pieces are computed and combined in rounds, so the results need little memory for any number of
// keys. The piece size does not depend on the number of threads, so a row's bits depend only on its
// keys.
#include "kernels/attention_few.h"

enum {
    PIECE = 32,                  // keys per piece; a multiple of VEC
    ROUND = 64,                  // pieces computed before they are combined
    VALUES = 8,                  // values added at a time
    AHEAD = 4,                   // how many keys ahead to prefetch
    TOGETHER = 4,                // rows that share a load of a key or value
    COLUMNS = VEC == 16 ? 4 : 2, // vectors of a value added at a time: as many as fit in registers
    LINE = 64                    // bytes of a cache line
};

// Up to TOGETHER rows of one token and one head of keys.
struct rows {
    const float *q;      // [count, d]
    int64_t head, count; // key/value head
    int64_t row;         // index of the first row among the results
    int64_t first, last; // keys that the rows see
};

// Results of the rows, for one piece or for all.
struct results {
    float *high, *sum; // [rows]
    float *out;        // [rows, padded]
};

struct few {
    const struct call *c;
    const struct rows *rows;
    int64_t rows_count;     // elements of the array `rows`
    int64_t all;            // number of rows: tokens * heads
    struct results total;   // results of the rounds so far
    struct results *pieces; // [ROUND] results of the current round
};

VEC_INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// --- a piece -------------------------------------------------------------------------------------

// Sets scores[r * PIECE] for one key and `count` rows.
VEC_INLINE void score_rows(const struct call *c, const float *q, const void *key, float *scores,
                           const int count, const enum dtype dtype)
{
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
        scores[r * PIECE] = dot_as(q + r * c->width, key, c->width, dtype) * c->scale;
}

// Computes the scores of key `key` for all rows that see it.
VEC_INLINE void score_key(const struct few *f, float *scores, int64_t key, const enum dtype dtype)
{
    const struct call *c = f->c;
    for (const struct rows *g = f->rows; g < f->rows + f->rows_count; g++) {
        if (key < g->first || key >= g->last) continue;
        const void *k = numbers_at(c->k, key * key_step(c) + g->head * c->width, dtype);
        float *to = scores + g->row * PIECE + key % PIECE;
        switch (g->count) {
        case 1: score_rows(c, g->q, k, to, 1, dtype); break;
        case 2: score_rows(c, g->q, k, to, 2, dtype); break;
        case 3: score_rows(c, g->q, k, to, 3, dtype); break;
        default: score_rows(c, g->q, k, to, 4, dtype); break;
        }
    }
}

// Adds the weighted sum of `keys` values to columns at.. of `count` rows of `out`.
VEC_INLINE void add_columns(const struct call *c, float *out, const void *values, int64_t keys,
                            const float *weights, int64_t at, const int count, const int columns,
                            const enum dtype dtype)
{
    const int64_t part =
        c->value_width - at < VEC ? c->value_width - at : VEC; // elements to load if columns is 1
    vf s[TOGETHER][COLUMNS];
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++) s[r][j] = vf_load(out + r * c->padded + at + j * VEC);
    for (int64_t i = 0; i < keys; i++) {
        const void *value = numbers_at(values, i * value_step(c) + at, dtype);
        vf x[COLUMNS];
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++)
            x[j] = columns > 1 ? vf_load_as(value, j * VEC, dtype)
                               : vf_load_part_n_as(value, 0, part, dtype);
#pragma GCC unroll 4
        for (int r = 0; r < count; r++)
#pragma GCC unroll 4
            for (int j = 0; j < columns; j++) s[r][j] += vf_set(weights[r * PIECE + i]) * x[j];
    }
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++) vf_store(out + r * c->padded + at + j * VEC, s[r][j]);
}

VEC_INLINE void add_rows(const struct call *c, float *out, const void *values, int64_t keys,
                         const float *weights, const int count, const enum dtype dtype)
{
    int64_t at = 0;
    for (; at + COLUMNS * VEC <= c->value_width; at += COLUMNS * VEC)
        add_columns(c, out, values, keys, weights, at, count, COLUMNS, dtype);
    for (; at < c->value_width; at += VEC)
        add_columns(c, out, values, keys, weights, at, count, 1, dtype);
}

// Adds the weighted values of keys from..to to the outputs of the rows that see them.
VEC_INLINE void add_values(const struct few *f, const struct results *y, const float *scores,
                           int64_t from, int64_t to, const enum dtype dtype)
{
    const struct call *c = f->c;
    for (const struct rows *g = f->rows; g < f->rows + f->rows_count; g++) {
        const int64_t a = from > g->first ? from : g->first, keys = least(to, g->last) - a;
        if (keys <= 0) continue;
        const void *v = numbers_at(c->v, a * value_step(c) + g->head * c->value_width, dtype);
        const float *weights = scores + g->row * PIECE + a % PIECE;
        float *out = y->out + g->row * c->padded;
        switch (g->count) {
        case 1: add_rows(c, out, v, keys, weights, 1, dtype); break;
        case 2: add_rows(c, out, v, keys, weights, 2, dtype); break;
        case 3: add_rows(c, out, v, keys, weights, 3, dtype); break;
        default: add_rows(c, out, v, keys, weights, 4, dtype); break;
        }
    }
}

// Prefetches key or value i of all heads (`step` elements) into the L1 cache (`near`) or the L2
// cache. Harmless past the end.
VEC_INLINE void prefetch(const void *of, int64_t i, int64_t step, const bool near,
                         const enum dtype dtype)
{
    const char *at = numbers_at(of, i * step, dtype), *end = numbers_at(of, (i + 1) * step, dtype);
    for (; at < end; at += LINE)
        if (near)
            __builtin_prefetch(at, 0, 3);
        else
            __builtin_prefetch(at, 0, 2);
}

VEC_INLINE void attend_piece(const struct few *f, int64_t number, float *scores,
                             const enum dtype dtype)
{
    const struct call *c = f->c;
    const struct results *y = &f->pieces[number % ROUND];
    const int64_t from = number * PIECE, to = least(from + PIECE, c->keys);
    for (int64_t i = from; i < to; i++) {
        prefetch(c->k, i + AHEAD, key_step(c), true, dtype);
        prefetch(c->v, i, value_step(c), false, dtype);
        score_key(f, scores, i, dtype);
    }
    for (const struct rows *g = f->rows; g < f->rows + f->rows_count; g++)
        for (int64_t r = g->row; r < g->row + g->count; r++) {
            const int64_t a = g->first > from ? g->first - from : 0, b = least(to, g->last) - from;
            y->high[r] = -INFINITY;
            y->sum[r] = 0;
            if (a < b)
                exp_scores(scores + r * PIECE, PIECE,
                           highest_score(scores + r * PIECE, PIECE, a, b, y->high[r]), &y->high[r],
                           &y->sum[r], false);
        }
    memset(y->out, 0, (size_t)(f->all * c->padded) * sizeof *y->out);
    for (int64_t i = from; i < to; i += VALUES)
        add_values(f, y, scores, i, least(i + VALUES, to), dtype);
}

// --- all pieces ----------------------------------------------------------------------------------

// Adds the results `from` of a piece to the total of row r, scaled to the maximum `high`; if `from`
// is the total itself, only scales it. Returns the sum that it adds: 0 if the row sees no key of
// `from`, or if all its scores there are -infinity and `high` is greater.
static float add_row(const struct results *total, const struct results *from, int64_t r, float high,
                     int64_t width)
{
    if (from->sum[r] == 0 || (from->high[r] == -INFINITY && high > -INFINITY)) return 0;
    const float share = from->high[r] == high ? 1 : vf_exp(vf_set(from->high[r] - high))[0];
    const float *x = from->out + r * width;
    float *y = total->out + r * width;
    for (int64_t e = 0; e < width; e += VEC) {
        const vf scaled = vf_load(x + e) * vf_set(share);
        vf_store(y + e, from == total ? scaled : vf_load(y + e) + scaled);
    }
    return from->sum[r] * share;
}

// Adds the results of the first `count` pieces to the total of row r.
static void join_row(const struct few *f, int64_t count, int64_t r)
{
    const struct results *total = &f->total;
    const int64_t width = f->c->padded;
    float high = total->high[r];
    for (int64_t i = 0; i < count; i++) high = fmaxf(high, f->pieces[i].high[r]);
    float sum = add_row(total, total, r, high, width);
    if (sum == 0) memset(total->out + r * width, 0, (size_t)width * sizeof(float));
    for (int64_t i = 0; i < count; i++) sum += add_row(total, &f->pieces[i], r, high, width);
    total->high[r] = high;
    total->sum[r] = sum;
}

// Lists all rows in `to`; returns the number of its elements.
static int64_t list_rows(const struct call *c, struct rows *to)
{
    int64_t n = 0;
    for (int64_t head = 0; head < c->kv_heads; head++) {
        const struct task t = { .head = head, .rows = c->tokens * c->group };
        for (int64_t r = 0, count; r < t.rows; r += count) {
            count = least(c->group - r % c->group, TOGETHER);
            to[n++] = (struct rows){ .q = query_at(c, &t, r),
                                     .head = head,
                                     .count = count,
                                     .row = head * t.rows + r,
                                     .first = row_first(c, &t, r),
                                     .last = row_last(c, &t, r) };
        }
    }
    return n;
}

static void finish_head(const struct few *f, int64_t head)
{
    const int64_t rows = f->c->tokens * f->c->group, first = head * rows;
    const struct task t = { .head = head,
                            .rows = rows,
                            .high = f->total.high + first,
                            .sum = f->total.sum + first,
                            .out = f->total.out + first * f->c->padded };
    for (int64_t r = 0; r < rows; r++) task_row_done(f->c, &t, r);
}

// Allocates the results of all rows from *scratch.
static struct results results_at(const struct few *f, float **scratch)
{
    const struct results y = { .high = *scratch,
                               .sum = *scratch + f->all,
                               .out = *scratch + 2 * f->all };
    *scratch += f->all * (2 + f->c->padded);
    return y;
}

// Runs the whole computation; called by every thread of the OpenMP team.
static void attend(const struct few *f, float *scores)
{
    const struct call *c = f->c;
    const int64_t pieces = (c->keys + PIECE - 1) / PIECE;
    for (int64_t from = 0; from < pieces; from += ROUND) {
        const int64_t count = least(pieces - from, ROUND);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < count; i++) VEC_AS(c->dtype, attend_piece, f, from + i, scores);
#pragma omp for schedule(static)
        for (int64_t r = 0; r < f->all; r++) join_row(f, count, r);
    }
#pragma omp for schedule(static)
    for (int64_t head = 0; head < c->kv_heads; head++) finish_head(f, head);
}

int KERNEL(attention_few)(const struct call *c)
{
    struct few f = { .c = c, .all = c->tokens * c->heads };
    const int64_t scores_floats = f.all * PIECE;
    const int64_t floats =
        (ROUND + 1) * f.all * (2 + c->padded) + omp_get_max_threads() * scores_floats;
    struct rows *rows = cpu_scratch((size_t)f.all * sizeof *f.rows + ROUND * sizeof *f.pieces +
                                    (size_t)floats * sizeof(float));
    if (!rows) return -1;
    f.rows = rows;
    f.rows_count = list_rows(c, rows);
    f.pieces = (void *)(rows + f.all);
    float *scratch = (void *)(f.pieces + ROUND);
    f.total = results_at(&f, &scratch);
    for (int64_t i = 0; i < ROUND; i++) f.pieces[i] = results_at(&f, &scratch);
    for (int64_t r = 0; r < f.all; r++) {
        f.total.high[r] = -INFINITY;
        f.total.sum[r] = 0;
    }
    memset(f.total.out, 0, (size_t)(f.all * c->padded) * sizeof(float));
#pragma omp parallel if (vec_worth_threads(call_steps(c, c->keys)))
    attend(&f, scratch + omp_get_thread_num() * scores_floats);
    return 0;
}
