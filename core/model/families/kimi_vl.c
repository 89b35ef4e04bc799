// core/model/families/kimi_vl.c -- Kimi-VL (arXiv 2504.07491) and the pictures of Kimi-K2.5:
// MoonViT, a projector that joins 2 x 2 patches, a DeepSeek-V3 decoder.
//
// A picture keeps its size unless it has too many patches; its visual tokens are in row order.
// Positions are numbered as in plain text.
#include <string.h>

#include "core/model/families/native.h"
#include "core/model/families/text.h"
#include "core/ops/ops.h"

// Normalises each patch (LayerNorm), joins the patches of a token, then applies linear, GELU,
// linear.
static const struct projector_kind projector = { .norm = "pre_norm",
                                                 .norm_bias = true,
                                                 .eps = 1e-5,
                                                 .linear_1 = "linear_1",
                                                 .linear_2 = "linear_2",
                                                 .wide = true };
static const struct projector_kind projector_k25 = { .norm = "pre_norm",
                                                     .norm_bias = true,
                                                     .eps = 1e-5,
                                                     .linear_1 = "proj.0",
                                                     .linear_2 = "proj.2",
                                                     .wide = true };

// --- config --------------------------------------------------------------------------------------

static int read_config(struct model *m, const cJSON *config, struct err *err)
{
    const cJSON *vision;
    double eps;
    if (json_object(config, "vision_config", &vision, err) < 0) return -1;
    // Without these objects, the class defaults would describe another model.
    if (!json_get(config, "text_config") || !vision)
        return err_set(err, "\"%s\" is missing", vision ? "text_config" : "vision_config");
    if (family_text_read(m, NULL, config, err) < 0 ||
        json_real(config, "projection_layer_norm_eps", 1e-5, &eps, err) < 0)
        return -1;
    if (eps != 1e-5) return err_set(err, "\"projection_layer_norm_eps\" must be 1e-5");
    if (vision_config_read(&m->vision.config, &vision_moon, vision, err) < 0)
        return err_in(err, "vision_config");
    return family_placeholder_read(m, config, "image_token_id", "media_placeholder_token_id",
                                   163605, err);
}

static int kimi_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    if (read_config(m, c->config, err) < 0) return err_in(err, "config.json");
    if (vision_moon.read_pictures(&m->picture, &m->vision.config, c->preprocessor, err) < 0)
        return err_in(err, "%s", checkpoint_preprocessor_file(c));
    return 0;
}

// --- weights -------------------------------------------------------------------------------------

static int kimi_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    const int64_t merge = m->vision.config.merge;
    const bool k25 = bind_has(c, "mm_projector.", "proj.0.weight");
    m->projector = (struct projector){ .kind = k25 ? &projector_k25 : &projector,
                                       .merge = merge * merge,
                                       .act = GELU_ERF,
                                       .bias = true };
    return family_bind(
        m, c,
        &(struct family_prefixes){ .text = "language_model.model.",
                                   .head = "language_model.",
                                   .vision = "vision_tower.",
                                   .projector = k25 ? "mm_projector." : "multi_modal_projector." },
        err);
}

static enum model_part_kind kimi_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "vision_tower.")) return PART_VISION;
    const bool projects =
        strstr(tensor, "multi_modal_projector.") || strstr(tensor, "mm_projector.");
    return projects ? PART_PROJECTOR : text_part(m, tensor);
}

const struct family family_kimi_vl = {
    .name = "kimi_vl",
    .architectures =
        (const char *const[]){ "KimiVLForConditionalGeneration", "Kimi_K25ForConditionalGeneration",
                               "KimiK25ForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "kimi_vl", "kimi_k25", NULL },
    .configure = kimi_configure,
    .bind = kimi_bind,
    .part = kimi_part,
    .gguf = "kimivl",
    .experts_apart = true,
    .module_prefix = { [PART_VISION] = "",
                       [PART_PROJECTOR] = "",
                       [PART_EMBEDDING] = "language_model.model.",
                       [PART_DECODER] = "language_model.model.",
                       [PART_HEAD] = "language_model." },
    .picture_before = "<|media_start|>image<|media_content|>",
    .picture_after = "<|media_end|>",
    .boxes = "kimi-vl",
    .pictures = &native_pictures,
};
