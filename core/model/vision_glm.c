// core/model/vision_glm.c -- the encoder of GLM-4.1V and 4.5V (arXiv 2507.01006, section 2):
// pictures of any size; learned and rotary positions.
//
//   patches [S', 3*times*p*p] -> linear -> RMSNorm -> + positions resampled to the picture's grid
//   -> blocks: RMSNorm, 2-D rotary positions, attention over the picture, gated FFN
//   -> RMSNorm -> merge x merge patches joined by a convolution: features [tokens, out]
//
// The config's names mislead: out_hidden_size is not only the width of the features but also the
// inner width of the blocks' FFNs; intermediate_size is the inner width of the merger.
#include "core/model/vision.h"

#include <string.h>

// --- config and weights --------------------------------------------------------------------------

static int glm_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const struct vision_sizes usual = {
        .short_keys = true, .layers = 24, .hidden = 1536, .heads = 12, .patch = 14
    };
    const char *act;
    int64_t image;
    if (vision_sizes_read(v, &usual, json, err) < 0 ||
        json_int(json, "out_hidden_size", 1, 100000, 4096, &v->out, err) < 0 ||
        json_int(json, "image_size", 1, 10000, 336, &image, err) < 0 ||
        json_int(json, "spatial_merge_size", 1, 16, 2, &v->merge, err) < 0 ||
        json_int(json, "temporal_patch_size", 1, 16, 2, &v->times, err) < 0)
        return -1;
    v->ffn = v->out;
    v->table_rows = v->table_cols = image / v->patch;
    if (v->table_rows < 1) return err_set(err, "\"image_size\" is less than a patch");
    if (vision_eps_read(v, json, "rms_norm_eps", 1e-5, err) < 0 ||
        json_bool(json, "attention_bias", false, &v->qkv_bias, err) < 0 ||
        json_text(json, "hidden_act", "silu", &act, err) < 0)
        return -1;
    if (strcmp(act, "silu") == 0) return 0;
    return err_set(err, "\"hidden_act\" \"%s\" is not supported (known: silu)", act);
}

static void glm_bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    const int64_t Dv = c->hidden;
    bind_folded(b, &v->patch.weight, Dv, 5,
                (const int64_t[]){ Dv, 3, c->times, c->patch, c->patch },
                "patch_embed.proj.weight");
    bind_vector(b, &v->patch.bias, Dv, "patch_embed.proj.bias");
    bind_norm(b, &v->patch_norm, Dv, false, "post_conv_layernorm");
    bind_matrix(b, &v->position, c->table_rows * c->table_cols, Dv,
                "embeddings.position_embedding.weight");
    for (int l = 0; l < c->layers; l++) vision_bind_gated(b, &v->layer[l], c, l, false);
    bind_norm(b, &v->post, Dv, false, "post_layernorm");
    bind_squares(b, &v->merge.weight, c->out, Dv, c->merge, "downsample.weight");
    bind_vector(b, &v->merge.bias, c->out, "downsample.bias");
}

// --- the pass ------------------------------------------------------------------------------------

static struct tensor *glm_features(struct graph *g, const struct vision_batch *b, struct tensor *h)
{
    const struct vision *v = b->vision;
    h = vision_channels_first(g, h, v->config.merge * v->config.merge);
    return linear_forward(g, h, &v->merge); // [tokens, out]
}

static int64_t feature_rows(const struct vision_config *c, const struct vision_picture *p)
{
    return p->rows * p->cols / (c->merge * c->merge);
}

static int64_t feature_width(const struct vision_config *c)
{
    return c->out;
}

const struct vision_kind vision_glm = {
    .model_types =
        (const char *const[]){ "glm4v_vision", "glm4v", "glm4v_moe_vision", "glm4v_moe", NULL },
    .read = glm_read,
    .patch_weight = "patch_embed.proj.weight",
    .bind = glm_bind,
    .angles = vision_plane_angles,
    .post_norm = true,
    .features = glm_features,
    .feature_rows = feature_rows,
    .feature_width = feature_width,
};
