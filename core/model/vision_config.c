// core/model/vision_config.c -- an encoder's kind, config and weights; the projector's weights.
#include "core/model/vision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/model/decoder.h"

static const struct vision_kind *const kinds[] = { &vision_clip, &vision_siglip, &vision_moon,
                                                   &vision_pixtral };

int gelu_form_read(enum gelu_form *form, const cJSON *json, const char *key, const char *otherwise,
                   struct err *err)
{
    static const struct {
        const char *name;
        enum gelu_form form;
    } known[] = { { "gelu", GELU_ERF },        { "gelu_pytorch_tanh", GELU_TANH },
                  { "gelu_new", GELU_TANH },   { "gelu_fast", GELU_TANH },
                  { "gelu_python", GELU_ERF }, { "quick_gelu", GELU_QUICK } };
    const char *name;
    if (json_text(json, key, otherwise, &name, err) < 0) return -1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) {
            *form = known[i].form;
            return 0;
        }
    return err_set(err,
                   "\"%s\" \"%s\" is not supported (known: gelu, gelu_pytorch_tanh, gelu_new, "
                   "gelu_fast, gelu_python, quick_gelu)",
                   key, name);
}

const struct vision_kind *vision_kind_find(const cJSON *json, struct err *err)
{
    const char *type;
    struct buf known = { 0 };
    if (json_text(json, "model_type", vision_clip.model_types[0], &type, err) < 0) return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (text_listed(kinds[i]->model_types, type)) {
            buf_release(&known);
            return kinds[i];
        }
        buf_printf(&known, "%s%s", i ? ", " : "", kinds[i]->model_types[0]);
    }
    err_set(err, "vision encoder \"%s\" is not supported (known: %s)%s", type, known.data,
            strcmp(type, "siglip2_vision_model")
                ? ""
                : ": this is SigLIP2 NaFlex; use a SigLIP2 of a fixed size, whose model_type is "
                  "siglip_vision_model");
    buf_release(&known);
    return NULL;
}

int vision_config_read(struct vision_config *v, const struct vision_kind *kind, const cJSON *json,
                       struct err *err)
{
    if (model_type_check(kind->model_types, json, err) < 0) return -1;
    *v = (struct vision_config){ .kind = kind, .feature_layer = -1 };
    return kind->read(v, json, err);
}

struct picture_config vision_picture_defaults(const struct vision_config *v, enum picture_fit fit)
{
    return (struct picture_config){ .fit = fit,
                                    .resize = true,
                                    .rescale = true,
                                    .normalize = true,
                                    .flatten = true,
                                    .shortest = v->image_size,
                                    .width = v->image_size,
                                    .height = v->image_size,
                                    .resample = RESAMPLE_BICUBIC,
                                    .rescale_factor = 1 / 255.0,
                                    .mean = { 0.5F, 0.5F, 0.5F },
                                    .std = { 0.5F, 0.5F, 0.5F },
                                    .background = { 255, 255, 255 } };
}

int vision_sizes_read(struct vision_config *v, const struct vision_sizes *usual, const cJSON *json,
                      struct err *err)
{
    const bool brief = usual->short_keys;
    const char *const layers_key = brief ? "depth" : "num_hidden_layers";
    const char *const heads_key = brief ? "num_heads" : "num_attention_heads";
    const char *const channels_key = brief ? "in_channels" : "num_channels";
    int64_t layers, channels;
    if (json_int(json, layers_key, 1, VISION_BLOCKS_MOST, usual->layers, &layers, err) < 0 ||
        json_int(json, "hidden_size", 1, 100000, usual->hidden, &v->hidden, err) < 0 ||
        json_int(json, heads_key, 1, 10000, usual->heads, &v->heads, err) < 0 ||
        json_int(json, channels_key, 1, 100, 3, &channels, err) < 0)
        return -1;
    if (usual->ffn && json_int(json, "intermediate_size", 1, 1000000, usual->ffn, &v->ffn, err) < 0)
        return -1;
    if (usual->patch && json_int(json, "patch_size", 1, 1000, usual->patch, &v->patch, err) < 0)
        return -1;
    v->layers = (int)layers;
    if (channels != 3) return err_set(err, "\"%s\" must be 3", channels_key);
    if (v->hidden % v->heads)
        return err_set(err, "\"hidden_size\" %lld is not a multiple of \"%s\" %lld",
                       (long long)v->hidden, heads_key, (long long)v->heads);
    const int64_t width = v->hidden / v->heads;
    if (!v->kind->angles || width % 4 == 0) return 0;
    return err_set(err,
                   "heads of width %lld cannot be rotated by rows and columns: the width must be a "
                   "multiple of 4",
                   (long long)width);
}

int vision_check_equal(const cJSON *json, const char *key, int64_t want, struct err *err)
{
    int64_t value;
    if (json_int(json, key, 1, 10000, want, &value, err) < 0) return -1;
    if (value == want) return 0;
    return err_set(err, "\"%s\" is %lld, but the encoder's is %lld", key, (long long)value,
                   (long long)want);
}

int vision_check_square(const cJSON *json, const char *key, int64_t side, struct err *err)
{
    const cJSON *pair = json_get(json, key);
    if (!pair ||
        (cJSON_GetArraySize(pair) == 2 && json_whole(cJSON_GetArrayItem(pair, 0), 0) == side &&
         json_whole(cJSON_GetArrayItem(pair, 1), 0) == side))
        return 0;
    return err_set(err, "\"%s\" is not supported: it must be [%lld, %lld]", key, (long long)side,
                   (long long)side);
}

int vision_eps_read(struct vision_config *v, const cJSON *json, const char *key, double usual,
                    struct err *err)
{
    if (json_real(json, key, usual, &v->eps, err) < 0) return -1;
    return v->eps >= 0 && v->eps <= 1 ? 0 : err_set(err, "\"%s\" must be within 0..1", key);
}

