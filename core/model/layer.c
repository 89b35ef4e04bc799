// core/model/layer.c -- a layer of the decoder, top to bottom.
//
//   h += after(o(softmax(scale q k^T) v))           q, k, v: projections of before(h)
//   h += after(down(silu(gate(x)) * up(x)))         x = before(h); or another kind of FFN
//
// The residual stream h is updated in place (with a tape each sum is a new tensor); all other
// results of a sublayer are scratch, freed at its end. Without a tape, steps whose rows are
// independent run over blocks of rows (layer_rows; ffn_kind.rows), so that their intermediate
// results do not grow with the prompt. Block sizes do not depend on listeners, so a probe changes
// no bit of an answer.
//
// Steps with a fused form (core/model/fused.h) try it first; the ops after it are the fallback, and
// define the result.
#include "core/model/layer.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/graph/tape.h"
#include "core/model/attend.h"
#include "core/model/fused.h"
#include "core/ops/ops.h"

const struct norm_names norms_before = { .attention = { .before = "input_layernorm" },
                                         .ffn = { .before = "post_attention_layernorm" } };
const struct norm_names norms_sandwich = {
    .attention = { .before = "input_layernorm", .after = "post_self_attn_layernorm" },
    .ffn = { .before = "post_attention_layernorm", .after = "post_mlp_layernorm" },
};
const struct norm_names norms_gemma = {
    .attention = { .before = "input_layernorm", .after = "post_attention_layernorm" },
    .ffn = { .before = "pre_feedforward_layernorm", .after = "post_feedforward_layernorm" },
};

// Every block repacks the weights, so blocks are about equal in size and none is small. A mixture
// of experts also rereads its weights per block, so on a CPU its blocks are larger
// (core/model/ffn_experts.c). A product of 1024 rows does not fill a GPU, which has enough memory
// for larger blocks.
enum { BLOCK_ROWS = 1024, BLOCK_ROWS_GPU = 4096 };

static int64_t block_rows(const struct graph *g, int64_t n, int64_t from, int64_t most)
{
    const int64_t left = n - from, blocks = g->tape ? 1 : (left + most - 1) / most;
    return blocks > 1 ? (left + blocks - 1) / blocks : left;
}

int64_t layer_rows(const struct graph *g, int64_t n, int64_t from)
{
    return block_rows(g, n, from, g->backend->own_memory ? BLOCK_ROWS_GPU : BLOCK_ROWS);
}

struct tensor *layer_rmsnorm(struct graph *g, const struct layer *layer, const struct tensor *gain,
                             struct tensor *x)
{
    if (!gain->data) return x;
    return op_rmsnorm(g, x, graph_weight(gain), (float)layer->pass->config->eps);
}

// Returns the norm after a sublayer, for the fused forms.
static struct fused_after after_of(const struct layer *layer, const struct sublayer *w)
{
    return (struct fused_after){ graph_weight(&w->after), (float)layer->pass->config->eps, NULL };
}

// --- the layer -----------------------------------------------------------------------------------

struct tensor *layer_output(struct graph *g, const struct layer *layer, struct tensor *h,
                            struct tensor *a)
{
    const struct sublayer *w = &layer->w->attention;
    const struct linear *o = attention_output(layer->w);
    const struct fused_after after = after_of(layer, w);
    for (int64_t i = 0, m, n = h ? h->shape[0] : 0; i < n && graph_ok(g); i += m) {
        m = layer_rows(g, n, i);
        struct arena_mark block = graph_scratch_begin(g);
        struct tensor *x = graph_rows(g, a, i, m); // [m, H*dv]
        struct tensor *sum = fused_add(g, graph_rows(g, h, i, m), x, o, &after);
        if (!sum) {
            struct tensor *y = linear_forward(g, x, o);                      // [m, D]
            h = op_add_rows(g, h, i, layer_rmsnorm(g, layer, &w->after, y)); // [n, D]
        } else if (tape_on(g)) {
            h = sum; // covers all rows
        }
        graph_scratch_end(g, block);
    }
    return h;
}

