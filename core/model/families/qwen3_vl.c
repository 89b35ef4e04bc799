// core/model/families/qwen3_vl.c -- Qwen3-VL, dense and with experts (arXiv 2511.21631): an encoder
// of native resolution, mergers, a Qwen3 decoder with multimodal rotary positions.
//
// DeepStack: the outputs of several blocks of the encoder are merged, too, and added to the visual
// tokens after the first layers of the decoder, one after each layer. The axes of the rotary
// positions always alternate, whatever "mrope_interleaved" says, as in transformers.
#include <stdio.h>
#include <string.h>

#include "core/model/families/native.h"
#include "core/model/families/text.h"
#include "core/model/layer.h"
#include "core/model/visual.h"

static const char *const decoder_keys[] = { "mrope_interleaved", NULL };

static const struct decoder_kind dense = {
    .model_types = (const char *const[]){ "qwen3_vl_text", "qwen3_vl", "qwen3", NULL },
    .ffn_size = 22016,
    .vocab = 151936,
    .max_positions = 128000,
    .head_size = 128,
    .theta = 5e5,
    .attention = &attention_normed,
    .ffn = &ffn_gated,
    .norms = &norms_before,
    .rotary = &rotary_multimodal_alternating,
    .keys = decoder_keys,
    .after_layer = visual_deepstack,
};

static const struct experts_config experts = {
    .count = 60, .per_token = 4, .width = 1408, .normalise = true, .turned = true
};

static const struct decoder_kind sparse = {
    .model_types = (const char *const[]){ "qwen3_vl_moe_text", "qwen3_vl_moe", "qwen3_moe", NULL },
    .ffn_size = 5632,
    .vocab = 151936,
    .max_positions = 128000,
    .head_size = 128,
    .theta = 5e5,
    .attention = &attention_normed,
    .ffn = &ffn_softmax_experts,
    .experts = &experts,
    .norms = &norms_before,
    .rotary = &rotary_multimodal_alternating,
    .keys = decoder_keys,
    .after_layer = visual_deepstack,
};

// Normalises each patch (LayerNorm), joins the patches of a token, then applies linear, GELU,
// linear.
static const struct projector_kind merger = { .norm = "norm",
                                              .norm_bias = true,
                                              .eps = 1e-6,
                                              .encoder_norm = "merger.norm",
                                              .linear_1 = "linear_fc1",
                                              .linear_2 = "linear_fc2",
                                              .wide = true };

// Chooses the decoder by the type of the language model, or else of the whole.
static const struct decoder_kind *decoder_of(const cJSON *config)
{
    const cJSON *type = json_get(json_get(config, "text_config"), "model_type");
    if (!type) type = json_get(config, "model_type");
    if (!type) type = cJSON_GetArrayItem(json_get(config, "architectures"), 0);
    const char *text = cJSON_IsString(type) ? type->valuestring : "";
    return strstr(text, "moe") || strstr(text, "Moe") ? &sparse : &dense;
}

static int read_config(struct model *m, const cJSON *config, struct err *err)
{
    const cJSON *vision;
    struct vision_config *v = &m->vision.config;
    if (json_object(config, "vision_config", &vision, err) < 0 ||
        family_text_read(m, decoder_of(config), config, err) < 0 ||
        family_placeholder_read(m, config, "image_token_id", "image_token_id", 151655, err) < 0)
        return -1;
    if (vision_config_read(v, &vision_qwen3, vision, err) < 0) return err_in(err, "vision_config");
    m->projector = (struct projector){
        .kind = &merger, .merge = v->merge * v->merge, .act = GELU_ERF, .bias = true
    };
    return native_check_width(m, v->out, err);
}

static int qwen3_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct picture_config defaults = { .min_pixels = 56 * 56,
                                                    .max_pixels = 28 * 28 * 1280,
                                                    .frames = 1 };
    if (read_config(m, c->config, err) < 0) return err_in(err, "config.json");
    return native_read_pictures(m, c, &defaults, err);
}

static int qwen3_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct family_prefixes prefixes = { .text = "model.language_model.",
                                                     .head = "",
                                                     .vision = "model.visual.",
                                                     .projector = "model.visual.merger." };
    return family_bind(m, c, &prefixes, err);
}

static enum model_part_kind qwen3_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "visual.merger.") || strstr(tensor, "visual.deepstack_merger_list."))
        return PART_PROJECTOR;
    return strstr(tensor, "visual.") ? PART_VISION : text_part(m, tensor);
}

const struct family family_qwen3_vl = {
    .name = "qwen3_vl",
    .architectures = (const char *const[]){ "Qwen3VLForConditionalGeneration",
                                            "Qwen3VLMoeForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "qwen3_vl", "qwen3_vl_moe", NULL },
    .relatives = (const char *const[]){ "Qwen3_5ForConditionalGeneration",
                                        "Qwen3_5MoeForConditionalGeneration",
                                        "Qwen3OmniMoeForConditionalGeneration", NULL },
    .configure = qwen3_configure,
    .bind = qwen3_bind,
    .part = qwen3_part,
    .module_prefix = FAMILY_MODULE_PREFIX,
    .picture_before = "<|vision_start|>",
    .picture_after = "<|vision_end|>",
    .templates_write_marks = true,
    .pictures = &native_pictures,
    .boxes = "qwen3-vl",
    .picture_processors = (const char *const[]){ "Qwen2VL", "Qwen3VL", NULL },
    .picture_keys = native_picture_keys,
    .positions = native_positions,
};
