// core/new/shapes.c -- the table of shapes, one row per model. The files of model families have
// more shapes (family.shapes). Sizes come from the published config.json files.
#include "core/new/shapes.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/model/families/family.h"

// Arguments: the kind of decoder, layers L, width D, heads H, key/value heads Hkv, head size d, and
// the width of the FFN.
#define DECODER(kind, l, wide, h, h_kv, d, f)                                                   \
    .decoder = kind, .layers = l, .hidden = wide, .heads = h, .kv_heads = h_kv, .head_size = d, \
    .ffn = f
#define LLAMA_1B  DECODER("llama", 16, 2048, 32, 8, 64, 8192)
#define LLAMA_3B  DECODER("llama", 28, 3072, 24, 8, 128, 8192)
#define LLAMA_7B  DECODER("llama", 32, 4096, 32, 32, 128, 11008)
#define LLAMA_13B DECODER("llama", 40, 5120, 40, 40, 128, 13824)
#define LLAMA_3_2                                                                               \
    .context = 131072, .vocab = 128256, .words = 128000, .tied = true, .tokens = TOKENS_LLAMA3, \
    .rope_theta = 500000, .rope_factor = 32, .spread = 0.02
// LLaVA-1.5 adds rows to Llama-2's 32000: <image>, <pad> and padding to a multiple of 64.
#define VICUNA                                                                                     \
    .context = 4096, .vocab = 32064, .words = 32000, .tokens = TOKENS_LLAMA2, .rope_theta = 10000, \
    .spread = 0.02
// Llama-2's 32000 rows, without added ones: <image> and <pad> take the last two.
#define LLAMA_2                                                                                    \
    .context = 4096, .vocab = 32000, .words = 31998, .tokens = TOKENS_LLAMA2, .rope_theta = 10000, \
    .spread = 0.02
// Arguments: the kind of encoder, layers, width, heads, width of the FFN, and the side of a picture
// and of a patch in pixels.
#define ENCODER(kind, l, wide, h, f, side, of_patch)                                          \
    .tower = kind, .tower_layers = l, .tower_hidden = wide, .tower_heads = h, .tower_ffn = f, \
    .image = side, .patch = of_patch
#define SIGLIP_SO400M ENCODER(TOWER_SIGLIP, 27, 1152, 16, 4304, 384, 14)
#define CLIP_L_336    ENCODER(TOWER_CLIP, 24, 1024, 16, 4096, 336, 14)
// The encoder of LLaVA-OneVision, without the last block and the pooling head.
#define SIGLIP_26 \
    ENCODER(TOWER_SIGLIP, 26, 1152, 16, 4304, 384, 14), .no_pooling = true, .feature_layer = -1
#define QWEN2                                                                          \
    .context = 32768, .words = 151643, .tokens = TOKENS_LLAMA3, .rope_theta = 1000000, \
    .spread = 0.02
#define QWEN3                                                                                  \
    .context = 40960, .vocab = 151936, .words = 151643, .tied = true, .tokens = TOKENS_LLAMA3, \
    .rope_theta = 1000000, .spread = 0.02
// Sizes of grids of height h (in pixels) that are 1 to 6 tiles of 384 pixels wide.
#define GRIDS(h) "[" h ",384],[" h ",768],[" h ",1152],[" h ",1536],[" h ",1920],[" h ",2304]"
#define ONEVISION                                                                             \
    .family = "llava-onevision", .tiles_limit = "anyres_max_9",                               \
    .tiles = "[" GRIDS("384") "," GRIDS("768") "," GRIDS("1152") "," GRIDS("1536") "," GRIDS( \
        "1920") "," GRIDS("2304") "]"
