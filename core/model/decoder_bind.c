// core/model/decoder_bind.c -- binds a language model's weights by name, and distributes its layers
// over several GPUs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/files/quantised/quantised.h"
#include "core/files/safetensors.h"
#include "core/model/layer_inputs.h"

static void bind_layer_gain(struct binder *b, struct tensor *gain, const struct decoder_config *c,
                            int l, const char *name)
{
    if (!name) return;
    bind_gain(b, gain, c->hidden, c->kind->gains_from_1, "%s.%d.%s.weight",
              decoder_name(c->kind, "layers"), l, decoder_name(c->kind, name));
}

// True if the stack of the weight's experts is stored as [count, in, rows], as in the hub's files
// of Qwen3-VL. The shape decides; like transformers, does not transpose square matrices.
static bool is_transposed(const struct binder *b, const char *stack, const struct layer_weight *w)
{
    char name[LAYER_NAME_SIZE + 128];
    snprintf(name, sizeof name, "%s%s", b->prefix, stack);
    const struct safetensor *t = checkpoint_find(b->checkpoint, name);
    if (!t || t->rank != 3 || t->shape[1] != w->in || t->shape[2] != w->rows) return false;
    return w->in != w->rows;
}

// Newer libraries store a layer's experts in one tensor: binds the part of that tensor that holds
// this weight. False if the file stores the weight separately.
static bool bind_part_of_stack(struct binder *b, struct linear *to, const struct decoder_config *c,
                               int l, const struct layer_weight *w, const char *name)
{
    const char *layers = decoder_name(c->kind, "layers");
    char stack[LAYER_NAME_SIZE + 64];
    snprintf(stack, sizeof stack, "%s.%d.%s", layers, l, decoder_name(c->kind, w->stack));
    const bool listed = b->checkpoint->request && w->transposed; // lists the hub's tensors
    if (!listed && !bind_has(b->checkpoint, b->prefix, stack)) return false;
    const struct checkpoint_part part = { .shape = { w->count, w->rows, w->in },
                                          .number = w->expert,
                                          .row = w->row,
                                          .count = w->out,
                                          .transposed = listed || is_transposed(b, stack, w) };
    bind_part(b, to, stack, &part, "%s.%d.%s.weight", layers, l, name);
    return true;
}

// Binds all weights that the kind lists, and stops at the first missing one, because a config may
// claim millions of weights.
static void bind_weights(struct binder *b, struct sublayer *s, const struct decoder_config *c,
                         int l, layer_weight_fn list)
{
    const char *layers = decoder_name(c->kind, "layers");
    struct layer_weight w;
    char buffer[LAYER_NAME_SIZE];
    while (list(c, l, s->count, &w)) s->count++;
    s->weight = xcalloc((size_t)s->count, sizeof *s->weight);
    for (int i = 0; !b->failed && list(c, l, i, &w); i++) {
        const char *name = layer_weight_name(c->kind, &w, buffer);
        s->weight[i].share = w.share > 0 ? w.share : 1;
        b->apart = w.f32;
        if (w.stack && bind_part_of_stack(b, &s->weight[i], c, l, &w, name)) continue;
        if (w.constant)
            bind_constant(b, &s->weight[i].weight, w.out, "%s.%d.%s", layers, l, name);
        else if (w.taps)
            bind_filter(b, &s->weight[i].weight, w.out, w.taps, "%s.%d.%s.weight", layers, l, name);
        else if (w.in)
            bind_linear(b, &s->weight[i], w.out, w.in, w.bias, "%s.%d.%s", layers, l, name);
        else
            bind_gain(b, &s->weight[i].weight, w.out, c->kind->gains_from_1 && !w.plain,
                      "%s.%d.%s.weight", layers, l, name);
    }
    b->apart = false;
}

