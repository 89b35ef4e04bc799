// core/files/gguf_encoders.c -- picture encoders and projectors of GGUF files (mmproj): rows with a
// "clip.projector_type", its config and tensor names in Hugging Face's terms. Families add rows in
// their own files.
//
// Sources: llama.cpp's tools/mtmd (clip-impl.h, models/*.cpp), conversion/*.py, and for LLaVA's
// encoders legacy-models/convert_image_encoder_to_gguf.py, whose traps are:
//   - layers after the feature layer are cut off;
//   - the activation is "clip.use_gelu" or "clip.use_silu", else quick GELU;
//   - LLaVA-Next has LLaVA's type; the newline after rows of features, the list of grids or the
//     merge type distinguishes it.
#include <stdlib.h>
#include <string.h>

#include "core/files/gguf_parts.h"

// --- parts of configs ----------------------------------------------------------------------------

bool encoder_has(const struct encoder_config *e, const char *name)
{
    return gguf_find(e->c.file, name) != NULL;
}

void encoder_sizes(struct encoder_config *e, const char *layers, const char *heads)
{
    config_int(&e->c, "embedding_length", "hidden_size", GGUF_NEEDED);
    config_int(&e->c, "feed_forward_length", "intermediate_size", GGUF_NEEDED);
    config_int(&e->c, "block_count", layers, GGUF_NEEDED);
    config_int(&e->c, "attention.head_count", heads, GGUF_NEEDED);
    config_int(&e->c, "patch_size", "patch_size", GGUF_NEEDED);
}

void encoder_means(struct encoder_config *e)
{
    static const char *const keys[] = { "image_mean", "image_std" };
    for (int i = 0; i < 2; i++) {
        const struct gguf_entry *list = config_list(&e->c, keys[i], 3);
        if (list && list->count != 3)
            config_refuse(&e->c, "'clip.vision.%s' has %llu numbers, not 3", keys[i],
                          (unsigned long long)list->count);
        else if (list)
            config_put_list(e->preprocessor, keys[i], list, 3);
    }
}

// If the vocabulary lacks the placeholder, uses the unknown token, or id 0 if the file names none.
void encoder_placeholder(struct encoder_config *e, const char *key, const char *word)
{
    int64_t id = gguf_token_find(e->text, word);
    if (id < 0) {
        id = 0;
        if (!e->c.failed)
            e->c.failed = gguf_int(e->text, "tokenizer.ggml.unknown_token_id", 0, INT32_MAX, 0, &id,
                                   e->c.err) < 0;
    }
    cJSON_AddNumberToObject(e->whole, key, (double)id);
}

// --- LLaVA, LLaVA-Next ---------------------------------------------------------------------------

static const char grids_key[] = "clip.vision.image_grid_pinpoints";

static bool has_newline(const struct gguf *f)
{
    return gguf_find(f, "model.image_newline") || gguf_find(f, "v.image_newline");
}

// Returns whether pictures are cut into tiles.
static bool is_llava_next(const struct gguf *f)
{
    const struct gguf_entry *grids = gguf_entry(f, grids_key);
    const char *merge = gguf_text(f, "clip.vision.mm_patch_merge_type");
    return has_newline(f) || (grids && grids->type == GGUF_LIST && grids->count) ||
           (merge && !strncmp(merge, "spatial", 7));
}