#define QWEN2_5_VL(hidden, ffn, layers, heads, kv_heads, vocab, tied)                           \
    "{\"architectures\": [\"Qwen2_5_VLForConditionalGeneration\"], \"model_type\": "            \
    "\"qwen2_5_vl\", "                                                                          \
    "\"bos_token_id\": 0, \"eos_token_id\": 0, \"pad_token_id\": 0, \"image_token_id\": 0, "    \
    "\"hidden_act\": \"silu\", \"hidden_size\": " hidden ", \"intermediate_size\": " ffn ", "   \
    "\"num_hidden_layers\": " layers ", \"num_attention_heads\": " heads ", "                   \
    "\"num_key_value_heads\": " kv_heads ", \"vocab_size\": " vocab ", "                        \
    "\"max_position_embeddings\": 128000, \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, " \
    "\"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [16, 24, 24]}, "                \
    "\"tie_word_embeddings\": " tied ", \"torch_dtype\": \"bfloat16\", "                        \
    "\"vision_config\": {\"depth\": 32, \"hidden_act\": \"silu\", \"hidden_size\": 1280, "      \
    "\"intermediate_size\": 3420, \"num_heads\": 16, \"in_chans\": 3, "                         \
    "\"out_hidden_size\": " hidden                                                              \
    ", \"patch_size\": 14, \"spatial_merge_size\": 2, \"window_size\": 112, "                   \
    "\"fullatt_block_indexes\": [7, 15, 23, 31], \"temporal_patch_size\": 2}}"
#define QWEN2_5_VL_PICTURES                                                 \
    "{\"min_pixels\": 3136, \"max_pixels\": 12845056, \"patch_size\": 14, " \
    "\"temporal_patch_size\": 2, \"merge_size\": 2, "                       \
    "\"image_mean\": [0.48145466, 0.4578275, 0.40821073], "                 \
    "\"image_std\": [0.26862954, 0.26130258, 0.27577711], "                 \
    "\"image_processor_type\": \"Qwen2VLImageProcessor\"}"

// GLM-4V, dense or with experts (class, type; the type of its parts). inner: width of the merger;
// text: sizes of the decoder.
#define GLM4V(class, type, part, inner, text)                                               \
    "{\"architectures\": [\"" class                                                         \
        "ForConditionalGeneration\"], \"model_type\": \"" type "\", "                       \
        "\"eos_token_id\": 0, \"pad_token_id\": 0, \"image_token_id\": 0, "                 \
        "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", "                   \
        "\"vision_config\": {\"model_type\": \"" part "_vision\", \"hidden_size\": 1536, "  \
        "\"depth\": 24, \"num_heads\": 12, \"attention_bias\": false, "                     \
        "\"intermediate_size\": " inner ", \"hidden_act\": \"silu\", \"image_size\": 336, " \
        "\"patch_size\": 14, \"out_hidden_size\": 4096, \"rms_norm_eps\": 1e-05, "          \
        "\"spatial_merge_size\": 2, \"temporal_patch_size\": 2, \"in_channels\": 3}, "      \
        "\"text_config\": {\"model_type\": \"" part "_text\", \"vocab_size\": 151552, "     \
        "\"hidden_size\": 4096, " text ", \"hidden_act\": \"silu\", "                       \
        "\"max_position_embeddings\": 65536, \"rms_norm_eps\": 1e-05, "                     \
        "\"rope_theta\": 10000.0, \"attention_bias\": true, "                               \
        "\"partial_rotary_factor\": 0.5, "                                                  \
        "\"rope_scaling\": {\"type\": \"default\", \"mrope_section\": [8, 12, 12]}}}"
#define GLM4V_9B                                                \
    "\"intermediate_size\": 13696, \"num_hidden_layers\": 40, " \
    "\"num_attention_heads\": 32, \"num_key_value_heads\": 2"
#define GLM4V_PICTURES                                                         \
    "{\"size\": {\"shortest_edge\": 12544, \"longest_edge\": 9633792}, "       \
    "\"do_rescale\": true, \"patch_size\": 14, \"temporal_patch_size\": 2, "   \
    "\"merge_size\": 2, \"image_mean\": [0.48145466, 0.4578275, 0.40821073], " \
    "\"image_std\": [0.26862954, 0.26130258, 0.27577711], "                    \
    "\"image_processor_type\": \"Glm4vImageProcessor\"}"

