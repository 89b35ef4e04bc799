// core/model/pass.c -- the rows of a pass, layer by layer: positions, rows of the cache, and which
// keys each row sees.
#include "core/model/pass.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/model/layer.h"

struct pass *pass_copy(struct graph *g, const struct pass *p)
{
    struct pass *next = arena_alloc_host(g->arena, sizeof *next);
    if (!next) return graph_fail(g, "out of memory on %s", g->backend->name);
    *next = *p;
    return next;
}

int64_t pass_row(const struct pass *p, int64_t i)
{
    return p->rows ? p->rows[i] : p->sequence->n - p->n + i;
}

// Returns the end of a row's picture, or of the row itself in text.
static int64_t picture_end(const struct sequence *s, int64_t row)
{
    const int32_t picture = s->picture[row++];
    while (picture >= 0 && row < s->n && s->picture[row] == picture) row++;
    return row;
}

// Returns the number of rows before a row that a sliding window leaves visible.
static int64_t rows_before(const struct decoder_config *c, const struct sequence *s, int64_t row)
{
    const int64_t own = c->pictures_unwindowed ? row - pass_start(c, s, row) : 0;
    return own < c->window ? c->window - 1 : own;
}

struct row_range pass_sees(const struct decoder_config *c, bool slides, const struct sequence *s,
                           int64_t row)
{
    struct row_range sees = { s->start ? s->start[row] : 0, row + 1 };
    if (c->pictures_whole && (slides || !c->pictures_whole_sliding)) sees.end = picture_end(s, row);
    const int64_t from = slides ? row - rows_before(c, s, row) : 0;
    if (sees.first < from) sees.first = from;
    return sees;
}

int64_t pass_start(const struct decoder_config *c, const struct sequence *s, int64_t row)
{
    while (c->pictures_whole && row && row < s->n && s->picture[row] >= 0 &&
           s->picture[row - 1] == s->picture[row])
        row--;
    return row;
}

