// core/model/attend.c -- attention beyond the plain op: rows that see selected keys only, the
// probabilities of one row, and the contribution of single tokens.
#include "core/model/attend.h"

#include <stdlib.h>

#include "core/model/layer.h"
#include "core/ops/check.h"
#include "core/ops/ops.h"

// Scatters probabilities [H,1,count] of row i over selected keys into probs [H,n,P]; the row's
// other elements are 0. of_heads [H]: only these heads; NULL: all.
static void spread_probs(struct graph *g, struct tensor *probs, int64_t i,
                         const struct tensor *some, const int32_t *keys, int64_t count,
                         const bool *of_heads)
{
    int64_t heads = probs->shape[0], n = probs->shape[1], width = probs->shape[2];
    float *from = xreallocarray(NULL, (size_t)(heads * count), sizeof *from);
    float *row = xcalloc((size_t)width, sizeof *row);
    g->backend->download(from, some->data, tensor_bytes(some));
    for (int64_t h = 0; h < heads; h++) {
        if (of_heads && !of_heads[h]) continue;
        for (int64_t j = 0; j < count; j++) row[keys[j]] = from[h * count + j];
        g->backend->upload((float *)probs->data + (h * n + i) * width, row,
                           (size_t)width * sizeof *row);
    }
    free(from);
    free(row);
}

// Writes the outputs y [m,H,dv] of rows[m] to a [n,H,dv]; heads [H]: only these heads; NULL: all.
static void put_heads(struct graph *g, struct tensor *a, const int32_t *rows, struct tensor *y,
                      const bool *heads)
{
    if (heads && y) {
        const int64_t m = y->shape[0], H = y->shape[1], dv = y->shape[2];
        struct tensor *now = op_gather_rows(g, a, rows, m);
        struct tensor *to = now ? graph_view(g, now, 2, (int64_t[]){ m, H * dv }) : NULL;
        struct tensor *from = graph_view(g, y, 2, (int64_t[]){ m, H * dv });
        for (int64_t h = 0; h < H && to && from && graph_ok(g); h++) {
            struct tensor *part = heads[h] ? attend_columns(g, from, h * dv, dv) : NULL;
            const struct columns all = { 0, 1, dv };
            if (part && g->backend->put_columns(to, h * dv, part, all) < 0)
                graph_fail(g, "attention: %s", g->backend->failure());
        }
        y = now;
    }
    op_scatter_rows(g, a, y, rows);
}

// Queries, keys and values, and the factor of the scores.
struct attending {
    struct tensor *q, *k, *v;
    float scale;
};

// Computes the attention of row i over these keys, and writes it to a.
static void attend_row(struct graph *g, struct tensor *a, const struct attending *of, int64_t i,
                       const int32_t *keys, int64_t count, const bool *heads)
{
    const int32_t row = (int32_t)i;
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *some_k = op_gather_rows(g, of->k, keys, count); // [count, Hkv, d]
    struct tensor *some_v = op_gather_rows(g, of->v, keys, count);
    struct tensor *y =
        op_attention(g, graph_rows(g, of->q, i, 1), some_k, some_v, NULL, NULL, of->scale, NULL);
    put_heads(g, a, &row, y, heads); // [1, H, dv]
    graph_scratch_end(g, scratch);
}

// Writes the probabilities of row i over these keys to probs. Outputs are computed without them, so
// that a probe changes no bit.
static void put_probs(struct graph *g, struct tensor *probs, const struct attending *of, int64_t i,
                      const int32_t *keys, int64_t count, const bool *heads)
{
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *k = op_gather_rows(g, of->k, keys, count);
    struct tensor *some = attend_probs(g, graph_rows(g, of->q, i, 1), k, 0, of->scale);
    if (some) spread_probs(g, probs, i, some, keys, count, heads);
    graph_scratch_end(g, scratch);
}

