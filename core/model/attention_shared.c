// core/model/attention_shared.c -- grouped-query attention of Gemma 4: norms of query, key and
// value heads; different head sizes in layers without a sliding window; and, at the end of the
// model, layers that attend to the keys and values of an earlier layer.
//
//   q = rope(norm(Wq x)), k = rope(norm(Wk x)), v = norm(Wv x), the last norm without a gain
//
//   attention_valued    with keys and values of its own. `joint`: v = norm(Wk x), without Wv.
//   attention_sharing   only with queries; k and v are those of decoder_keys_of (layer_begin)
//
// Easy to get wrong: methods change values after their norm, and a layer that shares sees the
// changed values. In a `joint` layer, the projected keys become values before the norm and the
// rotation of keys.
#include <stdio.h>
#include <string.h>

#include "core/model/attend.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

// --- config --------------------------------------------------------------------------------------

// Newer versions of transformers store the sizes of single layers in "per_layer_config". It then
// lists every layer that differs from "head_dim" and "num_key_value_heads".
static int read_single_layer(const struct decoder_config *c, const cJSON *json, int layer,
                             struct head_sizes *to, struct err *err)
{
    char number[16];
    snprintf(number, sizeof number, "%d", layer);
    const cJSON *one = json_get(json_get(json, "per_layer_config"), number), *key;
    cJSON_ArrayForEach(key, one)
    {
        const bool known =
            !strcmp(key->string, "head_dim") || !strcmp(key->string, "num_key_value_heads");
        if (!known)
            return err_set(err, "\"per_layer_config\": layer %d: \"%.40s\" is not supported", layer,
                           key->string);
    }
    if (json_int(one, "head_dim", 2, 10000, c->dim, &to->dim, err) < 0 ||
        json_int(one, "num_key_value_heads", 1, 10000, c->kv_heads, &to->kv_heads, err) < 0)
        return err_in(err, "\"per_layer_config\": layer %d", layer);
    return 0;
}

// Checks that head sizes are equal in all layers with a sliding window, and in all layers without.
static int check_single_layers(const struct decoder_config *c, const cJSON *json, struct err *err)
{
    for (int l = 0; l < c->layers; l++) {
        const struct head_sizes usual = decoder_heads(c, l);
        struct head_sizes own = usual;
        if (read_single_layer(c, json, l, &own, err) < 0) return -1;
        if (own.dim == usual.dim && own.kv_heads == usual.kv_heads) continue;
        return err_set(err,
                       "\"per_layer_config\": layer %d differs in head sizes from the other layers "
                       "of its type (with or without a sliding window); this is not supported",
                       l);
    }
    return 0;
}

// The last layer never has a sliding window.
static int read_unwindowed(struct decoder_config *c, const cJSON *json, struct err *err)
{
    struct head_sizes *to = &c->unwindowed;
    const bool listed = json_get(json, "per_layer_config"); // then transformers reads no other key
    if (json_bool(json, "attention_k_eq_v", false, &to->joint, err) < 0) return -1;
    if (listed && read_single_layer(c, json, c->layers - 1, to, err) < 0) return -1;
    if (!listed && (json_int(json, "global_head_dim", 2, 10000, 512, &to->dim, err) < 0 ||
                    json_int(json, to->joint ? "num_global_key_value_heads" : "num_key_value_heads",
                             1, 10000, c->kv_heads, &to->kv_heads, err) < 0))
        return -1;
    if (to->dim % 2 || c->heads % to->kv_heads)
        return err_set(err,
                       "layers without a sliding window: %lld query heads of width %lld and %lld "
                       "key heads: the width must be even, and the number of query heads a "
                       "multiple of the number of key heads",
                       (long long)c->heads, (long long)to->dim, (long long)to->kv_heads);
    to->value_dim = c->rope.dim = to->dim;
    return listed ? check_single_layers(c, json, err) : 0;
}

static int read_sharing(struct decoder_config *c, const cJSON *json, struct err *err)
{
    int64_t sharing;
    if (json_int(json, "num_kv_shared_layers", 0, c->layers - 1, 0, &sharing, err) < 0) return -1;
    c->sharing = (int)sharing;
    for (int l = c->layers - c->sharing; l < c->layers; l++) {
        const int of = decoder_keys_of(c, l);
        if (decoder_slides(c, of) == decoder_slides(c, l) && !decoder_shares(c, of)) continue;
        return err_set(err,
                       "\"num_kv_shared_layers\" %d: layer %d has no earlier layer of its type "
                       "whose keys and values it could share",
                       c->sharing, l);
    }
    return 0;
}

static int read_pictures(struct decoder_config *c, const cJSON *json, struct err *err)
{
    static const char key[] = "use_bidirectional_attention";
    const bool given = json && cJSON_GetObjectItemCaseSensitive(json, key); // null: not at all
    const char *both;
    if (json_text(json, key, c->kind->pictures_whole && !given ? "vision" : "", &both, err) < 0)
        return -1;
    c->pictures_whole = !strcmp(both, "vision");
    c->pictures_unwindowed = c->pictures_whole && c->kind->pictures_whole;
    c->pictures_whole_sliding = c->pictures_whole && !c->kind->pictures_whole;
    if (!*both || c->pictures_whole) return 0;
    return err_set(
        err, "\"use_bidirectional_attention\" \"%s\" is not supported (known: vision, null)", both);
}

