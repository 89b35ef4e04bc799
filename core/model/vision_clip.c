// core/model/vision_clip.c -- CLIP and SigLIP encoders: square pictures, or tiles, of one size.
//
//   pixels [3,H,W] -> patches -> linear -> (class token in front) -> + positions -> (norm: CLIP)
//   features: cells of patches if the family merges patches; else the rows, without the first of
//   each tile if config.drop_class
//
// The features skip the encoder's last norm, except Idefics3's and Gemma 3's. SigLIP's last norm is
// bound for measurements; CLIP's serves only the pooled class token.
#include "core/model/vision.h"

// Class defaults of transformers; hub files omit keys that equal them.
struct defaults {
    const char *act;
    int64_t patch;
    double eps;
};

static int read_as(struct vision_config *v, const struct vision_sizes *usual,
                   const struct defaults *d, const cJSON *json, struct err *err)
{
    if (vision_sizes_read(v, usual, json, err) < 0 ||
        json_int(json, "image_size", 1, 10000, 224, &v->image_size, err) < 0)
        return -1;
    if (v->patch > v->image_size)
        return err_set(err, "\"patch_size\" %lld is larger than \"image_size\" %lld",
                       (long long)v->patch, (long long)v->image_size);
    if (gelu_form_read(&v->act, json, "hidden_act", d->act, err) < 0) return -1;
    return vision_eps_read(v, json, "layer_norm_eps", d->eps, err);
}

static int read(struct vision_config *v, const struct defaults *d, const cJSON *json,
                struct err *err)
{
    const struct vision_sizes usual = {
        .layers = 12, .hidden = 768, .ffn = 3072, .heads = 12, .patch = d->patch
    };
    return read_as(v, &usual, d, json, err);
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

// Idefics3's SigLIP: the table of positions has the encoder's own grid, whatever the size of the
// tiles. Transformers' defaults are the sizes of another SigLIP.
static int idefics3_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const struct vision_sizes usual = {
        .layers = 12, .hidden = 1152, .ffn = 3072, .heads = 16, .patch = 32
    };
    v->patch_bias = true;
    if (read_as(v, &usual, &(struct defaults){ "gelu_pytorch_tanh", 32, 1e-6 }, json, err) < 0)
        return -1;
    v->table_rows = v->table_cols = v->image_size / v->patch;
    return 0;
}

static void bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    const int64_t Dv = c->hidden, side = c->table_rows ? c->table_rows : c->image_size / c->patch;
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
    for (int l = 0; l < c->layers; l++) {
        struct vision_layer *w = &v->layer[l];
        bind_norm(b, &w->norm1, Dv, true, "encoder.layers.%d.layer_norm1", l);
        bind_linear(b, &w->q, Dv, Dv, true, "encoder.layers.%d.self_attn.q_proj", l);
        bind_linear(b, &w->k, Dv, Dv, true, "encoder.layers.%d.self_attn.k_proj", l);
        bind_linear(b, &w->v, Dv, Dv, true, "encoder.layers.%d.self_attn.v_proj", l);
        bind_linear(b, &w->out, Dv, Dv, true, "encoder.layers.%d.self_attn.out_proj", l);
        bind_norm(b, &w->norm2, Dv, true, "encoder.layers.%d.layer_norm2", l);
        bind_linear(b, &w->fc1, c->ffn, Dv, true, "encoder.layers.%d.mlp.fc1", l);
        bind_linear(b, &w->fc2, Dv, c->ffn, true, "encoder.layers.%d.mlp.fc2", l);
    }
}

static void siglip_bind(struct vision *v, struct binder *b)
{
    bind(v, b);
    if (!bind_has(b->checkpoint, b->prefix, "post_layernorm.weight")) return;
    bind_constant(b, &v->post.gain, v->config.hidden, "post_layernorm.weight");
    bind_constant(b, &v->post.bias, v->config.hidden, "post_layernorm.bias");
}

void vision_bind_siglip(struct vision *v, struct binder *b)
{
    bind(v, b);
    bind_norm(b, &v->post, v->config.hidden, true, "post_layernorm");
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

// SigLIP whose features have passed its last norm.
const struct vision_kind vision_siglip_normed = {
    .model_types = (const char *const[]){ "siglip_vision_model", NULL },
    .read = siglip_read,
    .patch_weight = "embeddings.patch_embedding.weight",
    .bind = vision_bind_siglip,
    .post_norm = true,
};

const struct vision_kind vision_idefics3 = {
    .model_types = (const char *const[]){ "idefics3_vision", "smolvlm_vision", "idefics3",
                                          "smolvlm", "siglip_vision_model", NULL },
    .read = idefics3_read,
    .patch_weight = "embeddings.patch_embedding.weight",
    .bind = vision_bind_siglip,
    .buckets = true,
    .post_norm = true,
    .features = vision_join_cells,
    .feature_rows = vision_cells,
    .feature_width = vision_cell_width,
};
