// core/model/families/glm4v.c -- GLM-4.1V, GLM-4.5V and GLM-4.6V (arXiv 2507.01006), GLM-OCR: an
// encoder of native resolution, a gated merger, a GLM-4 decoder, dense or with experts.
//
// The dense decoder (GLM-4.1V, GLM-4.6V-Flash) has four norms per layer, gate and up in one matrix,
// and multimodal rotary positions that pair adjacent elements in the first half of each head.
// GLM-OCR's has no biases and rotates whole heads. The one with experts (GLM-4.5V, GLM-4.6V) is
// glm4_moe.c's with multimodal positions; its pairs are a quarter of a head apart.
#include <stdio.h>
#include <string.h>

#include "core/model/families/glm4_moe.h"
#include "core/model/families/native.h"
#include "core/model/families/text.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"

static const struct decoder_kind dense = {
    .model_types = (const char *const[]){ "glm4v_text", "glm4v", "glm4", NULL },
    .ffn_size = 13696,
    .vocab = 151552,
    .max_positions = 32768,
    .eps = 1e-5,
    .qkv_bias = true,
    .attention = &attention_grouped,
    .ffn = &ffn_packed,
    .norms = &norms_sandwich,
    .rotary = &rotary_multimodal_interleaved,
    .gguf = "glm4",
};

static const struct decoder_kind ocr = {
    .model_types = (const char *const[]){ "glm_ocr_text", "glm_ocr", "glm4", NULL },
    .ffn_size = 4096,
    .vocab = 59392,
    .max_positions = 131072,
    .heads = 16,
    .kv_heads = 8,
    .eps = 1e-5,
    .attention = &attention_grouped,
    .ffn = &ffn_packed,
    .norms = &norms_sandwich,
    .rotary = &rotary_multimodal_interleaved,
    .gguf = "glm4",
};

static const struct decoder_kind sparse = {
    GLM4_MOE_DECODER,
    .model_types = (const char *const[]){ "glm4v_moe_text", "glm4v_moe", "glm4_moe", NULL },
    .vocab = 151424,
    .max_positions = 65536,
    .qkv_bias_default = true,
    .rotary = &rotary_multimodal_half,
};

// --- the merger ----------------------------------------------------------------------------------

// linear -> LayerNorm -> GELU -> gated FFN
static void merger_bind(struct projector *p, struct binder *b, int64_t in, int64_t out)
{
    bind_linear(b, &p->linear_1, out, in, false, "proj");
    bind_norm(b, &p->norm, out, true, "post_projection_norm");
    bind_linear(b, &p->gate, p->inner, out, false, "gate_proj");
    bind_linear(b, &p->up, p->inner, out, false, "up_proj");
    bind_linear(b, &p->down, out, p->inner, false, "down_proj");
}

static struct tensor *merger_forward(struct graph *g, const struct projector *p, struct tensor *x)
{
    x = linear_forward(g, x, &p->linear_1); // [S, D]
    x = norm_forward(g, x, &p->norm, p->kind->eps);
    x = op_gelu(g, x, GELU_ERF);
    struct tensor *gate = linear_forward(g, x, &p->gate), *up = linear_forward(g, x, &p->up);
    return linear_forward(g, op_swiglu(g, gate, up), &p->down); // [S, D]
}

static const struct projector_kind merger = { .eps = 1e-5,
                                              .bind = merger_bind,
                                              .forward = merger_forward };

// --- config and weights --------------------------------------------------------------------------

static bool is_ocr(const cJSON *config)
{
    const cJSON *type = json_get(config, "model_type");
    const char *name = cJSON_IsString(type) ? type->valuestring : NULL;
    return name && !strcmp(name, "glm_ocr");
}

static int read_config(struct model *m, const cJSON *config, struct err *err)
{
    const cJSON *vision;
    const bool of_ocr = is_ocr(config);
    const struct decoder_kind *decoder = of_ocr ? &ocr : family_sparse(config) ? &sparse : &dense;
    struct vision_config *v = &m->vision.config;
    m->projector = (struct projector){ .kind = &merger };
    if (family_text_read(m, decoder, config, err) < 0 ||
        json_object(config, "vision_config", &vision, err) < 0 ||
        family_placeholder_read(m, config, "image_token_id", "image_token_id",
                                of_ocr ? 59280 : 151343, err) < 0)
        return -1;
    if (vision_config_read(v, of_ocr ? &vision_glm_ocr : &vision_glm, vision, err) < 0 ||
        (!of_ocr &&
         json_int(vision, "intermediate_size", 1, 1000000, 13696, &m->projector.inner, err) < 0))
        return err_in(err, "vision_config");
    if (of_ocr) m->projector.inner = 3 * v->out; // "in_channels" times the width
    return native_check_width(m, v->out, err);
}

static int glm_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    if (read_config(m, c->config, err) < 0) return err_in(err, "config.json");
    // The pixel limits count a picture once per video frame that a patch spans.
    const struct picture_config defaults = { .min_pixels = 112 * 112,
                                             .max_pixels = 28 * 28 * 15000,
                                             .frames = m->vision.config.times,
                                             .enlarge = true };
    return native_read_pictures(m, c, &defaults, err);
}

static int glm_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct family_prefixes prefixes = { .text = "model.language_model.",
                                                     .head = "",
                                                     .vision = "model.visual.",
                                                     .projector = "model.visual.merger." };
    return family_bind(m, c, &prefixes, err);
}

static enum model_part_kind glm_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "visual.merger.")) return PART_PROJECTOR;
    return strstr(tensor, "visual.") ? PART_VISION : text_part(m, tensor);
}

const struct family family_glm4v = {
    .name = "glm4v",
    .architectures =
        (const char *const[]){ "Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration",
                               "Glm46VForConditionalGeneration", "GlmOcrForConditionalGeneration",
                               NULL },
    .model_types = (const char *const[]){ "glm4v", "glm4v_moe", "glm46v", "glm_ocr", NULL },
    .relatives = (const char *const[]){ "ChatGLMModel", NULL },
    .configure = glm_configure,
    .bind = glm_bind,
    .part = glm_part,
    .gguf = "glm4v",
    .module_prefix = FAMILY_MODULE_PREFIX,
    .picture_before = "<|begin_of_image|>",
    .picture_after = "<|end_of_image|>",
    .templates_write_marks = true,
    .pictures = &native_pictures,
    .boxes = "glm-4.1v",
    .picture_processors = (const char *const[]){ "Glm4v", "Glm46V", NULL },
    .picture_keys = native_picture_keys,
    .positions = native_positions,
};
