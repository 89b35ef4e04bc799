// core/model/families/gemma4.c -- Gemma 4 with pictures: an encoder of any size, pooled features,
// the decoder of gemma4_text.c.
//
// A picture is enlarged or reduced to a budget of visual tokens, each of pool x pool patches. The
// projector is a norm without a gain and one matrix. Audio and videos are not read.
#include <string.h>

#include "core/model/families/native.h"
#include "core/model/families/text.h"
#include "core/ops/ops.h"

// --- config --------------------------------------------------------------------------------------

static int read_config(struct model *m, const cJSON *config, struct err *err)
{
    const cJSON *vision;
    struct vision_config *v = &m->vision.config;
    if (json_object(config, "vision_config", &vision, err) < 0 ||
        family_text_read(m, NULL, config, err) < 0 ||
        family_placeholder_read(m, config, "image_token_id", "image_token_index", 258880, err) < 0)
        return -1;
    if (!vision)
        return err_set(err, "\"vision_config\" is missing: a model without an encoder is opened as "
                            "Gemma4ForCausalLM");
    if (vision_config_read(v, &vision_gemma, vision, err) < 0) return err_in(err, "vision_config");
    m->projector.eps = v->eps;
    return 0;
}

static const char *const picture_keys[] = { PICTURE_SHARED_KEYS, "patch_size", "max_soft_tokens",
                                            "pooling_kernel_size", NULL };

// The processor only divides by 255; the encoder does the rest.
static int read_pictures(struct model *m, const cJSON *json, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    struct picture_config *p = &m->picture;
    *p = vision_picture_defaults(v, FIT_BUDGET);
    p->normalize = false;
    p->patch = v->patch;
    p->multiple = v->patch * v->merge;
    p->limit_side = v->table_cols + 1;
    p->channels_last = true;
    if (picture_config_read_shared(p, json, err) < 0 ||
        json_int(json, "max_soft_tokens", 1, 100000, 280, &p->budget, err) < 0 ||
        vision_check_equal(json, "patch_size", v->patch, err) < 0 ||
        vision_check_equal(json, "pooling_kernel_size", v->merge, err) < 0)
        return -1;
    p->crop = false; // the processor does not crop
    return p->resize ? 0 : err_set(err, "\"do_resize\" false is not supported");
}

static int gemma4_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    if (read_config(m, c->config, err) < 0) return err_in(err, "config.json");
    if (read_pictures(m, c->preprocessor, err) == 0) return 0;
    return err_in(err, "%s", checkpoint_preprocessor_file(c));
}

// --- weights -------------------------------------------------------------------------------------

static void bind_projector(struct projector *p, struct binder *b, int64_t in, int64_t out)
{
    bind_linear(b, &p->linear_1, out, in, false, "embedding_projection");
}

static struct tensor *project(struct graph *g, const struct projector *p, struct tensor *x)
{
    return linear_forward(g, op_rmsnorm_plain(g, x, (float)p->eps), &p->linear_1); // [S, D]
}

static const struct projector_kind projector = { .bind = bind_projector, .forward = project };

static int gemma4_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const char *const text[] = { "model.language_model.", "language_model.model.", NULL };
    static const char *const vision[] = { "model.vision_tower.", "vision_tower.", NULL };
    static const char *const embed[] = { "model.embed_vision.", "embed_vision.", NULL };
    m->projector.kind = &projector;
    return family_bind(m, c,
                       &(struct family_prefixes){
                           .text = decoder_prefix(c, m->decoder.config.kind, text, "embed_tokens"),
                           .head = "",
                           .vision = bind_prefix(c, vision, m->vision.config.kind->patch_weight),
                           .projector = bind_prefix(c, embed, "embedding_projection.weight"),
                       },
                       err);
}

static enum model_part_kind gemma4_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "vision_tower.")) return PART_VISION;
    return strstr(tensor, "embed_vision.") ? PART_PROJECTOR : text_part(m, tensor);
}

// --- published models ----------------------------------------------------------------------------

#define SLIDING4 \
    "\"sliding_attention\", \"sliding_attention\", \"sliding_attention\", \"sliding_attention\", "
#define FIVE          SLIDING4 "\"full_attention\""
#define SIX           "\"sliding_attention\", " FIVE
#define SEVEN(layers) layers ", " layers ", " layers ", " layers ", " layers ", " layers ", " layers
#define SHAPE_CONFIG(text)                                                                     \
    "{\"architectures\": [\"Gemma4ForConditionalGeneration\"], \"model_type\": \"gemma4\", "   \
    "\"image_token_id\": 0, \"dtype\": \"bfloat16\", \"tie_word_embeddings\": true, "          \
    "\"vision_config\": {\"model_type\": \"gemma4_vision\", \"hidden_size\": 768, "            \
    "\"intermediate_size\": 3072, \"num_hidden_layers\": 16, \"num_attention_heads\": 12, "    \
    "\"num_key_value_heads\": 12, \"head_dim\": 64, \"patch_size\": 16, "                      \
    "\"pooling_kernel_size\": 3, \"position_embedding_size\": 10240, \"standardize\": false, " \
    "\"use_clipped_linears\": true}, \"text_config\": {\"model_type\": \"gemma4_text\", "      \
    "\"vocab_size\": 262144, \"vocab_size_per_layer_input\": 262144, \"head_dim\": 256, "      \
    "\"global_head_dim\": 512, \"num_attention_heads\": 8, \"sliding_window\": 512, "          \
    "\"final_logit_softcapping\": 30.0, \"hidden_size_per_layer_input\": 256, "                \
    "\"max_position_embeddings\": 131072, \"pad_token_id\": 0, " text "}}"
#define SHAPE(id, text)                                                                      \
    {                                                                                        \
        id, SHAPE_CONFIG(text),                                                              \
            "{\"image_processor_type\": \"Gemma4ImageProcessor\", \"do_normalize\": false, " \
            "\"max_soft_tokens\": 280, \"patch_size\": 16, \"pooling_kernel_size\": 3, "     \
            "\"resample\": 3}",                                                              \
            262144, 258880, "<|image> <image|> <|turn> <turn|>"                              \
    }

static const struct family_shape shapes[] = {
    SHAPE("gemma4-e2b",
          "\"hidden_size\": 1536, \"intermediate_size\": 6144, \"num_hidden_layers\": 35, "
          "\"num_key_value_heads\": 1, \"num_kv_shared_layers\": 20, \"use_double_wide_mlp\": "
          "true, \"layer_types\": [" SEVEN(FIVE) "]"),
    SHAPE("gemma4-e4b",
          "\"hidden_size\": 2560, \"intermediate_size\": 10240, \"num_hidden_layers\": 42, "
          "\"num_key_value_heads\": 2, \"num_kv_shared_layers\": 18, \"use_double_wide_mlp\": "
          "false, \"layer_types\": [" SEVEN(SIX) "]"),
    { 0 },
};

const struct family family_gemma4 = {
    .name = "gemma4",
    .architectures = (const char *const[]){ "Gemma4ForConditionalGeneration", NULL },
    .relatives = (const char *const[]){ "Gemma4UnifiedForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "gemma4", NULL },
    .configure = gemma4_configure,
    .bind = gemma4_bind,
    .part = gemma4_part,
    .shapes = shapes,
    .module_prefix = FAMILY_MODULE_PREFIX,
    .picture_before = "<|image>",
    .picture_after = "<image|>",
    .pictures = &native_pictures,
    .picture_processors = (const char *const[]){ "Gemma4", NULL },
    .picture_keys = picture_keys,
};
