// core/new/shape_tensors.c -- lists a shape's tensors: computes them from its sizes, or lets the
// family bind the shape's config and records the tensors that it requests.
//
// tests/core/new/new_model.c checks the total parameter counts against transformers' classes at the
// same sizes.
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/model/families/family.h"
#include "core/model/layer.h"
#include "core/new/shapes.h"

int64_t shape_tensor_count(const struct shape_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->size[i];
    return n;
}

// --- tensors from a config ----------------------------------------------------------------------

struct lister {
    struct model *model;
    double spread;
    void (*each)(void *self, const struct shape_tensor *t);
    void *self;
};

static void list_requested(void *self, const char *name, int rank, const int64_t *shape)
{
    const struct lister *a = self;
    struct shape_tensor t = { .part = a->model->family->part(a->model, name),
                              .spread = a->spread,
                              .rank = rank };
    if (rank > WEIGHT_MAX_RANK || strlen(name) >= sizeof t.name) BUG("tensor %s", name);
    memcpy(t.name, name, strlen(name) + 1);
    memcpy(t.size, shape, (size_t)rank * sizeof *shape);
    const bool norm = strstr(name, "norm") || strstr(name, "ln_");
    const bool gain = rank == 1 && norm && strstr(name, ".weight");
    // The norm of a recurrence's outputs multiplies by its gain in every family.
    const bool plain = strstr(name, "linear_attn.norm") != NULL;
    if (gain && !plain && t.part != PART_VISION && a->model->decoder.config.kind->gains_from_1)
        t.spread = 0; // zeros
    else if (gain || text_ends(name, "layer_scalar"))
        t.each = 1;
    // Scalars are the clipping bounds of linear layers (..._min, ..._max): wide enough to clip
    // nothing.
    if (!rank) t.each = text_ends(name, "_min") ? -FLT_MAX / 2 : FLT_MAX / 2;
    a->each(a->self, &t);
}

int config_tensors(const char *name, cJSON *config, cJSON *preprocessor, double spread,
                   void (*each)(void *self, const struct shape_tensor *t), void *self,
                   struct err *err)
{
    struct model m = { .name = (char *)(uintptr_t)name };
    struct lister lister = { &m, spread, each, self };
    struct checkpoint c = { .folder = m.name,
                            .config = config,
                            .preprocessor = preprocessor,
                            .request = list_requested,
                            .requester = &lister };
    m.checkpoint = &c;
    m.arena.backend = backend_cpu();
    const bool bound = (m.family = family_find(config, err)) &&
                       m.family->configure(&m, &c, err) == 0 && m.family->bind(&m, &c, err) == 0;
    decoder_release(&m.decoder);
    vision_release(&m.vision);
    weights_release(&m.weights);
    arena_release(&m.arena);
    return bound ? 0 : -1;
}

static void list_bound(const struct shape *s,
                       void (*each)(void *self, const struct shape_tensor *t), void *self)
{
    struct err err = { "" };
    cJSON *config = json_parse(s->config, strlen(s->config), "config.json", &err);
    cJSON *preprocessor =
        json_parse(s->preprocessor, strlen(s->preprocessor), "preprocessor_config.json", &err);
    if (!config || !preprocessor ||
        config_tensors(s->name, config, preprocessor, s->spread, each, self, &err) < 0)
        BUG("shape %s: %s", s->name, err.text);
    cJSON_Delete(config);
    cJSON_Delete(preprocessor);
}

char *shape_config_layers(const struct shape *s, int64_t layers)
{
    struct err err;
    if (!s->config) return NULL;
    cJSON *config = json_parse(s->config, strlen(s->config), s->name, &err);
    cJSON *text = cJSON_GetObjectItemCaseSensitive(config, "text_config");
    if (!text) text = cJSON_GetObjectItemCaseSensitive(config, "llm_config");
    cJSON *count = cJSON_GetObjectItemCaseSensitive(text ? text : config, "num_hidden_layers");
    if (!count) BUG("shape %s has no layers", s->name);
    cJSON_SetNumberValue(count, (double)layers);
    char *changed = cJSON_PrintUnformatted(config);
    if (!changed) BUG("shape %s cannot be written", s->name);
    cJSON_Delete(config);
    return changed;
}

