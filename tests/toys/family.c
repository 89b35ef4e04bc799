// tests/toys/family.c -- a family unlike any other: keys are the rotated values, every second layer
// mixes no tokens and caches nothing, the FFN has no gate, norms follow attention and FFN,
// positions rotate half as fast, tensors have other names.
//
//   even layers:  m = Wm h;  h += rmsnorm(Wt attention(rope(Wa h), rope(m), m))
//   odd layers:   h += rmsnorm(Wt (silu(Wa h) * Wm h))
//   h += rmsnorm(Wo gelu(Wi h + b));  h *= 0.75
#include <math.h>

#include "core/model/families/text.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"
#include "tests/toys/naive.h"
#include "tests/toys/toys.h"

// --- attention -----------------------------------------------------------------------------------

enum { ASK, MEMORY, TELL }; // [H*d,D] [Hkv*d,D] [D,H*d]

static int mix_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    return attention_grouped.read(c, json, err);
}

static bool mix_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const struct layer_weight all[] = {
        [ASK] = { .name = "self_attn.q_proj", .out = c->heads * c->dim, .in = c->hidden },
        [MEMORY] = { .name = "self_attn.v_proj", .out = c->kv_heads * c->dim, .in = c->hidden },
        [TELL] = { .name = "self_attn.o_proj", .out = c->hidden, .in = c->heads * c->dim },
    };
    if (i > TELL) return false;
    *w = all[i];
    return true;
}

static struct kv_row mix_cached(const struct decoder_config *c, int layer)
{
    return (struct kv_row){ .k = { c->kv_heads, c->dim }, .v = { c->kv_heads, c->dim } };
}

static double mix_pair_flops(const struct decoder_config *c, int layer)
{
    return 4 * (double)(c->heads * c->dim);
}

static struct qkv mix_project(struct graph *g, const struct layer *layer, struct tensor *h)
{
    const struct decoder_config *c = layer->pass->config;
    const struct linear *w = layer->w->attention.weight;
    const int64_t m = h ? h->shape[0] : 0;
    struct tensor *x = layer_rmsnorm(g, layer, &layer->w->attention.before, h);
    struct tensor *q = linear_forward(g, x, &w[ASK]);
    // The call for k rotates in place, so v needs its own memory.
    struct tensor *k = linear_forward(g, x, &w[MEMORY]);
    struct tensor *v = linear_forward(g, x, &w[MEMORY]);
    return (struct qkv){ .q = graph_view3(g, q, m, c->heads, c->dim),
                         .k = graph_view3(g, k, m, c->kv_heads, c->dim),
                         .v = graph_view3(g, v, m, c->kv_heads, c->dim) };
}

static const struct attention_kind mix = { .read = mix_read,
                                           .weight = mix_weight,
                                           .cached = mix_cached,
                                           .pair_flops = mix_pair_flops,
                                           .traits = { .segments = true },
                                           .project = mix_project };

// Like mix_weight, but MEMORY is [H*d,D].
static bool gate_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const bool known = mix_weight(c, layer, i, w);
    if (known && i == MEMORY) w->out = c->heads * c->dim;
    return known;
}

static struct kv_row gate_cached(const struct decoder_config *c, int layer)
{
    return (struct kv_row){ 0 };
}

static double gate_pair_flops(const struct decoder_config *c, int layer)
{
    return 0;
}

static bool gate_forward(struct graph *g, const struct layer *layer, struct tensor **h)
{
    const struct linear *w = layer->w->attention.weight;
    struct tensor *x =
        op_swiglu(g, linear_forward(g, *h, &w[ASK]), linear_forward(g, *h, &w[MEMORY]));
    *h = layer_output(g, layer, *h, x);
    return true;
}

static const struct attention_kind gate = { .weight = gate_weight,
                                            .cached = gate_cached,
                                            .pair_flops = gate_pair_flops,
                                            .forward = gate_forward };

static const struct attention_kind *attention_of(const struct decoder_config *c, int layer)
{
    return layer % 2 ? &gate : &mix;
}

// --- FFN -----------------------------------------------------------------------------------------

enum { IN, OUT }; // [ffn,D] [D,ffn]

static int think_read(struct decoder_config *c, const cJSON *json, struct err *err)
{
    return json_int(json, "intermediate_size", 1, 1000, c->kind->ffn_size, &c->ffn, err);
}

static bool think_weight(const struct decoder_config *c, int layer, int i, struct layer_weight *w)
{
    const struct layer_weight all[] = {
        [IN] = { .name = "mlp.up_proj", .out = c->ffn, .in = c->hidden, .bias = true },
        [OUT] = { .name = "mlp.down_proj", .out = c->hidden, .in = c->ffn },
    };
    if (i > OUT) return false;
    *w = all[i];
    return true;
}

static struct tensor *think_forward(struct graph *g, const struct layer *layer, struct tensor *x,
                                    bool unread)
{
    const struct linear *w = layer->w->ffn.weight;
    struct tensor *y = linear_gelu(g, x, &w[IN], GELU_ERF);
    return (unread ? linear_unread : linear_forward)(g, y, &w[OUT]);
}

static const struct ffn_kind think = { .read = think_read,
                                       .weight = think_weight,
                                       .forward = think_forward };

// --- the rest ------------------------------------------------------------------------------------

static const struct norm_names behind = { .attention = { .after = "post_attention_layernorm" },
                                          .ffn = { .after = "post_feedforward_layernorm" } };

static void slow_angles(const struct rope_config *r, const struct sequence *s, const int32_t *row,
                        int64_t n, float *cos_out, float *sin_out)
{
    const int64_t half = r->dim / 2;
    for (int64_t i = 0; i < n * half; i++) {
        const int32_t position = s->positions[row ? row[i / half] : s->n - n + i / half];
        const double turn = pow(r->theta, -2.0 * (double)(i % half) / (double)r->dim);
        cos_out[i] = (float)cos(position * turn / 2);
        sin_out[i] = (float)sin(position * turn / 2);
    }
}

static const struct rotary_kind slow = { .angles = slow_angles };

static const struct tensor_name names[] = {
    { "embed_tokens", "words" },
    { "layers", "blocks" },
    { "self_attn.q_proj", "mix.ask" },
    { "self_attn.v_proj", "mix.memory" },
    { "self_attn.o_proj", "mix.tell" },
    { "post_attention_layernorm", "calm_1" },
    { "mlp.up_proj", "think.in" },
    { "mlp.down_proj", "think.out" },
    { "post_feedforward_layernorm", "calm_2" },
    { "norm", "last" },
    { "lm_head", "speak" },
    { 0 },
};

// Each layer's result is scaled down.
static struct tensor *fade(struct graph *g, const struct layer *layer, struct tensor *h)
{
    return op_scale(g, h, (float)TOY_FADE);
}

static const struct decoder_kind decoder = {
    .ffn_size = 64,
    .vocab = 64,
    .max_positions = 64,
    .attention = &mix,
    .attention_of = attention_of,
    .ffn = &think,
    .norms = &behind,
    .rotary = &slow,
    .names = names,
    .after_layer = fade,
};

const struct family family_toy = {
    .name = "toy",
    .architectures = (const char *const[]){ "ToyForCausalLM", NULL },
    .model_types = (const char *const[]){ "toy", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
