// core/model/families/qwen2_vl.c -- Qwen2-VL (arXiv 2409.12191): an encoder of native resolution
// without windows, a merger, the decoder of Qwen2.5-VL.
#include "core/files/gguf_parts.h"
#include "core/files/gguf_write.h"
#include "core/model/families/native.h"
#include "core/model/families/qwen2_5_vl.h"

// Normalises each patch (LayerNorm), joins the patches of a token, then applies linear, GELU,
// linear.
static const struct projector_kind merger = { .norm = "ln_q",
                                              .norm_bias = true,
                                              .eps = 1e-6,
                                              .encoder_norm = "merger.ln_q",
                                              .linear_1 = "mlp.0",
                                              .linear_2 = "mlp.2",
                                              .wide = true };

static int configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    return qwen2_vl_configure_as(m, c, &vision_qwen2, &merger, err);
}

// --- published models ----------------------------------------------------------------------------

#define SHAPE(id, hidden, ffn, heads, kv_heads, vocab, tied)                                    \
    {                                                                                           \
        id,                                                                                     \
            "{\"architectures\": [\"Qwen2VLForConditionalGeneration\"], \"model_type\": "       \
            "\"qwen2_vl\", "                                                                    \
            "\"bos_token_id\": 0, \"eos_token_id\": 0, \"image_token_id\": 0, \"hidden_act\": " \
            "\"silu\", "                                                                        \
            "\"hidden_size\": " hidden ", \"intermediate_size\": " ffn                          \
            ", \"num_hidden_layers\": 28, "                                                     \
            "\"num_attention_heads\": " heads ", \"num_key_value_heads\": " kv_heads            \
            ", \"vocab_size\": " #vocab                                                         \
            ", \"max_position_embeddings\": 32768, \"rms_norm_eps\": 1e-06, "                   \
            "\"rope_theta\": 1000000.0, \"rope_scaling\": {\"type\": \"mrope\", "               \
            "\"mrope_section\": "                                                               \
            "[16, 24, 24]}, \"tie_word_embeddings\": " tied ", \"torch_dtype\": \"bfloat16\", " \
            "\"vision_config\": {\"depth\": 32, \"embed_dim\": 1280, \"mlp_ratio\": 4, "        \
            "\"num_heads\": 16, "                                                               \
            "\"hidden_size\": " hidden ", \"patch_size\": 14, \"spatial_merge_size\": 2, "      \
            "\"temporal_patch_size\": 2}}",                                                     \
            "{\"min_pixels\": 3136, \"max_pixels\": 12845056, \"patch_size\": 14, "             \
            "\"temporal_patch_size\": 2, \"merge_size\": 2, "                                   \
            "\"image_mean\": [0.48145466, 0.4578275, 0.40821073], "                             \
            "\"image_std\": [0.26862954, 0.26130258, 0.27577711], "                             \
            "\"image_processor_type\": \"Qwen2VLImageProcessor\"}",                             \
            vocab, 151643, NULL                                                                 \
    }

static const struct family_shape shapes[] = {
    SHAPE("qwen2-vl-2b", "1536", "8960", "12", "2", 151936, "true"),
    SHAPE("qwen2-vl-7b", "3584", "18944", "28", "4", 152064, "false"),
    { 0 },
};

// --- GGUF files ----------------------------------------------------------------------------------

// Reads the FFN's width from a tensor, because converters write the language model's. In early
// files the names of the FFN's layers are swapped.
static void read_ffn(struct encoder_config *e)
{
    const struct safetensor *up = gguf_find(e->c.file, "v.blk.0.ffn_up.weight");
    const int64_t width = config_value(&e->c, "embedding_length", 1, GGUF_NEEDED);
    if (!up || up->rank != 2)
        config_refuse(&e->c, "tensor 'v.blk.0.ffn_up.weight' is missing, or not a matrix");
    if (e->c.failed || !up) return;
    const int64_t ffn = up->shape[0] == width ? up->shape[1] : up->shape[0];
    cJSON_AddNumberToObject(e->vision, "mlp_ratio", (double)ffn / (double)width);
}

static void read_gguf(struct encoder_config *e)
{
    config_int(&e->c, "embedding_length", "embed_dim", GGUF_NEEDED);
    config_int(&e->c, "block_count", "depth", GGUF_NEEDED);
    config_int(&e->c, "attention.head_count", "num_heads", GGUF_NEEDED);
    config_int(&e->c, "patch_size", "patch_size", GGUF_NEEDED);
    config_int(&e->c, "projection_dim", "hidden_size", GGUF_NEEDED);
    config_int(&e->c, "spatial_merge_size", "spatial_merge_size", 2);
    // Converters write the language model's epsilon; the encoder's is a constant.
    config_number(&e->c, "attention.layer_norm_epsilon", 1e-6);
    read_ffn(e);
    encoder_sections(e, e->whole);
    config_put_text(e->preprocessor, "image_processor_type", "Qwen2VLImageProcessor");
    encoder_pixels(e, 56 * 56, 12845056);
    encoder_placeholder(e, "image_token_id", "<|image_pad|>");
}

static const struct gguf_name gguf_outer[] = {
    { "v.post_ln", "visual.merger.ln_q", PLAIN },
    { "mm.0", "visual.merger.mlp.0", PLAIN },
    { "mm.2", "visual.merger.mlp.2", PLAIN },
    { 0 },
};

static const struct gguf_name gguf_block[] = {
    { "ln1", "norm1", PLAIN },          { "ln2", "norm2", PLAIN },
    { "attn_qkv", "attn.qkv", PLAIN },  { "attn_q", "attn.q", PLAIN },
    { "attn_k", "attn.k", PLAIN },      { "attn_v", "attn.v", PLAIN },
    { "attn_out", "attn.proj", PLAIN }, { "ffn_up", "mlp.fc1", PLAIN },
    { "ffn_down", "mlp.fc2", PLAIN },   { 0 },
};

static const char *const gguf_texts[] = { "qwen2vl", NULL };

static const struct gguf_encoder gguf_encoder = {
    .type = "qwen2vl_merger",
    .texts = gguf_texts,
    .architecture = "Qwen2VLForConditionalGeneration",
    .model_type = "qwen2_vl",
    .flat = true,
    .prefixes = { "model.", "" },
    .outer = gguf_outer,
    .blocks = "visual.blocks.",
    .block = gguf_block,
    .last = "mm.2.weight",
    .patches = "visual.patch_embed.proj.weight",
    .read = read_gguf,
};

static int check_gguf(const struct model *m, struct err *err)
{
    return native_check_mmproj(m, GELU_QUICK, err);
}

static void put_gguf(const struct model *m, struct gguf_writer *out)
{
    gguf_writer_u32(out, ".image_size", 560); // as llama.cpp's converter; any size can be read
    native_put_mmproj(m, out);
}

static const struct family_mmproj mmproj = { .type = "qwen2vl_merger",
                                             .norm = "v.post_ln",
                                             .linear = { "mm.0", "mm.2" },
                                             .check = check_gguf,
                                             .put = put_gguf,
                                             .read = &gguf_encoder };

const struct family family_qwen2_vl = {
    .name = "qwen2_vl",
    .architectures = (const char *const[]){ "Qwen2VLForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "qwen2_vl", NULL },
    .configure = configure,
    .bind = qwen2_vl_bind,
    .part = qwen2_vl_part,
    .mmproj = &mmproj,
    .shapes = shapes,
    .boxes = "qwen2-vl",
    .picture_processors = (const char *const[]){ "Qwen2VL", NULL },
    NATIVE_QWEN_FAMILY,
};