int vision_theta_read(struct vision_config *v, const cJSON *json, double usual, struct err *err)
{
    const cJSON *rope;
    const char *is;
    if (json_object(json, "rope_parameters", &rope, err) < 0 ||
        json_text(rope, "rope_type", "axial", &is, err) < 0 ||
        json_real(json_get(rope, "rope_theta") ? rope : json, "rope_theta", usual, &v->theta, err) <
            0)
        return -1;
    if (strcmp(is, "axial") != 0 && strcmp(is, "default") != 0)
        return err_set(err, "\"rope_type\" \"%s\" is not supported (known: axial, default)", is);
    return v->theta > 0 ? 0 : err_set(err, "\"rope_theta\" must be greater than 0");
}

int vision_depth(const struct vision_config *c)
{
    return c->feature_layer < 0 ? c->layers + 1 + c->feature_layer : c->feature_layer;
}

int vision_bind(struct vision *v, struct binder *b)
{
    v->layer = xcalloc((size_t)v->config.layers, sizeof *v->layer);
    v->config.kind->bind(v, b);
    return b->failed ? -1 : 0;
}

void vision_bind_qkv(struct binder *b, struct vision_layer *w, int64_t width, bool bias,
                     const char *block, const char *name)
{
    char query[128];
    const char *at = strstr(name, "qkv");
    if (!at) BUG("'%s' has no qkv", name);
    const int before = (int)(at - name);
    snprintf(query, sizeof query, "%s.%.*sq%s.weight", block, before, name, at + 3);
    if (!bind_has(b->checkpoint, b->prefix, query)) {
        bind_linear(b, &w->qkv, 3 * width, width, bias, "%s.%s", block, name);
        return;
    }
    struct linear *three[] = { &w->q, &w->k, &w->v };
    for (int i = 0; i < 3; i++)
        bind_linear(b, three[i], width, width, bias, "%s.%.*s%c%s", block, before, name, "qkv"[i],
                    at + 3);
}

void vision_bind_gated(struct binder *b, struct vision_layer *w, const struct vision_config *c,
                       int l, bool bias)
{
    const int64_t Dv = c->hidden;
    char block[64];
    snprintf(block, sizeof block, "blocks.%d", l);
    bind_norm(b, &w->norm1, Dv, false, "blocks.%d.norm1", l);
    vision_bind_qkv(b, w, Dv, bias || c->qkv_bias, block, "attn.qkv");
    bind_linear(b, &w->out, Dv, Dv, bias, "blocks.%d.attn.proj", l);
    bind_norm(b, &w->norm2, Dv, false, "blocks.%d.norm2", l);
    bind_linear(b, &w->gate, c->ffn, Dv, bias, "blocks.%d.mlp.gate_proj", l);
    bind_linear(b, &w->up, c->ffn, Dv, bias, "blocks.%d.mlp.up_proj", l);
    bind_linear(b, &w->down, Dv, c->ffn, bias, "blocks.%d.mlp.down_proj", l);
}

void vision_release(struct vision *v)
{
    free(v->layer);
    free(v->clip);
    free(v->deep);
    *v = (struct vision){ 0 };
}

int vision_feature_layer_read(struct vision_config *v, const cJSON *json, const char *key,
                              int64_t otherwise, struct err *err)
{
    int64_t layer;
    const cJSON *list = json_get(json, key);
    if (cJSON_IsArray(list) && cJSON_GetArraySize(list) != 1)
        return err_set(err, "\"%s\": features from several layers, or from none, are not supported",
                       key);
    // A list of one layer, [-2], means -2.
    cJSON *one = cJSON_IsArray(list) ? cJSON_CreateObject() : NULL;
    if (one) cJSON_AddItemToObject(one, key, cJSON_Duplicate(list->child, true));
    const int status = json_int(one ? one : json, key, -1001, 1000, otherwise, &layer, err);
    cJSON_Delete(one);
    if (status < 0) return -1;
    v->feature_layer = (int)layer;
    if (vision_depth(v) < 0 || vision_depth(v) > v->layers)
        return err_set(err, "\"%s\" %lld: the encoder has only %d layers", key, (long long)layer,
                       v->layers);
    return 0;
}

// --- the projector -------------------------------------------------------------------------------

// Binds one linear layer, whose name is "linear" or "linear_1", or two layers.
static void linear_bind(struct projector *p, struct binder *b, int64_t in, int64_t out)
{
    const struct checkpoint *c = b->checkpoint;
    const char *first = bind_has(c, b->prefix, "linear_1.weight") ? "linear_1" : "linear";
    bind_linear(b, &p->linear_1, out, in, p->bias, "%s", first);
    if (bind_has(c, b->prefix, "linear_2.weight"))
        bind_linear(b, &p->linear_2, out, out, p->bias, "linear_2");
}

const struct projector_kind projector_linear = { .bind = linear_bind };

int projector_bind(struct projector *p, struct binder *b, int64_t in, int64_t out)
{
    const struct projector_kind *kind = p->kind;
    if (p->merge < 1) p->merge = 1;
    if (kind->bind) {
        kind->bind(p, b, in, out);
        return b->failed ? -1 : 0;
    }
    const int64_t joined = in * p->merge, inner = kind->wide ? joined : out;
    const int64_t normed = kind->joined ? joined : in;
    if (kind->norm) bind_norm(b, &p->norm, normed, kind->norm_bias, "%s", kind->norm);
    bind_linear(b, &p->linear_1, inner, joined, p->bias, "%s", kind->linear_1);
    bind_linear(b, &p->linear_2, out, inner, p->bias, "%s", kind->linear_2);
    return b->failed ? -1 : 0;
}
