// core/model/families/qwen2_5_vl.c -- Qwen2.5-VL (arXiv 2502.13923): an encoder of native
// resolution, a merger, a Qwen2 decoder with multimodal rotary positions.
#include "core/model/families/qwen2_5_vl.h"

#include <stdio.h>
#include <string.h>

#include "core/model/families/native.h"
#include "core/model/families/text.h"
#include "core/model/layer.h"

static const struct decoder_kind decoder = {
    .model_types =
        (const char *const[]){ "qwen2_5_vl_text", "qwen2_5_vl", "qwen2_vl_text", "qwen2_vl", NULL },
    .ffn_size = 29568,
    .vocab = 152064,
    .max_positions = 32768,
    .eps = 1e-5,
    .theta = 1e6,
    .qkv_bias = true,
    .attention = &attention_grouped,
    .ffn = &ffn_gated,
    .norms = &norms_before,
    .rotary = &rotary_multimodal,
    .gguf = "qwen2vl",
};

// Normalises each patch (RMSNorm), joins the patches of a token, then applies linear, GELU, linear.
static const struct projector_kind merger = {
    .norm = "ln_q",
    .eps = 1e-6,
    .encoder_norm = "merger.ln_q",
    .linear_1 = "mlp.0",
    .linear_2 = "mlp.2",
    .wide = true,
};

// The hub's files have the language model's keys at the top level, newer files in text_config.
static int read_text(struct decoder_config *d, const cJSON *config, struct err *err)
{
    const cJSON *text;
    bool tied;
    if (json_object(config, "text_config", &text, err) < 0) return -1;
    if (decoder_config_read(d, &decoder, text ? text : config, err) < 0)
        return text ? err_in(err, "text_config") : -1;
    if (json_bool(config, "tie_word_embeddings", false, &tied, err) < 0) return -1;
    d->tied |= tied;
    return 0;
}

static int read_config(struct model *m, const cJSON *config, const struct vision_kind *kind,
                       const struct projector_kind *merger_kind, struct err *err)
{
    const cJSON *vision;
    if (read_text(&m->decoder.config, config, err) < 0 ||
        json_object(config, "vision_config", &vision, err) < 0 ||
        family_placeholder_read(m, config, "image_token_id", "image_token_id", 151655, err) < 0)
        return -1;
    if (vision_config_read(&m->vision.config, kind, vision, err) < 0)
        return err_in(err, "vision_config");
    m->projector = (struct projector){ .kind = merger_kind,
                                       .merge = m->vision.config.merge * m->vision.config.merge,
                                       .act = GELU_ERF,
                                       .bias = true };
    return native_check_width(m, m->vision.config.out, err);
}

int qwen2_vl_configure_as(struct model *m, const struct checkpoint *c,
                          const struct vision_kind *kind, const struct projector_kind *merger_kind,
                          struct err *err)
{
    static const struct picture_config defaults = { .min_pixels = 56 * 56,
                                                    .max_pixels = 28 * 28 * 1280,
                                                    .frames = 1 };
    if (read_config(m, c->config, kind, merger_kind, err) < 0) return err_in(err, "config.json");
    return native_read_pictures(m, c, &defaults, err);
}

static int qwen_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    return qwen2_vl_configure_as(m, c, &vision_qwen, &merger, err);
}

// The hub's names, and the names that newer versions of transformers use in memory.
static const char *const text_prefixes[] = { "model.", "model.language_model.",
                                             "language_model.model.", NULL };
static const char *const vision_prefixes[] = { "visual.", "model.visual.", NULL };

int qwen2_vl_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    const char *text = bind_prefix(c, text_prefixes, "embed_tokens.weight");
    const char *vision = bind_prefix(c, vision_prefixes, "patch_embed.proj.weight");
    const char *head = strcmp(text, text_prefixes[2]) ? "" : "language_model.";
    char merger_prefix[64];
    snprintf(merger_prefix, sizeof merger_prefix, "%smerger.", vision);
    return family_bind(m, c, &(struct family_prefixes){ text, head, vision, merger_prefix }, err);
}

enum model_part_kind qwen2_vl_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "visual.merger.")) return PART_PROJECTOR;
    return strstr(tensor, "visual.") ? PART_VISION : text_part(m, tensor);
}

static const struct phase_layers phases[] = {
    { 28, 3584, 18944, { 3, 11, 21 }, "2-5,13-19" }, // Qwen2.5-VL-7B
    { 0 },
};

const struct family family_qwen2_5_vl = {
    .name = "qwen2_5_vl",
    .architectures = (const char *const[]){ "Qwen2_5_VLForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "qwen2_5_vl", NULL },
    .relatives = (const char *const[]){ "Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration",
                                        "QWenLMHeadModel", NULL },
    .configure = qwen_configure,
    .bind = qwen2_vl_bind,
    .part = qwen2_vl_part,
    .gguf = "qwen2.5vl_merger",
    .boxes = "qwen2.5-vl",
    .picture_processors = (const char *const[]){ "Qwen2VL", "Qwen2_5_VL", NULL },
    .phases = phases,
    NATIVE_QWEN_FAMILY,
};
