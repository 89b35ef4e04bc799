// core/model/vision_clip.c -- CLIP and SigLIP encoders: square pictures of one size.
//
//   pixels [3,H,W] -> patches -> linear -> (class token in front) -> + positions -> (norm: CLIP)
//   features: the rows without the class token; where the family merges, cells of them
//
// The encoder's last norm is never applied to the features: SigLIP's is bound for measurements,
// CLIP's is for the pooled class token alone.
#include "core/model/vision.h"

// Class defaults of transformers; hub files leave out keys that equal them.
struct defaults {
    const char *act;
    int64_t patch;
    double eps;
};

static int read(struct vision_config *v, const struct defaults *d, const cJSON *json,
                struct err *err)
{
    int64_t layers, channels;
    if (json_int(json, "num_hidden_layers", 1, 1000, 12, &layers, err) < 0 ||
        json_int(json, "hidden_size", 1, 100000, 768, &v->hidden, err) < 0 ||
        json_int(json, "intermediate_size", 1, 1000000, 3072, &v->ffn, err) < 0 ||
        json_int(json, "num_attention_heads", 1, 10000, 12, &v->heads, err) < 0 ||
        json_int(json, "num_channels", 1, 100, 3, &channels, err) < 0 ||
        json_int(json, "image_size", 1, 10000, 224, &v->image_size, err) < 0 ||
        json_int(json, "patch_size", 1, 1000, d->patch, &v->patch, err) < 0)
        return -1;
    v->layers = (int)layers;
    if (channels != 3) return err_set(err, "\"num_channels\" must be 3");
    if (vision_heads_check(v, "num_attention_heads", err) < 0) return -1;
    if (v->patch > v->image_size)
        return err_set(err, "\"patch_size\" %lld is larger than \"image_size\" %lld",
                       (long long)v->patch, (long long)v->image_size);
    if (gelu_form_read(&v->act, json, "hidden_act", d->act, err) < 0 ||
        json_real(json, "layer_norm_eps", d->eps, &v->eps, err) < 0)
        return -1;
    if (v->eps < 0 || v->eps > 1) return err_set(err, "\"layer_norm_eps\" must be within 0..1");
    return 0;
}

static int clip_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    if (read(v, &(struct defaults){ "quick_gelu", 32, 1e-5 }, json, err) < 0) return -1;
    v->class_token = v->pre_norm = true;
    if (json) return 0;
    v->layers = 24, v->hidden = 1024, v->heads = 16, v->ffn = 4096; // ViT-L/14 at 336 pixels
    v->image_size = 336, v->patch = 14;
    return 0;
}

static int siglip_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    v->patch_bias = true;
    return read(v, &(struct defaults){ "gelu_pytorch_tanh", 16, 1e-6 }, json, err);
}

static void bind_block(struct binder *b, struct vision_layer *w, const struct vision_config *c,
                       int l)
{
    int64_t Dv = c->hidden;
    bind_norm(b, &w->norm1, Dv, true, "encoder.layers.%d.layer_norm1", l);
    bind_linear(b, &w->q, Dv, Dv, true, "encoder.layers.%d.self_attn.q_proj", l);
    bind_linear(b, &w->k, Dv, Dv, true, "encoder.layers.%d.self_attn.k_proj", l);
    bind_linear(b, &w->v, Dv, Dv, true, "encoder.layers.%d.self_attn.v_proj", l);
    bind_linear(b, &w->out, Dv, Dv, true, "encoder.layers.%d.self_attn.out_proj", l);
    bind_norm(b, &w->norm2, Dv, true, "encoder.layers.%d.layer_norm2", l);
    bind_linear(b, &w->fc1, c->ffn, Dv, true, "encoder.layers.%d.mlp.fc1", l);
    bind_linear(b, &w->fc2, Dv, c->ffn, true, "encoder.layers.%d.mlp.fc2", l);
}

static void bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    const int64_t Dv = c->hidden, side = c->image_size / c->patch;
    bind_squares(b, &v->patch.weight, Dv, 3, c->patch, "embeddings.patch_embedding.weight");
    if (c->patch_bias) bind_vector(b, &v->patch.bias, Dv, "embeddings.patch_embedding.bias");
    bind_matrix(b, &v->position, side * side + c->class_token, Dv,
                "embeddings.position_embedding.weight");
    if (c->class_token) {
        bind_vector(b, &v->class_token, Dv, "embeddings.class_embedding");
        v->class_token.rank = 2;
        v->class_token.shape[0] = 1;
        v->class_token.shape[1] = Dv;
    }
    if (c->pre_norm) bind_norm(b, &v->pre, Dv, true, "pre_layrnorm"); // spelled so in every file
    for (int l = 0; l < c->layers; l++) bind_block(b, &v->layer[l], c, l);
}

static void siglip_bind(struct vision *v, struct binder *b)
{
    bind(v, b);
    if (!bind_has(b->checkpoint, b->prefix, "post_layernorm.weight")) return;
    bind_constant(b, &v->post.gain, v->config.hidden, "post_layernorm.weight");
    bind_constant(b, &v->post.bias, v->config.hidden, "post_layernorm.bias");
}

static struct tensor *features(struct graph *g, const struct vision_batch *b, struct tensor *h)
{
    const struct vision_config *c = &b->vision->config;
    return c->merge > 1 ? vision_join_cells(g, b, h) : vision_drop_rows(g, b, h, c->drop_class);
}

static int64_t feature_rows(const struct vision_config *c, const struct vision_picture *p)
{
    return c->merge > 1 ? vision_cells(c, p) : p->tiles * (vision_tile_rows(c, p) - c->drop_class);
}

static int64_t feature_width(const struct vision_config *c)
{
    return c->merge > 1 ? vision_cell_width(c) : c->hidden;
}

const struct vision_kind vision_clip = {
    .model_types = (const char *const[]){ "clip_vision_model", NULL },
    .read = clip_read,
    .patch_weight = "embeddings.patch_embedding.weight",
    .bind = bind,
    .features = features,
    .feature_rows = feature_rows,
    .feature_width = feature_width,
};

const struct vision_kind vision_siglip = {
    .model_types = (const char *const[]){ "siglip_vision_model", NULL },
    .read = siglip_read,
    .patch_weight = "embeddings.patch_embedding.weight",
    .bind = siglip_bind,
    .features = features,
    .feature_rows = feature_rows,
    .feature_width = feature_width,
};
