// core/model/vision_qwen3.c -- the encoder of Qwen3-VL (arXiv 2511.21631, section 2): pictures of
// any size, positions both learned and rotary, outputs of several blocks (DeepStack). Qwen2-VL's
// encoder (arXiv 2409.12191) has the same blocks, but neither learned positions nor DeepStack;
// Qwen3.5's only lacks DeepStack.
//
//   patches [S', 3*times*p*p] -> linear -> + positions resampled to the picture's grid
//   -> blocks: LayerNorm, 2-D rotary positions, attention over the picture, FFN with GELU
//   -> output of the last block: to the family's merger;
//      output of each block in config.deep: to a merger of its own
//
// Easy to get wrong: the family's merger normalises each patch, but DeepStack's mergers normalise
// the joined patches of a token.
#include "core/model/vision.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"

// --- config --------------------------------------------------------------------------------------

static int read_deep(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const int usual[] = { 8, 16, 24 };
    const cJSON *list = json_get(json, "deepstack_visual_indexes"), *item;
    for (size_t i = 0; !list && i < sizeof usual / sizeof *usual; i++)
        v->deep[v->deep_count++] = usual[i];
    if (list && !cJSON_IsArray(list))
        return err_set(err, "\"deepstack_visual_indexes\" must be a list of blocks");
    cJSON_ArrayForEach(item, list)
    {
        const int64_t block = json_whole(item, -1);
        if (block < 0 || block >= v->layers || v->deep_count == VISION_DEEP_MOST ||
            (v->deep_count && block <= v->deep[v->deep_count - 1]))
            return err_set(err,
                           "\"deepstack_visual_indexes\" must be at most %d of the %d blocks, in "
                           "ascending order",
                           VISION_DEEP_MOST, v->layers);
        v->deep[v->deep_count++] = (int)block;
    }
    return 0;
}

static int qwen3_5_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const struct vision_sizes usual = {
        .short_keys = true, .layers = 27, .hidden = 1152, .ffn = 4304, .heads = 16, .patch = 16
    };
    int64_t positions;
    v->eps = 1e-6; // no config gives it
    v->patch_bias = true;
    if (vision_sizes_read(v, &usual, json, err) < 0 ||
        json_int(json, "out_hidden_size", 1, 1000000, 3584, &v->out, err) < 0 ||
        json_int(json, "spatial_merge_size", 1, 16, 2, &v->merge, err) < 0 ||
        json_int(json, "temporal_patch_size", 1, 16, 2, &v->times, err) < 0 ||
        json_int(json, "num_position_embeddings", 1, 100000000, 2304, &positions, err) < 0 ||
        gelu_form_read(&v->act, json, "hidden_act", "gelu_pytorch_tanh", err) < 0)
        return -1;
    while (v->table_rows * v->table_rows < positions) v->table_rows++;
    v->table_cols = v->table_rows;
    if (v->table_rows * v->table_rows == positions) return 0;
    return err_set(err, "\"num_position_embeddings\" %lld is not the square of a whole number",
                   (long long)positions);
}

static int qwen3_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    return qwen3_5_read(v, json, err) < 0 ? -1 : read_deep(v, json, err);
}

// The keys mislead: "hidden_size" is the width of the language model, "embed_dim" that of
// the encoder.
static int qwen2_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const struct vision_sizes usual = {
        .short_keys = true, .layers = 32, .hidden = 1280, .heads = 16, .patch = 14
    };
    double ratio;
    v->eps = 1e-6; // no config gives it
    if (json_int(json, "hidden_size", 1, 1000000, 3584, &v->out, err) < 0) return -1;
    cJSON *sizes = json ? cJSON_Duplicate(json, true) : cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(sizes, "hidden_size");
    if (json_get(json, "embed_dim"))
        cJSON_AddItemToObject(sizes, "hidden_size",
                              cJSON_Duplicate(json_get(json, "embed_dim"), true));
    const int status = vision_sizes_read(v, &usual, sizes, err);
    cJSON_Delete(sizes);
    if (status < 0 || json_real(json, "mlp_ratio", 4, &ratio, err) < 0 ||
        json_int(json, "spatial_merge_size", 1, 16, 2, &v->merge, err) < 0 ||
        json_int(json, "temporal_patch_size", 1, 16, 2, &v->times, err) < 0 ||
        gelu_form_read(&v->act, json, "hidden_act", "quick_gelu", err) < 0)
        return -1;
    v->ffn = ratio > 0 && ratio < 1000 ? (int64_t)((double)v->hidden * ratio) : 0;
    return v->ffn ? 0 : err_set(err, "\"mlp_ratio\" must be greater than 0 and less than 1000");
}

