// core/model/families/gemma4.c -- Gemma 4 with pictures: an encoder for pictures of any size,
// pooled features, the decoder of gemma4_text.c. gemma4_unified.c is the model without an encoder.
//
// A picture is enlarged or reduced to a budget of visual tokens, each of pool x pool patches. The
// projector is a norm without a gain and one matrix. Audio and videos are not read.
#include <string.h>

#include "core/files/gguf_parts.h"
#include "core/files/gguf_write.h"
#include "core/model/families/gemma4.h"
#include "core/model/families/native.h"
#include "core/model/families/text.h"
#include "core/ops/ops.h"

// --- config --------------------------------------------------------------------------------------

int gemma4_read_config(struct model *m, const struct vision_kind *kind, const cJSON *config,
                       struct err *err)
{
    const cJSON *vision;
    struct vision_config *v = &m->vision.config;
    if (json_object(config, "vision_config", &vision, err) < 0 ||
        family_text_read(m, NULL, config, err) < 0 ||
        family_placeholder_read(m, config, "image_token_id", "image_token_index", 258880, err) < 0)
        return -1;
    if (!vision)
        return err_set(err,
                       "\"vision_config\" is missing: a model that reads no pictures is opened as "
                       "%sForCausalLM",
                       kind == &vision_gemma ? "Gemma4" : "Gemma4Unified");
    if (vision_config_read(v, kind, vision, err) < 0) return err_in(err, "vision_config");
    m->projector.eps = v->eps;
    return 0;
}

const char *const gemma4_picture_keys[] = { PICTURE_SHARED_KEYS, "patch_size", "max_soft_tokens",
                                            "pooling_kernel_size", NULL };

enum { THETA = 100 }; // of the published models

// The processor only divides by 255; the encoder does the rest.
int gemma4_read_pictures(struct model *m, const cJSON *json, struct err *err)
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
        json_int(json, "max_soft_tokens", 1, 100000, GEMMA4_BUDGET, &p->budget, err) < 0)
        return -1;
    return p->resize ? 0 : err_set(err, "\"do_resize\" false is not supported");
}

static int gemma4_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    if (gemma4_read_config(m, &vision_gemma, c->config, err) < 0) return err_in(err, "config.json");
    if (gemma4_read_pictures(m, c->preprocessor, err) == 0 &&
        vision_check_equal(c->preprocessor, "patch_size", v->patch, err) == 0 &&
        vision_check_equal(c->preprocessor, "pooling_kernel_size", v->merge, err) == 0)
        return 0;
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

static const struct projector_kind projector_kind = { .bind = bind_projector, .forward = project };

int gemma4_bind_parts(struct model *m, const struct checkpoint *c, const char *const *vision,
                      const char *const *projector, struct err *err)
{
    static const char *const text[] = { "model.language_model.", "language_model.model.", NULL };
    m->projector.kind = &projector_kind;
    return family_bind(m, c,
                       &(struct family_prefixes){
                           .text = decoder_prefix(c, m->decoder.config.kind, text, "embed_tokens"),
                           .head = "",
                           .vision = bind_prefix(c, vision, m->vision.config.kind->patch_weight),
                           .projector = bind_prefix(c, projector, "embedding_projection.weight"),
                       },
                       err);
}

static int gemma4_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const char *const vision[] = { "model.vision_tower.", "vision_tower.", NULL };
    static const char *const embed[] = { "model.embed_vision.", "embed_vision.", NULL };
    return gemma4_bind_parts(m, c, vision, embed, err);
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
#define SHAPE_CONFIG(vision, text)                                                           \
    "{\"architectures\": [\"Gemma4ForConditionalGeneration\"], \"model_type\": \"gemma4\", " \
    "\"image_token_id\": 0, \"dtype\": \"bfloat16\", \"tie_word_embeddings\": true, "        \
    "\"vision_config\": {\"model_type\": \"gemma4_vision\", \"patch_size\": 16, "            \
    "\"pooling_kernel_size\": 3, \"position_embedding_size\": 10240, " vision "}, "          \
    "\"text_config\": {\"model_type\": \"gemma4_text\", \"vocab_size\": 262144, "            \
    "\"head_dim\": 256, \"global_head_dim\": 512, \"final_logit_softcapping\": 30.0, "       \
    "\"pad_token_id\": 0, " text "}}"
