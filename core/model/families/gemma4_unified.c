// core/model/families/gemma4_unified.c -- Gemma 4 12B ("unified") with pictures: no encoder, but
// one linear layer for each patch (core/model/vision_gemma_unified.c), and the decoder of
// gemma4_unified_text.c. Pictures are resized as gemma4.c resizes them. Audio and videos are not
// read.
#include <string.h>

#include "core/files/gguf_parts.h"
#include "core/files/gguf_write.h"
#include "core/model/families/gemma4.h"
#include "core/model/families/native.h"
#include "core/model/families/text.h"

// --- config --------------------------------------------------------------------------------------

// Checks that the processor cuts patches of the model's size; only their side after pooling
// matters.
static int check_patches(const struct vision_config *v, const cJSON *json, struct err *err)
{
    int64_t patch, pool;
    if (!json_get(json, "patch_size") && !json_get(json, "pooling_kernel_size")) return 0;
    if (json_int(json, "patch_size", 1, 1000, 16, &patch, err) < 0 ||
        json_int(json, "pooling_kernel_size", 1, 64, GEMMA4_POOL, &pool, err) < 0)
        return -1;
    if (patch * pool == v->patch) return 0;
    return err_set(
        err,
        "\"patch_size\" %lld times \"pooling_kernel_size\" %lld is not %lld, the side of "
        "the model's patches",
        (long long)patch, (long long)pool, (long long)v->patch);
}

static int unified_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    struct vision_config *v = &m->vision.config;
    if (gemma4_read_config(m, &vision_gemma_unified, c->config, err) < 0)
        return err_in(err, "config.json");
    v->eps = 1e-5; // of its LayerNorms: PyTorch's. "rms_norm_eps" is the projector's.
    if (gemma4_read_pictures(m, c->preprocessor, err) == 0 &&
        check_patches(v, c->preprocessor, err) == 0)
        return 0;
    return err_in(err, "%s", checkpoint_preprocessor_file(c));
}

// --- weights -------------------------------------------------------------------------------------

static int unified_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    // The last two of each list are the names in transformers' class, which it renames in files.
    static const char *const vision[] = { "model.vision_embedder.", "vision_embedder.",
                                          "model.embed_vision.", "embed_vision.", NULL };
    static const char *const embed[] = { "model.embed_vision.", "embed_vision.",
                                         "model.embed_vision.multimodal_embedder.",
                                         "embed_vision.multimodal_embedder.", NULL };
    return gemma4_bind_parts(m, c, vision, embed, err);
}

static const struct module_name modules[] = {
    { "vision_embedder", "embed_vision" },
    { "embed_vision.embedding_projection",
      "embed_vision.multimodal_embedder.embedding_projection" },
    { 0 },
};

static enum model_part_kind unified_part(const struct model *m, const char *tensor)
{
    const bool embeds = strstr(tensor, "embed_vision.");
    if (embeds && strstr(tensor, "embedding_projection.")) return PART_PROJECTOR;
    return embeds || strstr(tensor, "vision_embedder.") ? PART_VISION : text_part(m, tensor);
}

// --- the published model -------------------------------------------------------------------------

static const struct family_shape shapes[] = {
    { "gemma4-12b",
      "{\"architectures\": [\"Gemma4UnifiedForConditionalGeneration\"], \"model_type\": "
      "\"gemma4_unified\", \"image_token_id\": 0, \"dtype\": \"bfloat16\", "
      "\"tie_word_embeddings\": true, \"vision_config\": {\"model_type\": "
      "\"gemma4_unified_vision\", \"mm_embed_dim\": 3840, \"mm_posemb_size\": 1120, "
      "\"output_proj_dims\": 3840, \"patch_size\": 16, \"pooling_kernel_size\": 3}, "
      "\"text_config\": {\"model_type\": \"gemma4_unified_text\", \"vocab_size\": 262144, "
      "\"hidden_size\": 3840, \"intermediate_size\": 15360, \"num_hidden_layers\": 48, "
      "\"num_attention_heads\": 16, \"num_key_value_heads\": 8, \"head_dim\": 256, "
      "\"attention_k_eq_v\": true, \"global_head_dim\": 512, \"num_global_key_value_heads\": 1, "
      "\"final_logit_softcapping\": 30.0, \"sliding_window\": 1024, \"pad_token_id\": 0, "
      "\"use_bidirectional_attention\": \"vision\", \"max_position_embeddings\": 262144}}",
      "{\"image_processor_type\": \"Gemma4UnifiedImageProcessor\", \"do_normalize\": false, "
      "\"max_soft_tokens\": 280, \"patch_size\": 16, \"pooling_kernel_size\": 3, \"resample\": 3}",
      262144, 258880, "<|image> <image|> <|turn> <turn|>" },
    { 0 },
};