// --- tensors from sizes -------------------------------------------------------------------------

struct listing {
    void (*each)(void *self, const struct shape_tensor *t);
    void *self;
    const struct shape *shape;
    enum model_part_kind part;
    char prefix[64]; // of the names
    bool last;       // the sublayer's last tensor, which writes to the residual stream
};

static double tensor_spread(const struct listing *l, const char *name)
{
    const struct shape *s = l->shape;
    if (s->fresh && text_ends(name, ".bias")) return 0;
    const bool last =
        l->last || text_ends(name, "out_proj.weight") || text_ends(name, "fc2.weight");
    if (!s->fresh || !last) return s->spread;
    return s->spread / sqrt(2.0 * (double)(l->part == PART_VISION ? s->tower_layers : s->layers));
}

// Adds a tensor [a, b]; b = 0: [a].
__attribute__((format(printf, 4, 5))) static void add(struct listing *l, int64_t a, int64_t b,
                                                      const char *format, ...)
{
    struct shape_tensor t = { .part = l->part, .rank = b ? 2 : 1, .size = { a, b } };
    size_t used = (size_t)snprintf(t.name, sizeof t.name, "%s", l->prefix);
    va_list args;
    va_start(args, format);
    vsnprintf(t.name + used, sizeof t.name - used, format, args);
    va_end(args);
    t.each = t.rank == 1 && strstr(t.name, "norm") && strstr(t.name, ".weight");
    t.spread = tensor_spread(l, t.name);
    l->each(l->self, &t);
}

// Adds a linear layer [rows, columns] with its bias; columns = 0: a norm.
static void add_linear(struct listing *l, int64_t rows, int64_t columns, const char *name)
{
    add(l, rows, columns, "%s.weight", name);
    add(l, rows, 0, "%s.bias", name);
}

// Adds a sublayer's weights and norms, with the names in the family's files.
static void list_sublayer(struct listing *l, const struct decoder_config *c, int layer,
                          const char *before, layer_weight_fn list, const char *after)
{
    struct layer_weight w, next;
    char buffer[LAYER_NAME_SIZE];
    if (before) add(l, c->hidden, 0, "%s.weight", decoder_name(c->kind, before));
    for (int i = 0; list(c, layer, i, &w); i++) {
        const char *name = layer_weight_name(c->kind, &w, buffer);
        l->last = !list(c, layer, i + 1, &next);
        add(l, w.out, w.in, "%s%s", name, w.constant ? "" : ".weight");
        l->last = false;
        if (w.bias) add(l, w.out, 0, "%s.bias", name);
    }
    if (after) add(l, c->hidden, 0, "%s.weight", decoder_name(c->kind, after));
}

static void list_decoder(const struct shape *s, struct listing *l)
{
    const char *top = s->tower ? "language_model." : "";
    const struct decoder_kind *kind = family_named(s->decoder)->decoder;
    const struct decoder_config c = { .kind = kind,
                                      .layers = (int)s->layers,
                                      .hidden = s->hidden,
                                      .heads = s->heads,
                                      .kv_heads = s->kv_heads,
                                      .dim = s->head_size,
                                      .ffn = s->ffn,
                                      .qkv_bias = kind->qkv_bias };
    const struct norm_names *norms = kind->norms;
    snprintf(l->prefix, sizeof l->prefix, "%smodel.", top);
    l->part = PART_EMBEDDING;
    add(l, s->vocab, s->hidden, "%s.weight", decoder_name(kind, "embed_tokens"));
    l->part = PART_DECODER;
    for (int i = 0; i < c.layers; i++) {
        snprintf(l->prefix, sizeof l->prefix, "%smodel.%s.%d.", top, decoder_name(kind, "layers"),
                 i);
        list_sublayer(l, &c, i, norms->attention.before, decoder_attention(&c, i)->weight,
                      norms->attention.after);
        list_sublayer(l, &c, i, norms->ffn.before, decoder_ffn(&c, i)->weight, norms->ffn.after);
    }
    snprintf(l->prefix, sizeof l->prefix, "%smodel.", top);
    add(l, s->hidden, 0, "%s.weight", decoder_name(kind, "norm"));
    snprintf(l->prefix, sizeof l->prefix, "%s", top);
    l->part = PART_HEAD;
    if (!s->tied) add(l, s->vocab, s->hidden, "%s.weight", decoder_name(kind, "lm_head"));
}

