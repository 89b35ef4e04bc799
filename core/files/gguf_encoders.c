// core/files/gguf_encoders.c -- the kinds of picture encoders and projectors in GGUF files
// (mmproj): a row of a table for each "clip.projector_type", with the config that Hugging Face
// would have and the names of tensors.
//
// Facts: llama.cpp's tools/mtmd (clip-impl.h, models/*.cpp), conversion/*.py, and for LLaVA's
// encoders legacy-models/convert_image_encoder_to_gguf.py, whose traps are:
//   - layers after the one whose features count are cut off;
//   - the activation is "clip.use_gelu" or "clip.use_silu", else quick GELU;
//   - LLaVA-Next has LLaVA's type: the newline behind rows of features tells it apart.
#include <stdlib.h>
#include <string.h>

#include "core/files/gguf_parts.h"

// --- parts of configs ----------------------------------------------------------------------------

static void put_text(cJSON *to, const char *key, const char *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(to, key);
    cJSON_AddStringToObject(to, key, value);
}

static void put_sizes(struct encoder_config *e, const char *layers, const char *heads)
{
    config_int(&e->c, "embedding_length", "hidden_size", GGUF_NEEDED);
    config_int(&e->c, "feed_forward_length", "intermediate_size", GGUF_NEEDED);
    config_int(&e->c, "block_count", layers, GGUF_NEEDED);
    config_int(&e->c, "attention.head_count", heads, GGUF_NEEDED);
    config_int(&e->c, "patch_size", "patch_size", GGUF_NEEDED);
}

// image_mean and image_std.
static void put_means(struct encoder_config *e)
{
    static const char *const keys[] = { "image_mean", "image_std" };
    for (int i = 0; i < 2 && !e->c.failed; i++) {
        const struct gguf_entry *list;
        char *key = xasprintf("clip.vision.%s", keys[i]);
        if (gguf_list(e->c.file, key, false, 3, &list, e->c.err) < 0) {
            config_fail(&e->c);
        } else if (list && list->count != 3) {
            e->c.failed = err_set(e->c.err, "'%s' has %llu numbers, not 3", key,
                                  (unsigned long long)list->count) < 0;
        } else if (list) {
            cJSON *means = cJSON_AddArrayToObject(e->preprocessor, keys[i]);
            for (uint64_t k = 0; k < 3; k++)
                cJSON_AddItemToArray(means, cJSON_CreateNumber(gguf_number(list, k)));
        }
        free(key);
    }
}

static bool flag(struct encoder_config *e, const char *key)
{
    bool value = false;
    if (!e->c.failed) e->c.failed = gguf_bool(e->c.file, key, false, &value, e->c.err) < 0;
    return value;
}

static bool there(const struct encoder_config *e, const char *name)
{
    return gguf_find(e->c.file, name) != NULL;
}

// The placeholder of visual tokens: any id that texts do not give.
static void put_placeholder(struct encoder_config *e, const char *key, const char *word)
{
    int32_t id = gguf_token_find(e->text, word);
    int64_t unknown = 0;
    if (id < 0 && !e->c.failed)
        e->c.failed = gguf_int(e->text, "tokenizer.ggml.unknown_token_id", 0, INT32_MAX, 0,
                               &unknown, e->c.err) < 0;
    cJSON_AddNumberToObject(e->whole, key, id < 0 ? (double)unknown : id);
}

// --- LLaVA ---------------------------------------------------------------------------------------

static void read_llava(struct encoder_config *e)
{
    const bool clip = there(e, "v.class_embd");
    const struct gguf_entry *layer;
    put_text(e->vision, "model_type", clip ? "clip_vision_model" : "siglip_vision_model");
    put_sizes(e, "num_hidden_layers", "num_attention_heads");
    config_int(&e->c, "image_size", "image_size", GGUF_NEEDED);
    config_real(&e->c, "attention.layer_norm_epsilon", "layer_norm_eps", clip ? 1e-5 : 1e-6);
    put_text(e->vision, "hidden_act",
             flag(e, "clip.use_silu")   ? "silu"
             : flag(e, "clip.use_gelu") ? clip ? "gelu" : "gelu_pytorch_tanh"
                                        : "quick_gelu");
    put_text(e->preprocessor, "image_processor_type",
             clip ? "CLIPImageProcessor" : "SiglipImageProcessor");
    put_means(e);
    put_placeholder(e, "image_token_index", "<image>");
    put_text(e->whole, "vision_feature_select_strategy", clip ? "default" : "full");
    put_text(e->whole, "projector_hidden_act", "gelu");
    if (!e->c.failed)
        e->c.failed =
            gguf_list(e->c.file, "clip.vision.feature_layer", false, 1, &layer, e->c.err) < 0;
    if (e->c.failed) return;
    cJSON_AddNumberToObject(e->whole, "vision_feature_layer",
                            layer && layer->count ? gguf_number(layer, 0) : -1);
}

