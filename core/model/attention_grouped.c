// core/model/attention_grouped.c -- grouped-query attention with rotary positions (Ainslie et al.
// 2023, arXiv 2305.13245): H query heads share Hkv heads of keys and values.
//
//   x = before(h);  q = rope(Wq x), k = rope(Wk x), v = Wv x;  h += o(attention(q, k, v))
//
// attention_packed is the same with Wq, Wk and Wv as one weight (InternLM2), which has for each key
// head the rows of its H/Hkv query heads, then of the key, then of the value.
//
// attention_gated (Qwen3.5) is attention_normed with gates: Wq has for each head the rows of the
// query, then those of the gate, and the output of a head is multiplied by sigmoid(gate) (Qiu et
// al. 2025, arXiv 2505.06708). It also reads the config of the decoder's recurrent layers
// (attention_delta.c).
//
// attention_normed applies an RMSNorm to each query and key head before the rotation; all query
// heads share one gain, all key heads another (Qwen3):  q = rope(norm(Wq x)), k = rope(norm(Wk x)).
#include <string.h>

#include "core/files/gguf.h"
#include "core/model/attend.h"
#include "core/model/fused.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

// --- config and weights --------------------------------------------------------------------------

// Checks "layer_types", which newer configs have; NULL: missing.
static int check_types(const cJSON *types, int layers, struct err *err)
{
    bool named = cJSON_IsArray(types) && cJSON_GetArraySize(types) >= layers;
    const cJSON *type;
    cJSON_ArrayForEach(type, types) named &= cJSON_IsString(type);
    if (!types || named) return 0;
    return err_set(err, "\"layer_types\" must be a list of the types of all %d layers", layers);
}

// Without types, the first `full` layers and every `pattern`-th layer (0: none) have no window.
static void set_slides(struct decoder_config *c, const cJSON *types, int64_t full, int64_t pattern)
{
    const cJSON *type = types ? types->child : NULL;
    for (int l = 0; l < c->layers; l++, type = type ? type->next : NULL)
        c->slides[l] = type ? !strcmp(type->valuestring, "sliding_attention")
                            : l >= full && !(pattern && (l + 1) % pattern == 0);
}

// Sets c->slides to the layers with a sliding window. Sets c->window if there are such layers, and
// if the window is shorter than the context or these layers have a rotary base of their own.
static int read_window(struct decoder_config *c, const cJSON *json, struct err *err)
{
    bool any = false;
    int64_t window, full = 0, pattern;
    const cJSON *width = json ? cJSON_GetObjectItemCaseSensitive(json, "sliding_window") : NULL;
    const cJSON *types = json_get(json, "layer_types");
    const bool direct = c->kind->slides_by_default || c->kind->slides_if_given;
    bool use = !cJSON_IsNull(width) && (width || !c->kind->slides_if_given);
    if (!direct && json_bool(json, "use_sliding_window", false, &use, err) < 0) return -1;
    if (!use) return 0;
    if (json_int(json, "sliding_window", 1, INT32_MAX, c->kind->window ? c->kind->window : 4096,
                 &window, err) < 0 ||
        (!direct && !c->kind->slides_in_all &&
         json_int(json, "max_window_layers", 0, INT32_MAX, 28, &full, err) < 0) ||
        json_int(json, "sliding_window_pattern", 0, INT32_MAX, c->kind->sliding_pattern, &pattern,
                 err) < 0 ||
        check_types(types, c->layers, err) < 0)
        return -1;
    set_slides(c, types, full, c->kind->sliding_pattern ? pattern : 0);
    for (int l = 0; l < c->layers; l++) any |= c->slides[l];
    if (any && (c->kind->sliding_pattern || window < c->max_positions)) c->window = window;
    return 0;
}

static int read_heads(struct decoder_config *c, const cJSON *json, struct err *err)
{
    const struct decoder_kind *kind = c->kind;
    if (json_int(json, "num_attention_heads", 1, 10000, kind->heads ? kind->heads : 32, &c->heads,
                 err) < 0)
        return -1;
    const int64_t otherwise = kind->head_size ? kind->head_size : c->hidden / c->heads;
    if (json_int(json, "num_key_value_heads", 1, 10000, kind->kv_heads ? kind->kv_heads : c->heads,
                 &c->kv_heads, err) < 0 ||
        json_int(json, "head_dim", 2, 10000, otherwise, &c->dim, err) < 0)
        return -1;
    if (!json_get(json, "head_dim") && !kind->head_size && c->hidden % c->heads)
        return err_set(err,
                       "\"hidden_size\" %lld is not a multiple of \"num_attention_heads\" %lld",
                       (long long)c->hidden, (long long)c->heads);
    if (c->dim % 2 || c->dim < 2)
        return err_set(err, "heads of width %lld cannot be rotated: the width must be even",
                       (long long)c->dim);
    if (c->heads % c->kv_heads)
        return err_set(err,
                       "\"num_attention_heads\" %lld is not a multiple of \"num_key_value_heads\" "
                       "%lld",
                       (long long)c->heads, (long long)c->kv_heads);
    return 0;
}