static void read_llava(struct encoder_config *e)
{
    const bool clip = encoder_has(e, "v.class_embd"), next = is_llava_next(e->c.file);
    if (next && !has_newline(e->c.file))
        config_refuse(&e->c, "it cuts pictures into tiles (LLaVA-Next), but its tensor "
                             "'model.image_newline' is missing");
    else if (next && !clip)
        config_refuse(&e->c, "it cuts pictures into tiles for SigLIP (LLaVA-OneVision): as GGUF "
                             "only LLaVA-Next is supported, with CLIP; open the model's folder "
                             "instead");
    config_put_text(e->vision, "model_type", clip ? "clip_vision_model" : "siglip_vision_model");
    encoder_sizes(e, "num_hidden_layers", "num_attention_heads");
    config_int(&e->c, "image_size", "image_size", GGUF_NEEDED);
    config_real(&e->c, "attention.layer_norm_epsilon", "layer_norm_eps", clip ? 1e-5 : 1e-6);
    const char *act = "quick_gelu";
    if (config_flag(&e->c, ".clip.use_silu"))
        act = "silu";
    else if (config_flag(&e->c, ".clip.use_gelu"))
        act = clip ? "gelu" : "gelu_pytorch_tanh";
    config_put_text(e->vision, "hidden_act", act);
    encoder_means(e);
    encoder_placeholder(e, "image_token_index", "<image>");
    config_put_text(e->whole, "vision_feature_select_strategy", clip ? "default" : "full");
    config_put_text(e->whole, "projector_hidden_act", "gelu");
    const struct gguf_entry *layer = config_list(&e->c, "feature_layer", 1);
    if (!e->c.failed)
        cJSON_AddNumberToObject(e->whole, "vision_feature_layer",
                                layer && layer->count ? gguf_number(layer, 0) : -1);
    config_put_text(e->preprocessor, "image_processor_type",
                    next   ? "LlavaNextImageProcessor"
                    : clip ? "CLIPImageProcessor"
                           : "SiglipImageProcessor");
    if (!next) return;
    config_put_text(e->whole, "model_type", "llava_next");
    cJSON_SetValuestring(json_get(e->whole, "architectures")->child,
                         "LlavaNextForConditionalGeneration");
    // The file has pairs of width and height, Hugging Face's list pairs of height and width.
    const struct gguf_entry *list = config_list(&e->c, "image_grid_pinpoints", 1000);
    if (list && list->count % 2)
        config_refuse(&e->c, "'%s' has %llu numbers, which are not pairs", grids_key,
                      (unsigned long long)list->count);
    if (e->c.failed || !list || !list->count) return;
    cJSON *grids = cJSON_AddArrayToObject(e->whole, "image_grid_pinpoints");
    for (uint64_t i = 0; i + 1 < list->count; i += 2)
        cJSON_AddItemToArray(grids,
                             cJSON_CreateDoubleArray(
                                 (double[]){ gguf_number(list, i + 1), gguf_number(list, i) }, 2));
}

static const struct gguf_name llava_outer[] = {
    { "v.class_embd", "vision_tower.vision_model.embeddings.class_embedding", BARE },
    { "v.patch_embd", "vision_tower.vision_model.embeddings.patch_embedding", PLAIN },
    { "v.position_embd", "vision_tower.vision_model.embeddings.position_embedding", PLAIN },
    { "v.pre_ln", "vision_tower.vision_model.pre_layrnorm", PLAIN },
    { "v.post_ln", "vision_tower.vision_model.post_layernorm", PLAIN },
    { "mm.0", "multi_modal_projector.linear_1", PLAIN },
    { "mm.2", "multi_modal_projector.linear_2", PLAIN },
    { "model.image_newline", "image_newline", PLAIN }, // LLaVA-Next's
    { "v.image_newline", "image_newline", PLAIN },     // of newer converters
    { 0 },
};

const struct gguf_name gguf_siglip_block[] = {
    { "ln1", "layer_norm1", PLAIN },
    { "ln2", "layer_norm2", PLAIN },
    { "attn_q", "self_attn.q_proj", PLAIN },
    { "attn_k", "self_attn.k_proj", PLAIN },
    { "attn_v", "self_attn.v_proj", PLAIN },
    { "attn_out", "self_attn.out_proj", PLAIN },
    { "ffn_up", "mlp.fc1", PLAIN },
    { "ffn_down", "mlp.fc2", PLAIN },
    { 0 },
};

// --- Qwen2.5-VL ----------------------------------------------------------------------------------