static const struct gguf_name llava_outer[] = {
    { .theirs = "v.class_embd",
      .ours = "vision_tower.vision_model.embeddings.class_embedding",
      .bare = true },
    { .theirs = "v.patch_embd", .ours = "vision_tower.vision_model.embeddings.patch_embedding" },
    { .theirs = "v.position_embd",
      .ours = "vision_tower.vision_model.embeddings.position_embedding" },
    { .theirs = "v.pre_ln", .ours = "vision_tower.vision_model.pre_layrnorm" },
    { .theirs = "v.post_ln", .ours = "vision_tower.vision_model.post_layernorm" },
    { .theirs = "mm.0", .ours = "multi_modal_projector.linear_1" },
    { .theirs = "mm.2", .ours = "multi_modal_projector.linear_2" },
    { .theirs = "model.image_newline", .ours = "image_newline" }, // LLaVA-Next's
    { .theirs = "v.image_newline", .ours = "image_newline" },     // of newer converters
    { 0 },
};

static const struct gguf_name llava_block[] = {
    { .theirs = "ln1", .ours = "layer_norm1" },
    { .theirs = "ln2", .ours = "layer_norm2" },
    { .theirs = "attn_q", .ours = "self_attn.q_proj" },
    { .theirs = "attn_k", .ours = "self_attn.k_proj" },
    { .theirs = "attn_v", .ours = "self_attn.v_proj" },
    { .theirs = "attn_out", .ours = "self_attn.out_proj" },
    { .theirs = "ffn_up", .ours = "mlp.fc1" },
    { .theirs = "ffn_down", .ours = "mlp.fc2" },
    { 0 },
};

// --- LLaVA-Next ----------------------------------------------------------------------------------

static const char grids_key[] = "clip.vision.image_grid_pinpoints";

static bool has_newline(const struct gguf *f)
{
    return gguf_find(f, "model.image_newline") || gguf_find(f, "v.image_newline");
}

// Pictures are cut into tiles.
static bool is_llava_next(const struct gguf *f)
{
    const struct gguf_entry *grids = gguf_entry(f, grids_key);
    const char *merge = gguf_text(f, "clip.vision.mm_patch_merge_type");
    return has_newline(f) || (grids && grids->type == GGUF_LIST && grids->count) ||
           (merge && !strncmp(merge, "spatial", 7));
}

// Pairs of width and height there, of height and width in Hugging Face's list.
static void put_grids(struct encoder_config *e)
{
    const struct gguf_entry *list = NULL;
    if (!e->c.failed)
        e->c.failed = gguf_list(e->c.file, grids_key, false, 1000, &list, e->c.err) < 0;
    if (!e->c.failed && list && list->count % 2)
        e->c.failed = err_set(e->c.err, "'%s' has %llu numbers, which are not pairs", grids_key,
                              (unsigned long long)list->count) < 0;
    if (e->c.failed || !list || !list->count) return;
    cJSON *grids = cJSON_AddArrayToObject(e->whole, "image_grid_pinpoints");
    for (uint64_t i = 0; i + 1 < list->count; i += 2) {
        cJSON *pair = cJSON_CreateArray();
        cJSON_AddItemToArray(pair, cJSON_CreateNumber(gguf_number(list, i + 1)));
        cJSON_AddItemToArray(pair, cJSON_CreateNumber(gguf_number(list, i)));
        cJSON_AddItemToArray(grids, pair);
    }
}

static void read_llava_next(struct encoder_config *e)
{
    if (!has_newline(e->c.file))
        e->c.failed = err_set(e->c.err, "it cuts pictures into tiles (LLaVA-Next), but its tensor "
                                        "'model.image_newline' is missing") < 0;
    else if (!there(e, "v.class_embd"))
        e->c.failed = err_set(e->c.err, "it cuts pictures into tiles for SigLIP (LLaVA-OneVision): "
                                        "as GGUF only LLaVA-Next is supported, with CLIP; open "
                                        "the model's folder instead") < 0;
    read_llava(e);
    put_text(e->preprocessor, "image_processor_type", "LlavaNextImageProcessor");
    put_grids(e);
}