static int packed_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    if (read_heads(c, json, err) < 0) return -1;
    c->rope.dim = c->value_dim = c->dim;
    if (json_bool(json, "bias", true, &c->qkv_bias, err) < 0) return -1; // InternLM2's key
    c->out_bias = c->qkv_bias;
    return 0;
}

static int grouped_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    if (read_heads(c, json, err) < 0 || read_window(c, json, err) < 0) return -1;
    if (c->kind->sliding_pattern &&
        rope_config_read_sliding(&c->sliding_rope, c->kind->rotary, json, err) < 0)
        return -1;
    c->rope.dim = c->sliding_rope.dim = c->value_dim = c->dim;
    c->qkv_bias = c->kind->qkv_bias;
    if (c->qkv_bias) return 0;
    if (json_bool(json, "attention_bias", c->kind->qkv_bias_default, &c->qkv_bias, err) < 0)
        return -1;
    c->out_bias = c->qkv_bias && !c->kind->out_unbiased;
    return 0;
}

// Sets c->recurs from "layer_types"; without them, every "full_attention_interval"-th layer has
// attention.
static int read_recurrent(struct decoder_config *c, const cJSON *json, struct err *err)
{
    const cJSON *types = json_get(json, "layer_types"), *type = types ? types->child : NULL;
    int64_t interval;
    if (check_types(types, c->layers, err) < 0 ||
        json_int(json, "full_attention_interval", 1, DECODER_LAYERS, 4, &interval, err) < 0)
        return -1;
    for (int l = 0; l < c->layers; l++, type = type ? type->next : NULL) {
        c->recurs[l] = type ? !strcmp(type->valuestring, "linear_attention") : (l + 1) % interval;
        if (type && !c->recurs[l] && strcmp(type->valuestring, "full_attention") != 0)
            return err_set(err,
                           "\"layer_types\" \"%s\" is not supported (known: linear_attention, "
                           "full_attention)",
                           type->valuestring);
    }
    return 0;
}

static int gated_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    struct delta_config *d = &c->delta;
    if (read_heads(c, json, err) < 0 || read_recurrent(c, json, err) < 0 ||
        json_int(json, "linear_num_key_heads", 1, 10000, 16, &d->key_heads, err) < 0 ||
        json_int(json, "linear_num_value_heads", 1, 10000, 32, &d->heads, err) < 0 ||
        json_int(json, "linear_key_head_dim", 1, 10000, 128, &d->key_width, err) < 0 ||
        json_int(json, "linear_value_head_dim", 1, 10000, 128, &d->width, err) < 0 ||
        json_int(json, "linear_conv_kernel_dim", 1, 64, 4, &d->taps, err) < 0 ||
        json_bool(json, GGUF_ALTERNATE, false, &d->alternate, err) < 0 ||
        json_bool(json, "attention_bias", false, &c->qkv_bias, err) < 0)
        return -1;
    c->out_bias = c->qkv_bias;
    c->rope.dim = c->value_dim = c->dim;
    if (d->heads % d->key_heads == 0) return 0;
    return err_set(err,
                   "\"linear_num_value_heads\" %lld is not a multiple of "
                   "\"linear_num_key_heads\" %lld",
                   (long long)d->heads, (long long)d->key_heads);
}

static bool grouped_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const int64_t D = c->hidden, q = c->heads * c->dim, kv = c->kv_heads * c->dim;
    const struct layer_weight all[] = {
        [ATTENTION_Q] = { .name = "self_attn.q_proj", .out = q, .in = D, .bias = c->qkv_bias },
        [ATTENTION_K] = { .name = "self_attn.k_proj", .out = kv, .in = D, .bias = c->qkv_bias },
        [ATTENTION_V] = { .name = "self_attn.v_proj", .out = kv, .in = D, .bias = c->qkv_bias },
        [ATTENTION_O] = { .name = "self_attn.o_proj", .out = D, .in = q, .bias = c->out_bias },
    };
    if (i >= (int)(sizeof all / sizeof *all)) return false;
    *w = all[i];
    return true;
}

