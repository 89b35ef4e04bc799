// core/model/attention_latent.c -- multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434,
// section 2.1): one short latent per token gives the keys and values of all heads.
//
//   x = before(h)
//   q = Wqb norm(Wqa x), or Wq x                    [n, H, nope + rope], its last part rotated
//   (c, r) = Wkva x;  c = norm(c), r rotated        [n, R], [n, rope]: the cache holds these
//   (k, v) of a head = Wkvb c, r after each k       [P, H, nope + rope], [P, H, v]
//   h += after(o(attention(q, k, v)))
//
// Few rows over many keys (an answer's tokens) do not need k and v. Wkvb moves to the other side of
// both products ("absorbed"), so that a row reads only its keys' latents:
//
//   q k = (q_nope Wk) c + q_rope r;   sum of p v = Wv (sum of p c)
//
// A GPU fuses the absorbed form of few rows (kernels/fused.h). Sizes and methods choose the form,
// so a probe changes no bit. Without methods, few rows are always absorbed, so that each is
// bit-identical to the row computed alone (backend->few_rows). A method that changes values (IRA)
// needs v of each head: a layer with such a method caches k and v.
//
// Files pair rotated elements 2i and 2i + 1. op_rope needs the first elements of all pairs before
// the second ones; reordering q and k alike changes no product.
#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/attend.h"
#include "core/model/fused.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

// --- config and weights --------------------------------------------------------------------------

// Shapes: [R+rope,D] [R] [H*(nope+v),R], then Wq [H*d,D], or Wqa [Rq,D], its norm [Rq], Wqb
// [H*d,Rq]. The output projection follows.
enum { DOWN, DOWN_NORM, UP, Q, Q_NORM, Q_UP };

// Epsilon of the norms between projections, whatever rms_norm_eps says.
static const float latent_eps = 1e-6F;

static int latent_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    struct latent_config *l = &c->latent;
    const cJSON *q_rank = cJSON_GetObjectItemCaseSensitive(json, "q_lora_rank"); // null: none
    bool neighbours;
    if (json_int(json, "num_attention_heads", 1, 10000, 128, &c->heads, err) < 0 ||
        (!cJSON_IsNull(q_rank) &&
         json_int(json, "q_lora_rank", 1, 1000000, 1536, &l->q_rank, err) < 0) ||
        json_int(json, "kv_lora_rank", 1, 1000000, 512, &l->rank, err) < 0 ||
        json_int(json, "qk_nope_head_dim", 1, 10000, 128, &l->nope, err) < 0 ||
        json_int(json, "qk_rope_head_dim", 2, 10000, 64, &l->rope, err) < 0 ||
        json_int(json, "v_head_dim", 1, 10000, 128, &c->value_dim, err) < 0 ||
        json_bool(json, "attention_bias", false, &l->bias, err) < 0 ||
        json_bool(json, "rope_interleave", true, &neighbours, err) < 0)
        return -1;
    if (!neighbours) return err_set(err, "\"rope_interleave\" false is not supported");
    if (l->rope % 2)
        return err_set(err, "\"qk_rope_head_dim\" %lld cannot be rotated: it must be even",
                       (long long)l->rope);
    c->kv_heads = c->heads;
    c->dim = l->nope + l->rope;
    c->rope.dim = l->rope;
    c->rope.first = l->nope;
    if (c->value_dim <= c->dim) return 0;
    return err_set(err, "\"v_head_dim\" %lld is wider than queries and keys, %lld",
                   (long long)c->value_dim, (long long)c->dim);
}

