// core/model/decoder.c -- the language model: embeddings h[0] [n,D] to logits, layer by layer.
//
//   h -> attention -> + h -> FFN -> + h      (each layer: core/model/layer.c)
//   h -> rmsnorm -> head -> logits
//
// A pass computes n rows; `past` keys are in the layer's cache, P = past + n. If a method drops
// rows after a layer, later layers compute and cache fewer rows; positions do not change.
#include "core/model/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/graph/look.h"
#include "core/model/decoder_step.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

// --- the pass, layer by layer --------------------------------------------------------------------

// A copy in the step arena, to be changed before a layer uses it. Earlier layers keep the former
// one, because the backward pass recomputes them with it.
static struct pass *pass_next(struct graph *g, const struct pass *p)
{
    struct pass *next = arena_alloc_host(g->arena, sizeof *next);
    if (!next) return graph_fail(g, "out of memory on %s", g->backend->name);
    *next = *p;
    return next;
}

// The rows of the cache for the new keys, and the end of what each row sees while its segment is
// behind the prefix.
static void places_in_segments(const struct segments *s, int32_t *place, int32_t *end)
{
    for (int i = 0; i < s->count; i++) {
        const int64_t own = s->of[i].cached;
        for (int64_t k = 0; k < s->of[i].n; k++) {
            *place++ = (int32_t)(segment_row(s, i) + own + k);
            *end++ = (int32_t)(s->prefix + own + k + 1);
        }
    }
}

// The pass for layers with `past` cached keys: positions of the new keys, and what each row sees.
static const struct pass *pass_behind(struct graph *g, const struct pass *former, int64_t past)
{
    if (former->past == past) return former;
    struct pass *p = pass_next(g, former);
    if (!p) return NULL;
    const struct segments *s = p->sequence->segments;
    int32_t *place = xreallocarray(NULL, (size_t)p->n, sizeof *place);
    int32_t *end = xreallocarray(NULL, (size_t)p->n, sizeof *end);
    for (int64_t i = 0; i < p->n; i++) end[i] = (place[i] = (int32_t)(past + i)) + 1;
    if (s) places_in_segments(s, place, end);
    p->places = graph_upload(g, DTYPE_I32, 1, &p->n, place); // [n]
    p->last = graph_upload(g, DTYPE_I32, 1, &p->n, end);     // [n]
    free(place);
    free(end);
    p->past = past;
    p->keys = s ? past + s->room * (s->count + 1) : past + p->n;
    return graph_ok(g) ? p : NULL;
}

// The pass for a smaller set of rows, which a method has chosen.
static const struct pass *pass_of_rows(struct graph *g, const struct pass *former,
                                       const int32_t *rows, int64_t n)
{
    struct pass *p = pass_next(g, former);
    int32_t *alive = arena_alloc_host(g->arena, (size_t)n * sizeof *alive);
    if (!p || !alive) return graph_fail(g, "out of memory on %s", g->backend->name);
    memcpy(alive, rows, (size_t)n * sizeof *alive);
    p->n = n;
    p->rows = alive;
    p->replaced = true;
    p->past = -1;
    const struct decoder_config *c = p->config;
    return rope_angles(g, &c->rope, p->sequence, alive, n, &p->cos, &p->sin) < 0 ? NULL : p;
}

// A layer whose values a method changes must hold them as they were changed.
static struct kv_row cached_row(const struct graph *g, const struct layer *layer)
{
    const struct decoder_config *c = layer->pass->config;
    const struct attention_kind *kind = c->kind->attention;
    const bool changed = kind->expanded && hooks_change_values(g, layer->number);
    return changed ? kind->expanded(c) : kind->cached(c);
}

// Reserves room in the layer's cache for the new rows, after those that stay, and records which
// rows of the sequence they are.
static int layer_begin(struct graph *g, struct layer *layer)
{
    const struct pass *p = layer->pass;
    struct kv_layer *cache = layer->cache;
    struct err err;
    if (cache && p->sequence->segments) {
        layer->past = cache->coming =
            cache->rows; // what is behind the prefix is no row of the cache
    } else if (cache) {
        if (p->replaced) cache->rows = 0;
        if (!cache->rows) kv_layer_shape(p->kv, layer->number, cached_row(g, layer));
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
    }
    layer->pass = pass_behind(g, p, layer->past);
    return layer->pass ? 0 : -1;
}

// Runs SITE_LAYER_OUT: a method may replace the rows for later layers.
static struct tensor *layer_end(struct graph *g, struct layer *layer, struct tensor *h)
{
    const struct pass *p = layer->pass;
    struct site_args args = layer_site(layer, h);
    const int32_t *rows = args.rows;
    if (hooks_run(g, SITE_LAYER_OUT, &args) < 0 || !args.x) return NULL;
    if (args.rows == rows) return args.x;
    if (g->tape || p->sequence->start)
        BUG("rows are dropped while gradients are recorded or samples share a pass");
    layer->pass = pass_of_rows(g, p, args.rows, args.x->shape[0]);
    return layer->pass ? args.x : NULL;
}

