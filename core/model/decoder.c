// core/model/decoder.c -- the language model: embeddings h[0] [n,D] to logits, layer by layer.
//
//   h -> attention -> + h -> FFN -> + h      (each layer: core/model/layer.c)
//   h -> rmsnorm -> head -> logits
//
// A pass computes n rows; `past` keys are in the layer's cache, P = past + n. If a method drops
// rows after a layer, later layers compute and cache fewer rows; positions do not change.
#include "core/model/decoder.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/graph/readback.h"
#include "core/model/layer_inputs.h"
#include "core/ops/ops.h"

// True if the cache has this model's layers, with rows of the right shape.
static bool cache_fits(const struct kv *kv, const struct decoder_config *c)
{
    if (kv->layers != c->layers) return false;
    for (int l = 0; l < c->layers; l++) {
        const struct attention_kind *kind = decoder_attention(c, l);
        const struct kv_layer *layer = &kv->layer[l];
        if (!kv_layer_is(layer, kind->cached(c, l)) &&
            !(kind->expanded && kv_layer_is(layer, kind->expanded(c, l))))
            return false;
    }
    return true;
}

// Checks the preconditions of a pass.
static int check_input(struct graph *g, const struct decoder *d, const struct kv *kv,
                       const struct sequence *s, const struct tensor *h)
{
    const struct decoder_config *c = &d->config;
    if (!h || !graph_ok(g)) return -1;
    if (!kv && h->shape[0] != s->n) BUG("a pass without a cache begins at the first row");
    if (kv && s->start) BUG("several samples with one cache");
    if (s->segments && (!kv || !decoder_traits(c).segments || (g->hooks && g->hooks->count)))
        BUG("segments of a pass");
    if (kv && !cache_fits(kv, c)) BUG("a KV cache of another model");
    if (h->rank != 2 || h->shape[1] != c->hidden || h->shape[0] < 1 || h->shape[0] > s->n)
        BUG("embeddings do not fit the sequence");
    if (rope_bounded(&c->rope) && sequence_longest(s) > c->max_positions)
        graph_fail(g,
                   "rotary scaling \"dynamic\" is supported up to %lld tokens, but the "
                   "conversation has %lld; use /clear, or set ctx.max to that limit",
                   (long long)c->max_positions, (long long)sequence_longest(s));
    return graph_ok(g) ? 0 : -1;
}

struct tensor *decoder_logits(struct graph *g, const struct decoder *d, struct tensor *h)
{
    struct tensor *x = op_rmsnorm(g, h, graph_weight(&d->norm), (float)d->config.eps);
    x = op_matmul(g, x, graph_weight(&d->head), NULL); // [n, V]
    return d->config.logit_cap > 0 ? op_softcap(g, x, (float)d->config.logit_cap) : x;
}

// Applies the final norm and the head to all rows, [n, V], or to the last one, [1, V]. The last
// row's logits choose the next token: their bits do not depend on how many rows are requested.
static struct tensor *rows_logits(struct graph *g, const struct decoder *d, const struct pass *p,
                                  struct tensor *h, enum logits_rows want)
{
    const int64_t n = p->n;
    struct tensor *logits, *last;
    if (want == LOGITS_ALL && n <= backend_few_rows(g->backend)) {
        logits = decoder_logits(g, d, h);
    } else {
        logits = last = decoder_logits(g, d, graph_rows(g, h, n - 1, 1)); // [1, V]
        if (want == LOGITS_ALL) {
            logits = decoder_logits(g, d, h); // [n, V]
            op_copy_rows_into(g, logits, n - 1, last);
        }
    }
    if (p->prefill) logits = site_run(g, SITE_LOGITS, pass_site(p, -1, logits));
    last = graph_ok(g) ? graph_rows(g, logits, logits->shape[0] - 1, 1) : NULL;
    site_run(g, SITE_STEP_LOGITS, pass_site(p, -1, last));
    return logits;
}