static bool latent_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const struct latent_config *l = &c->latent;
    const int64_t D = c->hidden, H = c->heads;
    const struct layer_weight query = { .name = "self_attn.q_proj", .out = H * c->dim, .in = D };
    const struct layer_weight out = {
        .name = "self_attn.o_proj", .out = D, .in = H * c->value_dim, .bias = l->bias
    };
    const struct layer_weight all[] = {
        [DOWN] = { .name = "self_attn.kv_a_proj_with_mqa",
                   .out = l->rank + l->rope,
                   .in = D,
                   .bias = l->bias },
        [DOWN_NORM] = { .name = "self_attn.kv_a_layernorm", .out = l->rank },
        [UP] = { .name = "self_attn.kv_b_proj",
                 .out = H * (l->nope + c->value_dim),
                 .in = l->rank },
        [Q] = { .name = "self_attn.q_a_proj", .out = l->q_rank, .in = D, .bias = l->bias },
        [Q_NORM] = { .name = "self_attn.q_a_layernorm", .out = l->q_rank },
        [Q_UP] = { .name = "self_attn.q_b_proj", .out = H * c->dim, .in = l->q_rank },
    };
    const int last = l->q_rank ? Q_UP + 1 : Q + 1;
    if (i > last) return false;
    *w = i == last ? out : i == Q && !l->q_rank ? query : all[i];
    return true;
}

// The cache holds latents as values, and rotated elements as keys.
static struct kv_row latent_cached(const struct decoder_config *c, int layer)
{
    return (struct kv_row){ .k = { 1, c->latent.rope }, .v = { 1, c->latent.rank } };
}

static struct kv_row latent_expanded(const struct decoder_config *c, int layer)
{
    return (struct kv_row){ .k = { c->heads, c->dim }, .v = { c->heads, c->value_dim } };
}

static double latent_pair_flops(const struct decoder_config *c, int layer)
{
    return 2 * (double)(c->heads * (c->dim + c->value_dim));
}

// --- parts of heads ------------------------------------------------------------------------------

static struct tensor *flat(struct graph *g, struct tensor *x, int64_t rows, int64_t columns)
{
    return graph_view(g, x, 2, (int64_t[]){ rows, columns });
}

// Rotates the `rope` columns of x [rows, ..] from `first` on: [rows, rope]. Each token has `heads`
// rows.
static struct tensor *rotated(struct graph *g, const struct layer *layer, struct tensor *x,
                              int64_t rows, int64_t first, int64_t heads, struct tensor *cos,
                              struct tensor *sin)
{
    const int64_t rope = layer->pass->config->latent.rope;
    const struct column_part pairs[] = { { x, { first, 2, rope / 2 } },
                                         { x, { first + 1, 2, rope / 2 } } };
    struct tensor *y = x ? op_columns_of(g, rows, pairs, 2) : NULL;
    y = y ? op_rope(g, graph_view3(g, y, rows / heads, heads, rope), cos, sin) : NULL;
    return y ? flat(g, y, rows, rope) : NULL;
}

// Computes the rotated queries of rows x [m, D]: [m, H, d].
static struct tensor *queries(struct graph *g, const struct layer *layer, struct tensor *x,
                              int64_t m, struct tensor *cos, struct tensor *sin)
{
    const struct decoder_config *c = layer->pass->config;
    const struct linear *w = layer->w->attention.weight;
    const int64_t rows = m * c->heads, nope = c->latent.nope;
    struct tensor *q = linear_forward(g, x, &w[Q]);
    if (c->latent.q_rank) {
        q = op_rmsnorm(g, q, graph_weight(&w[Q_NORM].weight), latent_eps);
        q = linear_forward(g, q, &w[Q_UP]);
    }
    if (!q) return NULL;
    q = flat(g, q, rows, c->dim);
    const struct column_part parts[] = {
        { q, { 0, 1, nope } },
        { rotated(g, layer, q, rows, nope, c->heads, cos, sin), { 0, 1, c->latent.rope } },
    };
    q = op_columns_of(g, rows, parts, 2);
    // Scales the queries rather than the scores, because several functions compute scores.
    const float gain = (float)rope_score_gain(&c->rope);
    if (q && gain != 1) q = op_scale(g, q, gain);
    return q ? graph_view3(g, q, m, c->heads, c->dim) : NULL;
}

// The latents of rows, and the rotated elements of their keys: [m, R], [m, rope].
struct latents {
    struct tensor *c, *r;
};