// --- Qwen2.5-VL ----------------------------------------------------------------------------------

// Blocks that see whole pictures: every nth one, or a list.
static void put_whole_blocks(struct encoder_config *e)
{
    const struct gguf_entry *list = NULL;
    const int64_t every = config_value(&e->c, "n_wa_pattern", 0, 0);
    const int64_t blocks = config_value(&e->c, "block_count", 1, GGUF_NEEDED);
    if (!e->c.failed)
        e->c.failed =
            gguf_list(e->c.file, "clip.vision.wa_layer_indexes", false, 1000, &list, e->c.err) < 0;
    if (!e->c.failed && !list) // of early converters
        e->c.failed = gguf_list(e->c.file, "clip.vision.fullatt_block_indexes", false, 1000, &list,
                                e->c.err) < 0;
    if (!e->c.failed && (uint64_t)blocks > e->c.file->tensor_count)
        e->c.failed = err_set(e->c.err,
                              "'clip.vision.block_count' is %lld, but the file has only "
                              "%llu tensors",
                              (long long)blocks, (unsigned long long)e->c.file->tensor_count) < 0;
    if (!e->c.failed && !every && !list)
        e->c.failed = err_set(e->c.err, "'clip.vision.n_wa_pattern' is missing: the file does not "
                                        "say which blocks see whole pictures") < 0;
    if (e->c.failed) return;
    cJSON *whole = cJSON_AddArrayToObject(e->vision, "fullatt_block_indexes");
    for (int64_t i = 0; i < blocks && every; i++)
        if ((i + 1) % every == 0) cJSON_AddItemToArray(whole, cJSON_CreateNumber((double)i));
    for (uint64_t i = 0; list && i < list->count && !every; i++)
        cJSON_AddItemToArray(whole, cJSON_CreateNumber(gguf_number(list, i)));
}

// Pairs that turn by time, row and column.
static void put_sections(struct encoder_config *e, cJSON *to)
{
    char *key = xasprintf("%s.rope.dimension_sections", gguf_text(e->text, "general.architecture"));
    const struct gguf_entry *list = NULL;
    if (!e->c.failed) e->c.failed = gguf_list(e->text, key, false, 4, &list, e->c.err) < 0;
    if (!e->c.failed && (!list || list->count < 3))
        e->c.failed = err_set(e->c.err, "'%s' is missing", key) < 0;
    free(key);
    if (e->c.failed) return;
    // Positions may be scaled besides, as for long texts (YaRN).
    cJSON *scaling = cJSON_GetObjectItemCaseSensitive(to, "rope_scaling");
    if (!scaling) {
        scaling = cJSON_AddObjectToObject(to, "rope_scaling");
        cJSON_AddStringToObject(scaling, "type", "mrope");
    }
    cJSON *sections = cJSON_AddArrayToObject(scaling, "mrope_section");
    for (uint64_t i = 0; i < 3; i++)
        cJSON_AddItemToArray(sections, cJSON_CreateNumber(gguf_number(list, i)));
}

// What bounds the size of pictures; the hub's preprocessor_config.json where the file says nothing.
static void put_pixels(struct encoder_config *e, int64_t least, int64_t most)
{
    cJSON *to = e->c.to;
    e->c.to = e->preprocessor;
    config_int(&e->c, "image_min_pixels", "min_pixels", least);
    config_int(&e->c, "image_max_pixels", "max_pixels", most);
    config_int(&e->c, "patch_size", "patch_size", GGUF_NEEDED);
    config_int(&e->c, "spatial_merge_size", "merge_size", 2);
    cJSON_AddNumberToObject(e->preprocessor, "temporal_patch_size", 2);
    e->c.to = to;
    put_means(e);
}

