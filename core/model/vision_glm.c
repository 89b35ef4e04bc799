// core/model/vision_glm.c -- the encoder of GLM-4.1V, 4.5V and 4.6V (arXiv 2507.01006, section 2):
// pictures of any size; learned and rotary positions. GLM-OCR's has only rotary positions, no norm
// of the patches, and norms of query and key heads.
//
//   patches [S', 3*times*p*p] -> linear -> RMSNorm -> + positions resampled to the picture's grid
//   -> blocks: RMSNorm, 2-D rotary positions, attention over the picture, gated FFN
//   -> RMSNorm -> merge x merge patches joined by a convolution: features [tokens, out]
//
// The config's names mislead: out_hidden_size is not only the width of the features but also the
// inner width of the blocks' FFNs; intermediate_size is the inner width of the merger. In GLM-OCR,
// intermediate_size is the width of the FFNs, and the merger has out_hidden_size * in_channels.
#include "core/model/vision.h"

#include <string.h>

// --- config and weights --------------------------------------------------------------------------

// Reads the keys that both kinds have; out, bias: defaults.
static int read_shared(struct vision_config *v, const struct vision_sizes *usual, int64_t out,
                       bool bias, const cJSON *json, struct err *err)
{
    const char *act;
    if (vision_sizes_read(v, usual, json, err) < 0 ||
        json_int(json, "out_hidden_size", 1, 100000, out, &v->out, err) < 0 ||
        json_int(json, "spatial_merge_size", 1, 16, 2, &v->merge, err) < 0 ||
        json_int(json, "temporal_patch_size", 1, 16, 2, &v->times, err) < 0 ||
        vision_eps_read(v, json, "rms_norm_eps", 1e-5, err) < 0 ||
        json_bool(json, "attention_bias", bias, &v->qkv_bias, err) < 0 ||
        json_text(json, "hidden_act", "silu", &act, err) < 0)
        return -1;
    if (strcmp(act, "silu") == 0) return 0;
    return err_set(err, "\"hidden_act\" \"%s\" is not supported (known: silu)", act);
}

static int glm_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const struct vision_sizes usual = {
        .short_keys = true, .layers = 24, .hidden = 1536, .heads = 12, .patch = 14
    };
    int64_t image;
    if (read_shared(v, &usual, 4096, false, json, err) < 0 ||
        json_int(json, "image_size", 1, 10000, 336, &image, err) < 0)
        return -1;
    v->ffn = v->out;
    v->table_rows = v->table_cols = image / v->patch;
    return v->table_rows < 1 ? err_set(err, "\"image_size\" is less than a patch") : 0;
}

static int ocr_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const struct vision_sizes usual = {
        .short_keys = true, .layers = 24, .hidden = 1024, .ffn = 4096, .heads = 16, .patch = 14
    };
    if (read_shared(v, &usual, 1536, true, json, err) < 0) return -1;
    v->qk_eps = v->eps;
    return 0;
}

// bias: of attention's output and of the FFNs.
static void bind_shared(struct vision *v, struct binder *b, bool bias)
{
    const struct vision_config *c = &v->config;
    const int64_t Dv = c->hidden;
    bind_folded(b, &v->patch.weight, Dv, 5,
                (const int64_t[]){ Dv, 3, c->times, c->patch, c->patch },
                "patch_embed.proj.weight");
    bind_vector(b, &v->patch.bias, Dv, "patch_embed.proj.bias");
    for (int l = 0; l < c->layers; l++) vision_bind_gated(b, &v->layer[l], c, l, bias);
    bind_norm(b, &v->post, Dv, false, "post_layernorm");
    bind_squares(b, &v->merge.weight, c->out, Dv, c->merge, "downsample.weight");
    bind_vector(b, &v->merge.bias, c->out, "downsample.bias");
}

static void glm_bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    bind_shared(v, b, false);
    bind_norm(b, &v->patch_norm, c->hidden, false, "post_conv_layernorm");
    bind_matrix(b, &v->position, c->table_rows * c->table_cols, c->hidden,
                "embeddings.position_embedding.weight");
}

static void ocr_bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    const int64_t d = c->hidden / c->heads;
    bind_shared(v, b, c->qkv_bias);
    for (int l = 0; l < c->layers; l++) {
        bind_norm(b, &v->layer[l].q_norm, d, false, "blocks.%d.attn.q_norm", l);
        bind_norm(b, &v->layer[l].k_norm, d, false, "blocks.%d.attn.k_norm", l);
    }
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

const struct vision_kind vision_glm_ocr = {
    .model_types = (const char *const[]){ "glm_ocr_vision", "glm_ocr", NULL },
    .read = ocr_read,
    .patch_weight = "patch_embed.proj.weight",
    .bind = ocr_bind,
    .angles = vision_plane_angles,
    .post_norm = true,
    .features = glm_features,
    .feature_rows = feature_rows,
    .feature_width = feature_width,
};