// The weights of attention_normed: those of grouped_weight, with two gains [d] before the output.
enum { NORM_Q = ATTENTION_O, NORM_K, NORMED_O };

static bool normed_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    if (i < NORM_Q) return grouped_weight(c, layer, i, w);
    if (i >= NORMED_O) return grouped_weight(c, layer, i - NORMED_O + ATTENTION_O, w);
    *w = (struct layer_weight){ .name = i == NORM_Q ? "self_attn.q_norm" : "self_attn.k_norm",
                                .out = c->dim };
    return true;
}

// Like normed_weight, with twice the rows for queries.
static bool gated_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const bool known = normed_weight(c, layer, i, w);
    if (known && i == ATTENTION_Q) w->out *= 2;
    return known;
}

enum { PACKED_QKV, PACKED_O, PACKED_COUNT };

static bool packed_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const int64_t D = c->hidden, q = c->heads * c->dim, kv = c->kv_heads * c->dim;
    const struct layer_weight all[PACKED_COUNT] = {
        [PACKED_QKV] = { "self_attn.qkv_proj", q + 2 * kv, D, c->qkv_bias },
        [PACKED_O] = { "self_attn.o_proj", D, q, c->out_bias },
    };
    if (i >= PACKED_COUNT) return false;
    *w = all[i];
    return true;
}

static struct kv_row grouped_cached(const struct decoder_config *c, int layer)
{
    return (struct kv_row){ .k = { c->kv_heads, c->dim }, .v = { c->kv_heads, c->dim } };
}

// Counts two products per pair: of query and key, and of value and probability.
static double grouped_pair_flops(const struct decoder_config *c, int layer)
{
    return 4 * (double)(c->heads * c->dim);
}

// --- forward pass --------------------------------------------------------------------------------

// Normalises and packs many rows on the CPU once for all three products.
static bool project_at_once(struct graph *g, const struct layer *layer, struct tensor *h,
                            struct tensor *to[3])
{
    const struct linear *w = layer->w->attention.weight;
    const struct norm_gain norm = { graph_weight(&layer->w->attention.before),
                                    (float)layer->pass->config->eps };
    const struct linear *const each[] = { &w[ATTENTION_Q], &w[ATTENTION_K], &w[ATTENTION_V] };
    if (!g->backend->rows_products || g->tape || !h || h->shape[0] <= backend_few_rows(g->backend))
        return false;
    const struct arena_mark mark = arena_mark(g->arena);
    for (int i = 0; i < 3; i++)
        to[i] = graph_new2(g, DTYPE_F32, h->shape[0], each[i]->weight.shape[0]);
    if (fused_each(g, h, &norm, each, 3, to)) return true;
    arena_reset(g->arena, mark);
    return false;
}

static struct qkv grouped_project(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct decoder_config *c = layer->pass->config;
    const struct attention_kind *kind = decoder_attention(c, layer->number);
    const struct linear *w = layer->w->attention.weight;
    const int64_t d = c->dim, group = c->heads / c->kv_heads, m = h ? h->shape[0] : 0;
    struct tensor *to[3]; // queries, keys, values: [m, H*d] [m, Hkv*d] [m, Hkv*d]
    if (kind->packed) {
        struct tensor *x = layer_rmsnorm(g, layer, &layer->w->attention.before, h);
        x = linear_forward(g, x, &w[PACKED_QKV]);
        if (x) // one row per key head
            x = graph_view(g, x, 2, (int64_t[]){ m * c->kv_heads, (group + 2) * d });
        to[ATTENTION_Q] = attend_columns(g, x, 0, group * d);
        to[ATTENTION_K] = attend_columns(g, x, group * d, d);
        to[ATTENTION_V] = attend_columns(g, x, (group + 1) * d, d);
    } else if (!project_at_once(g, layer, h, to)) {
        struct tensor *x = layer_rmsnorm(g, layer, &layer->w->attention.before, h);
        for (int i = ATTENTION_Q; i <= ATTENTION_V; i++) to[i] = linear_forward(g, x, &w[i]);
    }
    struct tensor *gate = NULL;
    if (kind->traits.gates && to[ATTENTION_Q]) { // one row per head
        struct tensor *both = graph_view(g, to[ATTENTION_Q], 2, (int64_t[]){ m * c->heads, 2 * d });
        to[ATTENTION_Q] = attend_columns(g, both, 0, d);
        gate = attend_columns(g, both, d, d);
    }
    struct qkv rows = { .q = graph_view3(g, to[ATTENTION_Q], m, c->heads, d),
                        .gate = graph_view3(g, gate, m, c->heads, d),
                        .k = graph_view3(g, to[ATTENTION_K], m, c->kv_heads, d),
                        .v = graph_view3(g, to[ATTENTION_V], m, c->kv_heads, d) };
    if (kind->traits.head_norms) {
        rows.q = op_rmsnorm(g, rows.q, graph_weight(&w[NORM_Q].weight), (float)c->eps);
        rows.k = op_rmsnorm(g, rows.k, graph_weight(&w[NORM_K].weight), (float)c->eps);
    }
    return rows;
}