// Returns a copy of the pass with the inputs of all layers, computed from h[0]; NULL after a
// failure.
static const struct pass *pass_with_inputs(struct graph *g, const struct decoder *d,
                                           const struct pass *p, struct tensor *h)
{
    struct pass *next = pass_copy(g, p);
    if (!next) return NULL;
    next->inputs = layer_inputs_of(g, d, p, h); // [n, L*P]
    next->inputs_of = next;
    next->embedded = NULL;
    return next->inputs ? next : NULL;
}

int decoder_forward(struct graph *g, const struct decoder *d, struct kv *kv,
                    const struct sequence *s, struct tensor *h, enum logits_rows want, bool prefill,
                    struct tensor **logits)
{
    const struct decoder_part *part = d->part; // NULL: all layers are here
    const int first = part ? part->first_layer : 0;
    const int end = part ? part->end_layer : d->config.layers;
    *logits = NULL;
    // If other processes compute layers too, this process continues after a failure, to report it
    // to them.
    if (check_input(g, d, kv, s, h) < 0 && !part) return -1;
    struct pass start = { .config = &d->config,
                          .sequence = s,
                          .kv = kv,
                          .n = h ? h->shape[0] : 1,
                          .prefill = prefill,
                          .visual = g->visual,
                          .past = -1 };
    const struct pass *p = &start; // replaced when a method drops rows
    if (kv && !s->segments) kv_begin_pass(kv, s, s->n - start.n, prefill);
    struct readbacks readbacks;
    readbacks_begin(g, &readbacks);

    if (!kv && d->config.sharing) {
        const size_t size = (size_t)d->config.layers * sizeof *start.lent;
        start.lent = arena_alloc_host(g->arena, size);
        if (start.lent)
            memset(start.lent, 0, size);
        else
            graph_fail(g, "out of memory on %s", g->backend->name);
    }

    // For a single generated token, a GPU replays a recording of the layers and the head if it can.
    if (kv && !prefill && want == LOGITS_LAST && !part && decoder_step(g, d, kv, s, h, logits)) {
        site_run(g, SITE_STEP_LOGITS, pass_site(p, -1, *logits));
        readbacks_end(g);
        return graph_stop(g) ? -1 : 0;
    }

    if (part && !part->first)
        h = part->receive(part, g, &p, h);
    else if (graph_ok(g))
        h = site_drop_rows(g, SITE_INPUT, pass_site(p, -1, h), &p); // [n, D] = h[0]
    if (d->config.layer_input && p && h) p = pass_with_inputs(g, d, p, h);

    // The layers.
    for (int l = first; l < end && p && !graph_stop(g); l++) {
        struct layer layer = {
            .pass = p, .number = l, .w = &d->layer[l], .cache = kv ? &kv->layer[l] : NULL
        };
        backend_enter(g->backend, d->layer[l].gpu);
        if (layer_begin(g, &layer) < 0) break;
        h = graph_block(g, layer_forward, &layer, sizeof layer, h); // [n, D] = h[l+1]
        h = site_drop_rows(g, SITE_LAYER_OUT, layer_site(&layer, h), &layer.pass);
        p = layer.pass;
        if (p && p->embedded) p = pass_with_inputs(g, d, p, p->embedded);
    }
    backend_enter(g->backend, 0);
    if (part && !part->last) part->send(part, g, p, s, h);

    // The final norm and the head.
    if (p && decoder_last(d) && graph_ok(g)) {
        h = site_run(g, SITE_FINAL, pass_site(p, -1, h)); // [n, D] = h[L]
        if (want == LOGITS_HIDDEN) *logits = h;
        if (want == LOGITS_LAST || want == LOGITS_ALL) *logits = rows_logits(g, d, p, h, want);
    }
    const bool shared = want == LOGITS_LAST || want == LOGITS_ALL;
    if (part) *logits = part->broadcast(part, g, *logits, shared ? d->config.vocab : 0);
    readbacks_end(g);
    if (graph_stop(g)) return -1;

    // Only now do the new rows become valid. After a failure the cache keeps its old rows, or none
    // in layers whose rows a method was replacing.
    for (int l = first; kv && l < end; l++) kv->layer[l].rows = kv->layer[l].coming;
    if (kv && !s->segments) kv_end_pass(kv);
    return 0;
}