// Kimi-VL's MoonViT and its preprocessing.
#define MOONVIT                                                                        \
    "{\"model_type\": \"moonvit\", \"hidden_size\": 1152, \"num_hidden_layers\": 27, " \
    "\"num_attention_heads\": 16, \"intermediate_size\": 4304, \"patch_size\": 14, "   \
    "\"init_pos_emb_height\": 64, \"init_pos_emb_width\": 64, "                        \
    "\"merge_kernel_size\": [2, 2]}"
#define MOONVIT_PICTURES                                                   \
    "{\"patch_size\": 14, \"pad_input\": true, \"in_token_limit\": 4096, " \
    "\"merge_kernel_size\": [2, 2], \"image_mean\": [0.5, 0.5, 0.5], "     \
    "\"image_std\": [0.5, 0.5, 0.5]}"
// LLaVA with MoonViT, in the layout that docs/families.md defines.
#define LLAVA_NATIVE(tower, text)                                                                  \
    "{\"architectures\": [\"LlavaForConditionalGeneration\"], \"model_type\": \"llava\", "         \
    "\"image_token_index\": 0, \"pad_token_id\": 0, \"projector_hidden_act\": \"gelu\", "          \
    "\"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", \"vision_feature_layer\": -1, " \
    "\"vision_feature_select_strategy\": \"full\", \"vision_config\": " tower ", "                 \
    "\"text_config\": {\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "     \
    "\"attention_bias\": false, \"mlp_bias\": false, \"bos_token_id\": 0, "                        \
    "\"hidden_act\": \"silu\", \"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05, "     \
    "\"rope_theta\": 500000.0, \"tie_word_embeddings\": true, " text "}}"
#define LLAMA_3_2_TEXT(hidden, layers, heads, dim)                                               \
    "\"hidden_size\": " hidden ", \"intermediate_size\": 8192, \"num_hidden_layers\": " layers   \
    ", \"num_attention_heads\": " heads ", \"num_key_value_heads\": 8, \"head_dim\": " dim       \
    ", \"vocab_size\": 128256, \"rope_scaling\": {\"factor\": 32.0, \"high_freq_factor\": 4.0, " \
    "\"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 8192, "                     \
    "\"rope_type\": \"llama3\"}"

// InternViT-300M at 448 pixels.
#define INTERN_VIT                                                                       \
    "\"hidden_size\": 1024, \"intermediate_size\": 4096, \"num_hidden_layers\": 24, "    \
    "\"num_attention_heads\": 16, \"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-06, " \
    "\"norm_type\": \"layer_norm\", \"num_channels\": 3, "
// InternVL in the layout of transformers.
#define INTERNVL_HF(text)                                                                        \
    "{\"architectures\": [\"InternVLForConditionalGeneration\"], \"model_type\": \"internvl\", " \
    "\"image_token_id\": 0, \"image_seq_length\": 256, \"downsample_ratio\": 0.5, "              \
    "\"projector_hidden_act\": \"gelu\", \"vision_feature_layer\": -1, "                         \
    "\"vision_feature_select_strategy\": \"default\", \"tie_word_embeddings\": false, "          \
    "\"torch_dtype\": \"bfloat16\", \"vision_config\": {\"model_type\": "                        \
    "\"internvl_vision\", " INTERN_VIT "\"image_size\": [448, 448], \"patch_size\": [14, 14], "  \
    "\"attention_bias\": true, \"use_qk_norm\": false, \"use_mean_pooling\": true}, "            \
    "\"text_config\": {" text ", \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-06, "            \
    "\"rope_theta\": 1000000.0, \"tie_word_embeddings\": false}}"
// InternVL3, with Qwen2.5.
#define INTERNVL3(hidden, ffn, layers, heads, kv_heads)                                    \
    INTERNVL_HF("\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", "   \
                "\"hidden_size\": " hidden ", \"intermediate_size\": " ffn                 \
                ", \"num_hidden_layers\": " layers ", \"num_attention_heads\": " heads     \
                ", \"num_key_value_heads\": " kv_heads ", \"vocab_size\": 151674, "        \
                "\"max_position_embeddings\": 32768, \"rope_scaling\": {\"factor\": 2.0, " \
                "\"rope_type\": \"dynamic\"}")