static void read_qwen(struct encoder_config *e)
{
    if (!there(e, "v.blk.0.ffn_gate.weight"))
        e->c.failed = err_set(e->c.err, "Qwen2-VL is not supported; of its relatives, Qwen2.5-VL "
                                        "is") < 0;
    put_sizes(e, "depth", "num_heads");
    gguf_expect(e->c.file, "clip.use_silu", 1);
    gguf_expect(e->c.file, "clip.vision.attention.layer_norm_epsilon", 1e-6);
    gguf_expect(e->c.file, "clip.use_glu_mlp", 1); // of early converters
    gguf_expect(e->c.file, "clip.use_rms_norm", 1);
    config_int(&e->c, "spatial_merge_size", "spatial_merge_size", 2);
    config_int(&e->c, "projection_dim", "out_hidden_size", GGUF_NEEDED);
    config_int(&e->c, "window_size", "window_size", 112);
    put_whole_blocks(e);
    put_sections(e, e->whole);
    put_text(e->preprocessor, "image_processor_type", "Qwen2VLImageProcessor");
    put_pixels(e, 56 * 56, 12845056);
    put_placeholder(e, "image_token_id", "<|image_pad|>");
}

static const struct gguf_name qwen_outer[] = {
    { .theirs = "v.post_ln", .ours = "visual.merger.ln_q" },
    { .theirs = "mm.0", .ours = "visual.merger.mlp.0" },
    { .theirs = "mm.2", .ours = "visual.merger.mlp.2" },
    { 0 },
};

static const struct gguf_name qwen_block[] = {
    { .theirs = "ln1", .ours = "norm1" },
    { .theirs = "ln2", .ours = "norm2" },
    { .theirs = "attn_qkv", .ours = "attn.qkv" },
    { .theirs = "attn_q", .ours = "attn.q" },
    { .theirs = "attn_k", .ours = "attn.k" },
    { .theirs = "attn_v", .ours = "attn.v" },
    { .theirs = "attn_out", .ours = "attn.proj" },
    { .theirs = "ffn_gate", .ours = "mlp.gate_proj" },
    { .theirs = "ffn_up", .ours = "mlp.up_proj" },
    { .theirs = "ffn_down", .ours = "mlp.down_proj" },
    { 0 },
};

// --- InternVL ------------------------------------------------------------------------------------

static void read_intern(struct encoder_config *e)
{
    const int64_t factor = config_value(&e->c, "projector.scale_factor", 1, 2);
    put_sizes(e, "num_hidden_layers", "num_attention_heads");
    config_int(&e->c, "image_size", "image_size", GGUF_NEEDED);
    config_real(&e->c, "attention.layer_norm_epsilon", "layer_norm_eps", 1e-6);
    cJSON_AddBoolToObject(e->vision, "attention_bias", there(e, "v.blk.0.attn_q.bias"));
    cJSON_AddBoolToObject(e->vision, "use_qk_norm", there(e, "v.blk.0.attn_q_norm.weight"));
    put_text(e->vision, "norm_type", there(e, "v.blk.0.ln1.bias") ? "layer_norm" : "rms_norm");
    put_text(e->vision, "hidden_act", flag(e, "clip.use_silu") ? "silu" : "gelu");
    gguf_expect(e->c.file, "clip.use_gelu", 1);
    put_means(e);
    put_placeholder(e, "image_token_id", "<IMG_CONTEXT>");
    if (e->c.failed) return;
    cJSON_AddNumberToObject(e->whole, "downsample_ratio", 1 / (double)factor);
    e->c.to = e->preprocessor;
    config_int(&e->c, "preproc_min_tiles", "min_patches", 1);
    config_int(&e->c, "preproc_max_tiles", "max_patches", 12);
}

static const struct gguf_name intern_outer[] = {
    { .theirs = "v.class_embd",
      .ours = "vision_tower.embeddings.cls_token",
      .bare = true,
      .rank = 3 },
    { .theirs = "v.patch_embd", .ours = "vision_tower.embeddings.patch_embeddings.projection" },
    { .theirs = "v.position_embd",
      .ours = "vision_tower.embeddings.position_embeddings",
      .bare = true,
      .rank = 3 },
    { .theirs = "mm.model.mlp.0", .ours = "multi_modal_projector.layer_norm" },
    { .theirs = "mm.model.mlp.1", .ours = "multi_modal_projector.linear_1" },
    { .theirs = "mm.model.mlp.3", .ours = "multi_modal_projector.linear_2" },
    { 0 },
};

