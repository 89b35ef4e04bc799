// kernels/attention_few.c -- attention of few rows: dot products with the keys as they lie.
//
// One token reads the whole cache, so the memory bus is the limit, and it is only kept busy by
// reading in the order of addresses. A key of the cache holds all heads, one behind another: read
// head by head (256 bytes of every 2 KB, for 8 heads of 64 numbers) no prefetcher follows, and a
// quarter of the bandwidth is left. So a piece is a run of keys with all heads:
//
//   for every piece, in parallel
//       for every key: the scores of all rows
//       softmax with the piece's own maximum and sum
//       for every few values: add them to the outputs of all rows
//   for every row: its pieces, in order, each with e^(its maximum - the highest)
//
// Pieces are of one size, however many threads there are: a row's bits depend on its keys alone.
#include "kernels/attention_few.h"

enum {
    PIECE = 32,                  // keys of a piece; a multiple of VEC
    VALUES = 8,                  // values at a time
    TOGETHER = 4,                // rows that load a key or value once
    COLUMNS = VEC == 16 ? 4 : 2, // vectors of a value at a time: as registers have room for sums
    LINE = 64                    // bytes of a cache line
};

// Up to TOGETHER rows of one token and one head of keys.
struct rows {
    const float *q;      // [count, d]
    int64_t head, count; // which head of keys and values
    int64_t row;         // the first one's place among the results
    int64_t first, last; // keys they see
};

// The rows' results, of one piece or of all.
struct results {
    float *high, *sum; // [rows]
    float *out;        // [rows, padded]
};

struct few {
    const struct call *c;
    const struct rows *rows;
    int64_t rows_count;     // elements of rows
    int64_t all;            // rows: tokens * heads
    struct results *pieces; // [pieces]
    int64_t pieces_count;
};

VEC_INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// --- a piece -------------------------------------------------------------------------------------

// scores[r * PIECE] of one key.
VEC_INLINE void score_rows(const struct call *c, const float *q, const void *key, float *scores,
                           const int count, const enum dtype dtype)
{
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
        scores[r * PIECE] = dot_as(q + r * c->width, key, c->width, dtype) * c->scale;
}

// Scores of key `key` for all rows that see it.
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

// Columns at.. of `count` rows: out += the weights of `keys` values times these.
VEC_INLINE void add_columns(const struct call *c, float *out, const void *values, int64_t keys,
                            const float *weights, int64_t at, const int count, const int columns,
                            const enum dtype dtype)
{
    const int64_t part = c->width - at < VEC ? c->width - at : VEC; // of a single vector
    vf s[TOGETHER][COLUMNS];
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++) s[r][j] = vf_load(out + r * c->padded + at + j * VEC);
    for (int64_t i = 0; i < keys; i++) {
        const void *value = numbers_at(values, i * key_step(c) + at, dtype);
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
    for (; at + COLUMNS * VEC <= c->width; at += COLUMNS * VEC)
        add_columns(c, out, values, keys, weights, at, count, COLUMNS, dtype);
    for (; at < c->width; at += VEC)
        add_columns(c, out, values, keys, weights, at, count, 1, dtype);
}