// Adds the blocks that attend over the whole picture: every nth one, or a list.
static void put_whole_blocks(struct encoder_config *e)
{
    struct gguf_config *c = &e->c;
    const int64_t every = config_value(c, "n_wa_pattern", 0, 0);
    const int64_t blocks = config_value(c, "block_count", 1, GGUF_NEEDED);
    const struct gguf_entry *list = config_list(c, "wa_layer_indexes", 1000);
    if (!list) list = config_list(c, "fullatt_block_indexes", 1000); // of early converters
    if ((uint64_t)blocks > c->file->tensor_count)
        config_refuse(c, "'clip.vision.block_count' is %lld, but the file has only %llu tensors",
                      (long long)blocks, (unsigned long long)c->file->tensor_count);
    if (!every && !list)
        config_refuse(c, "'clip.vision.n_wa_pattern' is missing: the file does not name the blocks "
                         "with full attention");
    if (c->failed) return;
    if (!every && list) {
        config_put_list(e->vision, "fullatt_block_indexes", list, list->count);
        return;
    }
    cJSON *whole = cJSON_AddArrayToObject(e->vision, "fullatt_block_indexes");
    for (int64_t i = every - 1; every && i < blocks; i += every)
        cJSON_AddItemToArray(whole, cJSON_CreateNumber((double)i));
}

void encoder_sections(struct encoder_config *e, cJSON *to)
{
    struct gguf_config text = e->c;
    text.file = e->text;
    text.arch = gguf_text(e->text, "general.architecture");
    const struct gguf_entry *list = config_list(&text, "rope.dimension_sections", 4);
    if (!list || list->count < 3)
        config_refuse(&text, "'%s.rope.dimension_sections' is missing", text.arch);
    e->c.failed = text.failed;
    if (text.failed) return;
    // Positions may be scaled as well, for long texts (YaRN).
    cJSON *scaling = cJSON_GetObjectItemCaseSensitive(to, "rope_scaling");
    if (!scaling) {
        scaling = cJSON_AddObjectToObject(to, "rope_scaling");
        cJSON_AddStringToObject(scaling, "type", "mrope");
    }
    config_put_list(scaling, "mrope_section", list, 3);
}

void encoder_pixels(struct encoder_config *e, int64_t least, int64_t most)
{
    e->c.to = e->preprocessor;
    config_int(&e->c, "image_min_pixels", "min_pixels", least);
    config_int(&e->c, "image_max_pixels", "max_pixels", most);
    config_int(&e->c, "patch_size", "patch_size", GGUF_NEEDED);
    config_int(&e->c, "spatial_merge_size", "merge_size", 2);
    cJSON_AddNumberToObject(e->preprocessor, "temporal_patch_size", 2);
    e->c.to = e->vision;
    encoder_means(e);
}

static void read_qwen(struct encoder_config *e)
{
    encoder_sizes(e, "depth", "num_heads");
    gguf_expect(e->c.file, "clip.use_silu", 1);
    gguf_expect(e->c.file, "clip.vision.attention.layer_norm_epsilon", 1e-6);
    gguf_expect(e->c.file, "clip.use_glu_mlp", 1); // of early converters
    gguf_expect(e->c.file, "clip.use_rms_norm", 1);
    config_int(&e->c, "spatial_merge_size", "spatial_merge_size", 2);
    config_int(&e->c, "projection_dim", "out_hidden_size", GGUF_NEEDED);
    config_int(&e->c, "window_size", "window_size", 112);
    put_whole_blocks(e);
    encoder_sections(e, e->whole);
    config_put_text(e->preprocessor, "image_processor_type", "Qwen2VLImageProcessor");
    encoder_pixels(e, 56 * 56, 12845056);
    encoder_placeholder(e, "image_token_id", "<|image_pad|>");
}

static const struct gguf_name qwen_outer[] = {
    { "v.post_ln", "visual.merger.ln_q", PLAIN },
    { "mm.0", "visual.merger.mlp.0", PLAIN },
    { "mm.2", "visual.merger.mlp.2", PLAIN },
    { 0 },
};

