// core/model/vision_config.c -- the config of a vision encoder, as its JSON object says it.
#include "core/model/vision.h"

#include <string.h>

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

// Class defaults of transformers; hub files leave out keys that equal them.
static const struct vision_kind {
    const char *model_type, *act;
    int64_t patch;
    double eps;
    bool class_token, patch_bias, pre_norm;
} kinds[] = {
    { "clip_vision_model", "quick_gelu", 32, 1e-5, true, false, true },
    { "siglip_vision_model", "gelu_pytorch_tanh", 16, 1e-6, false, true, false },
};

static const struct vision_kind *kind_find(const cJSON *json, struct err *err)
{
    const char *type;
    if (json_text(json, "model_type", kinds[0].model_type, &type, err) < 0) return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].model_type) == 0) return &kinds[i];
    err_set(err,
            "vision encoder \"%s\" is not supported (known: clip_vision_model, "
            "siglip_vision_model)",
            type);
    return NULL;
}

static int read_sizes(struct vision_config *v, const struct vision_kind *kind, const cJSON *json,
                      struct err *err)
{
    int64_t layers, channels;
    if (json_int(json, "num_hidden_layers", 1, 1000, 12, &layers, err) < 0 ||
        json_int(json, "hidden_size", 1, 100000, 768, &v->hidden, err) < 0 ||
        json_int(json, "intermediate_size", 1, 1000000, 3072, &v->ffn, err) < 0 ||
        json_int(json, "num_attention_heads", 1, 10000, 12, &v->heads, err) < 0 ||
        json_int(json, "num_channels", 1, 100, 3, &channels, err) < 0 ||
        json_int(json, "image_size", 1, 10000, 224, &v->image_size, err) < 0 ||
        json_int(json, "patch_size", 1, 1000, kind->patch, &v->patch, err) < 0)
        return -1;
    v->layers = (int)layers;
    if (channels != 3) return err_set(err, "\"num_channels\" must be 3");
    if (v->hidden % v->heads)
        return err_set(err,
                       "\"hidden_size\" %lld is not a multiple of \"num_attention_heads\" %lld",
                       (long long)v->hidden, (long long)v->heads);
    if (v->patch > v->image_size)
        return err_set(err, "\"patch_size\" %lld is larger than \"image_size\" %lld",
                       (long long)v->patch, (long long)v->image_size);
    return 0;
}

int vision_config_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    *v = (struct vision_config){ 0 };
    const struct vision_kind *kind = kind_find(json, err);
    if (!kind || read_sizes(v, kind, json, err) < 0 ||
        gelu_form_read(&v->act, json, "hidden_act", kind->act, err) < 0 ||
        json_real(json, "layer_norm_eps", kind->eps, &v->eps, err) < 0)
        return -1;
    if (v->eps < 0 || v->eps > 1) return err_set(err, "\"layer_norm_eps\" must be within 0..1");
    if (!json) { // ViT-L/14 at 336 pixels
        v->layers = 24, v->hidden = 1024, v->heads = 16, v->ffn = 4096;
        v->image_size = 336, v->patch = 14;
    }
    v->class_token = kind->class_token;
    v->patch_bias = kind->patch_bias;
    v->pre_norm = kind->pre_norm;
    v->post_norm = true;
    v->feature_layer = -1;
    return 0;
}

int vision_depth(const struct vision_config *c)
{
    return c->feature_layer < 0 ? c->layers + 1 + c->feature_layer : c->feature_layer;
}

int64_t vision_rows(const struct vision_config *c)
{
    int64_t side = c->image_size / c->patch;
    return side * side + c->class_token;
}

int64_t vision_tokens(const struct vision_config *c)
{
    return vision_rows(c) - c->drop_class;
}
