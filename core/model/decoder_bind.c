// core/model/decoder_bind.c -- a language model's weights by name, and which of several GPUs has
// which layer.
#include "core/model/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

static void bind_layer(struct binder *b, struct decoder_layer *w, const struct decoder_config *c,
                       int l)
{
    int64_t D = c->hidden, q = c->heads * c->dim, kv = c->kv_heads * c->dim;
    bind_vector(b, &w->input_norm, D, "layers.%d.input_layernorm.weight", l);
    bind_linear(b, &w->q, q, D, c->qkv_bias, "layers.%d.self_attn.q_proj", l);
    bind_linear(b, &w->k, kv, D, c->qkv_bias, "layers.%d.self_attn.k_proj", l);
    bind_linear(b, &w->v, kv, D, c->qkv_bias, "layers.%d.self_attn.v_proj", l);
    bind_linear(b, &w->o, D, q, c->out_bias, "layers.%d.self_attn.o_proj", l);
    bind_vector(b, &w->post_norm, D, "layers.%d.post_attention_layernorm.weight", l);
    bind_linear(b, &w->gate, c->ffn, D, c->mlp_bias, "layers.%d.mlp.gate_proj", l);
    bind_linear(b, &w->up, c->ffn, D, c->mlp_bias, "layers.%d.mlp.up_proj", l);
    bind_linear(b, &w->down, D, c->ffn, c->mlp_bias, "layers.%d.mlp.down_proj", l);
}

// A file that says its head is tied may hold one of its own all the same. The reference then
// believes the weights: only equal ones are tied.
static void settle_ties(struct decoder_config *config, const struct checkpoint *c,
                        const char *prefix, const char *head)
{
    char name[128];
    snprintf(name, sizeof name, "%sembed_tokens.weight", prefix);
    const struct safetensor *a = checkpoint_find(c, name), *b = checkpoint_find(c, head);
    if (!config->tied || !a || !b) return;
    if (a->dtype != b->dtype || a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0)
        config->tied = false;
}

int decoder_gpu(int layer, int layers, double layer_bytes, double rest, int gpus)
{
    if (gpus < 2) return 0;
    const double share = (rest + layer_bytes * layers) / gpus;
    if (rest >= share) return 1 + (int)((int64_t)layer * (gpus - 1) / layers);
    return (int)((rest + layer_bytes * (layer + 0.5)) / share);
}

// Bytes of one layer in the file, without gains and biases.
static double bytes_of_layer(const struct binder *b, const struct decoder_config *c)
{
    char name[128];
    snprintf(name, sizeof name, "%slayers.0.self_attn.q_proj.weight", b->prefix);
    const struct safetensor *q = checkpoint_find(b->checkpoint, name);
    const double size = q ? (double)dtype_size((enum dtype)q->dtype) : sizeof(float);
    const double heads = 2.0 * (double)(c->heads + c->kv_heads) * (double)c->dim;
    return size * (double)c->hidden * (heads + 3.0 * (double)c->ffn);
}

// On which GPU each layer lies; of one they are 0, as they are.
static void deal_layers(struct decoder *d, const struct binder *b)
{
    const struct decoder_config *c = &d->config;
    const int gpus = backend_gpus(b->arena->backend);
    if (gpus < 2) return;
    const double one = bytes_of_layer(b, c);
    const double table = d->embed.on_host ? (double)tensor_bytes(&d->embed) : 0;
    const double rest = (double)checkpoint_bytes(b->checkpoint) - table - one * c->layers;
    for (int l = 0; l < c->layers; l++)
        d->layer[l].gpu = decoder_gpu(l, c->layers, one, rest > 0 ? rest : 0, gpus);
}

int decoder_bind(struct decoder *d, struct binder *b, const char *head)
{
    const struct decoder_config *config = &d->config;
    d->layer = xcalloc((size_t)config->layers, sizeof *d->layer);
    settle_ties(&d->config, b->checkpoint, b->prefix, head);
    (config->tied ? bind_matrix : bind_table)(b, &d->embed, config->vocab, config->hidden,
                                              "embed_tokens.weight");
    deal_layers(d, b);
    for (int l = 0; l < config->layers; l++) {
        backend_enter(b->arena->backend, d->layer[l].gpu);
        bind_layer(b, &d->layer[l], config, l);
    }
    backend_enter(b->arena->backend, 0);
    bind_vector(b, &d->norm, config->hidden, "norm.weight");
    d->head = d->embed;
    b->prefix = "";
    if (!config->tied) bind_matrix(b, &d->head, config->vocab, config->hidden, "%s", head);
    return b->failed ? -1 : 0;
}

void decoder_release(struct decoder *d)
{
    free(d->layer);
    *d = (struct decoder){ 0 };
}