// --- GGUF files ----------------------------------------------------------------------------------

// The file of the language model does not say that it belongs to a model without an encoder.
static void read_gguf(struct encoder_config *e)
{
    const struct safetensor *table = gguf_find(e->c.file, "v.position_embd.weight");
    const int64_t patch = config_value(&e->c, "patch_size", 1, GGUF_NEEDED);
    const int64_t pool = config_value(&e->c, "projector.scale_factor", 1, GEMMA4_POOL);
    cJSON *text = cJSON_GetObjectItemCaseSensitive(e->whole, "text_config");
    if (!table || table->rank != 3)
        config_refuse(&e->c, "tensor 'v.position_embd.weight' is missing or does not have "
                             "three dimensions");
    if (config_value(&e->c, "block_count", 0, 0))
        config_refuse(&e->c, "'clip.vision.block_count' must be 0: this encoder has no blocks");
    if (!table || e->c.failed) return;
    gguf_expect(e->c.file, "clip.vision.attention.head_count", 0);
    config_put_text(text, "model_type", "gemma4_unified_text");
    config_put_text(e->vision, "model_type", "gemma4_unified_vision");
    config_int(&e->c, "embedding_length", "mm_embed_dim", GGUF_NEEDED);
    config_int(&e->c, "embedding_length", "output_proj_dims", GGUF_NEEDED);
    config_real(&e->c, "attention.layer_norm_epsilon", "rms_norm_eps", 1e-6);
    cJSON_AddNumberToObject(e->vision, "patch_size", (double)patch);
    cJSON_AddNumberToObject(e->vision, "mm_posemb_size", (double)table->shape[1]);
    gemma4_read_gguf(e, patch, pool);
}

static const struct gguf_name gguf_outer[] = {
    { "v.patch_embd", "model.vision_embedder.patch_dense", PLANES_OF_ROWS },
    { "v.patch_norm.1", "model.vision_embedder.patch_ln1", PLANES },
    { "v.patch_norm.2", "model.vision_embedder.patch_ln2", PLAIN },
    { "v.patch_norm.3", "model.vision_embedder.pos_norm", PLAIN },
    { "v.position_embd", "model.vision_embedder.pos_embedding", AXES },
    { "mm.input_projection", "model.embed_vision.embedding_projection", PLAIN },
    { 0 },
};

static const struct gguf_encoder gguf_encoder = {
    .type = "gemma4uv",
    .texts = gemma4_gguf_texts,
    .architecture = "Gemma4UnifiedForConditionalGeneration",
    .model_type = "gemma4_unified",
    .prefixes = { "model.language_model.", "" },
    .outer = gguf_outer,
    .last = "mm.input_projection.weight",
    .read = read_gguf,
};

// Files do not say which rows a picture's rows see, and readers multiply the side of a patch.
static int check_gguf(const struct model *m, struct err *err)
{
    if (!m->decoder.config.pictures_unwindowed)
        return err_set(err, FAMILY_MMPROJ_REFUSED, "\"use_bidirectional_attention\"");
    if (m->vision.config.patch % GEMMA4_POOL == 0) return 0;
    return err_set(err, FAMILY_MMPROJ_REFUSED, "the side of its patches is not a multiple of 3");
}

static void put_gguf(const struct model *m, struct gguf_writer *out)
{
    gemma4_put_gguf(m, GEMMA4_POOL, out);
}

static const struct family_mmproj mmproj = { .type = "gemma4uv",
                                             .pre = "v.patch_norm.3",
                                             .audio = true,
                                             .planes = true,
                                             .pool = GEMMA4_POOL,
                                             .linear = { "mm.input_projection" },
                                             .check = check_gguf,
                                             .put = put_gguf,
                                             .read = &gguf_encoder };

const struct family family_gemma4_unified = {
    .name = "gemma4_unified",
    .architectures = (const char *const[]){ "Gemma4UnifiedForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "gemma4_unified", NULL },
    .configure = unified_configure,
    .bind = unified_bind,
    .part = unified_part,
    .mmproj = &mmproj,
    .shapes = shapes,
    .modules = modules,
    GEMMA4_PICTURES,
};