// Computes rows i..i+m-1, which see the first keys of one list, in one product. Keys before a row's
// window stay in the product, so that the bits of few rows do not depend on their number.
static void attend_rows(struct graph *g, struct tensor *a, const struct attending *of,
                        const struct seen_keys *seen, const struct pass_view *view, int64_t i,
                        int64_t m)
{
    const int32_t *list = seen->keys[i - seen->from];
    const int64_t *counts = seen->count + i - seen->from;
    int32_t *rows = xreallocarray(NULL, 3 * (size_t)m + 1, sizeof *rows);
    int32_t *first = rows + m, *end = first + m;
    int64_t most = 0;
    for (int64_t r = 0; r < m; r++) {
        const struct site_keys keys = seen_keys_from(seen, i + r, view->host_first[i + r]);
        rows[r] = (int32_t)(i + r);
        first[r] = (int32_t)(counts[r] - keys.count);
        end[r] = (int32_t)counts[r];
        if (counts[r] > most) most = counts[r];
    }
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *y =
        op_attention(g, op_gather_rows(g, of->q, rows, m), op_gather_rows(g, of->k, list, most),
                     op_gather_rows(g, of->v, list, most), graph_upload(g, DTYPE_I32, 1, &m, first),
                     graph_upload(g, DTYPE_I32, 1, &m, end), of->scale, NULL);
    put_heads(g, a, rows, y, NULL);
    graph_scratch_end(g, scratch);
    free(rows);
}

// Returns how many rows from row i on share one list of keys.
static int64_t rows_alike(const struct seen_keys *seen, int64_t i, int64_t n)
{
    int64_t m = 1;
    while (i + m < n && seen->keys[i + m - seen->from] == seen->keys[i - seen->from]) m++;
    return m;
}

// The keys that remain visible when seen->hidden applies.
struct visible {
    const struct seen_keys *seen;
    int64_t n, keys;            // N, P
    const int32_t *first, *end; // [N]
    int32_t *before;            // [P+1] keys before key j that are not hidden
};

static bool chooses(const struct visible *w, int64_t i)
{
    return w->seen->keys && i >= w->seen->from;
}

// Returns row i's own key: the new keys come last.
static int64_t own_key(const struct visible *w, int64_t i)
{
    return w->keys - w->n + i;
}

// Lists the keys that row i still sees, always with its own key; returns 0 if it loses no key.
static int64_t list_visible(const struct visible *w, int64_t i, int32_t *list)
{
    const struct site_keys all =
        chooses(w, i) ? seen_keys_from(w->seen, i, w->first[i])
                      : (struct site_keys){ NULL, w->first[i], w->end[i] - w->first[i] };
    int64_t count = 0;
    for (int64_t j = 0; j < all.count; j++) {
        const int32_t key = (int32_t)site_keys_at(all, j);
        if (!w->seen->hidden.keys[key] || key == own_key(w, i)) list[count++] = key;
    }
    return count < all.count ? count : 0;
}

// Computes rows[m] in one product: each sees a range of the keys that are not hidden.
static void attend_group(struct graph *g, const struct visible *w, struct tensor *a,
                         const struct attending *of, const int32_t *rows, int64_t m)
{
    const struct hidden_keys *hidden = &w->seen->hidden;
    int32_t *list = xreallocarray(NULL, (size_t)(w->keys + 2 * m) + 1, sizeof *list);
    int32_t *first = list + w->keys, *end = first + m;
    int64_t count = 0;
    for (int64_t j = 0; j < w->keys; j++)
        if (!hidden->keys[j]) list[count++] = (int32_t)j;
    for (int64_t i = 0; i < m; i++) {
        first[i] = w->before[w->first[rows[i]]];
        end[i] = w->before[w->end[rows[i]]];
    }
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *y = op_attention(
        g, op_gather_rows(g, of->q, rows, m), op_gather_rows(g, of->k, list, count),
        op_gather_rows(g, of->v, list, count), graph_upload(g, DTYPE_I32, 1, &m, first),
        graph_upload(g, DTYPE_I32, 1, &m, end), of->scale, NULL);
    put_heads(g, a, rows, y, hidden->heads);
    graph_scratch_end(g, scratch);
    free(list);
}