// Runs SITE_INPUT: a method may replace the rows for all layers.
static struct tensor *input_site(struct graph *g, const struct pass **p, struct tensor *h)
{
    const struct pass *all = *p;
    struct site_args args = pass_site(all, -1, h);
    if (!h || !graph_ok(g) || !hooks_wanted(g, SITE_INPUT, -1)) return h;
    if (hooks_run(g, SITE_INPUT, &args) < 0 || !args.x) return NULL;
    if (!args.rows) return args.x;
    if (g->tape || all->sequence->start)
        BUG("rows are dropped while gradients are recorded or samples share a pass");
    *p = pass_of_rows(g, all, args.rows, args.x->shape[0]);
    return *p ? args.x : NULL;
}

// Runs h through all layers; *p becomes the pass after the last layer, or NULL after a failure.
static struct tensor *layers_forward(struct graph *g, const struct decoder *d,
                                     const struct pass **p, struct tensor *h)
{
    struct kv *kv = (*p)->kv;
    const int from = d->stages ? d->stages->from : 0;
    const int to = d->stages ? d->stages->to : d->config.layers;
    for (int l = from; l < to && !graph_stop(g); l++) {
        struct layer layer = { *p, l, 0, &d->layer[l], kv ? &kv->layer[l] : NULL };
        backend_enter(g->backend, d->layer[l].gpu);
        if (layer_begin(g, &layer) < 0) break;
        h = graph_block(g, layer_forward, &layer, sizeof layer, h);
        h = layer_end(g, &layer, h);
        *p = layer.pass;
    }
    backend_enter(g->backend, 0);
    return h;
}

// --- the head ------------------------------------------------------------------------------------

struct tensor *decoder_logits(struct graph *g, const struct decoder *d, struct tensor *h)
{
    struct tensor *x = op_rmsnorm(g, h, graph_weight(&d->norm), (float)d->config.eps);
    return op_matmul(g, x, graph_weight(&d->head), NULL); // [n, V]
}

// [n, V], or [1, V] of the last row. That one, which chooses the next token, has the bits of the
// row alone whether or not all rows are requested.
static struct tensor *rows_logits(struct graph *g, const struct decoder *d, struct tensor *h,
                                  int64_t n, enum logits_rows want)
{
    if (want == LOGITS_ALL && n <= backend_few_rows(g->backend)) return decoder_logits(g, d, h);
    struct tensor *last = decoder_logits(g, d, graph_rows(g, h, n - 1, 1)); // [1, V]
    if (want != LOGITS_ALL) return last;
    struct tensor *logits = decoder_logits(g, d, h); // [n, V]
    op_copy_rows_into(g, logits, n - 1, last);
    return logits;
}

// Final norm and head.
static struct tensor *head_stage(struct graph *g, const struct pass *p, const struct decoder *d,
                                 struct tensor *h, enum logits_rows want)
{
    struct tensor *logits = rows_logits(g, d, h, p->n, want);
    if (p->prefill) logits = site_run(g, SITE_LOGITS, pass_site(p, -1, logits));
    struct tensor *last = graph_ok(g) ? graph_rows(g, logits, logits->shape[0] - 1, 1) : NULL;
    site_run(g, SITE_STEP_LOGITS, pass_site(p, -1, last));
    return logits;
}

// Checks the preconditions of a pass; conversations always meet them.
static int check_input(struct graph *g, const struct decoder *d, const struct kv *kv,
                       const struct sequence *s, const struct tensor *h)
{
    const struct decoder_config *c = &d->config;
    if (!h || !graph_ok(g)) return -1;
    if (!kv && h->shape[0] != s->n) BUG("a pass without a cache begins at the first row");
    if (kv && s->start) BUG("several samples with one cache");
    if (s->segments && (!kv || !c->kind->attention->segments || (g->hooks && g->hooks->count)))
        BUG("segments of a pass");
    if (kv && !kv_fits(kv, c->layers, c->kind->attention->cached(c)))
        BUG("a KV cache of another model");
    if (h->rank != 2 || h->shape[1] != c->hidden || h->shape[0] < 1 || h->shape[0] > s->n)
        BUG("embeddings do not fit the sequence");
    if (rope_bounded(&c->rope) && sequence_longest(s) > c->max_positions)
        graph_fail(g,
                   "rotary scaling \"dynamic\" is supported up to %lld tokens, but the "
                   "conversation has %lld; use /clear, or /set ctx.max to that",
                   (long long)c->max_positions, (long long)sequence_longest(s));
    if (c->window && sequence_longest(s) > c->window)
        graph_fail(g,
                   "attention over a sliding window of %lld tokens is supported for texts that fit "
                   "in it, but this one has %lld; use /clear, or /set ctx.max %lld",
                   (long long)c->window, (long long)sequence_longest(s), (long long)c->window);
    return graph_ok(g) ? 0 : -1;
}

