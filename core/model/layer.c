// core/model/layer.c -- a layer of the decoder: its two sublayers with the norms and residual sums
// around them, and the sites for methods and probes.
//
// The residual stream h is updated in place (with a tape each sum is a new tensor); all other
// results of a sublayer are scratch, freed at its end. Steps that are as wide as the FFN or
// independent per row run over blocks of BLOCK_ROWS rows, so that a long prompt needs memory only
// for h, q and the attention output. The blocks do not depend on listeners: a probe changes no bit
// of an answer.
#include "core/model/layer.h"

#include "core/graph/tape.h"
#include "core/model/attend.h"
#include "core/model/fused.h"
#include "core/ops/ops.h"

const struct norm_places norms_before = { .attention = { .before = "input_layernorm" },
                                          .ffn = { .before = "post_attention_layernorm" } };
const struct norm_places norms_sandwich = {
    .attention = { .before = "input_layernorm", .after = "post_self_attn_layernorm" },
    .ffn = { .before = "post_attention_layernorm", .after = "post_mlp_layernorm" },
};

// Of several blocks all are about as large: weights are prepared anew for each, and those of a
// mixture's experts are read anew (so its blocks are larger: core/model/ffn_experts.c). A product
// of 1024 rows does not fill a GPU, which has enough memory for larger blocks.
enum { BLOCK_ROWS = 1024, BLOCK_ROWS_GPU = 4096 };

static int64_t rows_of(const struct graph *g, int64_t n, int64_t from, int64_t most)
{
    const int64_t left = n - from, blocks = g->tape ? 1 : (left + most - 1) / most;
    return blocks > 1 ? (left + blocks - 1) / blocks : left;
}

int64_t layer_rows(const struct graph *g, int64_t n, int64_t from)
{
    return rows_of(g, n, from, g->backend->own_memory ? BLOCK_ROWS_GPU : BLOCK_ROWS);
}

// The same of the FFN.
static int64_t ffn_block(const struct graph *g, const struct ffn_kind *kind, int64_t n,
                         int64_t from)
{
    return kind->rows && !g->backend->own_memory ? rows_of(g, n, from, kind->rows)
                                                 : layer_rows(g, n, from);
}

// --- sites ---------------------------------------------------------------------------------------

struct site_args pass_site(const struct pass *p, int layer, struct tensor *x)
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

struct site_args layer_site(const struct layer *layer, struct tensor *x)
{
    struct site_args args = pass_site(layer->pass, layer->number, x);
    args.past = layer->past;
    if (layer->cache) {
        args.rows = layer->cache->position + layer->past;
        args.keys = layer->cache->position;
    }
    return args;
}

struct tensor *site_run(struct graph *g, const struct site *site, struct site_args args)
{
    return hooks_run(g, site, &args) < 0 ? NULL : args.x;
}

// --- norms and sums ------------------------------------------------------------------------------

static struct tensor *norm(struct graph *g, const struct layer *layer, const struct tensor *gain,
                           struct tensor *x)
{
    if (!gain->data) return x;
    return op_rmsnorm(g, x, graph_weight(gain), (float)layer->pass->config->eps);
}

struct tensor *layer_before(struct graph *g, const struct layer *layer, const struct sublayer *w,
                            struct tensor *h)
{
    return norm(g, layer, &w->before, h);
}

// h += after(y), y [m, D] of rows i and later.
static struct tensor *add_rows(struct graph *g, const struct layer *layer, const struct sublayer *w,
                               struct tensor *h, int64_t i, struct tensor *y)
{
    return op_add_rows(g, h, i, norm(g, layer, &w->after, y));
}

// The norm behind a sublayer, for the fused forms.
static struct fused_after after(const struct layer *layer, const struct sublayer *w)
{
    return (struct fused_after){ graph_weight(&w->after), (float)layer->pass->config->eps, NULL };
}

// --- attention -----------------------------------------------------------------------------------