// True if hidden keys change row i, which sees a range of keys.
static bool loses(const struct visible *w, int64_t i)
{
    const int64_t all = w->end[i] - w->first[i], own = own_key(w, i);
    const int64_t left = w->before[w->end[i]] - w->before[w->first[i]];
    return w->seen->hidden.rows[i] && left + w->seen->hidden.keys[own] < all;
}

// True if every row is computed again, all heads of it in attend_group.
static bool loses_everywhere(const struct visible *w)
{
    if (w->seen->keys || w->seen->hidden.heads) return false;
    for (int64_t i = 0; i < w->n; i++)
        if (!loses(w, i) || w->seen->hidden.keys[own_key(w, i)]) return false;
    return true;
}

// Recomputes the rows from which keys are hidden. A row needs a product of its own only if its own
// key is hidden or a method chose its keys.
static void attend_hidden(struct graph *g, struct tensor *a, const struct attending *of,
                          const struct visible *w, struct tensor *probs)
{
    const struct hidden_keys *hidden = &w->seen->hidden;
    int32_t *list = xreallocarray(NULL, (size_t)w->keys + 1, sizeof *list);
    int32_t *group = xreallocarray(NULL, (size_t)w->n + 1, sizeof *group);
    int64_t m = 0;
    for (int64_t i = 0; i < w->n && graph_ok(g); i++) {
        if (!hidden->rows[i] || (!chooses(w, i) && !loses(w, i))) continue;
        const bool grouped = !chooses(w, i) && !hidden->keys[own_key(w, i)];
        const int64_t count = grouped && !probs ? 0 : list_visible(w, i, list);
        if (grouped)
            group[m++] = (int32_t)i;
        else if (count)
            attend_row(g, a, of, i, list, count, hidden->heads);
        if (count && probs) put_probs(g, probs, of, i, list, count, hidden->heads);
    }
    if (m && graph_ok(g)) attend_group(g, w, a, of, group, m);
    free(list);
    free(group);
}

// Describes the keys that rows still see if some are hidden; free `before`.
static struct visible visible_of(const struct seen_keys *seen, const struct pass_view *view,
                                 int64_t n, int64_t keys)
{
    struct visible w = {
        .seen = seen, .n = n, .keys = keys, .first = view->host_first, .end = view->host_end
    };
    if (!seen->hidden.rows) return w;
    w.before = xcalloc((size_t)keys + 1, sizeof *w.before);
    for (int64_t j = 0; j < keys; j++) w.before[j + 1] = w.before[j] + !seen->hidden.keys[j];
    return w;
}

struct tensor *attend(struct graph *g, const struct qkv *all, const struct pass_view *view,
                      float scale, const struct seen_keys *seen, struct tensor *probs)
{
    struct tensor *q = all->q, *k = all->k, *v = all->v;
    if (!q || !k || !v || !graph_ok(g)) return NULL;
    int64_t n = q->shape[0], plain = seen->keys ? seen->from : n;
    struct visible w = visible_of(seen, view, n, k->shape[0]);
    struct tensor *a;
    if (probs || (plain > 0 && !(w.before && loses_everywhere(&w))))
        a = op_attention(g, q, k, v, view->first, view->end, scale, probs);
    else
        a = graph_new3(g, DTYPE_F32, n, q->shape[1], v->shape[2]);
    const struct attending of = { q, k, v, scale };
    for (int64_t i = plain, m; i < n && graph_ok(g); i += m) { // rows that see selected keys
        m = rows_alike(seen, i, n);
        attend_rows(g, a, &of, seen, view, i, m);
    }
    for (int64_t i = plain; probs && i < n && graph_ok(g); i++) {
        const struct site_keys keys = seen_keys_from(seen, i, view->host_first[i]);
        put_probs(g, probs, &of, i, keys.list, keys.count, NULL);
    }
    if (w.before && a && graph_ok(g)) attend_hidden(g, a, &of, &w, probs);
    free(w.before);
    return a;
}