// Splits `both` [m, R + rope], the product of DOWN.
static struct latents latents_of(struct graph *g, const struct layer *layer, struct tensor *both,
                                 int64_t m, struct tensor *cos, struct tensor *sin)
{
    const int64_t rank = layer->pass->config->latent.rank;
    const struct linear *w = layer->w->attention.weight;
    struct tensor *c =
        both ? op_columns_of(g, m, &(struct column_part){ both, { 0, 1, rank } }, 1) : NULL;
    c = op_rmsnorm(g, c, graph_weight(&w[DOWN_NORM].weight), latent_eps);
    return (struct latents){ c, rotated(g, layer, both, m, rank, 1, cos, sin) };
}

// Writes x over columns to.. of y; each row of x is written to one or several rows of y.
static void put(struct graph *g, struct tensor *y, int64_t to, struct tensor *x)
{
    if (!x || !y || !graph_ok(g)) return;
    const struct columns all = { 0, 1, x->shape[1] };
    if (g->backend->put_columns(y, to, x, all) < 0)
        graph_fail(g, "latent attention: %s", g->backend->failure());
}

// Returns the product with rows first .. first+rows-1 of `up` (one head's keys or values); each row
// of the result starts `step` elements after the previous one in y.
static struct rows_product head_part(struct graph *g, const struct linear *up, int64_t first,
                                     int64_t rows, float *y, int64_t step)
{
    return (struct rows_product){ graph_rows(g, graph_weight(&up->weight), first, rows),
                                  graph_rows(g, graph_weight(&up->bias), first, rows), y, step };
}

// Computes the keys and values of many latents on the CPU, without copies; k NULL: not possible.
static struct qkv expand_at_once(struct graph *g, const struct layer *layer, struct latents l)
{
    const struct decoder_config *c = layer->pass->config;
    const struct linear *up = &layer->w->attention.weight[UP];
    const int64_t H = c->heads, nope = c->latent.nope, wide = nope + c->value_dim;
    if (!g->backend->rows_products || g->tape || !l.c || !l.r || !fused_is_plain(up, 1) ||
        l.c->shape[0] <= backend_few_rows(g->backend))
        return (struct qkv){ 0 };
    const int64_t m = l.c->shape[0];
    const struct arena_mark mark = arena_mark(g->arena);
    struct qkv to = { .k = graph_new3(g, DTYPE_F32, m, H, c->dim),
                      .v = graph_new3(g, DTYPE_F32, m, H, c->value_dim) };
    if (!to.k || !to.v) return (struct qkv){ 0 };
    struct rows_product *part = xreallocarray(NULL, (size_t)H, 2 * sizeof *part);
    for (int64_t h = 0; h < H; h++) {
        float *k = (float *)to.k->data + h * c->dim, *v = (float *)to.v->data + h * c->value_dim;
        part[2 * h] = head_part(g, up, h * wide, nope, k, H * c->dim);
        part[2 * h + 1] = head_part(g, up, h * wide + nope, c->value_dim, v, H * c->value_dim);
    }
    const bool done = fused_products(g, l.c, &(struct norm_gain){ 0 }, part, (int)(2 * H));
    free(part);
    if (done) {
        put(g, flat(g, to.k, m * H, c->dim), nope, l.r);
        return to;
    }
    arena_reset(g->arena, mark);
    return (struct qkv){ 0 };
}

// Computes the keys and values of all heads: [m, H, d], [m, H, v].
static struct qkv expand(struct graph *g, const struct layer *layer, struct latents l)
{
    const struct qkv at_once = expand_at_once(g, layer, l);
    if (at_once.k || !graph_ok(g)) return at_once;
    const struct decoder_config *c = layer->pass->config;
    const int64_t nope = c->latent.nope, wide = nope + c->value_dim;
    struct tensor *both = linear_forward(g, l.c, &layer->w->attention.weight[UP]);
    if (!both || !l.r) return (struct qkv){ 0 };
    const int64_t m = both->shape[0], rows = m * c->heads;
    both = flat(g, both, rows, wide);
    const struct column_part key[] = { { both, { 0, 1, nope } },
                                       { l.r, { 0, 1, c->latent.rope } } };
    struct tensor *k = op_columns_of(g, rows, key, 2);
    struct tensor *v =
        op_columns_of(g, rows, &(struct column_part){ both, { nope, 1, c->value_dim } }, 1);
    if (!k || !v) return (struct qkv){ 0 };
    return (struct qkv){ .k = graph_view3(g, k, m, c->heads, c->dim),
                         .v = graph_view3(g, v, m, c->heads, c->value_dim) };
}