#define SMALL(text)                                                                        \
    SHAPE_CONFIG("\"hidden_size\": 768, \"intermediate_size\": 3072, "                     \
                 "\"num_hidden_layers\": 16, \"num_attention_heads\": 12, "                \
                 "\"num_key_value_heads\": 12, \"head_dim\": 64, \"standardize\": false, " \
                 "\"use_clipped_linears\": true",                                          \
                 "\"vocab_size_per_layer_input\": 262144, \"num_attention_heads\": 8, "    \
                 "\"sliding_window\": 512, \"hidden_size_per_layer_input\": 256, "         \
                 "\"max_position_embeddings\": 131072, " text)
#define LARGE(text)                                                                          \
    SHAPE_CONFIG("\"hidden_size\": 1152, \"intermediate_size\": 4304, "                      \
                 "\"num_hidden_layers\": 27, \"num_attention_heads\": 16, "                  \
                 "\"num_key_value_heads\": 16, \"head_dim\": 72, \"standardize\": true, "    \
                 "\"use_clipped_linears\": false",                                           \
                 "\"sliding_window\": 1024, \"hidden_size_per_layer_input\": 0, "            \
                 "\"num_kv_shared_layers\": 0, \"use_double_wide_mlp\": false, "             \
                 "\"attention_k_eq_v\": true, \"use_bidirectional_attention\": \"vision\", " \
                 "\"max_position_embeddings\": 262144, " text)
#define SHAPE(id, config)                                                                    \
    {                                                                                        \
        id, config,                                                                          \
            "{\"image_processor_type\": \"Gemma4ImageProcessor\", \"do_normalize\": false, " \
            "\"max_soft_tokens\": 280, \"patch_size\": 16, \"pooling_kernel_size\": 3, "     \
            "\"resample\": 3}",                                                              \
            262144, 258880, "<|image> <image|> <|turn> <turn|>"                              \
    }

static const struct family_shape shapes[] = {
    SHAPE("gemma4-e2b",
          SMALL("\"hidden_size\": 1536, \"intermediate_size\": 6144, \"num_hidden_layers\": 35, "
                "\"num_key_value_heads\": 1, \"num_kv_shared_layers\": 20, "
                "\"use_double_wide_mlp\": true, \"layer_types\": [" SEVEN(FIVE) "]")),
    SHAPE("gemma4-e4b",
          SMALL("\"hidden_size\": 2560, \"intermediate_size\": 10240, \"num_hidden_layers\": 42, "
                "\"num_key_value_heads\": 2, \"num_kv_shared_layers\": 18, "
                "\"use_double_wide_mlp\": false, \"layer_types\": [" SEVEN(SIX) "]")),
    SHAPE("gemma4-31b",
          LARGE("\"hidden_size\": 5376, \"intermediate_size\": 21504, \"num_hidden_layers\": 60, "
                "\"num_attention_heads\": 32, \"num_key_value_heads\": 16, "
                "\"num_global_key_value_heads\": 4, "
                "\"layer_types\": [" SEVEN(SIX) ", " SIX ", " SIX ", " SIX "]")),
    SHAPE("gemma4-26b-a4b",
          LARGE("\"hidden_size\": 2816, \"intermediate_size\": 2112, \"num_hidden_layers\": 30, "
                "\"num_attention_heads\": 16, \"num_key_value_heads\": 8, "
                "\"num_global_key_value_heads\": 2, \"enable_moe_block\": true, "
                "\"num_experts\": 128, \"top_k_experts\": 8, \"moe_intermediate_size\": 704, "
                "\"layer_types\": [" SIX ", " SIX ", " SIX ", " SIX ", " SIX "]")),
    { 0 },
};

// --- GGUF files ----------------------------------------------------------------------------------