struct qkv layer_qkv(struct graph *g, const struct layer *layer)
{
    const struct pass *p = layer->pass;
    const struct decoder_config *c = p->config;
    const struct kv_row row = c->kind->attention->cached(c);
    struct kv_layer *cache = layer->cache;
    struct qkv all = { .q = graph_new3(g, DTYPE_F32, p->n, c->heads, c->dim) };
    all.k = cache ? graph_rows(g, &cache->k, 0, p->keys)
                  : graph_new3(g, DTYPE_F32, p->n, row.k[0], row.k[1]);
    all.v = cache ? graph_rows(g, &cache->v, 0, p->keys)
                  : graph_new3(g, DTYPE_F32, p->n, row.v[0], row.v[1]);
    return all;
}

// The first key that each row sees: the first row of its sample. NULL: there is only one sample.
static struct tensor *first_keys(struct graph *g, const struct sequence *s)
{
    return s->start ? graph_upload(g, DTYPE_I32, 1, &s->n, s->start) : NULL; // [n]
}

struct tensor *layer_output(struct graph *g, const struct layer *layer, struct tensor *h,
                            struct tensor *a)
{
    const struct sublayer *w = &layer->w->attention;
    const struct linear *o = attention_output(layer->w);
    for (int64_t i = 0, m, n = h ? h->shape[0] : 0; i < n && graph_ok(g); i += m) {
        m = layer_rows(g, n, i);
        struct arena_mark block = graph_scratch_begin(g);
        struct tensor *x = graph_rows(g, a, i, m);
        const struct fused_after behind = after(layer, w);
        struct tensor *sum = fused_add(g, graph_rows(g, h, i, m), x, o, &behind);
        if (!sum)
            h = add_rows(g, layer, w, h, i, linear_forward(g, x, o)); // [n, D]
        else if (tape_on(g))
            h = sum; // all rows
        graph_scratch_end(g, block);
    }
    return h;
}

// Each segment by itself: a copy of its keys and values follows the prefix meanwhile.
static struct tensor *attend_segments(struct graph *g, const struct pass *p, const struct qkv *all)
{
    const struct segments *s = p->sequence->segments;
    if (!all->q || !all->k || !all->v) return NULL;
    struct tensor *a = graph_new3(g, DTYPE_F32, p->n, all->q->shape[1], all->v->shape[2]);
    for (int64_t i = 0, at = 0, n; i < s->count && graph_ok(g); i++, at += n) {
        n = s->of[i].n;
        if (!n) continue;
        const int64_t own = s->of[i].cached + n, from = segment_row(s, (int)i);
        struct arena_mark scratch = graph_scratch_begin(g);
        op_copy_rows_into(g, all->k, s->prefix, graph_rows(g, all->k, from, own));
        op_copy_rows_into(g, all->v, s->prefix, graph_rows(g, all->v, from, own));
        struct tensor *q = graph_rows(g, all->q, at, n);
        struct tensor *k = graph_rows(g, all->k, 0, s->prefix + own);
        struct tensor *v = graph_rows(g, all->v, 0, s->prefix + own);
        struct tensor *last = graph_rows(g, p->last, at, n);
        const float scale = q ? attend_scale(q) : 0;
        op_copy_rows_into(g, a, at, op_attention(g, q, k, v, NULL, last, scale, NULL));
        graph_scratch_end(g, scratch);
    }
    return a;
}

struct tensor *layer_attend(struct graph *g, const struct layer *layer, struct tensor *h,
                            const struct qkv *all)
{
    const struct pass *p = layer->pass;
    struct tensor *q = all->q, *k = all->k, *v = all->v;
    const int64_t n = p->n;

    struct site_args args = layer_site(layer, v);
    args.q = q, args.k = k, args.v = v;
    hooks_run(g, SITE_VALUES, &args);

    struct tensor *probs = NULL; // [H, n, P], only if something listens at SITE_ATTN
    if (q && hooks_wanted(g, SITE_ATTN, layer->number))
        probs = graph_new3(g, DTYPE_F32, q->shape[1], n, p->keys);
    struct tensor *first = first_keys(g, p->sequence);
    // Fused only if all rows are one block, so that a probe changes no bit.
    const bool even = k && v && k->shape[2] == v->shape[2];
    const struct fused_attend form = {
        h, q, k, v, first, p->last, .after = after(layer, &layer->w->attention)
    };
    if (even && !probs && !args.seen.keys && layer_rows(g, n, 0) == n &&
        fused_attend(g, attention_output(layer->w), &form))
        return h;
    struct tensor *a = p->sequence->segments // [n, H, d]
                           ? attend_segments(g, p, all)
                           : attend(g, q, k, v, first, p->last, &args.seen, probs);
    args.x = probs;
    if (probs) hooks_run(g, SITE_ATTN, &args);
    if (a) a = graph_view(g, a, 2, (int64_t[]){ n, a->shape[1] * a->shape[2] }); // [n, H*d]
    return layer_output(g, layer, h, a);
}