// Binds the weights that after_layer reads.
static void bind_end(struct binder *b, struct decoder_layer *to, const struct decoder_config *c,
                     int l)
{
    struct layer_weight w;
    to->scale = 1;
    if (!c->kind->end_weight) return;
    bind_weights(b, &to->end, c, l, c->kind->end_weight);
    for (int i = 0; !b->failed && c->kind->end_weight(c, l, i, &w); i++) {
        const struct tensor *t = &to->end.weight[i].weight;
        if (w.factor && t->data) b->arena->backend->download(&to->scale, t->data, sizeof to->scale);
    }
}

// Finds the next constant in one of a layer's lists, from index c->i on.
static bool next_constant(const struct decoder_config *config, const struct sublayer *of,
                          layer_weight_fn list, struct decoder_constant *c)
{
    struct layer_weight w;
    while (list && list(config, c->layer, c->i, &w)) {
        c->tensor = &of->weight[c->i++].weight;
        if (!w.constant) continue;
        snprintf(c->name, sizeof c->name, "layers.%d.%s", c->layer, w.name);
        return true;
    }
    return false;
}

bool decoder_next_constant(const struct decoder *d, struct decoder_constant *c)
{
    const struct decoder_config *config = &d->config;
    for (; c->layer < config->layers; c->layer++, c->list = 0) {
        const struct decoder_layer *of = &d->layer[c->layer];
        const struct sublayer *parts[] = { &of->attention, &of->ffn, &of->end };
        const layer_weight_fn lists[] = { decoder_attention(config, c->layer)->weight,
                                          decoder_ffn(config, c->layer)->weight,
                                          config->kind->end_weight };
        for (; c->list < 3; c->list++, c->i = 0)
            if (next_constant(config, parts[c->list], lists[c->list], c)) return true;
    }
    return false;
}

// A config may tie the head although the file stores a separate one. As in the reference
// implementation, the weights decide: the head stays tied, and is not loaded, only if both tensors
// are equal.
static void untie_other_head(struct decoder_config *config, const struct checkpoint *c,
                             const char *prefix, const char *head)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s.weight", prefix, decoder_name(config->kind, "embed_tokens"));
    const struct safetensor *a = checkpoint_find(c, name), *b = checkpoint_find(c, head);
    if (!config->tied || !a || !b) return;
    config->untied = !quantised_same(a, b);
    config->tied = !config->untied;
    if (config->tied) checkpoint_mark_read(c, head);
}

int decoder_gpu(int layer, int layers, double layer_bytes, double rest, int gpus)
{
    if (gpus < 2) return 0;
    const double share = (rest + layer_bytes * layers) / gpus;
    if (rest >= share) return 1 + (int)((int64_t)layer * (gpus - 1) / layers);
    return (int)((rest + layer_bytes * (layer + 0.5)) / share);
}

// Assigns layers to GPUs by the mean size of a layer's matrices. With one GPU, all layers are on
// GPU 0 already.
static void place_layers(struct decoder *d, const struct binder *b)
{
    const struct decoder_config *c = &d->config;
    const int gpus = backend_gpus(b->arena->backend);
    char name[128];
    struct layer_weight first, w;
    double numbers = 0; // elements of all layers' matrices
    if (gpus < 2) return;
    decoder_attention(c, 0)->weight(c, 0, 0, &first);
    snprintf(name, sizeof name, "%s%s.0.%s.weight", b->prefix, decoder_name(c->kind, "layers"),
             decoder_name(c->kind, first.name));
    const struct safetensor *t = checkpoint_find(b->checkpoint, name);
    const double size = t ? (double)dtype_size((enum dtype)t->dtype) : sizeof(float);
    for (int l = 0; l < c->layers; l++) {
        const layer_weight_fn lists[] = { decoder_attention(c, l)->weight,
                                          decoder_ffn(c, l)->weight, c->kind->end_weight };
        for (int k = 0; k < 3; k++)
            for (int i = 0; lists[k] && lists[k](c, l, i, &w); i++)
                numbers += (double)w.out * (double)w.in;
    }
    const double one = size * numbers / c->layers;
    double table = d->embed.on_host ? (double)tensor_bytes(&d->embed) : 0;
    if (c->layer_input) table += (double)tensor_bytes(&d->inputs.table);
    const double rest = (double)checkpoint_bytes(b->checkpoint) - table - one * c->layers;
    for (int l = 0; l < c->layers; l++) {
        // A layer that shares keys and values is on the GPU that holds them.
        const int of = decoder_keys_of(c, l);
        d->layer[l].gpu =
            of == l ? decoder_gpu(l, c->layers, one, rest > 0 ? rest : 0, gpus) : d->layer[of].gpu;
    }
}

