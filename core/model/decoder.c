// core/model/decoder.c -- the language model: embeddings h[0] [n,D] to logits, layer by layer.
//
//   h -> rmsnorm -> q k v -> rope -> attention over the cache -> o -> + h
//   h -> rmsnorm -> gate, up -> silu(gate) * up -> down            -> + h      (each layer)
//   h -> rmsnorm -> head -> logits
//
// h, the residual stream, stays in one place (with a tape each sum has its own); everything else of
// a stage is scratch that is given back when the stage ends. What is as wide as the FFN, and what a
// product needs only row by row, runs over blocks of BLOCK_ROWS rows, so that a long prompt costs
// memory for h, q and the attention output alone. The blocks do not depend on who listens: a probe
// changes no bit of an answer.
//
// n rows are computed now, `past` keys are in the layer's cache, P = past + n. Where a method drops
// rows after a layer, the layers that follow compute fewer and cache fewer; positions stay.
#include "core/model/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/graph/look.h"
#include "core/graph/tape.h"
#include "core/model/attend.h"
#include "core/model/decoder_parts.h"
#include "core/ops/ops.h"

// On a GPU a product of a thousand rows leaves some of it idle, and memory is not short.
enum { BLOCK_ROWS = 1024, BLOCK_ROWS_GPU = 4096 };

static struct site_args site_of(const struct pass *p, int layer, struct tensor *x)
{
    return (struct site_args){ .layer = layer,
                               .picture = -1,
                               .x = x,
                               .past = p->sequence->n - p->n,
                               .sequence = p->sequence,
                               .rows = p->rows,
                               .keys = p->rows,
                               .kv = p->kv,
                               .prefill = p->prefill };
}

static struct site_args layer_site(const struct layer *layer, struct tensor *x)
{
    struct site_args args = site_of(&layer->pass, layer->number, x);
    args.past = layer->past;
    if (layer->cache) {
        args.rows = layer->cache->position + layer->past;
        args.keys = layer->cache->position;
    }
    return args;
}

// Runs the listeners of a site that offers x; gives x back, which a method may have replaced.
static struct tensor *site_run(struct graph *g, enum site site, struct site_args args)
{
    return hooks_run(g, site, &args) < 0 ? NULL : args.x;
}

// With a tape everything is kept: all rows at once then.
static int64_t block_rows(const struct graph *g, int64_t n, int64_t from)
{
    const int64_t most = g->backend->own_memory ? BLOCK_ROWS_GPU : BLOCK_ROWS;
    return g->tape || n - from < most ? n - from : most;
}

// Queries, keys and values of some rows or all.
struct qkv {
    struct tensor *q, *k, *v; // [n,H,d] [P,Hkv,d] [P,Hkv,d]
};

// Of rows i..i+m of h, rotated.
static struct qkv project_rows(struct graph *g, const struct pass *p, const struct decoder_layer *w,
                               struct tensor *h, int64_t i, int64_t m)
{
    const struct decoder_config *c = p->config;
    struct tensor *cos = graph_rows(g, p->cos, i, m); // [m, d/2]
    struct tensor *sin = graph_rows(g, p->sin, i, m);

    struct tensor *x = graph_rows(g, h, i, m); // [m, D]
    x = op_rmsnorm(g, x, graph_weight(&w->input_norm), (float)c->eps);
    struct tensor *q = linear_forward(g, x, &w->q);
    struct tensor *k = linear_forward(g, x, &w->k);
    struct tensor *v = linear_forward(g, x, &w->v);
    q = graph_view3(g, q, m, c->heads, c->dim);    // [m, H, d]
    k = graph_view3(g, k, m, c->kv_heads, c->dim); // [m, Hkv, d]
    v = graph_view3(g, v, m, c->kv_heads, c->dim);
    return (struct qkv){ op_rope(g, q, cos, sin), op_rope(g, k, cos, sin), v };
}

// The same for all rows, block by block: q into its place, keys and values to theirs.
static void project_blocks(struct graph *g, const struct layer *layer, struct tensor *h,
                           const struct qkv *all)
{
    const struct pass *p = &layer->pass;
    for (int64_t i = 0, m; i < p->n && graph_ok(g); i += m) {
        m = block_rows(g, p->n, i);
        struct arena_mark scratch = graph_scratch_begin(g);
        struct tensor *places = graph_rows(g, p->places, i, m); // [m]
        const int64_t first = p->n > 1 ? p->past + i : -1;      // of one row only the device knows
        if (!fused_qkv(g, layer->w, (float)p->config->eps, graph_rows(g, h, i, m),
                       graph_rows(g, p->cos, i, m), graph_rows(g, p->sin, i, m), places, first,
                       graph_rows(g, all->q, i, m), all->k, all->v)) {
            struct qkv rows = project_rows(g, p, layer->w, h, i, m);
            op_copy_rows_into(g, all->q, i, rows.q);
            op_put_rows(g, all->k, rows.k, places);
            op_put_rows(g, all->v, rows.v, places);
        }
        graph_scratch_end(g, scratch);
    }
}

