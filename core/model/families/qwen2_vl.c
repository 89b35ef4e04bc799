// core/model/families/qwen2_vl.c -- Qwen2-VL (arXiv 2409.12191): an encoder of native resolution
// without windows, a merger, the decoder of Qwen2.5-VL.
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

const struct family family_qwen2_vl = {
    .name = "qwen2_vl",
    .architectures = (const char *const[]){ "Qwen2VLForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "qwen2_vl", NULL },
    .configure = configure,
    .bind = qwen2_vl_bind,
    .part = qwen2_vl_part,
    .shapes = shapes,
    .module_prefix = FAMILY_MODULE_PREFIX,
    .picture_before = "<|vision_start|>",
    .picture_after = "<|vision_end|>",
    .templates_write_marks = true,
    .pictures = &native_pictures,
    .boxes = "qwen2-vl",
    .picture_processors = (const char *const[]){ "Qwen2VL", NULL },
    .picture_keys = native_picture_keys,
    .positions = native_positions,
};