// Computes one segment at a time, with its keys and values copied behind the prefix.
struct tensor *attend_segments(struct graph *g, const struct segments *s,
                               const struct pass_view *view, float scale, const struct qkv *all)
{
    struct tensor *q = all->q, *k = all->k, *v = all->v;
    if (!q || !k || !v) return NULL;
    struct tensor *a = graph_new3(g, DTYPE_F32, q->shape[0], q->shape[1], v->shape[2]);
    for (int64_t i = 0, at = 0, n; i < s->count && graph_ok(g); i++, at += n) {
        n = s->of[i].n;
        if (!n) continue;
        const int64_t own = s->of[i].cached + n, from = segment_row(s, (int)i);
        struct arena_mark scratch = graph_scratch_begin(g);
        op_copy_rows_into(g, k, s->prefix, graph_rows(g, k, from, own));
        op_copy_rows_into(g, v, s->prefix, graph_rows(g, v, from, own));
        struct tensor *rows = graph_rows(g, q, at, n), *ends = graph_rows(g, view->end, at, n);
        struct tensor *firsts = graph_rows(g, view->first, at, n);
        struct tensor *keys = graph_rows(g, k, 0, s->prefix + own);
        struct tensor *values = graph_rows(g, v, 0, s->prefix + own);
        op_copy_rows_into(g, a, at, op_attention(g, rows, keys, values, firsts, ends, scale, NULL));
        graph_scratch_end(g, scratch);
    }
    return a;
}

struct tensor *attend_probs(struct graph *g, struct tensor *q, struct tensor *k, int64_t first,
                            float scale)
{
    if (!q || !k || !graph_ok(g)) return NULL;
    const int32_t from = (int32_t)first;
    const int64_t one = 1;
    struct tensor *probs = graph_new3(g, DTYPE_F32, q->shape[1], 1, k->shape[0]);
    struct tensor *seen = first ? graph_upload(g, DTYPE_I32, 1, &one, &from) : NULL;
    // Only the probabilities matter: the keys serve as values.
    return op_attention(g, q, k, k, seen, NULL, scale, probs) ? probs : NULL;
}

// Returns the sigmoids [H*d] of the gates [1,H,d] of a row.
static struct tensor *gate_factors(struct graph *g, struct tensor *gate)
{
    struct tensor *ones = gate ? graph_new1(g, DTYPE_F32, tensor_count(gate)) : NULL;
    if (!ones || !op_done(g, "gates", g->backend->fill(ones, 1), ones)) return NULL;
    return op_sigmoid_gate(g, ones, graph_view(g, gate, 1, ones->shape));
}

struct tensor *attend_contribution(struct graph *g, const struct linear *o, struct tensor *probs,
                                   struct tensor *v, struct tensor *gate, const int32_t *index,
                                   int64_t n)
{
    enum { ROWS = 512 };
    // The bias belongs to no token.
    const struct linear product = { .weight = o->weight, .lora = o->lora };
    if (!probs || !v || !graph_ok(g)) return NULL;
    int64_t heads = probs->shape[0], keys = probs->shape[2], width = heads * v->shape[2];
    struct tensor *norms = graph_new1(g, DTYPE_F32, n); // [n]
    struct tensor *factors = gate_factors(g, gate);
    if (!op_want_indices(g, "contribution", index, n, keys)) return NULL;
    for (int64_t i = 0, m; i < n && graph_ok(g); i += m) {
        m = n - i < ROWS ? n - i : ROWS;
        struct arena_mark scratch = graph_scratch_begin(g);
        struct tensor *rows = graph_upload(g, DTYPE_I32, 1, &m, index + i);
        struct tensor *x = graph_new2(g, DTYPE_F32, m, width); // [m, H*dv]
        struct tensor *flat = graph_view(g, probs, 2, (int64_t[]){ heads, keys });
        if (x && rows && flat)
            x = op_done(g, "contribution", g->backend->weigh_values(x, flat, v, rows), x);
        if (factors) x = op_scale_columns(g, x, factors);
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