// Returns the first `keys` rows of a table of the cache, [keys, columns] in f32.
static struct tensor *cached_rows(struct graph *g, struct tensor *table, int64_t keys)
{
    struct tensor *rows = graph_rows(g, table, 0, keys);
    if (rows && rows->dtype != DTYPE_F32) rows = op_widen(g, rows);
    return rows ? flat(g, rows, keys, tensor_row(table)) : NULL;
}

// --- projections ---------------------------------------------------------------------------------

static bool holds_latents(const struct layer *layer)
{
    return layer->cache->v.shape[1] == 1 &&
           layer->cache->v.shape[2] == layer->pass->config->latent.rank &&
           layer->cache->k.shape[2] == layer->pass->config->latent.rope;
}

// On the CPU, for many rows h [m, D]: writes their queries to q and returns the product of DOWN.
// Normalises and packs the rows once, and rotates queries in place. NULL: not possible.
static struct tensor *project_at_once(struct graph *g, const struct layer *layer, struct tensor *h,
                                      struct tensor *q, struct tensor *cos, struct tensor *sin)
{
    const struct decoder_config *c = layer->pass->config;
    const struct latent_config *l = &c->latent;
    const struct linear *w = layer->w->attention.weight;
    const struct norm_gain norm = { graph_weight(&layer->w->attention.before), (float)c->eps };
    if (!g->backend->rows_products || !g->backend->rope_tail || g->tape || !h || !q ||
        h->shape[0] <= backend_few_rows(g->backend) || rope_score_gain(&c->rope) != 1)
        return NULL;
    const int64_t m = h->shape[0];
    const struct arena_mark mark = arena_mark(g->arena);
    struct tensor *latent_q = l->q_rank ? graph_new2(g, DTYPE_F32, m, l->q_rank) : q;
    struct tensor *both = graph_new2(g, DTYPE_F32, m, l->rank + l->rope);
    bool done = fused_each(g, h, &norm, (const struct linear *[]){ &w[Q], &w[DOWN] }, 2,
                           (struct tensor *[]){ latent_q, both });
    if (done && l->q_rank) {
        const struct norm_gain inner = { graph_weight(&w[Q_NORM].weight), latent_eps };
        done = fused_each(g, latent_q, &inner, (const struct linear *[]){ &w[Q_UP] }, 1, &q);
    }
    if (done && graph_ok(g) && g->backend->rope_tail(q, l->nope, cos, sin) == 0) return both;
    arena_reset(g->arena, mark);
    return NULL;
}

// Computes the queries of all rows; caches their latents, or their keys and values.
static struct tensor *project(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct pass *p = layer->pass;
    const struct decoder_config *c = p->config;
    struct tensor *q = graph_new3(g, DTYPE_F32, p->n, c->heads, c->dim);
    for (int64_t i = 0, m; i < p->n && graph_ok(g); i += m) {
        m = layer_rows(g, p->n, i);
        struct arena_mark block = graph_scratch_begin(g);
        struct tensor *cos = graph_rows(g, layer->view->cos, i, m);
        struct tensor *sin = graph_rows(g, layer->view->sin, i, m);
        struct tensor *cache_rows = graph_rows(g, p->cache_rows, i, m);
        struct tensor *rows = graph_rows(g, h, i, m);
        struct tensor *both = project_at_once(g, layer, rows, graph_rows(g, q, i, m), cos, sin);
        if (!both) {
            struct tensor *x = layer_rmsnorm(g, layer, &layer->w->attention.before, rows);
            op_copy_rows_into(g, q, i, queries(g, layer, x, m, cos, sin));
            both = linear_forward(g, x, &layer->w->attention.weight[DOWN]);
        }
        struct latents l = latents_of(g, layer, both, m, cos, sin);
        struct tensor *k = l.r, *v = l.c;
        if (!holds_latents(layer)) {
            const struct qkv all = expand(g, layer, l);
            k = all.k, v = all.v;
        }
        op_put_rows(g, &layer->cache->k, k, cache_rows);
        op_put_rows(g, &layer->cache->v, v, cache_rows);
        graph_scratch_end(g, block);
    }
    return q;
}

