// core/model/vision_intern.c -- InternViT (Chen et al. 2023, arXiv 2312.14238): a class token,
// learned positions, blocks with layer scale; LayerNorm or RMSNorm, with or without norms of
// queries and keys.
//
//   tiles [T,3,H,W] -> patches -> linear -> class token in front -> + positions -> blocks
//   features: without the class token, merge x merge patches of a tile joined to one row
//             [S, merge*merge*Dv]
//
// Files have one of two layouts: that of transformers (internvl_vision) or that of the authors'
// code (called intern_vit_6b at every size).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/model/vision.h"
#include "core/ops/ops.h"

// A layout: the names that its files use, and its class defaults.
struct layout {
    struct vision_sizes sizes;
    int64_t image;
    const char *bias, *qk_norm, *norm; // keys of the config; `norm`: the default of "norm_type"
    bool has_qk_norm;
    double qk_eps; // of the norms of queries and keys; 0: "layer_norm_eps", like all other norms
    const char *class_token, *patch, *position, *block;
    const char *qkv, *q, *k, *v, *q_norm, *k_norm, *out, *scale1, *scale2, *norm1, *norm2;
};

static const struct layout transformers = {
    .sizes = { .layers = 24, .hidden = 1024, .ffn = 4096, .heads = 16 },
    .image = 448,
    .bias = "attention_bias",
    .qk_norm = "use_qk_norm",
    .norm = "layer_norm",
    .qk_eps = 1e-6, // the class default, whatever the config says
    .class_token = "embeddings.cls_token",
    .patch = "embeddings.patch_embeddings.projection",
    .position = "embeddings.position_embeddings",
    .block = "encoder.layer",
    .q = "attention.q_proj",
    .k = "attention.k_proj",
    .v = "attention.v_proj",
    .q_norm = "attention.q_norm",
    .k_norm = "attention.k_norm",
    .out = "attention.projection_layer",
    .scale1 = "lambda_1",
    .scale2 = "lambda_2",
    .norm1 = "layernorm_before",
    .norm2 = "layernorm_after",
};

static const struct layout authors = {
    .sizes = { .layers = 48, .hidden = 3200, .ffn = 12800, .heads = 25 },
    .image = 224,
    .bias = "qkv_bias",
    .qk_norm = "qk_normalization",
    .norm = "rms_norm",
    .has_qk_norm = true,
    .class_token = "embeddings.class_embedding",
    .patch = "embeddings.patch_embedding",
    .position = "embeddings.position_embedding",
    .block = "encoder.layers",
    .qkv = "attn.qkv",
    .q_norm = "attn.q_norm",
    .k_norm = "attn.k_norm",
    .out = "attn.proj",
    .scale1 = "ls1",
    .scale2 = "ls2",
    .norm1 = "norm1",
    .norm2 = "norm2",
};

// --- config --------------------------------------------------------------------------------------

// Reads a side in pixels: one number, or two equal ones.
static int read_side(const cJSON *json, const char *key, int64_t most, int64_t otherwise,
                     int64_t *side, struct err *err)
{
    const cJSON *list = json_get(json, key), *one = cJSON_GetArrayItem(list, 0);
    if (!cJSON_IsArray(list)) return json_int(json, key, 1, most, otherwise, side, err);
    *side = json_whole(one, 0);
    if (cJSON_GetArraySize(list) != 2 || !cJSON_Compare(one, cJSON_GetArrayItem(list, 1), true) ||
        *side < 1 || *side > most)
        return err_set(err, "\"%s\" must be a number, or two equal numbers", key);
    return 0;
}

static int read(struct vision_config *v, const struct layout *f, const cJSON *json, struct err *err)
{
    const char *norm;
    if (vision_sizes_read(v, &f->sizes, json, err) < 0 ||
        read_side(json, "image_size", 10000, f->image, &v->image_size, err) < 0 ||
        read_side(json, "patch_size", 1000, 14, &v->patch, err) < 0)
        return -1;
    if (v->patch > v->image_size)
        return err_set(err, "\"patch_size\" %lld is larger than \"image_size\" %lld",
                       (long long)v->patch, (long long)v->image_size);

    if (vision_eps_read(v, json, "layer_norm_eps", 1e-6, err) < 0 ||
        json_text(json, "norm_type", f->norm, &norm, err) < 0 ||
        json_bool(json, f->qk_norm, f->has_qk_norm, &v->qk_norm, err) < 0)
        return -1;
    v->qk_eps = f->qk_eps > 0 ? f->qk_eps : v->eps;
    v->norm_bias = strcmp(norm, "layer_norm") == 0;
    if (!v->norm_bias && strcmp(norm, "rms_norm") != 0)
        return err_set(err, "\"norm_type\" \"%s\" is not supported (known: layer_norm, rms_norm)",
                       norm);

    if (json_bool(json, f->bias, false, &v->qkv_bias, err) < 0 ||
        gelu_form_read(&v->act, json, "hidden_act", "gelu", err) < 0)
        return -1;
    v->class_token = v->patch_bias = v->drop_class = true;
    return 0;
}