// From the stage before: h of the rows that are left there, and the pass for them.
static struct tensor *take_on(struct graph *g, const struct decoder *d, const struct pass **p,
                              struct tensor *h)
{
    const struct sequence *s = (*p)->sequence;
    struct stage_plan plan;
    stages_receive_plan(g, d->stages, s, &plan);
    if (plan.rows && graph_ok(g)) {
        *p = pass_of_rows(g, *p, plan.rows, plan.n);
        h = graph_new2(g, DTYPE_F32, plan.n, d->config.hidden);
    }
    stages_receive(g, d->stages, s, h);
    if (graph_ok(g) && *p) {
        struct site_args args = pass_site(*p, -1, NULL);
        args.note = &plan.note;
        hooks_run(g, SITE_TAKE_ON, &args);
    }
    stage_plan_release(&plan);
    return h;
}

// To the next stage, also after a failure.
static void hand_on(struct graph *g, const struct decoder *d, const struct pass *p,
                    const struct sequence *s, const struct tensor *h)
{
    struct stage_plan plan = { 0 };
    if (graph_ok(g) && p) {
        struct site_args args = pass_site(p, -1, NULL);
        args.note = &plan.note;
        hooks_run(g, SITE_HAND_ON, &args);
        if (p->replaced) plan.n = p->n;
        plan.rows = plan.n ? (int32_t *)(uintptr_t)p->rows : NULL;
    }
    stages_send_plan(g, d->stages, s, &plan);
    plan.rows = NULL; // the pass's
    stage_plan_release(&plan);
    stages_send(g, d->stages, s, h);
}

// h[0] through the layers: those of this process, between the stages before and behind it.
static struct tensor *through_layers(struct graph *g, const struct decoder *d,
                                     const struct pass **p, struct pass *start, struct tensor *h)
{
    const struct sequence *s = start->sequence;
    if (graph_ok(g)) rope_angles(g, &d->config.rope, s, NULL, start->n, &start->cos, &start->sin);
    if (stages_first(d->stages))
        h = graph_ok(g) ? input_site(g, p, h) : h;
    else
        h = take_on(g, d, p, h);
    if (graph_ok(g) && *p) h = layers_forward(g, d, p, h);
    if (!stages_last(d->stages)) hand_on(g, d, *p, s, h);
    return h;
}

// What the pass was for, from h[L].
static struct tensor *wanted(struct graph *g, const struct decoder *d, const struct pass *p,
                             struct tensor *h, enum logits_rows want)
{
    struct tensor *x = NULL;
    if (stages_last(d->stages)) {
        if (graph_ok(g)) h = site_run(g, SITE_FINAL, pass_site(p, -1, h)); // [n, D] = h[L]
        if (want == LOGITS_HIDDEN)
            x = h;
        else if (want != LOGITS_NONE && h && graph_ok(g))
            x = head_stage(g, p, d, h, want);
    }
    if (!d->stages) return x;
    if (want == LOGITS_LAST || want == LOGITS_ALL)
        return stages_tell_tensor(g, d->stages, x, d->config.vocab);
    stages_tell(g, d->stages, NULL, 0);
    return x;
}

int decoder_forward(struct graph *g, const struct decoder *d, struct kv *kv,
                    const struct sequence *s, struct tensor *h, enum logits_rows want, bool prefill,
                    struct tensor **logits)
{
    *logits = NULL;
    // In stages a failure is told to the others.
    if (check_input(g, d, kv, s, h) < 0 && !d->stages) return -1;
    struct pass start = { .config = &d->config,
                          .sequence = s,
                          .kv = kv,
                          .n = h ? h->shape[0] : 1,
                          .prefill = prefill,
                          .past = -1 };
    const struct pass *p = &start;
    struct looks looks;
    looks_begin(g, &looks);
    if (kv && !prefill && want == LOGITS_LAST && !d->stages &&
        decoder_step(g, d, kv, s, h, logits)) {
        site_run(g, SITE_STEP_LOGITS, pass_site(p, -1, *logits));
        looks_end(g);
        return graph_stop(g) ? -1 : 0;
    }
    h = through_layers(g, d, &p, &start, h);
    *logits = wanted(g, d, p ? p : &start, h, want);
    looks_end(g);
    if (graph_stop(g)) return -1;

    // Commit the new rows only now: after an earlier failure the cache is unchanged, or empty in
    // layers whose rows were about to be replaced.
    for (int l = 0; kv && l < kv->layers; l++)
        if (stages_has(d->stages, l)) kv->layer[l].rows = kv->layer[l].coming;
    return 0;
}