// The first key that each row sees: that of its sample. NULL where there is one sample.
static struct tensor *first_keys(struct graph *g, const struct sequence *s)
{
    return s->start ? graph_upload(g, DTYPE_I32, 1, &s->n, s->start) : NULL; // [n]
}

// Room for all keys, or values, of a layer: in the cache, or of this pass alone.
static struct tensor *key_rows(struct graph *g, const struct layer *layer, bool values)
{
    const struct pass *p = &layer->pass;
    struct kv_layer *cache = layer->cache;
    if (cache) return graph_rows(g, values ? &cache->v : &cache->k, 0, p->keys);
    return graph_new3(g, DTYPE_F32, p->n, p->config->kv_heads, p->config->dim);
}

// Queries of the new rows, keys and values of all. (With a tape nothing need be copied.)
static struct qkv project_qkv(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct pass *p = &layer->pass;
    struct tensor *three[3];
    if (g->tape && !layer->cache) {
        if (fused_qkv_taped(g, layer->w, (float)p->config->eps, h, p->cos, p->sin, p->places,
                            three))
            return (struct qkv){ three[0], three[1], three[2] };
        return project_rows(g, p, layer->w, h, 0, p->n);
    }
    struct qkv all = { .q = graph_new3(g, DTYPE_F32, p->n, p->config->heads, p->config->dim),
                       .k = key_rows(g, layer, false),
                       .v = key_rows(g, layer, true) };
    project_blocks(g, layer, h, &all);
    return all;
}

// h += o(a), a [n, H*d].
static struct tensor *output_rows(struct graph *g, const struct linear *o, struct tensor *h,
                                  struct tensor *a)
{
    for (int64_t i = 0, m, n = h ? h->shape[0] : 0; i < n && graph_ok(g); i += m) {
        m = block_rows(g, n, i);
        struct arena_mark block = graph_scratch_begin(g);
        struct tensor *x = graph_rows(g, a, i, m);
        struct tensor *sum = fused_add(g, graph_rows(g, h, i, m), x, o);
        if (!sum)
            h = op_add_rows(g, h, i, linear_forward(g, x, o)); // [n, D]
        else if (tape_on(g))
            h = sum; // all rows
        graph_scratch_end(g, block);
    }
    return h;
}

// h += o(attention(rmsnorm(h))), keys and values of the new rows go behind the cached ones.
static struct tensor *attention_stage(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct pass *p = &layer->pass;
    const struct decoder_config *c = p->config;
    const struct decoder_layer *w = layer->w;
    int64_t n = p->n;
    struct arena_mark scratch = graph_scratch_begin(g);

    struct qkv all = project_qkv(g, layer, h);
    struct tensor *q = all.q, *k = all.k, *v = all.v; // [n, H, d] [P, Hkv, d] [P, Hkv, d]

    struct site_args args = layer_site(layer, v);
    args.q = q, args.k = k, args.v = v;
    hooks_run(g, SITE_VALUES, &args);

    struct tensor *probs = NULL; // [H, n, P], only where somebody looks
    if (hooks_wanted(g, SITE_ATTN, layer->number))
        probs = graph_new3(g, DTYPE_F32, c->heads, n, p->keys);
    struct tensor *first = first_keys(g, p->sequence);
    // As one only where the rows are one block: a probe changes no bit.
    if (!probs && !args.seen.keys && block_rows(g, n, 0) == n &&
        fused_attend(g, h, q, k, v, first, p->last, &w->o)) {
        graph_scratch_end(g, scratch);
        return h;
    }
    struct tensor *a = attend(g, q, k, v, first, p->last, &args.seen, probs); // [n, H, d]
    args.x = probs;
    if (probs) hooks_run(g, SITE_ATTN, &args);

    a = graph_view(g, a, 2, (int64_t[]){ n, c->heads * c->dim }); // [n, H*d]
    h = output_rows(g, &w->o, h, a);
    graph_scratch_end(g, scratch);
    return h;
}

// Does nobody read what the layer gives? Computed again, it only leads gradients back.
static bool layer_unread(const struct graph *g, const struct layer *layer)
{
    return g->tape && g->tape->recomputing && !hooks_wanted(g, SITE_FFN_OUT, layer->number);
}