// Adds SigLIP's pooling head, which published files contain though no LLaVA reads it.
static void list_siglip_head(const struct shape *s, struct listing *l)
{
    int64_t d = s->tower_hidden;
    struct shape_tensor probe = {
        .part = l->part, .spread = s->spread, .rank = 3, .size = { 1, 1, d }
    };
    snprintf(probe.name, sizeof probe.name, "%shead.probe", l->prefix);
    l->each(l->self, &probe);
    add(l, 3 * d, d, "head.attention.in_proj_weight");
    add(l, 3 * d, 0, "head.attention.in_proj_bias");
    add_linear(l, d, d, "head.attention.out_proj");
    add_linear(l, d, 0, "head.layernorm");
    add_linear(l, s->tower_ffn, d, "head.mlp.fc1");
    add_linear(l, d, s->tower_ffn, "head.mlp.fc2");
}

static void list_tower(const struct shape *s, struct listing *l)
{
    static const char top[] = "vision_tower.vision_model.";
    int64_t d = s->tower_hidden, side = s->image / s->patch;
    bool clip = s->tower == TOWER_CLIP;
    l->part = PART_VISION;
    snprintf(l->prefix, sizeof l->prefix, "%s", top);
    if (clip) add(l, d, 0, "embeddings.class_embedding");
    struct shape_tensor patch = {
        .part = l->part, .spread = s->spread, .rank = 4, .size = { d, 3, s->patch, s->patch }
    };
    snprintf(patch.name, sizeof patch.name, "%sembeddings.patch_embedding.weight", top);
    l->each(l->self, &patch);
    if (!clip) add(l, d, 0, "embeddings.patch_embedding.bias");
    add(l, side * side + clip, d, "embeddings.position_embedding.weight");
    if (clip) add_linear(l, d, 0, "pre_layrnorm"); // spelled like this in every CLIP file
    for (int i = 0; i < (int)s->tower_layers; i++) {
        snprintf(l->prefix, sizeof l->prefix, "%sencoder.layers.%d.", top, i);
        add_linear(l, d, 0, "layer_norm1");
        add_linear(l, d, d, "self_attn.q_proj");
        add_linear(l, d, d, "self_attn.k_proj");
        add_linear(l, d, d, "self_attn.v_proj");
        add_linear(l, d, d, "self_attn.out_proj");
        add_linear(l, d, 0, "layer_norm2");
        add_linear(l, s->tower_ffn, d, "mlp.fc1");
        add_linear(l, d, s->tower_ffn, "mlp.fc2");
    }
    snprintf(l->prefix, sizeof l->prefix, "%s", top);
    add_linear(l, d, 0, "post_layernorm");
    if (!clip && !s->no_pooling) list_siglip_head(s, l);
}

static void list_projector(const struct shape *s, struct listing *l)
{
    l->part = PART_PROJECTOR;
    snprintf(l->prefix, sizeof l->prefix, "multi_modal_projector.");
    add_linear(l, s->hidden, s->tower_hidden, "linear_1");
    if (s->projector_layers == 2) add_linear(l, s->hidden, s->hidden, "linear_2");
}

void shape_tensors(const struct shape *s, void (*each)(void *self, const struct shape_tensor *t),
                   void *self)
{
    struct listing l = { .each = each, .self = self, .shape = s };
    if (s->config) {
        list_bound(s, each, self);
        return;
    }
    if (s->tower) {
        list_tower(s, &l);
        list_projector(s, &l);
    }
    l.part = PART_DECODER;
    l.prefix[0] = 0;
    if (s->tiles) add(&l, s->hidden, 0, "image_newline");
    list_decoder(s, &l);
}