// InternVL3.5, with Qwen3. All sizes have an untied head, as their parameter counts show (Qwen3
// ties the head up to 4B).
#define INTERNVL3_5(hidden, ffn, layers, heads)                                             \
    INTERNVL_HF("\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "    \
                "\"hidden_size\": " hidden ", \"intermediate_size\": " ffn                  \
                ", \"num_hidden_layers\": " layers ", \"num_attention_heads\": " heads      \
                ", \"num_key_value_heads\": 8, \"head_dim\": 128, \"vocab_size\": 151936, " \
                "\"attention_bias\": false, \"max_position_embeddings\": 40960")
#define INTERNVL3_PICTURES                                                                   \
    "{\"crop_to_patches\": true, \"min_patches\": 1, \"max_patches\": 12, \"resample\": 3, " \
    "\"do_convert_rgb\": true, \"image_mean\": [0.485, 0.456, 0.406], "                      \
    "\"image_std\": [0.229, 0.224, 0.225], \"size\": {\"height\": 448, \"width\": 448}, "    \
    "\"image_processor_type\": \"GotOcr2ImageProcessorFast\"}"
// InternVL2 in the authors' layout, with InternLM2.
#define INTERNVL2(hidden, ffn, layers, heads)                                                    \
    "{\"architectures\": [\"InternVLChatModel\"], \"model_type\": \"internvl_chat\", "           \
    "\"img_context_token_id\": 0, \"downsample_ratio\": 0.5, \"dynamic_image_size\": true, "     \
    "\"force_image_size\": 448, \"min_dynamic_patch\": 1, \"max_dynamic_patch\": 12, "           \
    "\"pad2square\": false, \"ps_version\": \"v2\", \"select_layer\": -1, "                      \
    "\"template\": \"internlm2-chat\", \"use_thumbnail\": true, \"torch_dtype\": \"bfloat16\", " \
    "\"vision_config\": {\"architectures\": [\"InternVisionModel\"], "                           \
    "\"model_type\": \"intern_vit_6b\", " INTERN_VIT "\"image_size\": 448, \"patch_size\": 14, " \
    "\"qkv_bias\": true, \"qk_normalization\": false}, \"llm_config\": {\"architectures\": "     \
    "[\"InternLM2ForCausalLM\"], \"model_type\": \"internlm2\", \"bias\": false, "               \
    "\"hidden_act\": \"silu\", \"hidden_size\": " hidden ", \"intermediate_size\": " ffn         \
    ", \"num_hidden_layers\": " layers ", \"num_attention_heads\": " heads                       \
    ", \"num_key_value_heads\": 8, \"vocab_size\": 92553, "                                      \
    "\"max_position_embeddings\": 32768, \"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000, "     \
    "\"rope_scaling\": {\"factor\": 2.0, \"type\": \"dynamic\"}, "                               \
    "\"tie_word_embeddings\": false}}"
#define INTERNVL2_PICTURES                                                          \
    "{\"crop_size\": 448, \"do_center_crop\": true, \"do_normalize\": true, "       \
    "\"do_resize\": true, \"feature_extractor_type\": \"CLIPFeatureExtractor\", "   \
    "\"image_mean\": [0.485, 0.456, 0.406], \"image_std\": [0.229, 0.224, 0.225], " \
    "\"resample\": 3, \"size\": 448}"
// A shape given by its whole config.json and preprocessor_config.json.
#define PUBLISHED(id, text, pictures, rows, ordinary)                                           \
    {                                                                                           \
        .name = id, .config = text, .preprocessor = pictures, .vocab = rows, .words = ordinary, \
        .tokens = TOKENS_LLAMA3, .tower = TOWER_OWN, .spread = 0.02                             \
    }
#define LLAVA(id, text, numbers, encoder, projector)                      \
    {                                                                     \
        .name = id, text, numbers, encoder, .projector_layers = projector \
    }