// h [n, D] += down(silu(gate) * up).
static struct tensor *ffn_rows(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct decoder_layer *w = layer->w;
    const float eps = (float)layer->pass.config->eps;
    for (int64_t i = 0, m, n = h ? h->shape[0] : 0; i < n && graph_ok(g); i += m) {
        m = block_rows(g, n, i);
        struct arena_mark block = graph_scratch_begin(g);
        struct tensor *rows = graph_rows(g, h, i, m); // [m, D]
        struct tensor *sum = fused_ffn(g, w, eps, rows, layer_unread(g, layer));
        if (sum && tape_on(g)) {
            h = sum; // all rows
        } else if (!sum) {
            struct tensor *x = op_rmsnorm(g, rows, graph_weight(&w->post_norm), eps);
            struct tensor *gate = linear_forward(g, x, &w->gate);
            struct tensor *up = linear_forward(g, x, &w->up);
            struct tensor *y = op_swiglu(g, gate, up); // [m, ffn]
            y = (layer_unread(g, layer) ? linear_unread : linear_forward)(g, y, &w->down);
            h = op_add_rows(g, h, i, y); // [n, D]
        }
        graph_scratch_end(g, block);
    }
    return h;
}

// The FFN of all rows, or of those that methods leave to it.
static struct tensor *ffn_stage(struct graph *g, const struct layer *layer, struct tensor *h)
{
    struct arena_mark scratch = graph_scratch_begin(g);
    struct site_args args = layer_site(layer, h);
    hooks_run(g, SITE_FFN, &args);
    h = args.x;
    if (!args.only) {
        h = ffn_rows(g, layer, h);
    } else if (args.only_count) {
        struct tensor *rows = op_gather_rows(g, h, args.only, args.only_count);
        h = op_scatter_rows(g, h, ffn_rows(g, layer, rows), args.only);
    }
    graph_scratch_end(g, scratch);
    return h;
}

struct tensor *decoder_layer_stage(struct graph *g, void *self, struct tensor *h)
{
    const struct layer *layer = self;
    h = site_run(g, SITE_LAYER_IN, layer_site(layer, h)); // [n, D] = h[l]
    h = attention_stage(g, layer, h);
    h = site_run(g, SITE_FFN_IN, layer_site(layer, h)); // [n, D] = x
    h = ffn_stage(g, layer, h);
    return site_run(g, SITE_FFN_OUT, layer_site(layer, h)); // [n, D] = y
}

// Where the new keys go, and how far each row sees, behind `past` keys.
static int pass_places(struct graph *g, struct pass *p, int64_t past)
{
    if (p->past == past) return 0;
    int32_t *at = xreallocarray(NULL, (size_t)p->n, sizeof *at);
    for (int64_t i = 0; i < p->n; i++) at[i] = (int32_t)(past + i);
    p->places = graph_upload(g, DTYPE_I32, 1, &p->n, at); // [n]
    for (int64_t i = 0; i < p->n; i++) at[i]++;
    p->last = graph_upload(g, DTYPE_I32, 1, &p->n, at); // [n]
    free(at);
    p->past = past;
    p->keys = past + p->n;
    return graph_ok(g) ? 0 : -1;
}

// Room in the layer's cache behind the rows that stay, and which rows come there.
static int layer_begin(struct graph *g, struct pass *p, struct layer *layer)
{
    struct kv_layer *cache = layer->cache;
    struct err err;
    if (!cache) return pass_places(g, p, 0);
    if (p->replaced) cache->rows = 0;
    if (p->prefill && !p->replaced && cache->rows != p->sequence->n - p->n)
        BUG("layer %d has %d rows of the sequence", layer->number, (int)cache->rows);
    layer->past = cache->rows;
    cache->coming = layer->past + p->n;
    if (kv_layer_reserve(p->kv, layer->number, cache->coming, &err) < 0) {
        graph_fail(g, "%s", err.text);
        return -1;
    }
    for (int64_t i = 0; i < p->n; i++)
        cache->position[layer->past + i] =
            p->rows ? p->rows[i] : (int32_t)(p->sequence->n - p->n + i);
    return pass_places(g, p, layer->past);
}

// The layer's end: a method may go on with other rows.
static struct tensor *layer_end(struct graph *g, const struct layer *layer, struct pass *p,
                                struct tensor *h)
{
    struct site_args args = layer_site(layer, h);
    const int32_t *rows = args.rows;
    if (hooks_run(g, SITE_LAYER_OUT, &args) < 0 || !args.x) return NULL;
    if (args.rows == rows) return args.x;
    if (g->tape || p->sequence->start)
        BUG("rows are dropped while gradients are recorded or samples share a pass");
    p->n = args.x->shape[0];
    int32_t *alive = arena_alloc_host(g->arena, (size_t)p->n * sizeof *alive);
    if (!alive) return graph_fail(g, "out of memory on %s", g->backend->name);
    memcpy(alive, args.rows, (size_t)p->n * sizeof *alive);
    p->rows = alive;
    p->replaced = true;
    p->past = -1;
    if (rope_angles(g, &p->config->rope, p->config->dim, p->sequence, alive, p->n, &p->cos,
                    &p->sin) < 0)
        return NULL;
    return args.x;
}