bool layer_attention_wanted(const struct graph *g, const struct layer *layer)
{
    return hooks_wanted(g, SITE_VALUES, layer->number) || hooks_wanted(g, SITE_ATTN, layer->number);
}

void layer_attention_show(struct graph *g, const struct layer *layer, const struct qkv *all)
{
    struct site_args args = layer_site(layer, all->v);
    args.q = all->q, args.k = all->k, args.v = all->v;
    hooks_run(g, SITE_VALUES, &args);
    if (!hooks_wanted(g, SITE_ATTN, layer->number) || !graph_ok(g)) return;
    args.x = graph_new3(g, DTYPE_F32, all->q->shape[1], layer->pass->n, layer->pass->keys);
    attend(g, args.q, args.k, args.v, NULL, layer->pass->last, &args.seen, args.x);
    hooks_run(g, SITE_ATTN, &args);
}

static struct tensor *attention_stage(struct graph *g, const struct layer *layer, struct tensor *h)
{
    struct arena_mark scratch = graph_scratch_begin(g);
    h = layer->pass->config->kind->attention->forward(g, layer, h);
    graph_scratch_end(g, scratch);
    return h;
}

// --- FFN -----------------------------------------------------------------------------------------

// Is the FFN's result unread? When recomputed, it only carries gradients back.
static bool ffn_unread(const struct graph *g, const struct layer *layer)
{
    return g->tape && g->tape->recomputing && !layer->w->ffn.after.data &&
           !hooks_wanted(g, SITE_FFN_OUT, layer->number);
}

// h [n, D] += after(ffn(before(h))).
static struct tensor *ffn_rows(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct ffn_kind *kind = layer->pass->config->kind->ffn;
    const struct sublayer *w = &layer->w->ffn;
    const struct fused_after behind = after(layer, w);
    for (int64_t i = 0, m, n = h ? h->shape[0] : 0; i < n && graph_ok(g); i += m) {
        m = ffn_block(g, kind, n, i);
        struct arena_mark block = graph_scratch_begin(g);
        struct tensor *rows = graph_rows(g, h, i, m), *sum = NULL; // [m, D]
        if ((g->backend->fused || g->backend->ffn_rows) && kind->fused && w->before.data)
            sum = kind->fused(g, layer, rows, &behind, ffn_unread(g, layer));
        if (sum && tape_on(g)) {
            h = sum; // all rows
        } else if (!sum) {
            struct tensor *x = layer_before(g, layer, w, rows);
            struct tensor *y = kind->forward(g, layer, x, ffn_unread(g, layer));
            h = add_rows(g, layer, w, h, i, y); // [n, D]
        }
        graph_scratch_end(g, block);
    }
    return h;
}

// The FFN of all rows, or of those that no method takes over.
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

struct tensor *layer_forward(struct graph *g, void *self, struct tensor *h)
{
    const struct layer *layer = self;
    h = site_run(g, SITE_LAYER_IN, layer_site(layer, h)); // [n, D] = h[l]
    h = attention_stage(g, layer, h);
    h = site_run(g, SITE_FFN_IN, layer_site(layer, h)); // [n, D] = x
    h = ffn_stage(g, layer, h);
    return site_run(g, SITE_FFN_OUT, layer_site(layer, h)); // [n, D] = y
}