static const struct gguf_name qwen_block[] = {
    { "ln1", "norm1", PLAIN },
    { "ln2", "norm2", PLAIN },
    { "attn_qkv", "attn.qkv", PLAIN },
    { "attn_q", "attn.q", PLAIN },
    { "attn_k", "attn.k", PLAIN },
    { "attn_v", "attn.v", PLAIN },
    { "attn_out", "attn.proj", PLAIN },
    { "ffn_gate", "mlp.gate_proj", PLAIN },
    { "ffn_up", "mlp.up_proj", PLAIN },
    { "ffn_down", "mlp.down_proj", PLAIN },
    { "attn_q_norm", "attn.q_norm", PLAIN }, // only GLM-OCR
    { "attn_k_norm", "attn.k_norm", PLAIN },
    { 0 },
};

// --- InternVL ------------------------------------------------------------------------------------

static void read_intern(struct encoder_config *e)
{
    const int64_t factor = config_value(&e->c, "projector.scale_factor", 1, 2);
    encoder_sizes(e, "num_hidden_layers", "num_attention_heads");
    config_int(&e->c, "image_size", "image_size", GGUF_NEEDED);
    config_real(&e->c, "attention.layer_norm_epsilon", "layer_norm_eps", 1e-6);
    cJSON_AddBoolToObject(e->vision, "attention_bias", encoder_has(e, "v.blk.0.attn_q.bias"));
    cJSON_AddBoolToObject(e->vision, "use_qk_norm", encoder_has(e, "v.blk.0.attn_q_norm.weight"));
    config_put_text(e->vision, "norm_type",
                    encoder_has(e, "v.blk.0.ln1.bias") ? "layer_norm" : "rms_norm");
    config_put_text(e->vision, "hidden_act",
                    config_flag(&e->c, ".clip.use_silu") ? "silu" : "gelu");
    gguf_expect(e->c.file, "clip.use_gelu", 1);
    encoder_means(e);
    encoder_placeholder(e, "image_token_id", "<IMG_CONTEXT>");
    if (e->c.failed) return;
    cJSON_AddNumberToObject(e->whole, "downsample_ratio", 1 / (double)factor);
    e->c.to = e->preprocessor;
    config_int(&e->c, "preproc_min_tiles", "min_patches", 1);
    config_int(&e->c, "preproc_max_tiles", "max_patches", 12);
}

static const struct gguf_name intern_outer[] = {
    { "v.class_embd", "vision_tower.embeddings.cls_token", BARE_3D },
    { "v.patch_embd", "vision_tower.embeddings.patch_embeddings.projection", PLAIN },
    { "v.position_embd", "vision_tower.embeddings.position_embeddings", BARE_3D },
    { "mm.model.mlp.0", "multi_modal_projector.layer_norm", PLAIN },
    { "mm.model.mlp.1", "multi_modal_projector.linear_1", PLAIN },
    { "mm.model.mlp.3", "multi_modal_projector.linear_2", PLAIN },
    { 0 },
};

static const struct gguf_name intern_block[] = {
    { "ln1", "layernorm_before", PLAIN },
    { "ln2", "layernorm_after", PLAIN },
    { "attn_q", "attention.q_proj", PLAIN },
    { "attn_k", "attention.k_proj", PLAIN },
    { "attn_v", "attention.v_proj", PLAIN },
    { "attn_q_norm", "attention.q_norm", PLAIN },
    { "attn_k_norm", "attention.k_norm", PLAIN },
    { "attn_out", "attention.projection_layer", PLAIN },
    { "ls1", "lambda_1", BARE },
    { "ls2", "lambda_2", BARE },
    { "ffn_up", "mlp.fc1", PLAIN },
    { "ffn_down", "mlp.fc2", PLAIN },
    { 0 },
};

// --- Kimi-VL -------------------------------------------------------------------------------------