struct tensor *decoder_logits(struct graph *g, const struct decoder *d, struct tensor *h)
{
    struct tensor *x = op_rmsnorm(g, h, graph_weight(&d->norm), (float)d->config.eps);
    return op_matmul(g, x, graph_weight(&d->head), NULL); // [n, V]
}

// Final norm and head. The last row, which chooses the next token, is always computed alone: it is
// the same to the bit whether all rows are asked for or not.
static struct tensor *head_stage(struct graph *g, const struct pass *p, const struct decoder *d,
                                 struct tensor *h, enum logits_rows want)
{
    struct tensor *last = decoder_logits(g, d, graph_rows(g, h, p->n - 1, 1)); // [1, V]
    struct tensor *logits = last;
    if (want == LOGITS_ALL) {
        logits = decoder_logits(g, d, h); // [n, V]
        op_copy_rows_into(g, logits, p->n - 1, last);
    }
    if (p->prefill) logits = site_run(g, SITE_LOGITS, site_of(p, -1, logits));
    last = graph_ok(g) ? graph_rows(g, logits, logits->shape[0] - 1, 1) : NULL;
    site_run(g, SITE_STEP_LOGITS, site_of(p, -1, last));
    return logits;
}

// What the pass relies on; a conversation keeps to all of it.
static int check_input(struct graph *g, const struct decoder *d, const struct kv *kv,
                       const struct sequence *s, const struct tensor *h)
{
    const struct decoder_config *c = &d->config;
    if (!h || !graph_ok(g)) return -1;
    if (!kv && h->shape[0] != s->n) BUG("a pass without a cache begins at the first row");
    if (kv && s->start) BUG("several samples with one cache");
    if (kv && (kv->layers != c->layers || kv->heads != c->kv_heads || kv->dim != c->dim))
        BUG("a KV cache of another model");
    if (h->rank != 2 || h->shape[1] != c->hidden || h->shape[0] < 1 || h->shape[0] > s->n)
        BUG("embeddings do not fit the sequence");
    if (c->rope.kind == ROPE_DYNAMIC && sequence_longest(s) > c->max_positions)
        graph_fail(g,
                   "the rotary scaling \"dynamic\" is supported up to %lld tokens, and here are "
                   "%lld; /clear, or /set ctx.max to that",
                   (long long)c->max_positions, (long long)sequence_longest(s));
    return graph_ok(g) ? 0 : -1;
}

int decoder_forward(struct graph *g, const struct decoder *d, struct kv *kv,
                    const struct sequence *s, struct tensor *h, enum logits_rows want, bool prefill,
                    struct tensor **logits)
{
    *logits = NULL;
    if (check_input(g, d, kv, s, h) < 0) return -1;
    struct pass p = {
        .config = &d->config, .sequence = s, .kv = kv, .prefill = prefill, .past = -1
    };
    struct looks looks;
    p.n = h->shape[0];
    looks_begin(g, &looks);
    if (kv && !prefill && want == LOGITS_LAST && decoder_step(g, d, kv, s, h, logits)) {
        site_run(g, SITE_STEP_LOGITS, site_of(&p, -1, *logits));
        looks_end(g);
        return graph_stop(g) ? -1 : 0;
    }
    rope_angles(g, &d->config.rope, d->config.dim, s, NULL, p.n, &p.cos, &p.sin);

    for (int l = 0; l < d->config.layers && !graph_stop(g); l++) {
        struct layer layer = { p, l, 0, &d->layer[l], kv ? &kv->layer[l] : NULL };
        backend_enter(g->backend, d->layer[l].gpu);
        if (layer_begin(g, &p, &layer) < 0) break;
        layer.pass = p;
        h = graph_block(g, decoder_layer_stage, &layer, sizeof layer, h);
        h = layer_end(g, &layer, &p, h);
    }
    backend_enter(g->backend, 0);
    if (graph_ok(g)) h = site_run(g, SITE_FINAL, site_of(&p, -1, h)); // [n, D] = h[L]
    if (want == LOGITS_HIDDEN)
        *logits = h;
    else if (want != LOGITS_NONE && h && graph_ok(g))
        *logits = head_stage(g, &p, d, h, want);
    looks_end(g);
    if (graph_stop(g)) return -1;

    // Only now the new rows count: whatever failed before, the cache is as it was, or empty where
    // other rows were to come.
    for (int l = 0; kv && l < kv->layers; l++) kv->layer[l].rows = kv->layer[l].coming;
    return 0;
}