// Values from..to, of those that rows see, are added to their outputs.
VEC_INLINE void add_values(const struct few *f, const struct results *y, const float *scores,
                           int64_t from, int64_t to, const enum dtype dtype)
{
    const struct call *c = f->c;
    for (const struct rows *g = f->rows; g < f->rows + f->rows_count; g++) {
        const int64_t a = from > g->first ? from : g->first, keys = least(to, g->last) - a;
        if (keys <= 0) continue;
        const void *v = numbers_at(c->v, a * key_step(c) + g->head * c->width, dtype);
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

// Asks for values from..to: in the order of addresses, which add_values does not keep.
VEC_INLINE void ask_for(const struct call *c, int64_t from, int64_t to, const enum dtype dtype)
{
    const char *at = numbers_at(c->v, from * key_step(c), dtype);
    const char *end = numbers_at(c->v, least(to, c->keys) * key_step(c), dtype);
    for (; at < end; at += LINE) __builtin_prefetch(at);
}

VEC_INLINE void attend_piece(const struct few *f, int64_t number, float *scores,
                             const enum dtype dtype)
{
    const struct call *c = f->c;
    const struct results *y = &f->pieces[number];
    const int64_t from = number * PIECE, to = least(from + PIECE, c->keys);
    for (int64_t i = from; i < to; i++) score_key(f, scores, i, dtype);
    for (const struct rows *g = f->rows; g < f->rows + f->rows_count; g++)
        for (int64_t r = g->row; r < g->row + g->count; r++) {
            const int64_t a = g->first > from ? g->first - from : 0, b = least(to, g->last) - from;
            y->high[r] = -INFINITY;
            y->sum[r] = 0;
            if (a < b) soften(scores + r * PIECE, PIECE, a, b, &y->high[r], &y->sum[r]);
        }
    memset(y->out, 0, (size_t)(f->all * c->padded) * sizeof *y->out);
    ask_for(c, from, from + VALUES, dtype);
    for (int64_t i = from; i < to; i += VALUES) {
        ask_for(c, i + VALUES, least(i + 2 * VALUES, to), dtype);
        add_values(f, y, scores, i, least(i + VALUES, to), dtype);
    }
}

// --- all pieces ----------------------------------------------------------------------------------

// The results of row r in all pieces become those of the first one. (A piece of which the row sees
// nothing has the sum 0.)
static void join_row(const struct few *f, int64_t r)
{
    const int64_t width = f->c->padded;
    struct results *y = f->pieces;
    float high = -INFINITY;
    for (int64_t i = 0; i < f->pieces_count; i++) high = fmaxf(high, y[i].high[r]);
    float sum = 0;
    for (int64_t i = 0; i < f->pieces_count; i++) {
        if (y[i].sum[r] == 0) continue;
        const float share = y[i].high[r] == high ? 1 : vf_exp(vf_set(y[i].high[r] - high))[0];
        const float *from = y[i].out + r * width;
        float *to = y->out + r * width;
        sum += y[i].sum[r] * share;
        for (int64_t e = 0; e < width; e += VEC)
            vf_store(to + e, (i ? vf_load(to + e) : (vf){ 0 }) + vf_load(from + e) * vf_set(share));
    }
    y->high[r] = high;
    y->sum[r] = sum;
}

// The list of rows; how many elements it has.
static int64_t list_rows(const struct call *c, struct rows *to)
{
    int64_t n = 0;
    for (int64_t head = 0; head < c->kv_heads; head++) {
        const struct task t = { .head = head, .rows = c->tokens * c->group };
        for (int64_t r = 0, count; r < t.rows; r += count) {
            count = least(c->group - r % c->group, TOGETHER);
            to[n++] = (struct rows){ .q = c->q + row_at(c, &t, r),
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
                            .high = f->pieces->high + first,
                            .sum = f->pieces->sum + first,
                            .out = f->pieces->out + first * f->c->padded };
    for (int64_t r = 0; r < rows; r++) {
        join_row(f, first + r);
        task_row_done(f->c, &t, r);
    }
}

int KERNEL(attention_few)(const struct call *c)
{
    struct few f = { .c = c, .all = c->tokens * c->heads };
    f.pieces_count = c->keys ? (c->keys + PIECE - 1) / PIECE : 1;
    const int64_t piece_floats = f.all * (2 + c->padded), scores_floats = f.all * PIECE;
    const int64_t floats = f.pieces_count * piece_floats + omp_get_max_threads() * scores_floats;
    struct rows *rows =
        cpu_scratch((size_t)f.all * sizeof *f.rows + (size_t)f.pieces_count * sizeof *f.pieces +
                    (size_t)floats * sizeof(float));
    if (!rows) return -1;
    f.rows = rows;
    f.rows_count = list_rows(c, rows);
    f.pieces = (void *)(rows + f.all);
    float *room = (void *)(f.pieces + f.pieces_count);
    for (int64_t i = 0; i < f.pieces_count; i++, room += piece_floats)
        f.pieces[i] =
            (struct results){ .high = room, .sum = room + f.all, .out = room + 2 * f.all };
#pragma omp parallel if (vec_worth_threads(c->tokens * c->heads * c->keys * c->width))
    {
        float *scores = room + omp_get_thread_num() * scores_floats;
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < f.pieces_count; i++) VEC_AS(c->dtype, attend_piece, &f, i, scores);
#pragma omp for schedule(static)
        for (int64_t head = 0; head < c->kv_heads; head++) finish_head(&f, head);
    }
    return 0;
}