// --- absorbed ------------------------------------------------------------------------------------

// True if the pass uses the absorbed form: for few rows, and for many if it takes fewer
// multiply-adds; never if the cache holds keys and values, or if a method listens at SITE_VALUES or
// SITE_HEADS.
static bool absorbs(const struct graph *g, const struct layer *layer)
{
    const struct pass *p = layer->pass;
    const struct decoder_config *c = p->config;
    if (!holds_latents(layer) || hooks_changing(g, SITE_VALUES, layer->number) ||
        hooks_changing(g, SITE_HEADS, layer->number))
        return false;
    if (p->n <= backend_few_rows(g->backend)) return true;
    // Cost per head, without the products that both forms share.
    const double n = (double)p->n, past = (double)p->past, pairs = n * (past + n / 2);
    const double rank = (double)c->latent.rank, wide = (double)(c->latent.nope + c->value_dim);
    const double expanded = (past + n) * rank * wide + pairs * (double)(c->dim + c->value_dim);
    return n * rank * wide + pairs * (2 * rank + (double)c->latent.rope) < expanded;
}

// Returns `count` rows of a linear layer, from row `from` on, as a layer; *lora receives the LoRA
// of these rows.
static struct linear linear_rows(struct graph *g, const struct linear *w, int64_t from,
                                 int64_t count, struct lora *lora)
{
    struct linear part = { .weight = *graph_rows(g, (struct tensor *)&w->weight, from, count) };
    if (!w->lora) return part;
    *lora = *w->lora;
    lora->b = *graph_rows(g, &w->lora->b, from, count);
    part.lora = lora;
    return part;
}

// Multiplies x [n, out] by W [out, in], without transposing W.
static struct tensor *times(struct graph *g, struct tensor *x, const struct tensor *w)
{
    struct tensor *y = x ? graph_new2(g, DTYPE_F32, x->shape[0], w->shape[1]) : NULL;
    if (!y) return NULL;
    if (g->backend->matmul_dx(y, x, w, false, g->matmul) < 0)
        return graph_fail(g, "latent attention: %s", g->backend->failure());
    return y;
}

static struct tensor *linear_times(struct graph *g, struct tensor *x, const struct linear *w)
{
    struct tensor *y = times(g, x, &w->weight);
    if (!w->lora) return y;
    struct tensor *low = op_scale(g, times(g, x, &w->lora->b), w->lora->scale);
    return op_add(g, y, times(g, low, &w->lora->a));
}

// Computes q_nope Wk of all heads: [n, H*R].
static struct tensor *latent_queries(struct graph *g, const struct layer *layer, struct tensor *q)
{
    const struct decoder_config *c = layer->pass->config;
    const int64_t n = q->shape[0], nope = c->latent.nope, rank = c->latent.rank;
    struct tensor *wide = flat(g, q, n, c->heads * c->dim);
    struct tensor *y = graph_new2(g, DTYPE_F32, n, c->heads * rank);
    for (int64_t h = 0; h < c->heads && graph_ok(g); h++) {
        struct arena_mark head = graph_scratch_begin(g);
        struct lora lora;
        const struct linear keys =
            linear_rows(g, &layer->w->attention.weight[UP], h * (nope + c->value_dim), nope, &lora);
        put(g, y, h * rank, linear_times(g, attend_columns(g, wide, h * c->dim, nope), &keys));
        graph_scratch_end(g, head);
    }
    return y;
}

// Multiplies the gathered latents [n, H*R] by Wv: [n, H*v].
static struct tensor *values_of(struct graph *g, const struct layer *layer, struct tensor *gathered)
{
    const struct decoder_config *c = layer->pass->config;
    const int64_t n = gathered->shape[0], rank = c->latent.rank, wide = c->value_dim;
    struct tensor *a = graph_new2(g, DTYPE_F32, n, c->heads * wide);
    for (int64_t h = 0; h < c->heads && graph_ok(g); h++) {
        struct arena_mark head = graph_scratch_begin(g);
        struct lora lora;
        const struct linear values =
            linear_rows(g, &layer->w->attention.weight[UP],
                        h * (c->latent.nope + wide) + c->latent.nope, wide, &lora);
        put(g, a, h * wide,
            linear_forward(g, attend_columns(g, gathered, h * rank, rank), &values));
        graph_scratch_end(g, head);
    }
    return a;
}