static int transformers_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    bool pooled, positions;
    if (json_bool(json, "use_mean_pooling", true, &pooled, err) < 0 ||
        json_bool(json, "use_absolute_position_embeddings", true, &positions, err) < 0)
        return -1;
    if (!pooled) return err_set(err, "\"use_mean_pooling\" false (a last norm) is not supported");
    if (!positions)
        return err_set(err, "\"use_absolute_position_embeddings\" false is not supported");
    return read(v, &transformers, json, err);
}

static int authors_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    return read(v, &authors, json, err);
}

// --- weights -------------------------------------------------------------------------------------

static void bind_block(struct binder *b, struct vision_layer *w, const struct vision_config *c,
                       const struct layout *f, int l)
{
    const int64_t Dv = c->hidden;
    char at[64];
    snprintf(at, sizeof at, "%s.%d", f->block, l);
    bind_norm(b, &w->norm1, Dv, c->norm_bias, "%s.%s", at, f->norm1);
    if (f->qkv) {
        bind_linear(b, &w->qkv, 3 * Dv, Dv, c->qkv_bias, "%s.%s", at, f->qkv);
    } else {
        bind_linear(b, &w->q, Dv, Dv, c->qkv_bias, "%s.%s", at, f->q);
        bind_linear(b, &w->k, Dv, Dv, c->qkv_bias, "%s.%s", at, f->k);
        bind_linear(b, &w->v, Dv, Dv, c->qkv_bias, "%s.%s", at, f->v);
    }
    if (c->qk_norm) {
        bind_norm(b, &w->q_norm, Dv, false, "%s.%s", at, f->q_norm);
        bind_norm(b, &w->k_norm, Dv, false, "%s.%s", at, f->k_norm);
    }
    bind_linear(b, &w->out, Dv, Dv, true, "%s.%s", at, f->out);
    bind_vector(b, &w->scale1, Dv, "%s.%s", at, f->scale1);
    bind_norm(b, &w->norm2, Dv, c->norm_bias, "%s.%s", at, f->norm2);
    bind_linear(b, &w->fc1, c->ffn, Dv, true, "%s.mlp.fc1", at);
    bind_linear(b, &w->fc2, Dv, c->ffn, true, "%s.mlp.fc2", at);
    bind_vector(b, &w->scale2, Dv, "%s.%s", at, f->scale2);
}

static void bind(struct vision *v, struct binder *b, const struct layout *f)
{
    const struct vision_config *c = &v->config;
    const int64_t side = c->image_size / c->patch, rows = side * side + 1;
    bind_folded(b, &v->class_token, 1, 3, (const int64_t[]){ 1, 1, c->hidden }, "%s",
                f->class_token);
    bind_squares(b, &v->patch.weight, c->hidden, 3, c->patch, "%s.weight", f->patch);
    bind_vector(b, &v->patch.bias, c->hidden, "%s.bias", f->patch);
    bind_folded(b, &v->position, rows, 3, (const int64_t[]){ 1, rows, c->hidden }, "%s",
                f->position);
    for (int l = 0; l < c->layers; l++) bind_block(b, &v->layer[l], c, f, l);
}

static void transformers_bind(struct vision *v, struct binder *b)
{
    bind(v, b, &transformers);
}

static void authors_bind(struct vision *v, struct binder *b)
{
    bind(v, b, &authors);
}

const struct vision_kind vision_intern_transformers = {
    .model_types = (const char *const[]){ "internvl_vision", NULL },
    .read = transformers_read,
    .patch_weight = "embeddings.patch_embeddings.projection.weight",
    .bind = transformers_bind,
    .features = vision_join_cells,
    .feature_rows = vision_cells,
    .feature_width = vision_cell_width,
};

const struct vision_kind vision_intern_authors = {
    .model_types = (const char *const[]){ "intern_vit_6b", NULL },
    .read = authors_read,
    .patch_weight = "embeddings.patch_embedding.weight",
    .bind = authors_bind,
    .features = vision_join_cells,
    .feature_rows = vision_cells,
    .feature_width = vision_cell_width,
};