// Multiplies rotated queries q [m, H, d] of the rows from `from` on by the factors of their
// positions.
static struct tensor *scale_queries(struct graph *g, const struct layer *layer, struct tensor *q,
                                    int64_t from)
{
    const float *factor = layer->view->query_factor;
    if (!factor || !q || !graph_ok(g)) return q;
    const int64_t m = q->shape[0], heads = q->shape[1], d = q->shape[2];
    int32_t *index = xreallocarray(NULL, (size_t)m, sizeof *index);
    for (int64_t i = 0; i < m; i++) index[i] = (int32_t)i;
    q = graph_view(g, q, 2, (int64_t[]){ m, heads * d });
    q = op_blend_rows(g, q, index, factor + from, m, 1);
    free(index);
    return q ? graph_view3(g, q, m, heads, d) : NULL;
}

// h [n, D] += after(o(attention(q, k, v))).
static struct tensor *attention_sublayer(struct graph *g, const struct layer *layer,
                                         struct tensor *h)
{
    const struct pass *p = layer->pass;
    const struct decoder_config *c = p->config;
    const struct attention_kind *kind = decoder_attention(c, layer->number);
    const struct sublayer *w = &layer->w->attention;
    const int64_t n = p->n;

    // Some kinds compute the whole sublayer themselves: absorbed latents, a recurrent state.
    if (kind->forward && kind->forward(g, layer, &h)) return h;

    // Queries [n, H, d] of the new rows; keys and values [P, Hkv, d] of cached and new rows.
    struct qkv all = { 0 };
    if (kind->qkv) {
        all = kind->qkv(g, layer, h);
    } else if (!g->tape) { // written block by block
        const struct kv_row size = kind->cached(c, layer->number);
        struct kv_layer *cache = layer->cache;
        all.q = graph_new3(g, DTYPE_F32, n, c->heads, decoder_heads(c, layer->number).dim);
        if (kind->traits.gates) all.gate = graph_new3(g, DTYPE_F32, n, c->heads, c->dim);
        all.k = cache ? graph_rows(g, &cache->k, 0, p->keys)
                      : graph_new3(g, DTYPE_F32, n, size.k[0], size.k[1]);
        all.v = cache ? graph_rows(g, &cache->v, 0, p->keys)
                      : graph_new3(g, DTYPE_F32, n, size.v[0], size.v[1]);
    }
    for (int64_t i = 0, m; i < n && !kind->qkv && graph_ok(g); i += m) {
        m = layer_rows(g, n, i);
        struct arena_mark block = arena_mark(g->arena);
        if (!kind->fused || !kind->fused(g, layer, h, i, m, &all)) {
            struct tensor *cos = graph_rows(g, layer->view->cos, i, m); // [m, d/2]
            struct tensor *sin = graph_rows(g, layer->view->sin, i, m);
            struct tensor *cache_rows = graph_rows(g, p->cache_rows, i, m); // [m]
            // Wq x, Wk x and Wv x, where x = before(h)
            struct qkv part = kind->project(g, layer, graph_rows(g, h, i, m));
            part.q = op_rope(g, rope_arrange(g, &c->rope, part.q), cos, sin);
            part.q = scale_queries(g, layer, part.q, i);
            part.k = op_rope(g, rope_arrange(g, &c->rope, part.k), cos, sin);
            if (g->tape) {
                all = part;
            } else {
                op_copy_rows_into(g, all.q, i, part.q);
                if (all.gate) op_copy_rows_into(g, all.gate, i, part.gate);
                op_put_rows(g, all.k, part.k, cache_rows);
                op_put_rows(g, all.v, part.v, cache_rows);
            }
        }
        if (g->tape) break; // a single block, whose results the tape needs
        arena_reset(g->arena, block);
    }

    // Methods may change values, or the keys that rows see.
    struct site_args args = layer_site(layer, all.v);
    args.q = all.q, args.k = all.k, args.v = all.v, args.gate = all.gate;
    hooks_run(g, SITE_VALUES, &args);
    if (layer->shared.k && !decoder_shares(c, layer->number)) {
        op_copy_rows_into(g, layer->shared.k, 0, all.k);
        op_copy_rows_into(g, layer->shared.v, 0, all.v);
    }