int64_t pass_key_of(const int32_t *position, int64_t count, int64_t row)
{
    int64_t low = 0, high = count;
    if (!position) return row < count ? row : count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (position[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Sets the cache rows of the new keys, which follow the cached ones.
static void rows_after(int64_t past, int64_t n, int32_t *cache_row)
{
    for (int64_t i = 0; i < n; i++) cache_row[i] = (int32_t)(past + i);
}

// Sets the cache rows of the new keys of segments.
static void rows_in_segments(const struct segments *s, int32_t *cache_row)
{
    for (int i = 0; i < s->count; i++)
        for (int64_t k = 0; k < s->of[i].n; k++)
            *cache_row++ = (int32_t)(segment_row(s, i) + s->of[i].cached + k);
}

// Sets the keys that each row sees, by their indices in the layer's cache.
static void see(const struct pass *p, const struct layer *layer, bool slides, int32_t *first,
                int32_t *end)
{
    const struct sequence *s = p->sequence;
    const int32_t *position = layer->cache ? layer->cache->position : p->rows;
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t row = pass_row(p, i), key = layer->past + i;
        const struct row_range sees = pass_sees(p->config, slides, s, row);
        first[i] = (int32_t)(sees.first ? pass_key_of(position, key + 1, sees.first) : 0);
        end[i] =
            (int32_t)(sees.end == row + 1 ? key + 1
                                          : pass_key_of(position, layer->past + p->n, sees.end));
    }
}

// Like `see`, for segments. attend_segments copies each segment behind the prefix, so a key's index
// is its row's number in the conversation.
static void see_in_segments(const struct pass *p, bool slides, int32_t *first, int32_t *end)
{
    const struct segments *s = p->sequence->segments;
    int64_t row = p->sequence->n - p->n;
    for (int i = 0; i < s->count; i++) {
        const int64_t start = row, own = s->prefix + s->of[i].cached;
        for (; row < start + s->of[i].n; row++) {
            const int64_t key = own + row - start;
            const struct row_range sees = pass_sees(p->config, slides, p->sequence, row);
            const int64_t from = slides ? key - rows_before(p->config, p->sequence, row) : 0;
            *first++ = (int32_t)(from > 0 ? from : 0);
            *end++ = (int32_t)(key + sees.end - row);
        }
    }
}

static int set_seen(struct graph *g, const struct pass *p, const struct layer *layer, bool slides,
                    struct pass_view *view)
{
    const size_t n = (size_t)p->n;
    int32_t *first = arena_alloc_host(g->arena, n * sizeof *first);
    int32_t *end = arena_alloc_host(g->arena, n * sizeof *end);
    bool whole = !p->sequence->start;
    if (!first || !end) {
        graph_fail(g, "out of memory on %s", g->backend->name);
        return -1;
    }
    if (p->sequence->segments)
        see_in_segments(p, slides, first, end);
    else
        see(p, layer, slides, first, end);
    for (size_t i = 0; i < n; i++) whole &= first[i] == 0;
    view->host_first = first;
    view->host_end = end;
    view->first = whole ? NULL : graph_upload(g, DTYPE_I32, 1, &p->n, first); // [n]
    view->end = graph_upload(g, DTYPE_I32, 1, &p->n, end);                    // [n]
    return 0;
}

// Sets the rotary angles and the factors of queries.
static int set_angles(struct graph *g, const struct pass *p, const struct rope_config *rope,
                      struct pass_view *view)
{
    if (rope_angles(g, rope, p->sequence, p->rows, p->n, &view->cos, &view->sin) < 0) return -1;
    if (rope->query_beta == 0) return 0;
    float *factor = arena_alloc_host(g->arena, (size_t)p->n * sizeof *factor);
    if (!factor) {
        graph_fail(g, "out of memory on %s", g->backend->name);
        return -1;
    }
    const bool any = rope_query_factors(rope, p->sequence, p->rows, p->n, factor);
    view->query_factor = any ? factor : NULL;
    return 0;
}

// Returns the pass for a layer with layer->past cached keys: the cache rows of the new keys, the
// keys that each row sees, and the rotary angles.
static const struct pass *pass_for_layer(struct graph *g, const struct layer *layer)
{
    const struct pass *former = layer->pass;
    const bool slides = decoder_slides(former->config, layer->number);
    if (former->past == layer->past && former->view[slides].end) return former;
    struct pass *p = pass_copy(g, former);
    if (!p) return NULL;
    struct pass_view *view = &p->view[slides];
    const struct segments *s = p->sequence->segments;
    if (p->past != layer->past) {
        int32_t *cache_row = xreallocarray(NULL, (size_t)p->n, sizeof *cache_row);
        rows_after(layer->past, p->n, cache_row);
        if (s) rows_in_segments(s, cache_row);
        p->cache_rows = graph_upload(g, DTYPE_I32, 1, &p->n, cache_row); // [n]
        free(cache_row);
        p->past = layer->past;
        p->keys = s ? p->past + s->rows * (s->count + 1) : p->past + p->n;
        p->view[0].end = p->view[1].end = NULL;
    }
    if (!view->cos && set_angles(g, p, decoder_rope(p->config, layer->number), view) < 0)
        return NULL;
    return set_seen(g, p, layer, slides, view) == 0 && graph_ok(g) ? p : NULL;
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
            kv_layer_shape(p->kv, layer->number,
                           (changed ? kind->expanded : kind->cached)(c, layer->number));
        if (p->prefill && !p->replaced && cache->rows != p->sequence->n - p->n)
            BUG("layer %d has %d rows of the sequence", layer->number, (int)cache->rows);
        layer->past = cache->rows;
        cache->coming = layer->past + p->n;
        if (kv_layer_reserve(p->kv, layer->number, cache->coming, &err) < 0) {
            graph_fail(g, "%s", err.text);
            return -1;
        }
        for (int64_t i = 0; i < p->n; i++)
            cache->position[layer->past + i] = (int32_t)pass_row(p, i);
    }
    layer->pass = pass_for_layer(g, layer);
    if (!layer->pass) return -1;
    layer->view = &layer->pass->view[decoder_slides(c, layer->number)];
    return c->sharing ? layer_share(g, layer) : 0;
}

void pass_find_rows(const struct pass *in, const struct pass *of, int32_t *index)
{
    for (int64_t i = 0; i < of->n; i++) {
        const int64_t row = pass_row(of, i);
        index[i] = (int32_t)(in->rows ? pass_key_of(in->rows, in->n, row) : row - pass_row(in, 0));
        if (index[i] < 0 || index[i] >= in->n || pass_row(in, index[i]) != row)
            BUG("a row of the sequence that the earlier layers did not compute");
    }
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
    p->view[0] = p->view[1] = (struct pass_view){ 0 };
    return p;
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
    args.first = layer->view->host_first;
    args.end = layer->view->host_end;
    args.scale = layer->pass->config->score_scale;
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
    if (!*p || !args.embedded) return *p ? args.x : NULL;
    struct pass *next = pass_copy(g, *p);
    if (next) next->embedded = args.embedded;
    *p = next;
    return next ? args.x : NULL;
}