static const struct gguf_name intern_block[] = {
    { .theirs = "ln1", .ours = "layernorm_before" },
    { .theirs = "ln2", .ours = "layernorm_after" },
    { .theirs = "attn_q", .ours = "attention.q_proj" },
    { .theirs = "attn_k", .ours = "attention.k_proj" },
    { .theirs = "attn_v", .ours = "attention.v_proj" },
    { .theirs = "attn_q_norm", .ours = "attention.q_norm" },
    { .theirs = "attn_k_norm", .ours = "attention.k_norm" },
    { .theirs = "attn_out", .ours = "attention.projection_layer" },
    { .theirs = "ls1", .ours = "lambda_1", .bare = true },
    { .theirs = "ls2", .ours = "lambda_2", .bare = true },
    { .theirs = "ffn_up", .ours = "mlp.fc1" },
    { .theirs = "ffn_down", .ours = "mlp.fc2" },
    { 0 },
};

// --- Kimi-VL -------------------------------------------------------------------------------------

// Rows of the table of positions, which is square.
static int64_t table_side(struct encoder_config *e)
{
    const struct safetensor *table = gguf_find(e->c.file, "v.position_embd.weight");
    const int64_t side = table ? gguf_square_side(table->shape[0]) : 0;
    if (!side && !e->c.failed)
        e->c.failed = err_set(e->c.err, "the table of positions (tensor 'v.position_embd.weight') "
                                        "is missing, or not square") < 0;
    return side;
}

static void read_kimi(struct encoder_config *e)
{
    const int64_t merge = config_value(&e->c, "projector.scale_factor", 1, 2);
    const int64_t side = table_side(e);
    put_sizes(e, "num_hidden_layers", "num_attention_heads");
    put_text(e->vision, "model_type", "moonvit");
    gguf_expect(e->c.file, "clip.use_gelu", 1);
    gguf_expect(e->c.file, "clip.vision.attention.layer_norm_epsilon", 1e-5);
    cJSON_AddNumberToObject(e->vision, "init_pos_emb_height", (double)side);
    cJSON_AddNumberToObject(e->vision, "init_pos_emb_width", (double)side);
    cJSON *kernel = cJSON_AddArrayToObject(e->vision, "merge_kernel_size");
    for (int i = 0; i < 2; i++) cJSON_AddItemToArray(kernel, cJSON_CreateNumber((double)merge));
    put_means(e);
    put_placeholder(e, "media_placeholder_token_id", "<|media_pad|>");
    const int64_t pixels = config_value(&e->c, "image_max_pixels", 0, 0);
    const int64_t patch = config_value(&e->c, "patch_size", 1, GGUF_NEEDED);
    if (e->c.failed || !pixels) return;
    const int64_t patches = pixels / (patch * patch);
    cJSON_AddNumberToObject(e->preprocessor, "in_token_limit", (double)patches);
}

static const struct gguf_name kimi_outer[] = {
    { .theirs = "v.patch_embd", .ours = "vision_tower.patch_embed.proj" },
    { .theirs = "v.position_embd",
      .ours = "vision_tower.patch_embed.pos_emb",
      .rank = GGUF_SQUARE },
    { .theirs = "v.post_ln", .ours = "vision_tower.encoder.final_layernorm" },
    { .theirs = "mm.input_norm", .ours = "multi_modal_projector.pre_norm" },
    { .theirs = "mm.1", .ours = "multi_modal_projector.linear_1" },
    { .theirs = "mm.2", .ours = "multi_modal_projector.linear_2" },
    { 0 },
};

static const struct gguf_name kimi_block[] = {
    { .theirs = "ln1", .ours = "norm0" },
    { .theirs = "ln2", .ours = "norm1" },
    { .theirs = "attn_q", .ours = "wq" },
    { .theirs = "attn_k", .ours = "wk" },
    { .theirs = "attn_v", .ours = "wv" },
    { .theirs = "attn_out", .ours = "wo" },
    { .theirs = "ffn_up", .ours = "mlp.fc0" },
    { .theirs = "ffn_down", .ours = "mlp.fc1" },
    { 0 },
};

// --- GLM-4.1V ------------------------------------------------------------------------------------

static void put_rows(const struct encoder_config *e, const char *tensor, const char *key)
{
    const struct safetensor *t = gguf_find(e->c.file, tensor);
    if (t) cJSON_AddNumberToObject(e->vision, key, (double)t->shape[0]);
}

