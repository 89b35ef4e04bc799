// core/model/ffn_gated.c -- the gated FFN of Llama and its relatives (Shazeer 2020, arXiv
// 2002.05202, SwiGLU): down(silu(gate(x)) * up(x)); Gemma has gelu in place of silu.
#include <string.h>

#include "core/model/fused.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

// Gemma 4's layers that share keys and values may have FFNs of twice the width.
static int read_sharing(struct decoder_config *c, const cJSON *json, struct err *err)
{
    bool twice = false;
    if (c->sharing && json_bool(json, "use_double_wide_mlp", false, &twice, err) < 0) return -1;
    c->sharing_ffn = twice ? 2 * c->ffn : c->ffn;
    return 0;
}

static int gated_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    const char *act;
    const bool gelu = c->kind->gelu;
    const char *key = gelu ? "hidden_activation" : "hidden_act";
    if (json_int(json, "intermediate_size", 1, 10000000, c->kind->ffn_size, &c->ffn, err) < 0 ||
        json_text(json, key, gelu ? "gelu_pytorch_tanh" : "silu", &act, err) < 0)
        return -1;
    if (read_sharing(c, json, err) < 0) return -1;
    c->gelu = gelu && !strcmp(act, "gelu_pytorch_tanh");
    if (!c->gelu && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return err_set(err, "\"%s\" \"%s\" is not supported (known: silu%s)", key, act,
                       gelu ? ", gelu_pytorch_tanh" : "");
    return c->kind->qkv_bias ? 0 : json_bool(json, "mlp_bias", false, &c->mlp_bias, err);
}

static bool gated_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const int64_t D = c->hidden, wide = decoder_ffn_width(c, layer);
    const struct layer_weight all[] = {
        [FFN_GATE] = { .name = "mlp.gate_proj", .out = wide, .in = D, .bias = c->mlp_bias },
        [FFN_UP] = { .name = "mlp.up_proj", .out = wide, .in = D, .bias = c->mlp_bias },
        [FFN_DOWN] = { .name = "mlp.down_proj", .out = D, .in = wide, .bias = c->mlp_bias },
    };
    if (i >= (int)(sizeof all / sizeof *all)) return false;
    *w = all[i];
    return true;
}

static struct tensor *gated_forward(struct graph *g, const struct layer *layer, struct tensor *x,
                                    bool unread)
{
    const struct linear *w = layer->w->ffn.weight;
    struct tensor *gate = linear_forward(g, x, &w[FFN_GATE]);
    struct tensor *up = linear_forward(g, x, &w[FFN_UP]);
    // [m, ffn]
    struct tensor *y = layer->pass->config->gelu ? op_geglu(g, gate, up) : op_swiglu(g, gate, up);
    return (unread ? linear_unread : linear_forward)(g, y, &w[FFN_DOWN]);
}

// Returns the fused form's arguments, without the weights.
static struct fused_ffn form_of(const struct layer *layer, const struct tensor *h,
                                const struct fused_after *after)
{
    return (struct fused_ffn){ .h = h,
                               .gain = graph_weight(&layer->w->ffn.before),
                               .eps = (float)layer->pass->config->eps,
                               .after = *after };
}

static struct tensor *gated_fused(struct graph *g, const struct layer *layer, struct tensor *h,
                                  const struct fused_after *after, bool unread)
{
    const struct linear *w = layer->w->ffn.weight;
    struct fused_ffn form = form_of(layer, h, after);
    if (layer->pass->config->gelu) return NULL; // no device fuses GELU
    form.gate = fused_whole(&w[FFN_GATE]);
    form.up = fused_whole(&w[FFN_UP]);
    form.down = fused_whole(&w[FFN_DOWN]);
    return fused_ffn(g, w, 3, &form, unread);
}

// --- gate and up in one matrix -------------------------------------------------------------------

static bool packed_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const int64_t D = c->hidden;
    const struct layer_weight all[] = {
        { .name = "mlp.gate_up_proj", .out = 2 * c->ffn, .in = D, .bias = c->mlp_bias },
        { .name = "mlp.down_proj", .out = D, .in = c->ffn, .bias = c->mlp_bias },
    };
    if (i >= (int)(sizeof all / sizeof *all)) return false;
    *w = all[i];
    return true;
}

static struct tensor *packed_forward(struct graph *g, const struct layer *layer, struct tensor *x,
                                     bool unread)
{
    const struct linear *w = layer->w->ffn.weight;
    x = linear_forward(g, x, &w[0]); // [m, 2*ffn]
    struct tensor *gate = linear_part(g, x, 0, 2), *up = linear_part(g, x, 1, 2);
    struct tensor *y = op_swiglu(g, gate, up); // [m, ffn]
    return (unread ? linear_unread : linear_forward)(g, y, &w[1]);
}

// Returns one half of the packed matrix: gate or up.
static struct fused_linear half_of(struct graph *g, const struct linear *w, int64_t first,
                                   int64_t rows)
{
    return (struct fused_linear){ .w = graph_rows(g, graph_weight(&w->weight), first, rows),
                                  .bias = graph_rows(g, graph_weight(&w->bias), first, rows) };
}

static struct tensor *packed_fused(struct graph *g, const struct layer *layer, struct tensor *h,
                                   const struct fused_after *after, bool unread)
{
    const struct linear *w = layer->w->ffn.weight;
    const int64_t inner = layer->pass->config->ffn;
    struct fused_ffn form = form_of(layer, h, after);
    form.gate = half_of(g, &w[0], 0, inner);
    form.up = half_of(g, &w[0], inner, inner);
    form.down = fused_whole(&w[1]);
    return fused_ffn(g, w, 2, &form, unread);
}

const struct ffn_kind ffn_packed = {
    .read = gated_read,
    .weight = packed_weight,
    .forward = packed_forward,
    .fused = packed_fused,
};

const struct ffn_kind ffn_gated = {
    .read = gated_read,
    .weight = gated_weight,
    .forward = gated_forward,
    .fused = gated_fused,
};
