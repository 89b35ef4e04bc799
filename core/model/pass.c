// core/model/pass.c -- the rows of a pass, layer by layer: positions, rows of the cache, and which
// keys each row sees.
#include "core/model/pass.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/model/layer.h"

// Copies a pass to the step arena, to be changed before a layer uses the copy. Earlier layers keep
// the old pass, with which the backward pass recomputes them.
static struct pass *pass_copy(struct graph *g, const struct pass *p)
{
    struct pass *next = arena_alloc_host(g->arena, sizeof *next);
    if (!next) return graph_fail(g, "out of memory on %s", g->backend->name);
    *next = *p;
    return next;
}

// Sets the cache rows of the new keys, and where each row's keys end when its segment is copied
// behind the prefix (attend_segments).
static void rows_in_segments(const struct segments *s, int32_t *cache_row, int32_t *end)
{
    for (int i = 0; i < s->count; i++) {
        const int64_t own = s->of[i].cached;
        for (int64_t k = 0; k < s->of[i].n; k++) {
            *cache_row++ = (int32_t)(segment_row(s, i) + own + k);
            *end++ = (int32_t)(s->prefix + own + k + 1);
        }
    }
}

// Returns the pass for layers with `past` cached keys: the cache rows of the new keys, and the keys
// that each row sees.
static const struct pass *pass_with_past(struct graph *g, const struct pass *former, int64_t past)
{
    if (former->past == past) return former;
    struct pass *p = pass_copy(g, former);
    if (!p) return NULL;
    const struct segments *s = p->sequence->segments;
    int32_t *cache_row = xreallocarray(NULL, (size_t)p->n, sizeof *cache_row);
    int32_t *end = xreallocarray(NULL, (size_t)p->n, sizeof *end);
    for (int64_t i = 0; i < p->n; i++) end[i] = (cache_row[i] = (int32_t)(past + i)) + 1;
    if (s) rows_in_segments(s, cache_row, end);
    p->cache_rows = graph_upload(g, DTYPE_I32, 1, &p->n, cache_row); // [n]
    p->end = graph_upload(g, DTYPE_I32, 1, &p->n, end);              // [n]
    const int32_t *start = p->sequence->start;
    p->first = start ? graph_upload(g, DTYPE_I32, 1, &p->n, start) : NULL; // [n]
    free(cache_row);
    free(end);
    p->past = past;
    p->keys = s ? past + s->rows * (s->count + 1) : past + p->n;
    return graph_ok(g) ? p : NULL;
}

void pass_check_window(struct graph *g, const struct decoder_config *c, const struct sequence *s)
{
    if (c->window && sequence_longest(s) > c->window)
        graph_fail(g,
                   "attention over a sliding window of %lld tokens is supported for texts that fit "
                   "in it, but this one has %lld; use /clear, or /set ctx.max %lld",
                   (long long)c->window, (long long)sequence_longest(s), (long long)c->window);
}

int layer_begin(struct graph *g, struct layer *layer)
{
    const struct pass *p = layer->pass;
    const struct decoder_config *c = p->config;
    const struct attention_kind *kind = decoder_attention(c, layer->number);
    struct kv_layer *cache = layer->cache;
    struct err err;
    // Rows of segments are stored after the cached rows, but not counted.
    if (cache && p->sequence->segments) {
        layer->past = cache->coming = cache->rows;
    } else if (cache) {
        if (p->replaced) cache->rows = 0;
        // If a method changes the values of a layer, the layer caches the changed ones.
        const bool changed = kind->expanded && hooks_change_values(g, layer->number);
        if (!cache->rows)
            kv_layer_shape(p->kv, layer->number, changed ? kind->expanded(c) : kind->cached(c));
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
    layer->pass = pass_with_past(g, p, layer->past);
    return layer->pass ? 0 : -1;
}

const struct pass *pass_of_rows(struct graph *g, const struct pass *former, const int32_t *rows,
                                int64_t n)
{
    struct pass *p = pass_copy(g, former);
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

struct tensor *site_drop_rows(struct graph *g, const struct site *site, struct site_args args,
                              const struct pass **p)
{
    const int32_t *rows = args.rows;
    if (hooks_run(g, site, &args) < 0 || !args.x) return NULL;
    if (args.rows == rows) return args.x;
    if (args.sequence->start) BUG("rows are dropped while samples share a pass");
    *p = pass_of_rows(g, *p, args.rows, args.x->shape[0]);
    return *p ? args.x : NULL;
}