static int valued_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    if (attention_normed.read(c, json, err) < 0) return -1;
    c->slides[c->layers - 1] = false; // as in transformers, whatever "layer_types" says
    if (read_unwindowed(c, json, err) < 0 || read_sharing(c, json, err) < 0) return -1;
    return read_pictures(c, json, err);
}

// --- weights -------------------------------------------------------------------------------------

enum { Q, K, V, NORM_Q, NORM_K, O, ALL };

// Returns a weight's index in the layer's list; -1: the layer has no such weight.
static int index_of(const struct decoder_config *c, int layer, int weight)
{
    const bool shares = decoder_shares(c, layer), joint = decoder_heads(c, layer).joint;
    int index = 0;
    for (int i = 0; i < ALL; i++) {
        if (shares ? i == K || i == V || i == NORM_K : joint && i == V) continue;
        if (i == weight) return index;
        index++;
    }
    return -1;
}

static bool list_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const struct head_sizes s = decoder_heads(c, layer);
    const int64_t D = c->hidden, q = c->heads * s.dim, kv = s.kv_heads * s.dim;
    const struct layer_weight all[ALL] = {
        [Q] = { .name = "self_attn.q_proj", .out = q, .in = D, .bias = c->qkv_bias },
        [K] = { .name = "self_attn.k_proj", .out = kv, .in = D, .bias = c->qkv_bias },
        [V] = { .name = "self_attn.v_proj", .out = kv, .in = D, .bias = c->qkv_bias },
        [NORM_Q] = { .name = "self_attn.q_norm", .out = s.dim },
        [NORM_K] = { .name = "self_attn.k_norm", .out = s.dim },
        [O] = { .name = "self_attn.o_proj", .out = D, .in = q, .bias = c->out_bias },
    };
    for (int k = 0; k < ALL; k++)
        if (index_of(c, layer, k) == i) {
            *w = all[k];
            return true;
        }
    return false;
}

static struct kv_row cached(const struct decoder_config *c, int layer)
{
    const struct head_sizes s = decoder_heads(c, layer);
    return (struct kv_row){ .k = { s.kv_heads, s.dim }, .v = { s.kv_heads, s.dim } };
}

static double pair_flops(const struct decoder_config *c, int layer)
{
    return 4 * (double)(c->heads * decoder_heads(c, layer).dim);
}

// --- forward pass --------------------------------------------------------------------------------

// Returns a weight of the layer; the layer must have it.
static const struct linear *weight_of(const struct layer *layer, int weight)
{
    return &layer->w->attention.weight[index_of(layer->pass->config, layer->number, weight)];
}

static struct tensor *normed_queries(struct graph *g, const struct layer *layer, struct tensor *x)
{
    const struct decoder_config *c = layer->pass->config;
    struct tensor *q = linear_forward(g, x, weight_of(layer, Q)); // [m, H*d]
    if (!q) return NULL;
    q = graph_view3(g, q, q->shape[0], c->heads, decoder_heads(c, layer->number).dim);
    return op_rmsnorm(g, q, graph_weight(&weight_of(layer, NORM_Q)->weight), (float)c->eps);
}

static struct qkv valued_project(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct decoder_config *c = layer->pass->config;
    const struct head_sizes s = decoder_heads(c, layer->number);
    const int64_t m = h ? h->shape[0] : 0;
    struct tensor *x = layer_rmsnorm(g, layer, &layer->w->attention.before, h);
    struct tensor *k = linear_forward(g, x, weight_of(layer, K)); // [m, Hkv*d]
    struct tensor *v = s.joint ? k : linear_forward(g, x, weight_of(layer, V));
    struct qkv rows = { .q = normed_queries(g, layer, x),
                        .k = graph_view3(g, k, m, s.kv_heads, s.dim),
                        .v = graph_view3(g, v, m, s.kv_heads, s.dim) };
    rows.v = op_rmsnorm_plain(g, rows.v, (float)c->eps);
    rows.k = op_rmsnorm(g, rows.k, graph_weight(&weight_of(layer, NORM_K)->weight), (float)c->eps);
    return rows;
}

// Computes the queries of all rows; layer_begin has found the keys and values.
static struct qkv sharing_qkv(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct decoder_config *c = layer->pass->config;
    const int64_t n = h ? h->shape[0] : 0;
    struct qkv all = { .k = layer->shared.k, .v = layer->shared.v };
    if (!g->tape)
        all.q = graph_new3(g, DTYPE_F32, n, c->heads, decoder_heads(c, layer->number).dim);
    for (int64_t i = 0, m; i < n && graph_ok(g); i += m) {
        m = layer_rows(g, n, i);
        struct arena_mark block = graph_scratch_begin(g);
        struct tensor *x =
            layer_rmsnorm(g, layer, &layer->w->attention.before, graph_rows(g, h, i, m));
        struct tensor *q =
            op_rope(g, normed_queries(g, layer, x), graph_rows(g, layer->view->cos, i, m),
                    graph_rows(g, layer->view->sin, i, m));
        if (g->tape)
            all.q = q; // a single block
        else
            op_copy_rows_into(g, all.q, i, q);
        graph_scratch_end(g, block);
    }
    return all;
}

const struct attention_kind attention_valued = {
    .read = valued_read,
    .weight = list_weight,
    .cached = cached,
    .pair_flops = pair_flops,
    .traits = { .head_norms = true },
    .project = valued_project,
};

const struct attention_kind attention_sharing = {
    .read = valued_read,
    .weight = list_weight,
    .cached = cached,
    .pair_flops = pair_flops,
    .traits = { .head_norms = true },
    .qkv = sharing_qkv,
};