// The config's names mislead (core/model/vision_glm.c), so what the file says of widths does too.
static void read_glm(struct encoder_config *e)
{
    cJSON *text = cJSON_GetObjectItemCaseSensitive(e->whole, "text_config");
    config_int(&e->c, "embedding_length", "hidden_size", GGUF_NEEDED);
    config_int(&e->c, "block_count", "depth", GGUF_NEEDED);
    config_int(&e->c, "attention.head_count", "num_heads", GGUF_NEEDED);
    config_int(&e->c, "patch_size", "patch_size", GGUF_NEEDED);
    config_int(&e->c, "image_size", "image_size", GGUF_NEEDED);
    config_int(&e->c, "spatial_merge_size", "spatial_merge_size", 2);
    config_real(&e->c, "attention.layer_norm_epsilon", "rms_norm_eps", 1e-5);
    gguf_expect(e->c.file, "clip.use_silu", 1);
    put_rows(e, "mm.model.fc.weight", "out_hidden_size");
    put_rows(e, "mm.gate.weight", "intermediate_size");
    cJSON_AddBoolToObject(e->vision, "attention_bias", there(e, "v.blk.0.attn_qkv.bias"));
    put_sections(e, text);
    put_text(e->preprocessor, "image_processor_type", "Glm4vImageProcessor");
    put_pixels(e, 112 * 112, 28 * 28 * 15000);
    put_placeholder(e, "image_token_id", "<|image|>");
}

static const struct gguf_name glm_outer[] = {
    { .theirs = "v.patch_embd", .ours = "model.visual.patch_embed.proj" },
    { .theirs = "v.norm_embd", .ours = "model.visual.post_conv_layernorm" },
    { .theirs = "v.position_embd", .ours = "model.visual.embeddings.position_embedding" },
    { .theirs = "v.post_ln", .ours = "model.visual.post_layernorm" },
    { .theirs = "mm.patch_merger", .ours = "model.visual.downsample" },
    { .theirs = "mm.model.fc", .ours = "model.visual.merger.proj" },
    { .theirs = "mm.post_norm", .ours = "model.visual.merger.post_projection_norm" },
    { .theirs = "mm.gate", .ours = "model.visual.merger.gate_proj" },
    { .theirs = "mm.up", .ours = "model.visual.merger.up_proj" },
    { .theirs = "mm.down", .ours = "model.visual.merger.down_proj" },
    { 0 },
};

// --- the table -----------------------------------------------------------------------------------

static const char *const qwen_texts[] = { "qwen2vl", NULL };
static const char *const kimi_texts[] = { "deepseek2", NULL };
static const char *const glm_texts[] = { "glm4", NULL };

const struct gguf_encoder gguf_encoders[] = {
    {
        .type = "mlp",
        .is = is_llava_next,
        .architecture = "LlavaNextForConditionalGeneration",
        .model_type = "llava_next",
        .place = { "language_model.model.", "language_model." },
        .outer = llava_outer,
        .blocks = "vision_tower.vision_model.encoder.layers.",
        .block = llava_block,
        .last = "mm.2.weight",
        .read = read_llava_next,
    },
    {
        .type = "mlp",
        .architecture = "LlavaForConditionalGeneration",
        .model_type = "llava",
        .place = { "language_model.model.", "language_model." },
        .outer = llava_outer,
        .blocks = "vision_tower.vision_model.encoder.layers.",
        .block = llava_block,
        .last = "mm.2.weight",
        .read = read_llava,
    },
    {
        .type = "qwen2.5vl_merger",
        .also = "qwen2vl_merger",
        .texts = qwen_texts,
        .architecture = "Qwen2_5_VLForConditionalGeneration",
        .model_type = "qwen2_5_vl",
        .flat = true,
        .place = { "model.", "" },
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
        .place = { "language_model.model.", "language_model." },
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
        .place = { "language_model.model.", "language_model." },
        .outer = kimi_outer,
        .blocks = "vision_tower.encoder.blocks.",
        .block = kimi_block,
        .last = "mm.2.weight",
        .read = read_kimi,
    },
    {
        .type = "glm4v",
        .texts = glm_texts,
        .architecture = "Glm4vForConditionalGeneration",
        .model_type = "glm4v",
        .place = { "model.language_model.", "" },
        .outer = glm_outer,
        .blocks = "model.visual.blocks.",
        .block = qwen_block,
        .last = "mm.down.weight",
        .patches = "model.visual.patch_embed.proj.weight",
        .read = read_glm,
    },
    { 0 },
};