    // a [n, H, dv] = softmax(q k^T scale) v; the probabilities [H, n, P] only for listeners.
    const bool wanted = all.q && hooks_wanted(g, SITE_ATTN, layer->number);
    const bool heads = hooks_wanted(g, SITE_HEADS, layer->number);
    struct tensor *probs = wanted ? graph_new3(g, DTYPE_F32, c->heads, n, p->keys) : NULL;
    // Fuses attention and output, unless layer_output would compute several blocks: a probe, which
    // prevents the fusion, must change no bit.
    const struct pass_view *view = layer->view;
    const struct fused_attend form = { h,
                                       all.q,
                                       all.k,
                                       all.v,
                                       view->first,
                                       view->end,
                                       .scale = c->score_scale,
                                       .after = after_of(layer, w) };
    if (!probs && !args.seen.keys && !args.seen.hidden.rows && !heads && !all.gate &&
        layer_rows(g, n, 0) == n && fused_attend(g, attention_output(layer->w), &form))
        return h;
    struct tensor *a = p->sequence->segments
                           ? attend_segments(g, p->sequence->segments, view, c->score_scale, &all)
                           : attend(g, &all, view, c->score_scale, &args.seen, probs);
    args.x = probs;
    if (probs) hooks_run(g, SITE_ATTN, &args);
    if (all.gate) a = op_sigmoid_gate(g, a, all.gate);
    if (heads && a) site_run(g, SITE_HEADS, layer_site(layer, a));

    // h += after(o(a))
    if (a) a = graph_view(g, a, 2, (int64_t[]){ n, a->shape[1] * a->shape[2] }); // [n, H*dv]
    return layer_output(g, layer, h, a);
}

// h [m, D] += after(ffn(before(h))).
static struct tensor *ffn_rows(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct ffn_kind *kind = decoder_ffn(layer->pass->config, layer->number);
    const struct sublayer *w = &layer->w->ffn;
    const struct fused_after after = after_of(layer, w);
    const bool mixture = kind->rows && layer->pass->config->experts.count;
    // When the backward pass recomputes the layer, only a norm after the FFN or a listener reads
    // the FFN's result; without both, the result only carries gradients back.
    const bool unread =
        tape_recomputing(g) && !w->after.data && !hooks_wanted(g, SITE_FFN_OUT, layer->number);
    for (int64_t i = 0, m, n = h ? h->shape[0] : 0; i < n && graph_ok(g); i += m) {
        m = mixture && !g->backend->own_memory ? block_rows(g, n, i, kind->rows)
                                               : layer_rows(g, n, i);
        struct arena_mark block = graph_scratch_begin(g);
        struct tensor *rows = graph_rows(g, h, i, m), *sum = NULL; // [m, D]
        if ((g->backend->fused || g->backend->ffn_rows) && kind->fused && w->before.data)
            sum = kind->fused(g, layer, rows, &after, unread);
        if (!sum) {
            struct tensor *x = layer_rmsnorm(g, layer, &w->before, rows);
            struct tensor *y = kind->forward(g, layer, x, unread); // [m, D]
            if (kind->beside) y = kind->beside(g, layer, rows, y);
            h = op_add_rows(g, h, i, layer_rmsnorm(g, layer, &w->after, y)); // [n, D]
        } else if (tape_on(g)) {
            h = sum; // covers all rows
        }
        graph_scratch_end(g, block);
    }
    return h;
}

struct tensor *layer_forward(struct graph *g, void *self, struct tensor *h)
{
    const struct layer *layer = self;
    h = site_run(g, SITE_LAYER_IN, layer_site(layer, h)); // [n, D] = h[l]

    struct arena_mark scratch = graph_scratch_begin(g);
    h = attention_sublayer(g, layer, h);
    graph_scratch_end(g, scratch);
    h = site_run(g, SITE_FFN_IN, layer_site(layer, h)); // [n, D] = x

    // The FFN: of all rows, or of the rows that no method has computed at SITE_FFN.
    scratch = graph_scratch_begin(g);
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
    h = site_run(g, SITE_FFN_OUT, layer_site(layer, h)); // [n, D] = y

    const struct decoder_kind *kind = layer->pass->config->kind;
    return kind->after_layer ? kind->after_layer(g, layer, h) : h; // [n, D] = h[l+1]
}
