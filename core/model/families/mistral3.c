// core/model/families/mistral3.c -- Mistral Small 3.1 and 3.2, Ministral 3: Pixtral's encoder, a
// projector that joins patches, a Mistral decoder.
//
// A picture is resized to fit the longest edge; its aspect ratio stays. merge x merge patches
// become one visual token; text ends each row of them (core/model/vision_pixtral.c). Positions are
// as in plain text.
//
//   features [S', Dv] -> RMSNorm of each patch -> merge x merge patches joined channel by channel
//   -> linear [S, Dv] -> linear -> GELU -> linear: visual tokens [S, D]
#include "core/model/families/mistral3.h"

#include "core/model/bind.h"
#include "core/model/families/llava.h"
#include "core/model/families/native.h"
#include "core/ops/ops.h"

// --- config --------------------------------------------------------------------------------------

// By default, transformers' Mistral3Config ties the head, although MistralConfig does not. A head
// in the file rules that out.
static bool tied_by_default(const struct checkpoint *c)
{
    return !json_get(c->config, "tie_word_embeddings") && !checkpoint_has(c, "lm_head.weight") &&
           !checkpoint_has(c, "language_model.lm_head.weight");
}

static int read_config(struct model *m, const struct checkpoint *c, struct err *err)
{
    const cJSON *config = c->config, *vision;
    struct vision_config *v = &m->vision.config;
    struct projector *p = &m->projector;
    if (json_object(config, "vision_config", &vision, err) < 0 ||
        family_text_read(m, NULL, config, err) < 0)
        return -1;
    m->decoder.config.tied |= tied_by_default(c);
    if (vision_config_read(v, &vision_pixtral, vision, err) < 0)
        return err_in(err, "vision_config");
    if (vision_feature_layer_read(v, config, "vision_feature_layer", -1, err) < 0 ||
        json_int(config, "spatial_merge_size", 1, 64, 2, &v->merge, err) < 0 ||
        json_bool(config, "multimodal_projector_bias", false, &p->bias, err) < 0 ||
        gelu_form_read(&p->act, config, "projector_hidden_act", "gelu", err) < 0)
        return -1;
    p->merge = v->merge * v->merge;
    p->eps = m->decoder.config.eps;
    return family_placeholder_read(m, config, "image_token_index", "image_token_id", 10, err);
}

static int mistral3_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    if (read_config(m, c, err) < 0) return err_in(err, "config.json");
    if (vision_check_equal(c->processor, "spatial_merge_size", m->vision.config.merge, err) < 0)
        return err_in(err, "processor_config.json");
    if (vision_pixtral.read_pictures(&m->picture, &m->vision.config, c->preprocessor, err) == 0)
        return 0;
    return err_in(err, "%s", checkpoint_preprocessor_file(c));
}

// --- projector -----------------------------------------------------------------------------------

static void bind_projector(struct projector *p, struct binder *b, int64_t in, int64_t out)
{
    bind_norm(b, &p->norm, in, false, "norm");
    bind_linear(b, &p->merger, in, p->merge * in, false, "patch_merger.merging_layer");
    bind_linear(b, &p->linear_1, out, in, p->bias, "linear_1");
    bind_linear(b, &p->linear_2, out, out, p->bias, "linear_2");
}

static struct tensor *project(struct graph *g, const struct projector *p, struct tensor *x)
{
    x = norm_forward(g, x, &p->norm, p->eps);    // [S*merge, Dv]
    x = vision_channels_first(g, x, p->merge);   // [S, Dv*merge]
    x = linear_forward(g, x, &p->merger);        // [S, Dv]
    x = linear_gelu(g, x, &p->linear_1, p->act); // [S, D]
    return linear_forward(g, x, &p->linear_2);   // [S, D]
}

static const struct projector_kind projector = { .bind = bind_projector, .forward = project };

static int mistral3_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    m->projector.kind = &projector;
    return llava_bind(m, c, err);
}

// --- published models ----------------------------------------------------------------------------

#define SHAPE_CONFIG                                                                             \
    "{\"architectures\": [\"Mistral3ForConditionalGeneration\"], \"model_type\": \"mistral3\", " \
    "\"image_token_index\": 0, \"multimodal_projector_bias\": false, \"projector_hidden_act\": " \
    "\"gelu\", \"spatial_merge_size\": 2, \"tie_word_embeddings\": false, \"torch_dtype\": "     \
    "\"bfloat16\", \"vision_feature_layer\": -1, \"vision_config\": {\"model_type\": "           \
    "\"pixtral\", \"head_dim\": 64, \"hidden_act\": \"silu\", \"hidden_size\": 1024, "           \
    "\"image_size\": 1540, \"intermediate_size\": 4096, \"num_attention_heads\": 16, "           \
    "\"num_hidden_layers\": 24, \"patch_size\": 14, \"rope_theta\": 10000.0}, \"text_config\": " \
    "{\"model_type\": \"mistral\", \"head_dim\": 128, \"hidden_act\": \"silu\", "                \
    "\"hidden_size\": 5120, \"intermediate_size\": 32768, \"max_position_embeddings\": 131072, " \
    "\"num_attention_heads\": 32, \"num_hidden_layers\": 40, \"num_key_value_heads\": 8, "       \
    "\"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000000.0, \"sliding_window\": null, "          \
    "\"vocab_size\": 131072}}"
#define SHAPE_PICTURES                                                                        \
    "{\"image_processor_type\": \"PixtralImageProcessorFast\", \"image_mean\": [0.48145466, " \
    "0.4578275, 0.40821073], \"image_std\": [0.26862954, 0.26130258, 0.27577711], "           \
    "\"patch_size\": {\"height\": 14, \"width\": 14}, \"size\": {\"longest_edge\": 1540}}"

static const struct family_shape shapes[] = {
    { "mistral-small-3.1", SHAPE_CONFIG, SHAPE_PICTURES, 131072, 130072,
      "[INST] [/INST] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [IMG_BREAK] [IMG_END]" },
    { 0 },
};

const struct family family_mistral3 = {
    .name = "mistral3",
    .architectures = (const char *const[]){ "Mistral3ForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "mistral3", NULL },
    .configure = mistral3_configure,
    .bind = mistral3_bind,
    .part = llava_part,
    .mmproj = &pixtral_mmproj,
    .shapes = shapes,
    .module_prefix = FAMILY_MODULE_PREFIX,
    .pictures = &native_pictures,
};