const char *decoder_prefix(const struct checkpoint *c, const struct decoder_kind *kind,
                           const char *const *prefixes, const char *ours)
{
    char name[128];
    snprintf(name, sizeof name, "%s.weight", decoder_name(kind, ours));
    return bind_prefix(c, prefixes, name);
}

int decoder_bind(struct decoder *d, struct binder *b, const char *prefix)
{
    const struct decoder_config *config = &d->config;
    const struct norm_names *norms = config->kind->norms;
    char head[128];
    snprintf(head, sizeof head, "%s%s.weight", prefix, decoder_name(config->kind, "lm_head"));
    d->layer = xcalloc((size_t)config->layers, sizeof *d->layer);
    untie_other_head(&d->config, b->checkpoint, b->prefix, head);
    b->shapes_only = !decoder_first(d) && !(config->tied && decoder_last(d));
    (config->tied ? bind_matrix : bind_table)(b, &d->embed, config->vocab, config->hidden,
                                              "%s.weight",
                                              decoder_name(config->kind, "embed_tokens"));
    b->shapes_only = !decoder_first(d);
    layer_inputs_bind(d, b);
    place_layers(d, b);
    for (int l = 0; l < config->layers && !b->failed; l++) {
        backend_enter(b->arena->backend, d->layer[l].gpu);
        b->shapes_only = !decoder_has(d, l);
        struct decoder_layer *w = &d->layer[l];
        bind_layer_gain(b, &w->attention.before, config, l, norms->attention.before);
        bind_weights(b, &w->attention, config, l, decoder_attention(config, l)->weight);
        bind_layer_gain(b, &w->attention.after, config, l, norms->attention.after);
        bind_layer_gain(b, &w->ffn.before, config, l, norms->ffn.before);
        bind_weights(b, &w->ffn, config, l, decoder_ffn(config, l)->weight);
        bind_layer_gain(b, &w->ffn.after, config, l, norms->ffn.after);
        bind_end(b, w, config, l);
    }
    backend_enter(b->arena->backend, 0);
    bind_gain(b, &d->norm, config->hidden, config->kind->gains_from_1, "%s.weight",
              decoder_name(config->kind, "norm"));
    d->head = d->embed;
    b->prefix = "";
    b->shapes_only = !decoder_last(d);
    if (!config->tied) bind_matrix(b, &d->head, config->vocab, config->hidden, "%s", head);
    return b->failed ? -1 : 0;
}

void decoder_release(struct decoder *d)
{
    for (int l = 0; d->layer && l < d->config.layers; l++) {
        free(d->layer[l].attention.weight);
        free(d->layer[l].ffn.weight);
        free(d->layer[l].end.weight);
    }
    free(d->layer);
    if (d->part) d->part->release(d->part);
    *d = (struct decoder){ 0 };
}

void decoder_cache(const struct decoder *d, const struct backend *backend, struct kv *kv)
{
    const struct decoder_config *c = &d->config;
    kv_init(kv, backend, c->layers);
    for (int l = 0; l < c->layers; l++) {
        kv_layer_shape(kv, l, decoder_attention(c, l)->cached(c, l));
        kv->layer[l].shares = decoder_shares(c, l);
    }
    if (!d->part) return;
    kv->first_layer = d->part->first_layer;
    kv->end_layer = d->part->end_layer;
}
