// core/model/pass_shared.c -- layers that attend to the keys and values of an earlier layer.
//
//   cache     the layer reads the earlier layer's tables. If a method dropped rows between the two
//             layers, it has tables of its own with the rows that remain; later layers with the
//             same rows read these.
//   no cache  the earlier layer copies its keys and values to memory that outlasts it; rows dropped
//             since then are left out.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

static bool same_rows(const struct kv_layer *a, const struct kv_layer *b)
{
    return a->coming == b->coming &&
           !memcmp(a->position, b->position, (size_t)a->coming * sizeof *a->position);
}

// Appends the new rows of a layer with tables of its own, from the tables of `from`.
static void copy_rows(struct graph *g, const struct layer *layer, struct kv_layer *from)
{
    struct kv_layer *to = layer->cache;
    const int64_t n = layer->pass->n;
    int32_t *index = xreallocarray(NULL, (size_t)n + 1, sizeof *index);
    for (int64_t i = 0; i < n; i++) {
        const int32_t row = to->position[layer->past + i];
        index[i] = (int32_t)pass_key_of(from->position, from->coming, row);
        if (index[i] >= from->coming || from->position[index[i]] != row)
            BUG("a row without keys in the layer that lends them");
    }
    struct arena_mark scratch = graph_scratch_begin(g);
    op_copy_rows_into(g, &to->k, layer->past, op_gather_rows(g, &from->k, index, n));
    op_copy_rows_into(g, &to->v, layer->past, op_gather_rows(g, &from->v, index, n));
    graph_scratch_end(g, scratch);
    free(index);
}

static int share_cached(struct graph *g, struct layer *layer)
{
    struct kv *kv = layer->pass->kv;
    const struct decoder_config *c = layer->pass->config;
    const int owner = decoder_keys_of(c, layer->number);
    struct kv_layer *to = layer->cache;
    struct err err;
    // The nearest earlier layer with tables of these keys and values.
    int of = layer->number - 1;
    while (of > owner && !(decoder_keys_of(c, of) == owner && kv->layer[of].apart)) of--;
    struct kv_layer *from = &kv->layer[of];
    const bool apart = !same_rows(from, to);
    if (apart && !to->apart && layer->past) BUG("layer %d lacks keys", layer->number);
    kv_layer_set_apart(kv, layer->number, apart);
    if (apart) {
        if (kv_layer_reserve(kv, layer->number, to->coming, &err) < 0) {
            graph_fail(g, "%s", err.text);
            return -1;
        }
        copy_rows(g, layer, from);
        from = to;
    }
    layer->shared.k = graph_rows(g, &from->k, 0, layer->pass->keys);
    layer->shared.v = graph_rows(g, &from->v, 0, layer->pass->keys);
    return graph_ok(g) ? 0 : -1;
}

// Sets the keys and values that a layer shares in a pass without a cache.
static int share_lent(struct graph *g, struct layer *layer)
{
    const struct pass *p = layer->pass;
    layer->shared = p->lent[decoder_keys_of(p->config, layer->number)];
    if (!layer->shared.k || !layer->shared.v) {
        graph_fail(g, "layer %d shares keys and values of a layer that was not computed here",
                   layer->number);
        return -1;
    }
    if (layer->shared.pass->n == p->n) return 0;
    int32_t *index = xreallocarray(NULL, (size_t)p->n + 1, sizeof *index);
    pass_find_rows(layer->shared.pass, p, index);
    layer->shared.k = op_gather_rows(g, layer->shared.k, index, p->n);
    layer->shared.v = op_gather_rows(g, layer->shared.v, index, p->n);
    free(index);
    return graph_ok(g) ? 0 : -1;
}

int layer_share(struct graph *g, struct layer *layer)
{
    const struct pass *p = layer->pass;
    const struct decoder_config *c = p->config;
    if (decoder_shares(c, layer->number))
        return layer->cache ? share_cached(g, layer) : share_lent(g, layer);
    if (layer->cache || !decoder_lends(c, layer->number)) return 0;
    const struct head_sizes s = decoder_heads(c, layer->number);
    layer->shared = (struct lent_keys){ graph_between_blocks(g, p->n, s.kv_heads, s.dim),
                                        graph_between_blocks(g, p->n, s.kv_heads, s.value_dim), p };
    p->lent[layer->number] = layer->shared;
    return graph_ok(g) ? 0 : -1;
}