// True if a file's mean and deviation of pixels change them.
static bool normalizes(const cJSON *preprocessor)
{
    const cJSON *mean = json_get(preprocessor, "image_mean"), *item;
    const cJSON *std = json_get(preprocessor, "image_std");
    bool any = false;
    cJSON_ArrayForEach(item, mean) any |= item->valuedouble != 0;
    cJSON_ArrayForEach(item, std) any |= item->valuedouble != 1;
    return any;
}

void gemma4_read_gguf(struct encoder_config *e, int64_t patch, int64_t pool)
{
    const int64_t side = patch * pool;
    if (patch > 1000 || pool > 64)
        config_refuse(&e->c,
                      "'clip.vision.patch_size' is %lld and 'projector.scale_factor' %lld; "
                      "such large patches are not supported",
                      (long long)patch, (long long)pool);
    encoder_means(e);
    encoder_placeholder(e, "image_token_id", "<|image|>");
    if (e->c.failed) return;
    // Files state the budget in pixels, if at all.
    const int64_t pixels = config_value(&e->c, "image_max_pixels", 1, GEMMA4_BUDGET * side * side);
    const int64_t budget = pixels / (side * side);
    if (e->c.failed) return;
    cJSON_AddNumberToObject(e->vision, "pooling_kernel_size", (double)pool);
    config_put_text(e->preprocessor, "image_processor_type", "Gemma4ImageProcessor");
    cJSON_AddNumberToObject(e->preprocessor, "patch_size", (double)patch);
    cJSON_AddNumberToObject(e->preprocessor, "pooling_kernel_size", (double)pool);
    cJSON_AddNumberToObject(e->preprocessor, "max_soft_tokens", (double)budget);
    cJSON_AddBoolToObject(e->preprocessor, "do_normalize", normalizes(e->preprocessor));
}

static void read_gguf(struct encoder_config *e)
{
    const struct safetensor *table = gguf_find(e->c.file, "v.position_embd.weight");
    const struct safetensor *head = gguf_find(e->c.file, "v.blk.0.attn_q_norm.weight");
    const int64_t heads = config_value(&e->c, "attention.head_count", 1, GGUF_NEEDED);
    const int64_t patch = config_value(&e->c, "patch_size", 1, GGUF_NEEDED);
    const int64_t pool = config_value(&e->c, "projector.scale_factor", 1, GEMMA4_POOL);
    if (!table || table->rank != 3)
        config_refuse(&e->c, "tensor 'v.position_embd.weight' is missing or does not have "
                             "three dimensions");
    if (!head) config_refuse(&e->c, "tensor 'v.blk.0.attn_q_norm.weight' is missing");
    if (!table || !head || e->c.failed) return;
    config_put_text(e->vision, "model_type", "gemma4_vision");
    encoder_sizes(e, "num_hidden_layers", "num_attention_heads");
    config_int(&e->c, "attention.head_count", "num_key_value_heads", heads);
    cJSON_AddNumberToObject(e->vision, "head_dim", (double)head->shape[0]);
    config_real(&e->c, "attention.layer_norm_epsilon", "rms_norm_eps", 1e-6);
    cJSON_AddNumberToObject(e->vision, "position_embedding_size", (double)table->shape[1]);
    cJSON_AddBoolToObject(e->vision, "standardize", encoder_has(e, "v.std_bias"));
    cJSON_AddBoolToObject(e->vision, "use_clipped_linears",
                          encoder_has(e, "v.blk.0.attn_q.input_min"));
    gemma4_read_gguf(e, patch, pool);
}

static const struct gguf_name gguf_outer[] = {
    { "v.patch_embd", "model.vision_tower.patch_embedder.input_proj", PIXELS },
    { "v.position_embd", "model.vision_tower.patch_embedder.position_embedding_table", BARE },
    { "v.std_bias", "model.vision_tower.std_bias", PLAIN },
    { "v.std_scale", "model.vision_tower.std_scale", PLAIN },
    { "mm.input_projection", "model.embed_vision.embedding_projection", PLAIN },
    { 0 },
};

