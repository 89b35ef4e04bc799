// core/model/families/qwen3_5.c -- Qwen3.5, dense and with experts: Qwen3-VL's encoder and merger,
// without DeepStack, and the decoder of qwen3_5_text.c or qwen3_5_moe_text.c.
#include "core/files/gguf_parts.h"
#include "core/model/families/native.h"
#include "core/model/families/qwen3_vl.h"

static int qwen3_5_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    const char *text = family_sparse(c->config) ? "qwen3_5_moe_text" : "qwen3_5_text";
    return qwen3_vl_configure_as(m, c, family_named(text)->decoder, &vision_qwen3_5, err);
}

// --- published models ----------------------------------------------------------------------------

#define SHAPE_CONFIG(class, type, tied, vision, out, text)                                       \
    "{\"architectures\": [\"" class                                                              \
        "ForConditionalGeneration\"], \"model_type\": \"" type "\", "                            \
        "\"image_token_id\": 0, \"tie_word_embeddings\": " tied ", \"dtype\": \"bfloat16\", "    \
        "\"vision_config\": {\"model_type\": \"" type "\", " vision ", \"hidden_act\": "         \
        "\"gelu_pytorch_tanh\", \"in_channels\": 3, \"deepstack_visual_indexes\": [], "          \
        "\"num_position_embeddings\": 2304, \"out_hidden_size\": " out ", \"patch_size\": 16, "  \
        "\"spatial_merge_size\": 2, \"temporal_patch_size\": 2}, "                               \
        "\"text_config\": {\"model_type\": \"" type "_text\", \"hidden_size\": " out ", " text   \
        ", \"full_attention_interval\": 4, \"head_dim\": 256, \"hidden_act\": \"silu\", "        \
        "\"attn_output_gate\": true, \"attention_bias\": false, \"linear_conv_kernel_dim\": 4, " \
        "\"linear_key_head_dim\": 128, \"linear_num_key_heads\": 16, "                           \
        "\"linear_value_head_dim\": 128, \"vocab_size\": 248320, \"max_position_embeddings\": "  \
        "262144, \"rms_norm_eps\": 1e-06, "                                                      \
        "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000000, "           \
        "\"partial_rotary_factor\": 0.25, \"mrope_interleaved\": true, "                         \
        "\"mrope_section\": [11, 11, 10]}}}"
#define SHAPE_ENCODER(hidden, ffn, layers, heads)                                     \
    "\"hidden_size\": " hidden ", \"intermediate_size\": " ffn ", \"depth\": " layers \
    ", \"num_heads\": " heads
#define SHAPE_LAYERS(layers, heads, kv_heads, value_heads)               \
    "\"num_hidden_layers\": " layers ", \"num_attention_heads\": " heads \
    ", \"num_key_value_heads\": " kv_heads ", \"linear_num_value_heads\": " value_heads
#define SHAPE_TEXT(ffn, layers, heads, kv_heads, value_heads) \
    "\"intermediate_size\": " ffn ", " SHAPE_LAYERS(layers, heads, kv_heads, value_heads)
#define SHAPE_EXPERTS(count, per_token, width)                          \
    ", \"num_experts\": " count ", \"num_experts_per_tok\": " per_token \
    ", \"moe_intermediate_size\": " width ", \"shared_expert_intermediate_size\": " width
#define SHAPE_PICTURES                                                                        \
    "{\"size\": {\"longest_edge\": 16777216, \"shortest_edge\": 65536}, \"patch_size\": 16, " \
    "\"temporal_patch_size\": 2, \"merge_size\": 2, \"image_mean\": [0.5, 0.5, 0.5], "        \
    "\"image_std\": [0.5, 0.5, 0.5], \"image_processor_type\": \"Qwen2VLImageProcessorFast\"}"
#define SHAPE(id, tied, vision, out, text)                                                       \
    {                                                                                            \
        id, SHAPE_CONFIG("Qwen3_5", "qwen3_5", tied, vision, out, text), SHAPE_PICTURES, 248320, \
            248044, NULL                                                                         \
    }
#define SHAPE_MOE(id, out, text)                                                \
    {                                                                           \
        id,                                                                     \
            SHAPE_CONFIG("Qwen3_5Moe", "qwen3_5_moe", "false",                  \
                         SHAPE_ENCODER("1152", "4304", "27", "16"), out, text), \
            SHAPE_PICTURES, 248320, 248044, NULL                                \
    }

static const struct family_shape shapes[] = {
    SHAPE("qwen3.5-0.8b", "true", SHAPE_ENCODER("768", "3072", "12", "12"), "1024",
          SHAPE_TEXT("3584", "24", "8", "2", "16")),
    SHAPE("qwen3.5-2b", "true", SHAPE_ENCODER("1024", "4096", "24", "16"), "2048",
          SHAPE_TEXT("6144", "24", "8", "2", "16")),
    SHAPE("qwen3.5-4b", "true", SHAPE_ENCODER("1024", "4096", "24", "16"), "2560",
          SHAPE_TEXT("9216", "32", "16", "4", "32")),
    SHAPE("qwen3.5-9b", "false", SHAPE_ENCODER("1152", "4304", "27", "16"), "4096",
          SHAPE_TEXT("12288", "32", "16", "4", "32")),
    SHAPE("qwen3.5-27b", "false", SHAPE_ENCODER("1152", "4304", "27", "16"), "5120",
          SHAPE_TEXT("17408", "64", "24", "4", "48")),
    SHAPE_MOE("qwen3.5-35b-a3b", "2048",
              SHAPE_LAYERS("40", "16", "2", "32") SHAPE_EXPERTS("256", "8", "512")),
    SHAPE_MOE("qwen3.5-122b-a10b", "3072",
              SHAPE_LAYERS("48", "32", "2", "64") SHAPE_EXPERTS("256", "8", "1024")),
    SHAPE_MOE("qwen3.5-397b-a17b", "4096",
              SHAPE_LAYERS("60", "32", "2", "64") SHAPE_EXPERTS("512", "10", "1024")),
    { 0 },
};

// --- GGUF files ----------------------------------------------------------------------------------

static const struct gguf_encoder gguf_encoder = {
    QWEN3_VL_ENCODER,
    .texts = (const char *const[]){ "qwen35", "qwen35moe", NULL },
    .architecture = "Qwen3_5ForConditionalGeneration",
    .model_type = "qwen3_5",
};

static const struct family_mmproj mmproj = { QWEN3_VL_MMPROJ, .read = &gguf_encoder };

const struct family family_qwen3_5 = {
    .name = "qwen3_5",
    .architectures = (const char *const[]){ "Qwen3_5ForConditionalGeneration",
                                            "Qwen3_5MoeForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "qwen3_5", "qwen3_5_moe", NULL },
    .configure = qwen3_5_configure,
    .bind = qwen3_vl_bind,
    .part = qwen3_vl_part,
    .mmproj = &mmproj,
    .shapes = shapes,
    .boxes = "qwen3-vl",
    .picture_processors = (const char *const[]){ "Qwen2VL", "Qwen3VL", NULL },
    NATIVE_QWEN_FAMILY,
};