static void read_kimi(struct encoder_config *e)
{
    const int64_t merge = config_value(&e->c, "projector.scale_factor", 1, 2);
    const struct safetensor *table = gguf_find(e->c.file, "v.position_embd.weight");
    const int64_t side = table ? gguf_square_side(table->shape[0]) : 0;
    if (!side)
        config_refuse(&e->c, "the table of positions (tensor 'v.position_embd.weight') is "
                             "missing, or not square");
    encoder_sizes(e, "num_hidden_layers", "num_attention_heads");
    config_put_text(e->vision, "model_type", "moonvit");
    gguf_expect(e->c.file, "clip.use_gelu", 1);
    gguf_expect(e->c.file, "clip.vision.attention.layer_norm_epsilon", 1e-5);
    cJSON_AddNumberToObject(e->vision, "init_pos_emb_height", (double)side);
    cJSON_AddNumberToObject(e->vision, "init_pos_emb_width", (double)side);
    cJSON_AddItemToObject(e->vision, "merge_kernel_size",
                          cJSON_CreateIntArray((int[]){ (int)merge, (int)merge }, 2));
    encoder_means(e);
    encoder_placeholder(e, "media_placeholder_token_id", "<|media_pad|>");
    const int64_t pixels = config_value(&e->c, "image_max_pixels", 0, 0);
    const int64_t patch = config_value(&e->c, "patch_size", 1, GGUF_NEEDED);
    if (e->c.failed || !pixels) return;
    const int64_t patches = pixels / (patch * patch);
    cJSON_AddNumberToObject(e->preprocessor, "in_token_limit", (double)patches);
}

static const struct gguf_name kimi_outer[] = {
    { "v.patch_embd", "vision_tower.patch_embed.proj", PLAIN },
    { "v.position_embd", "vision_tower.patch_embed.pos_emb", SQUARE },
    { "v.post_ln", "vision_tower.encoder.final_layernorm", PLAIN },
    { "mm.input_norm", "multi_modal_projector.pre_norm", PLAIN },
    { "mm.1", "multi_modal_projector.linear_1", PLAIN },
    { "mm.2", "multi_modal_projector.linear_2", PLAIN },
    { 0 },
};

static const struct gguf_name kimi_block[] = {
    { "ln1", "norm0", PLAIN },      { "ln2", "norm1", PLAIN },        { "attn_q", "wq", PLAIN },
    { "attn_k", "wk", PLAIN },      { "attn_v", "wv", PLAIN },        { "attn_out", "wo", PLAIN },
    { "ffn_up", "mlp.fc0", PLAIN }, { "ffn_down", "mlp.fc1", PLAIN }, { 0 },
};

// --- GLM-4.1V, GLM-4.5V and GLM-OCR --------------------------------------------------------------

// Reads widths from tensors: the metadata is misleading, like the config (core/model/vision_glm.c).
// inner: the tensor with one row per "intermediate_size".
static void read_glm_shared(struct encoder_config *e, const char *inner)
{
    const struct safetensor *fc = gguf_find(e->c.file, "mm.model.fc.weight");
    const struct safetensor *gate = gguf_find(e->c.file, inner);
    config_int(&e->c, "embedding_length", "hidden_size", GGUF_NEEDED);
    config_int(&e->c, "block_count", "depth", GGUF_NEEDED);
    config_int(&e->c, "attention.head_count", "num_heads", GGUF_NEEDED);
    config_int(&e->c, "patch_size", "patch_size", GGUF_NEEDED);
    config_int(&e->c, "image_size", "image_size", 0);
    config_int(&e->c, "spatial_merge_size", "spatial_merge_size", 2);
    config_real(&e->c, "attention.layer_norm_epsilon", "rms_norm_eps", 1e-5);
    gguf_expect(e->c.file, "clip.use_silu", 1);
    if (fc) cJSON_AddNumberToObject(e->vision, "out_hidden_size", (double)fc->shape[0]);
    if (gate) cJSON_AddNumberToObject(e->vision, "intermediate_size", (double)gate->shape[0]);
    cJSON_AddBoolToObject(e->vision, "attention_bias", encoder_has(e, "v.blk.0.attn_qkv.bias"));
    encoder_sections(e, cJSON_GetObjectItemCaseSensitive(e->whole, "text_config"));
    config_put_text(e->preprocessor, "image_processor_type", "Glm4vImageProcessor");
    encoder_pixels(e, 112 * 112, 28 * 28 * 15000);
    encoder_placeholder(e, "image_token_id", "<|image|>");
}

static void read_glm(struct encoder_config *e)
{
    read_glm_shared(e, "mm.gate.weight");
}