// Returns the part of Wqkv that starts at head `first` of each group and has `heads` heads.
static struct fused_linear packed_part(const struct linear *w, const struct decoder_config *c,
                                       int64_t first, int64_t heads)
{
    struct fused_linear part = fused_whole(w);
    part.first = first * c->dim;
    part.run = heads * c->dim;
    part.step = (c->heads / c->kv_heads + 2) * c->dim;
    return part;
}

static bool grouped_fused(struct graph *g, const struct layer *layer, struct tensor *h, int64_t i,
                          int64_t m, struct qkv *all)
{
    const struct pass *p = layer->pass;
    const struct decoder_config *c = p->config;
    const struct attention_kind *kind = decoder_attention(c, layer->number);
    const struct linear *w = layer->w->attention.weight;
    const int64_t group = c->heads / c->kv_heads;
    if (!g->backend->fused || !layer->w->attention.before.data || !graph_ok(g)) return false;
    if (layer->view->query_factor) return false;
    if (rope_rotated(&c->rope) < c->dim && !rope_adjacent(&c->rope)) return false;
    struct fused_qkv form = { .h = graph_rows(g, h, i, m),
                              .gain = graph_weight(&layer->w->attention.before),
                              .eps = (float)c->eps,
                              .adjacent = rope_adjacent(&c->rope),
                              .cos = graph_rows(g, layer->view->cos, i, m),
                              .sin = graph_rows(g, layer->view->sin, i, m),
                              .cache_rows = graph_rows(g, p->cache_rows, i, m),
                              .first = p->n > 1 ? p->past + i : -1 };
    if (kind->packed) {
        form.wq = packed_part(&w[PACKED_QKV], c, 0, group);
        form.wk = packed_part(&w[PACKED_QKV], c, group, 1);
        form.wv = packed_part(&w[PACKED_QKV], c, group + 1, 1);
    } else {
        form.wq = fused_whole(&w[ATTENTION_Q]);
        form.wk = fused_whole(&w[ATTENTION_K]);
        form.wv = fused_whole(&w[ATTENTION_V]);
    }
    if (kind->traits.head_norms) {
        form.q_gain = &w[NORM_Q].weight;
        form.k_gain = &w[NORM_K].weight;
    }
    const int count = kind->packed ? 1 : 3;
    if (g->tape) {
        struct tensor *to[3];
        form.first = 0;
        if (!fused_qkv_taped(g, w, count, &form, c->heads, c->kv_heads, to)) return false;
        *all = (struct qkv){ .q = to[0], .k = to[1], .v = to[2] };
        return true;
    }
    form.q = graph_rows(g, all->q, i, m);
    form.k = all->k;
    form.v = all->v;
    return fused_qkv(g, w, count, &form);
}

const struct attention_kind attention_grouped = {
    .read = grouped_read,
    .weight = grouped_weight,
    .cached = grouped_cached,
    .pair_flops = grouped_pair_flops,
    .traits = { .segments = true },
    .project = grouped_project,
    .fused = grouped_fused,
};

const struct attention_kind attention_normed = {
    .read = grouped_read,
    .weight = normed_weight,
    .cached = grouped_cached,
    .pair_flops = grouped_pair_flops,
    .traits = { .segments = true, .head_norms = true },
    .project = grouped_project,
    .fused = grouped_fused,
};

const struct attention_kind attention_gated = {
    .read = gated_read,
    .weight = gated_weight,
    .cached = grouped_cached,
    .pair_flops = grouped_pair_flops,
    .traits = { .segments = true, .head_norms = true, .gates = true },
    .project = grouped_project,
};

const struct attention_kind attention_packed = {
    .read = packed_read,
    .weight = packed_weight,
    .cached = grouped_cached,
    .pair_flops = grouped_pair_flops,
    .traits = { .segments = true },
    .packed = true,
    .project = grouped_project,
    .fused = grouped_fused,
};