// --- weights -------------------------------------------------------------------------------------

// `fc`: prefix of the names of the FFN's layers.
static void bind_block(struct binder *b, struct vision_layer *w, const struct vision_config *c,
                       int l, const char *fc)
{
    const int64_t Dv = c->hidden;
    char block[64];
    snprintf(block, sizeof block, "blocks.%d", l);
    bind_norm(b, &w->norm1, Dv, true, "%s.norm1", block);
    vision_bind_qkv(b, w, Dv, true, block, "attn.qkv");
    bind_linear(b, &w->out, Dv, Dv, true, "%s.attn.proj", block);
    bind_norm(b, &w->norm2, Dv, true, "%s.norm2", block);
    bind_linear(b, &w->fc1, c->ffn, Dv, true, "%s.mlp.%s1", block, fc);
    bind_linear(b, &w->fc2, Dv, c->ffn, true, "%s.mlp.%s2", block, fc);
}

static const struct projector_kind deep_merger = { .norm = "norm",
                                                   .norm_bias = true,
                                                   .eps = 1e-6,
                                                   .joined = true,
                                                   .linear_1 = "linear_fc1",
                                                   .linear_2 = "linear_fc2",
                                                   .wide = true };

static void bind_patches(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    bind_folded(b, &v->patch.weight, c->hidden, 5,
                (const int64_t[]){ c->hidden, 3, c->times, c->patch, c->patch },
                "patch_embed.proj.weight");
}

static void qwen2_bind(struct vision *v, struct binder *b)
{
    bind_patches(v, b);
    for (int l = 0; l < v->config.layers; l++) bind_block(b, &v->layer[l], &v->config, l, "fc");
}

static void qwen3_bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    const char *const prefix = b->prefix;
    bind_patches(v, b);
    bind_vector(b, &v->patch.bias, c->hidden, "patch_embed.proj.bias");
    bind_matrix(b, &v->position, c->table_rows * c->table_cols, c->hidden, "pos_embed.weight");
    for (int l = 0; l < c->layers; l++) bind_block(b, &v->layer[l], c, l, "linear_fc");
    v->deep = xcalloc((size_t)c->deep_count + 1, sizeof *v->deep);
    for (int i = 0; i < c->deep_count; i++) {
        char name[96];
        snprintf(name, sizeof name, "%sdeepstack_merger_list.%d.", prefix, i);
        b->prefix = name;
        v->deep[i] = (struct projector){
            .kind = &deep_merger, .merge = c->merge * c->merge, .act = GELU_ERF, .bias = true
        };
        projector_bind(&v->deep[i], b, c->hidden, c->out);
    }
    b->prefix = prefix;
}

const struct vision_kind vision_qwen2 = {
    .model_types = (const char *const[]){ "qwen2_vl", "qwen2_vl_vision", NULL },
    .read = qwen2_read,
    .patch_weight = "patch_embed.proj.weight",
    .bind = qwen2_bind,
    .angles = vision_plane_angles,
};

const struct vision_kind vision_qwen3 = {
    .model_types = (const char *const[]){ "qwen3_vl", "qwen3_vl_moe", "qwen3_vl_vision",
                                          "qwen3_vl_moe_vision", NULL },
    .keys = (const char *const[]){ "deepstack_visual_indexes", NULL },
    .read = qwen3_read,
    .patch_weight = "patch_embed.proj.weight",
    .bind = qwen3_bind,
    .angles = vision_plane_angles,
    .aligned = true,
};

const struct vision_kind vision_qwen3_5 = {
    .model_types = (const char *const[]){ "qwen3_5", "qwen3_5_moe", "qwen3_5_vision",
                                          "qwen3_5_moe_vision", NULL },
    .read = qwen3_5_read,
    .patch_weight = "patch_embed.proj.weight",
    .bind = qwen3_bind,
    .angles = vision_plane_angles,
    .aligned = true,
};