static void read_glm_ocr(struct encoder_config *e)
{
    read_glm_shared(e, "v.blk.0.ffn_gate.weight");
}

static const struct gguf_name glm_outer[] = {
    { "v.patch_embd", "model.visual.patch_embed.proj", PLAIN },
    { "v.norm_embd", "model.visual.post_conv_layernorm", PLAIN },
    { "v.position_embd", "model.visual.embeddings.position_embedding", PLAIN },
    { "v.post_ln", "model.visual.post_layernorm", PLAIN },
    { "mm.patch_merger", "model.visual.downsample", PLAIN },
    { "mm.model.fc", "model.visual.merger.proj", PLAIN },
    { "mm.post_norm", "model.visual.merger.post_projection_norm", PLAIN },
    { "mm.gate", "model.visual.merger.gate_proj", PLAIN },
    { "mm.up", "model.visual.merger.up_proj", PLAIN },
    { "mm.down", "model.visual.merger.down_proj", PLAIN },
    { 0 },
};

// --- the table -----------------------------------------------------------------------------------

static const char *const qwen_texts[] = { "qwen2vl", NULL };
static const char *const kimi_texts[] = { "deepseek2", NULL };
static const char *const glm_texts[] = { "glm4", "glm4moe", NULL };

const struct gguf_encoder gguf_encoders[] = {
    {
        .type = "mlp",
        .architecture = "LlavaForConditionalGeneration",
        .model_type = "llava",
        .prefixes = { "language_model.model.", "language_model." },
        .outer = llava_outer,
        .blocks = "vision_tower.vision_model.encoder.layers.",
        .block = gguf_siglip_block,
        .last = "mm.2.weight",
        .read = read_llava,
    },
    {
        .type = "qwen2.5vl_merger",
        .also = "qwen2vl_merger",
        .needs = "v.blk.0.ffn_gate.weight", // Qwen2-VL has no gate
        .texts = qwen_texts,
        .architecture = "Qwen2_5_VLForConditionalGeneration",
        .model_type = "qwen2_5_vl",
        .flat = true,
        .prefixes = { "model.", "" },
        .outer = qwen_outer,
        .blocks = "visual.blocks.",
        .block = qwen_block,
        .last = "mm.2.weight",
        .patches = "visual.patch_embed.proj.weight",
        .read = read_qwen,
    },
    {
        .type = "internvl",
        .architecture = "InternVLForConditionalGeneration",
        .model_type = "internvl",
        .prefixes = { "language_model.model.", "language_model." },
        .outer = intern_outer,
        .blocks = "vision_tower.encoder.layer.",
        .block = intern_block,
        .last = "mm.model.mlp.3.weight",
        .read = read_intern,
    },
    {
        .type = "kimivl",
        .texts = kimi_texts,
        .architecture = "KimiVLForConditionalGeneration",
        .model_type = "kimi_vl",
        .prefixes = { "language_model.model.", "language_model." },
        .outer = kimi_outer,
        .blocks = "vision_tower.encoder.blocks.",
        .block = kimi_block,
        .last = "mm.2.weight",
        .read = read_kimi,
    },
    {
        .type = "glm4v",
        .needs = "v.blk.0.attn_q_norm.weight",
        .texts = glm_texts,
        .architecture = "GlmOcrForConditionalGeneration",
        .model_type = "glm_ocr",
        .prefixes = { "model.language_model.", "" },
        .outer = glm_outer,
        .blocks = "model.visual.blocks.",
        .block = qwen_block,
        .last = "mm.down.weight",
        .patches = "model.visual.patch_embed.proj.weight",
        .read = read_glm_ocr,
    },
    {
        .type = "glm4v",
        .texts = glm_texts,
        .architecture = "Glm4vForConditionalGeneration",
        .model_type = "glm4v",
        .prefixes = { "model.language_model.", "" },
        .outer = glm_outer,
        .blocks = "model.visual.blocks.",
        .block = qwen_block,
        .last = "mm.down.weight",
        .patches = "model.visual.patch_embed.proj.weight",
        .read = read_glm,
    },
    { 0 },
};