// Sums p c over the keys for each head of row i: [H, R].
static struct tensor *gather_row(struct graph *g, const struct layer *layer, struct tensor *q,
                                 struct tensor *latent_q, int64_t i)
{
    const struct decoder_config *c = layer->pass->config;
    const int64_t keys = layer->pass->past + i + 1, H = c->heads;
    struct tensor *latents = graph_rows(g, &layer->cache->v, 0, keys);
    struct tensor *rope = graph_rows(g, &layer->cache->k, 0, keys);
    struct tensor *row = graph_rows(g, q, i, 1), *to = graph_rows(g, latent_q, i, 1);
    if (!latents || !rope || !row || !to) return NULL;
    latents = flat(g, latents, keys, c->latent.rank);
    rope = flat(g, rope, keys, c->latent.rope);
    row = attend_columns(g, flat(g, row, H, c->dim), c->latent.nope, c->latent.rope); // [H, rope]
    to = flat(g, to, H, c->latent.rank);                                              // [H, R]
    struct tensor *p = op_add(g, op_matmul(g, to, latents, NULL), op_matmul(g, row, rope, NULL));
    p = op_softmax(g, p, c->score_scale); // [H, keys]
    return times(g, p, latents);
}

// h += after(o(a)), where a is the attention over the latents.
static struct tensor *attend_latents(struct graph *g, const struct layer *layer, struct tensor *h,
                                     struct tensor *q)
{
    const struct decoder_config *c = layer->pass->config;
    struct tensor *latent_q = latent_queries(g, layer, q); // [n, H*R]
    struct tensor *gathered = graph_new2(g, DTYPE_F32, q->shape[0], c->heads * c->latent.rank);
    for (int64_t i = 0; i < q->shape[0] && graph_ok(g); i++) {
        struct arena_mark one = graph_scratch_begin(g);
        struct tensor *row = gather_row(g, layer, q, latent_q, i);
        if (row) row = flat(g, row, 1, c->heads * c->latent.rank);
        op_copy_rows_into(g, gathered, i, row);
        graph_scratch_end(g, one);
    }
    return graph_ok(g) ? layer_output(g, layer, h, values_of(g, layer, gathered)) : NULL;
}

// --- forward pass --------------------------------------------------------------------------------

// Returns q with the keys and values of all rows in the cache.
static struct qkv cached_qkv(struct graph *g, const struct layer *layer, struct tensor *q)
{
    const int64_t keys = layer->pass->keys;
    struct qkv all = { .k = graph_rows(g, &layer->cache->k, 0, keys),
                       .v = graph_rows(g, &layer->cache->v, 0, keys) };
    if (holds_latents(layer))
        all = expand(g, layer,
                     (struct latents){ cached_rows(g, &layer->cache->v, keys),
                                       cached_rows(g, &layer->cache->k, keys) });
    all.q = q;
    return all;
}

// Adds the attention of few rows over the latents to h in one call, in place.
static bool rows_fused(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct pass *p = layer->pass;
    const struct decoder_config *c = p->config;
    const struct sublayer *s = &layer->w->attention;
    const struct linear *w = s->weight;
    const bool low = c->latent.q_rank > 0;
    if (!g->backend->fused || !s->before.data) return false;
    const struct fused_latent form = { .h = h,
                                       .gain = graph_weight(&s->before),
                                       .eps = (float)c->eps,
                                       .query = fused_whole(&w[Q]),
                                       .query_up =
                                           low ? fused_whole(&w[Q_UP]) : (struct fused_linear){ 0 },
                                       .down = fused_whole(&w[DOWN]),
                                       .out = fused_whole(attention_output(layer->w)),
                                       .query_gain = low ? &w[Q_NORM].weight : NULL,
                                       .down_gain = &w[DOWN_NORM].weight,
                                       .up = &w[UP].weight,
                                       .inner_eps = latent_eps,
                                       .cos = layer->view->cos,
                                       .sin = layer->view->sin,
                                       .cache_row = p->cache_rows,
                                       .end = layer->view->end,
                                       .c = graph_rows(g, &layer->cache->v, 0, p->keys),
                                       .r = graph_rows(g, &layer->cache->k, 0, p->keys),
                                       .heads = c->heads,
                                       .nope = c->latent.nope,
                                       .value = c->value_dim,
                                       .scale = (float)rope_score_gain(&c->rope) * c->score_scale,
                                       .after = { graph_weight(&s->after), (float)c->eps, NULL },
                                       .mode = (int)g->matmul };
    return graph_ok(g) && fused_latent(g, w, s->count, &form);
}