// A linear layer and the limits of its inputs and outputs.
#define GGUF_LIMITED(gguf, hf)                                                    \
    { gguf, hf ".linear", PLAIN }, { gguf ".input_min", hf ".input_min", PLAIN }, \
        { gguf ".input_max", hf ".input_max", PLAIN },                            \
        { gguf ".output_min", hf ".output_min", PLAIN },                          \
    {                                                                             \
        gguf ".output_max", hf ".output_max", PLAIN                               \
    }

static const struct gguf_name gguf_block[] = {
    { "ln1", "input_layernorm", PLAIN },
    { "attn_post_norm", "post_attention_layernorm", PLAIN },
    { "ln2", "pre_feedforward_layernorm", PLAIN },
    { "ffn_post_norm", "post_feedforward_layernorm", PLAIN },
    { "attn_q_norm", "self_attn.q_norm", PLAIN },
    { "attn_k_norm", "self_attn.k_norm", PLAIN },
    GGUF_LIMITED("attn_q", "self_attn.q_proj"),
    GGUF_LIMITED("attn_k", "self_attn.k_proj"),
    GGUF_LIMITED("attn_v", "self_attn.v_proj"),
    GGUF_LIMITED("attn_out", "self_attn.o_proj"),
    GGUF_LIMITED("ffn_gate", "mlp.gate_proj"),
    GGUF_LIMITED("ffn_up", "mlp.up_proj"),
    GGUF_LIMITED("ffn_down", "mlp.down_proj"),
    { 0 },
};

const char *const gemma4_gguf_texts[] = { "gemma4", NULL };

static const struct gguf_encoder gguf_encoder = {
    .type = "gemma4v",
    .texts = gemma4_gguf_texts,
    .architecture = "Gemma4ForConditionalGeneration",
    .model_type = "gemma4",
    .prefixes = { "model.language_model.", "" },
    .outer = gguf_outer,
    .blocks = "model.vision_tower.encoder.layers.",
    .block = gguf_block,
    .last = "mm.input_projection.weight",
    .own_heads = true,
    .read = read_gguf,
};

// GGUF's keys give neither the rotary base of the encoder, nor whether the tokens of a picture see
// each other in both directions, nor which row of the table of per-layer inputs they use.
static int check_gguf(const struct model *m, struct err *err)
{
    const struct decoder_config *d = &m->decoder.config;
    if (m->vision.config.theta != THETA)
        return err_set(err, FAMILY_MMPROJ_REFUSED, "its \"rope_theta\"");
    if (d->pictures_whole != !d->layer_input)
        return err_set(err, FAMILY_MMPROJ_REFUSED, "\"use_bidirectional_attention\"");
    return d->input_pad ? err_set(err, FAMILY_MMPROJ_REFUSED, "its \"pad_token_id\"") : 0;
}

void gemma4_put_gguf(const struct model *m, int64_t pool, struct gguf_writer *out)
{
    const int64_t side = m->picture.multiple;
    gguf_writer_u32(out, ".image_size", 224); // unused; llama.cpp needs it
    if (pool != GEMMA4_POOL) gguf_writer_u32(out, ".projector.scale_factor", pool);
    if (m->picture.budget != GEMMA4_BUDGET)
        gguf_writer_u32(out, ".image_max_pixels", m->picture.budget * side * side);
}

static void put_gguf(const struct model *m, struct gguf_writer *out)
{
    gemma4_put_gguf(m, m->vision.config.merge, out);
}

static const struct family_mmproj mmproj = { .type = "gemma4v",
                                             .audio = true,
                                             .axes = true,
                                             .linear = { "mm.input_projection" },
                                             .check = check_gguf,
                                             .put = put_gguf,
                                             .read = &gguf_encoder };

const struct family family_gemma4 = {
    .name = "gemma4",
    .architectures = (const char *const[]){ "Gemma4ForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "gemma4", NULL },
    .configure = gemma4_configure,
    .bind = gemma4_bind,
    .part = gemma4_part,
    .mmproj = &mmproj,
    .shapes = shapes,
    GEMMA4_PICTURES,
};
