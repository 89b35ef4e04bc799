// core/model/attend.c -- attention beyond the plain op: rows that see selected keys only, the
// probabilities of one row, and the contribution of single tokens.
#include "core/model/attend.h"

#include <math.h>
#include <stdlib.h>

#include "core/ops/check.h"
#include "core/ops/ops.h"

float attend_scale(const struct tensor *q)
{
    return 1 / sqrtf((float)q->shape[2]);
}

// Scatters probabilities [H,1,count] of row i over selected keys into probs [H,n,P]; the row's
// other elements are 0.
static void spread_probs(struct graph *g, struct tensor *probs, int64_t i,
                         const struct tensor *some, const int32_t *keys, int64_t count)
{
    int64_t heads = probs->shape[0], n = probs->shape[1], width = probs->shape[2];
    float *from = xreallocarray(NULL, (size_t)(heads * count), sizeof *from);
    float *row = xcalloc((size_t)width, sizeof *row);
    g->backend->download(from, some->data, tensor_bytes(some));
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t j = 0; j < count; j++) row[keys[j]] = from[h * count + j];
        g->backend->upload((float *)probs->data + (h * n + i) * width, row,
                           (size_t)width * sizeof *row);
    }
    free(from);
    free(row);
}

struct tensor *attend(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                      struct tensor *first, struct tensor *end, const struct seen_keys *seen,
                      struct tensor *probs)
{
    if (!q || !k || !v || !graph_ok(g)) return NULL;
    int64_t n = q->shape[0], plain = seen->keys ? seen->from : n;
    struct tensor *a;
    if (plain > 0 || probs)
        a = op_attention(g, q, k, v, first, end, attend_scale(q), probs);
    else
        a = graph_new3(g, DTYPE_F32, n, q->shape[1], v->shape[2]);
    for (int64_t i = plain; i < n && graph_ok(g); i++) { // rows that see selected keys
        const int32_t *keys = seen->keys[i - plain];
        const int64_t count = seen->count[i - plain];
        struct arena_mark scratch = graph_scratch_begin(g);
        struct tensor *some_k = op_gather_rows(g, k, keys, count); // [count, Hkv, d]
        struct tensor *some_v = op_gather_rows(g, v, keys, count);
        struct tensor *some = probs ? graph_new3(g, DTYPE_F32, q->shape[1], 1, count) : NULL;
        struct tensor *y = op_attention(g, graph_rows(g, q, i, 1), some_k, some_v, NULL, NULL,
                                        attend_scale(q), some);
        op_copy_rows_into(g, a, i, y); // [1, H, d]
        if (y && some) spread_probs(g, probs, i, some, keys, count);
        graph_scratch_end(g, scratch);
    }
    return a;
}

// Computes one segment at a time, with its keys and values copied behind the prefix.
struct tensor *attend_segments(struct graph *g, const struct segments *s, struct tensor *end,
                               struct tensor *q, struct tensor *k, struct tensor *v)
{
    if (!q || !k || !v) return NULL;
    struct tensor *a = graph_new3(g, DTYPE_F32, q->shape[0], q->shape[1], v->shape[2]);
    for (int64_t i = 0, at = 0, n; i < s->count && graph_ok(g); i++, at += n) {
        n = s->of[i].n;
        if (!n) continue;
        const int64_t own = s->of[i].cached + n, from = segment_row(s, (int)i);
        struct arena_mark scratch = graph_scratch_begin(g);
        op_copy_rows_into(g, k, s->prefix, graph_rows(g, k, from, own));
        op_copy_rows_into(g, v, s->prefix, graph_rows(g, v, from, own));
        struct tensor *rows = graph_rows(g, q, at, n), *ends = graph_rows(g, end, at, n);
        struct tensor *keys = graph_rows(g, k, 0, s->prefix + own);
        struct tensor *values = graph_rows(g, v, 0, s->prefix + own);
        const float scale = attend_scale(q);
        op_copy_rows_into(g, a, at, op_attention(g, rows, keys, values, NULL, ends, scale, NULL));
        graph_scratch_end(g, scratch);
    }
    return a;
}

struct tensor *attend_probs(struct graph *g, struct tensor *q, struct tensor *k)
{
    if (!q || !k || !graph_ok(g)) return NULL;
    struct tensor *probs = graph_new3(g, DTYPE_F32, q->shape[1], 1, k->shape[0]);
    // Only the probabilities matter: the keys serve as values.
    return op_attention(g, q, k, k, NULL, NULL, attend_scale(q), probs) ? probs : NULL;
}

struct tensor *attend_contribution(struct graph *g, const struct linear *o, struct tensor *probs,
                                   struct tensor *v, const int32_t *index, int64_t n)
{
    enum { ROWS = 512 };
    // The bias belongs to no token.
    const struct linear product = { .weight = o->weight, .lora = o->lora };
    if (!probs || !v || !graph_ok(g)) return NULL;
    int64_t heads = probs->shape[0], keys = probs->shape[2], width = heads * v->shape[2];
    struct tensor *norms = graph_new1(g, DTYPE_F32, n); // [n]
    if (!op_want_indices(g, "contribution", index, n, keys)) return NULL;
    for (int64_t i = 0, m; i < n && graph_ok(g); i += m) {
        m = n - i < ROWS ? n - i : ROWS;
        struct arena_mark scratch = graph_scratch_begin(g);
        struct tensor *rows = graph_upload(g, DTYPE_I32, 1, &m, index + i);
        struct tensor *x = graph_new2(g, DTYPE_F32, m, width); // [m, H*d]
        struct tensor *flat = graph_view(g, probs, 2, (int64_t[]){ heads, keys });
        if (x && rows && flat)
            x = op_done(g, "contribution", g->backend->weigh_values(x, flat, v, rows), x);
        x = linear_forward(g, x, &product); // [m, D]
        struct tensor *part = graph_rows(g, norms, i, m);
        if (x && part) op_done(g, "contribution", g->backend->row_norms(part, x), part);
        graph_scratch_end(g, scratch);
    }
    return graph_ok(g) ? norms : NULL;
}

struct tensor *attend_columns(struct graph *g, struct tensor *x, int64_t first, int64_t count)
{
    const struct column_part part = { x, { first, 1, count } };
    return x ? op_columns_of(g, x->shape[0], &part, 1) : NULL;
}