static const struct shape shapes[] = {
    LLAVA("llama-3.2-1b+siglip-so400m", LLAMA_1B, LLAMA_3_2, SIGLIP_SO400M, 2),
    LLAVA("llama-3.2-3b+siglip-so400m", LLAMA_3B, LLAMA_3_2, SIGLIP_SO400M, 2),
    PUBLISHED("llama-3.2-1b+moonvit",
              LLAVA_NATIVE(MOONVIT, LLAMA_3_2_TEXT("2048", "16", "32", "64")), MOONVIT_PICTURES,
              128256, 128000),
    PUBLISHED("llama-3.2-3b+moonvit",
              LLAVA_NATIVE(MOONVIT, LLAMA_3_2_TEXT("3072", "28", "24", "128")), MOONVIT_PICTURES,
              128256, 128000),
    { .name = "llama-3.2-1b", LLAMA_1B, LLAMA_3_2 },
    { .name = "qwen3-0.6b", DECODER("qwen3", 28, 1024, 16, 8, 128, 3072), QWEN3 },
    { .name = "qwen3-1.7b", DECODER("qwen3", 28, 2048, 16, 8, 128, 6144), QWEN3 },
    LLAVA("llava-1.5-7b", LLAMA_7B, VICUNA, CLIP_L_336, 2),
    LLAVA("llava-1.5-13b", LLAMA_13B, VICUNA, CLIP_L_336, 2),
    // The conversion to the layout of transformers adds rows for <image> and <video> to Qwen2's
    // vocabulary and pads it to a multiple of 64 (convert_llava_onevision_weights_to_hf.py).
    { .name = "llava-onevision-0.5b",
      DECODER("qwen2", 24, 896, 14, 2, 64, 4864),
      .vocab = 152000,
      .tied = true,
      QWEN2,
      SIGLIP_26,
      ONEVISION,
      .projector_layers = 2 },
    { .name = "llava-onevision-7b",
      DECODER("qwen2", 28, 3584, 28, 4, 128, 18944),
      .vocab = 152128,
      QWEN2,
      SIGLIP_26,
      ONEVISION,
      .projector_layers = 2 },
    { .name = "llava-next-7b",
      LLAMA_7B,
      VICUNA,
      CLIP_L_336,
      .family = "llava-next",
      .tiles = "[[336,672],[672,336],[672,672],[1008,336],[336,1008]]",
      .projector_layers = 2 },
    PUBLISHED("qwen2.5-vl-3b", QWEN2_5_VL("2048", "11008", "36", "16", "2", "151936", "true"),
              QWEN2_5_VL_PICTURES, 151936, 151643),
    PUBLISHED("qwen2.5-vl-7b", QWEN2_5_VL("3584", "18944", "28", "28", "4", "152064", "false"),
              QWEN2_5_VL_PICTURES, 152064, 151643),
    PUBLISHED("glm-4.1v-9b", GLM4V("Glm4v", "glm4v", "glm4v", "13696", GLM4V_9B), GLM4V_PICTURES,
              151552, 151200),
    // The defaults of transformers' Glm46VConfig, Glm4vTextConfig and Glm4vVisionConfig.
    PUBLISHED("glm-4.6v-flash", GLM4V("Glm46V", "glm46v", "glm4v", "13696", GLM4V_9B),
              GLM4V_PICTURES, 151552, 151200),
    PUBLISHED("glm-4.5v",
              GLM4V("Glm4vMoe", "glm4v_moe", "glm4v_moe", "10944",
                    "\"intermediate_size\": 10944, \"num_hidden_layers\": 46, "
                    "\"num_attention_heads\": 96, \"num_key_value_heads\": 8, "
                    "\"head_dim\": 128, \"first_k_dense_replace\": 1, "
                    "\"moe_intermediate_size\": 1408, \"n_routed_experts\": 128, "
                    "\"n_shared_experts\": 1, \"num_experts_per_tok\": 8, \"n_group\": 1, "
                    "\"topk_group\": 1, \"norm_topk_prob\": true, "
                    "\"routed_scaling_factor\": 1.0, \"use_qk_norm\": false"),
              GLM4V_PICTURES, 151552, 151200),
    // config.json of zai-org/GLM-OCR, without the layer that predicts a second token.
    PUBLISHED("glm-ocr",
              "{\"architectures\": [\"GlmOcrForConditionalGeneration\"], "
              "\"model_type\": \"glm_ocr\", \"eos_token_id\": 0, \"pad_token_id\": 0, "
              "\"image_token_id\": 0, \"tie_word_embeddings\": false, "
              "\"torch_dtype\": \"bfloat16\", "
              "\"vision_config\": {\"model_type\": \"glm_ocr_vision\", \"depth\": 24, "
              "\"hidden_size\": 1024, \"num_heads\": 16, \"attention_bias\": true, "
              "\"intermediate_size\": 4096, \"hidden_act\": \"silu\", \"image_size\": 336, "
              "\"patch_size\": 14, \"out_hidden_size\": 1536, \"rms_norm_eps\": 1e-05, "
              "\"spatial_merge_size\": 2, \"temporal_patch_size\": 2, \"in_channels\": 3}, "
              "\"text_config\": {\"model_type\": \"glm_ocr_text\", \"vocab_size\": 59392, "
              "\"hidden_size\": 1536, \"intermediate_size\": 4608, "
              "\"num_hidden_layers\": 16, \"num_attention_heads\": 16, "
              "\"num_key_value_heads\": 8, \"head_dim\": 128, \"hidden_act\": \"silu\", "
              "\"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05, "
              "\"attention_bias\": false, \"rope_parameters\": {\"rope_type\": \"default\", "
              "\"rope_theta\": 10000.0, \"partial_rotary_factor\": 1.0, "
              "\"mrope_section\": [16, 24, 24]}}}",
              GLM4V_PICTURES, 59392, 59246),
    PUBLISHED("kimi-vl-a3b",
              "{\"architectures\": [\"KimiVLForConditionalGeneration\"], "
              "\"model_type\": \"kimi_vl\", \"eos_token_id\": 0, \"pad_token_id\": 0, "
              "\"media_placeholder_token_id\": 0, \"torch_dtype\": \"bfloat16\", "
              "\"vision_config\": " MOONVIT ", "
              "\"text_config\": {\"model_type\": \"deepseek_v3\", \"vocab_size\": 163840, "
              "\"hidden_size\": 2048, \"intermediate_size\": 11264, "
              "\"moe_intermediate_size\": 1408, \"num_hidden_layers\": 27, "
              "\"num_attention_heads\": 16, \"num_key_value_heads\": 16, "
              "\"n_shared_experts\": 2, \"n_routed_experts\": 64, \"num_experts_per_tok\": 6, "
              "\"first_k_dense_replace\": 1, \"n_group\": 1, \"topk_group\": 1, "
              "\"topk_method\": \"noaux_tc\", \"scoring_func\": \"sigmoid\", "
              "\"norm_topk_prob\": true, \"routed_scaling_factor\": 2.446, "
              "\"q_lora_rank\": null, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, "
              "\"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"hidden_act\": \"silu\", "
              "\"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05, "
              "\"rope_theta\": 800000.0, \"attention_bias\": false, "
              "\"tie_word_embeddings\": false}}",
              MOONVIT_PICTURES, 163840, 163584),
    PUBLISHED("internvl3-1b", INTERNVL3("896", "4864", "24", "14", "2"), INTERNVL3_PICTURES, 151674,
              151643),
    PUBLISHED("internvl3-2b", INTERNVL3("1536", "8960", "28", "12", "2"), INTERNVL3_PICTURES,
              151674, 151643),
    PUBLISHED("internvl3-8b", INTERNVL3("3584", "18944", "28", "28", "4"), INTERNVL3_PICTURES,
              151674, 151643),
    PUBLISHED("internvl3.5-1b", INTERNVL3_5("1024", "3072", "28", "16"), INTERNVL3_PICTURES, 151936,
              151643),
    PUBLISHED("internvl3.5-2b", INTERNVL3_5("2048", "6144", "28", "16"), INTERNVL3_PICTURES, 151936,
              151643),
    PUBLISHED("internvl3.5-8b", INTERNVL3_5("4096", "12288", "36", "32"), INTERNVL3_PICTURES,
              151936, 151643),
    PUBLISHED("internvl2-2b", INTERNVL2("2048", "8192", "24", "16"), INTERNVL2_PICTURES, 92553,
              92397),
    PUBLISHED("internvl2-8b", INTERNVL2("4096", "14336", "32", "32"), INTERNVL2_PICTURES, 92553,
              92397),
    // Llama-2 and CLIP ViT-L/336 with a projector of one linear layer.
    LLAVA("mm-llama2-7b", LLAMA_7B, LLAMA_2, CLIP_L_336, 1),
    LLAVA("mm-llama2-13b", LLAMA_13B, LLAMA_2, CLIP_L_336, 1),
    // For trying the shell: the model is smaller than 2 MB and opens instantly.
    { .name = "tiny",
      DECODER("llama", 4, 96, 6, 2, 16, 256),
      .context = 4096,
      .vocab = 512,
      .words = 500,
      .tokens = TOKENS_LLAMA3,
      .rope_theta = 500000,
      ENCODER(TOWER_SIGLIP, 4, 64, 4, 160, 96, 12),
      .projector_layers = 2,
      .spread = 0.1 },
    // Like "tiny", but encodes pictures at native resolution.
    { .name = "tiny-moonvit",
      .config = LLAVA_NATIVE("{\"model_type\": \"moonvit\", \"hidden_size\": 64, "
                             "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
                             "\"intermediate_size\": 160, \"patch_size\": 12, "
                             "\"init_pos_emb_height\": 8, \"init_pos_emb_width\": 8, "
                             "\"merge_kernel_size\": [2, 2]}",
                             "\"hidden_size\": 96, \"intermediate_size\": 256, "
                             "\"num_hidden_layers\": 4, \"num_attention_heads\": 6, "
                             "\"num_key_value_heads\": 2, \"head_dim\": 16, "
                             "\"vocab_size\": 512"),
      .preprocessor = "{\"patch_size\": 12, \"in_token_limit\": 256, "
                      "\"merge_kernel_size\": [2, 2]}",
      .vocab = 512,
      .words = 500,
      .tokens = TOKENS_LLAMA3,
      .tower = TOWER_OWN,
      .spread = 0.1 },
    // For training in the demo (demo/make.vlmsh): the model is smaller than 10 MB.
    { .name = "demo",
      DECODER("llama", 8, 192, 6, 3, 32, 448),
      .context = 2048,
      .vocab = 1024,
      .words = 1022,
      .tied = true,
      .tokens = TOKENS_LLAMA2,
      .rope_theta = 10000,
      ENCODER(TOWER_SIGLIP, 4, 192, 6, 512, 96, 8),
      .no_pooling = true,
      .feature_layer = -1,
      .projector_layers = 2,
      .spread = 0.05,
      .fresh = true },
};

const struct shape *shape_at(int index)
{
    enum { FAMILIES_MOST = 64 };
    static struct shape of_families[FAMILIES_MOST];
    const int own = sizeof shapes / sizeof *shapes;
    if (index >= 0 && index < own) return &shapes[index];
    const struct family_shape *f = index < 0 ? NULL : family_shape_at(index - own);
    if (!f) return NULL;
    if (index - own >= FAMILIES_MOST) BUG("too many shapes of families");
    struct shape *s = &of_families[index - own];
    *s = (struct shape)PUBLISHED(f->name, f->config, f->preprocessor, f->vocab, f->words);
    s->marks = f->marks;
    return s;
}

const struct shape *shape_find(const char *name, struct err *err)
{
    struct buf known = { 0 };
    const struct shape *s;
    for (int i = 0; (s = shape_at(i)); i++) {
        if (!strcmp(s->name, name)) {
            buf_release(&known);
            return s;
        }
        buf_printf(&known, "%s%s", i ? ", " : "", s->name);
    }
    err_set(err, "no shape '%.100s'; shapes: %s", name, known.data);
    buf_release(&known);
    return NULL;
}