// Runs the listeners with the new rows' queries, all keys and values, and the probabilities.
static void show(struct graph *g, const struct layer *layer, struct tensor *q)
{
    struct arena_mark shown = graph_scratch_begin(g);
    const struct qkv all = cached_qkv(g, layer, q);
    if (graph_ok(g)) {
        struct site_args args = layer_site(layer, all.v);
        args.q = all.q, args.k = all.k, args.v = all.v;
        hooks_run(g, SITE_VALUES, &args);
        if (hooks_wanted(g, SITE_ATTN, layer->number) && graph_ok(g)) {
            args.x = graph_new3(g, DTYPE_F32, q->shape[1], layer->pass->n, layer->pass->keys);
            attend(g, &all, layer->view, args.scale, &args.seen, args.x);
            hooks_run(g, SITE_ATTN, &args);
        }
    }
    graph_scratch_end(g, shown);
}

// Fails a recording: the ops need the number of keys on the host.
static struct tensor *unknown_keys(struct graph *g)
{
    return graph_fail(g, "latent attention: only the device knows the keys");
}

// Computes the absorbed form of a pass over cached latents: few rows fused if the device can, else
// op by op. For listeners, show() expands the keys and values.
static bool latent_forward(struct graph *g, const struct layer *layer, struct tensor **h)
{
    const struct pass *p = layer->pass;
    if (!layer->cache || !absorbs(g, layer)) return false;
    const bool shown =
        hooks_wanted(g, SITE_VALUES, layer->number) || hooks_wanted(g, SITE_ATTN, layer->number);
    struct tensor *q = NULL;
    if (p->n <= backend_few_rows(g->backend)) {
        if (shown) {
            struct tensor *x = layer_rmsnorm(g, layer, &layer->w->attention.before, *h);
            q = queries(g, layer, x, p->n, layer->view->cos, layer->view->sin);
        }
        if (rows_fused(g, layer, *h)) {
            if (shown) show(g, layer, q);
            return true;
        }
    }
    q = p->recorded ? unknown_keys(g) : project(g, layer, *h);
    if (q && graph_ok(g) && shown) show(g, layer, q);
    *h = q && graph_ok(g) ? attend_latents(g, layer, *h, q) : NULL;
    return true;
}

// Computes the expanded form.
static struct qkv latent_qkv(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct pass *p = layer->pass;
    if (!layer->cache) {
        struct tensor *cos = layer->view->cos, *sin = layer->view->sin;
        struct tensor *x = layer_rmsnorm(g, layer, &layer->w->attention.before, h);
        struct tensor *both = linear_forward(g, x, &layer->w->attention.weight[DOWN]);
        struct qkv all = expand(g, layer, latents_of(g, layer, both, p->n, cos, sin));
        all.q = queries(g, layer, x, p->n, cos, sin);
        return all;
    }
    struct tensor *q = p->recorded ? unknown_keys(g) : project(g, layer, h);
    return q && graph_ok(g) ? cached_qkv(g, layer, q) : (struct qkv){ 0 };
}

const struct attention_kind attention_latent = {
    .read = latent_read,
    .weight = latent_weight,
    .cached = latent_cached,
    .expanded = latent_expanded,
    .pair_flops = latent_pair_flops,
    .traits = { .interleaved = true },
    .qkv = latent_qkv,
    .forward = latent_forward,
};
