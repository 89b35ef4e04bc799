// core/model/families/qwen3_vl.c -- Qwen3-VL, dense and with experts (arXiv 2511.21631): an encoder
// of native resolution, mergers, a Qwen3 decoder with multimodal rotary positions.
//
// DeepStack: the outputs of several blocks of the encoder are also merged; the i-th of them is
// added to the visual tokens after layer i of the decoder. The axes of the rotary positions always
// alternate, as in transformers, whatever "mrope_interleaved" says.
#include <stdio.h>
#include <string.h>

#include "core/files/gguf_parts.h"
#include "core/files/gguf_write.h"
#include "core/model/families/native.h"
#include "core/model/families/qwen3_vl.h"
#include "core/model/families/text.h"
#include "core/model/layer.h"
#include "core/model/visual.h"

static const char *const decoder_keys[] = { "mrope_interleaved", NULL };

static const struct decoder_kind dense = {
    .model_types = (const char *const[]){ "qwen3_vl_text", "qwen3_vl", "qwen3", NULL },
    .ffn_size = 22016,
    .vocab = 151936,
    .max_positions = 128000,
    .head_size = 128,
    .theta = 5e5,
    .attention = &attention_normed,
    .ffn = &ffn_gated,
    .norms = &norms_before,
    .rotary = &rotary_multimodal_alternating,
    .keys = decoder_keys,
    .gguf = "qwen3vl",
    .after_layer = visual_deepstack,
};

static const struct experts_config experts = {
    .count = 60, .per_token = 4, .width = 1408, .normalise = true, .transposed = true
};

static const struct decoder_kind sparse = {
    .model_types = (const char *const[]){ "qwen3_vl_moe_text", "qwen3_vl_moe", "qwen3_moe", NULL },
    .ffn_size = 5632,
    .vocab = 151936,
    .max_positions = 128000,
    .head_size = 128,
    .theta = 5e5,
    .attention = &attention_normed,
    .ffn = &ffn_softmax_experts,
    .experts = &experts,
    .norms = &norms_before,
    .rotary = &rotary_multimodal_alternating,
    .keys = decoder_keys,
    .gguf = "qwen3vlmoe",
    .after_layer = visual_deepstack,
};

// Normalises each patch (LayerNorm), joins the patches of a token, then applies linear, GELU,
// linear.
static const struct projector_kind merger = { .norm = "norm",
                                              .norm_bias = true,
                                              .eps = 1e-6,
                                              .encoder_norm = "merger.norm",
                                              .linear_1 = "linear_fc1",
                                              .linear_2 = "linear_fc2",
                                              .wide = true };

static int read_config(struct model *m, const cJSON *config, const struct decoder_kind *decoder,
                       const struct vision_kind *encoder, struct err *err)
{
    const cJSON *vision;
    struct vision_config *v = &m->vision.config;
    if (json_object(config, "vision_config", &vision, err) < 0 ||
        family_text_read(m, decoder, config, err) < 0 ||
        family_placeholder_read(m, config, "image_token_id", "image_token_id", 151655, err) < 0)
        return -1;
    if (vision_config_read(v, encoder, vision, err) < 0) return err_in(err, "vision_config");
    m->projector = (struct projector){
        .kind = &merger, .merge = v->merge * v->merge, .act = GELU_ERF, .bias = true
    };
    return native_check_width(m, v->out, err);
}

int qwen3_vl_configure_as(struct model *m, const struct checkpoint *c,
                          const struct decoder_kind *decoder, const struct vision_kind *encoder,
                          struct err *err)
{
    static const struct picture_config defaults = { .min_pixels = 56 * 56,
                                                    .max_pixels = 28 * 28 * 1280,
                                                    .frames = 1 };
    if (read_config(m, c->config, decoder, encoder, err) < 0) return err_in(err, "config.json");
    return native_read_pictures(m, c, &defaults, err);
}

static int qwen3_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    const struct decoder_kind *decoder = family_sparse(c->config) ? &sparse : &dense;
    return qwen3_vl_configure_as(m, c, decoder, &vision_qwen3, err);
}

int qwen3_vl_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct family_prefixes prefixes = { .text = "model.language_model.",
                                                     .head = "",
                                                     .vision = "model.visual.",
                                                     .projector = "model.visual.merger." };
    return family_bind(m, c, &prefixes, err);
}

enum model_part_kind qwen3_vl_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "visual.merger.") || strstr(tensor, "visual.deepstack_merger_list."))
        return PART_PROJECTOR;
    return strstr(tensor, "visual.") ? PART_VISION : text_part(m, tensor);
}

// --- published models ----------------------------------------------------------------------------

#define SHAPE_CONFIG(type, kind, tied, vision, out, text)                                         \
    "{\"architectures\": [\"" type "ForConditionalGeneration\"], \"model_type\": \"" kind "\", "  \
    "\"image_token_id\": 0, \"tie_word_embeddings\": " tied ", \"dtype\": \"bfloat16\", "         \
    "\"vision_config\": {\"model_type\": \"" kind "\", " vision ", \"hidden_act\": "              \
    "\"gelu_pytorch_tanh\", \"in_channels\": 3, \"num_heads\": 16, "                              \
    "\"num_position_embeddings\": 2304, \"out_hidden_size\": " out ", \"patch_size\": 16, "       \
    "\"spatial_merge_size\": 2, \"temporal_patch_size\": 2}, "                                    \
    "\"text_config\": {\"model_type\": \"" kind "_text\", \"hidden_size\": " out ", " text        \
    ", \"head_dim\": 128, \"hidden_act\": \"silu\", \"vocab_size\": 151936, \"attention_bias\": " \
    "false, \"max_position_embeddings\": 262144, \"rms_norm_eps\": 1e-06, \"rope_theta\": "       \
    "5000000, \"rope_scaling\": {\"rope_type\": \"default\", \"mrope_interleaved\": true, "       \
    "\"mrope_section\": [24, 20, 20]}}}"
#define SHAPE_ENCODER(hidden, ffn, layers, deep)                                      \
    "\"hidden_size\": " hidden ", \"intermediate_size\": " ffn ", \"depth\": " layers \
    ", \"deepstack_visual_indexes\": [" deep "]"
#define SHAPE_SMALL SHAPE_ENCODER("1024", "4096", "24", "5, 11, 17")
#define SHAPE_LARGE SHAPE_ENCODER("1152", "4304", "27", "8, 16, 24")
#define SHAPE_TEXT(ffn, layers, heads, kv_heads)                     \
    "\"intermediate_size\": " ffn ", \"num_hidden_layers\": " layers \
    ", \"num_attention_heads\": " heads ", \"num_key_value_heads\": " kv_heads
#define SHAPE_EXPERTS(count, chosen, width)                          \
    ", \"num_experts\": " count ", \"num_experts_per_tok\": " chosen \
    ", \"moe_intermediate_size\": " width ", \"decoder_sparse_step\": 1, \"mlp_only_layers\": []"
#define SHAPE_PICTURES                                                                        \
    "{\"size\": {\"longest_edge\": 16777216, \"shortest_edge\": 65536}, \"patch_size\": 16, " \
    "\"temporal_patch_size\": 2, \"merge_size\": 2, \"image_mean\": [0.5, 0.5, 0.5], "        \
    "\"image_std\": [0.5, 0.5, 0.5], \"image_processor_type\": \"Qwen2VLImageProcessorFast\"}"
#define SHAPE(id, tied, vision, out, text)                                                        \
    {                                                                                             \
        id, SHAPE_CONFIG("Qwen3VL", "qwen3_vl", tied, vision, out, text), SHAPE_PICTURES, 151936, \
            151643, NULL                                                                          \
    }
#define SHAPE_MOE(id, vision, out, text)                                            \
    {                                                                               \
        id, SHAPE_CONFIG("Qwen3VLMoe", "qwen3_vl_moe", "false", vision, out, text), \
            SHAPE_PICTURES, 151936, 151643, NULL                                    \
    }

static const struct family_shape shapes[] = {
    SHAPE("qwen3-vl-2b", "true", SHAPE_SMALL, "2048", SHAPE_TEXT("6144", "28", "16", "8")),
    SHAPE("qwen3-vl-4b", "true", SHAPE_SMALL, "2560", SHAPE_TEXT("9728", "36", "32", "8")),
    SHAPE("qwen3-vl-8b", "false", SHAPE_LARGE, "4096", SHAPE_TEXT("12288", "36", "32", "8")),
    SHAPE("qwen3-vl-32b", "false", SHAPE_LARGE, "5120", SHAPE_TEXT("25600", "64", "64", "8")),
    SHAPE_MOE("qwen3-vl-30b-a3b", SHAPE_LARGE, "2048",
              SHAPE_TEXT("6144", "48", "32", "4") SHAPE_EXPERTS("128", "8", "768")),
    { 0 },
};

// --- GGUF files ----------------------------------------------------------------------------------

// Refuses files that hold more or fewer DeepStack mergers than their keys state.
static void check_deepstack(struct encoder_config *e, int count)
{
    struct gguf_config text = e->c;
    text.file = e->text;
    text.arch = gguf_text(e->text, "general.architecture");
    const struct gguf_entry *flags = config_list(&e->c, "is_deepstack_layers", VISION_BLOCKS_MOST);
    int64_t announced = flags ? 0 : count;
    for (uint64_t i = 0; flags && i < flags->count; i++) announced += gguf_number(flags, i) != 0;
    const int64_t layers = config_value(&text, "n_deepstack_layers", 0, count);
    if (text.failed) e->c.failed = true;
    if (announced != count || layers != count)
        config_refuse(&e->c,
                      "it has %d mergers of DeepStack (tensors 'v.deepstack.*'), but "
                      "'clip.vision.is_deepstack_layers' names %lld blocks, and "
                      "'%s.n_deepstack_layers' is %lld",
                      count, (long long)announced, text.arch, (long long)layers);
}

void qwen3_vl_read_gguf(struct encoder_config *e)
{
    int64_t block[VISION_DEEP_MOST];
    const int count = gguf_deepstack_blocks(e->c.file, block, VISION_DEEP_MOST);
    const struct safetensor *table = gguf_find(e->c.file, "v.position_embd.weight");
    encoder_sizes(e, "depth", "num_heads");
    gguf_expect(e->c.file, "clip.use_gelu", 1);
    config_int(&e->c, "spatial_merge_size", "spatial_merge_size", 2);
    config_int(&e->c, "projection_dim", "out_hidden_size", GGUF_NEEDED);
    // Checks this key, but ignores it: converters write the language model's epsilon there, and the
    // encoder's is a constant.
    config_number(&e->c, "attention.layer_norm_epsilon", 1e-6);
    check_deepstack(e, count);
    if (!table) config_refuse(&e->c, "tensor 'v.position_embd.weight' is missing");
    if (e->c.failed || !table) return;
    cJSON_AddNumberToObject(e->vision, "num_position_embeddings", (double)table->shape[0]);
    cJSON *list = cJSON_AddArrayToObject(e->vision, "deepstack_visual_indexes");
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)block[i]));
    cJSON *text = cJSON_GetObjectItemCaseSensitive(e->whole, "text_config");
    if (!json_get(json_get(text, "rope_scaling"), "mrope_section")) encoder_sections(e, text);
    config_put_text(e->preprocessor, "image_processor_type", "Qwen2VLImageProcessorFast");
    encoder_pixels(e, 65536, 16777216);
    encoder_placeholder(e, "image_token_id", "<|image_pad|>");
}

const struct gguf_name qwen3_vl_outer[] = {
    { "v.patch_embd", "model.visual.patch_embed.proj", PLAIN },
    { "v.position_embd", "model.visual.pos_embed", PLAIN },
    { "v.post_ln", "model.visual.merger.norm", PLAIN },
    { "mm.0", "model.visual.merger.linear_fc1", PLAIN },
    { "mm.2", "model.visual.merger.linear_fc2", PLAIN },
    { 0 },
};

const struct gguf_name qwen3_vl_block[] = {
    { "ln1", "norm1", PLAIN },
    { "ln2", "norm2", PLAIN },
    { "attn_qkv", "attn.qkv", PLAIN },
    { "attn_q", "attn.q", PLAIN },
    { "attn_k", "attn.k", PLAIN },
    { "attn_v", "attn.v", PLAIN },
    { "attn_out", "attn.proj", PLAIN },
    { "ffn_up", "mlp.linear_fc1", PLAIN },
    { "ffn_down", "mlp.linear_fc2", PLAIN },
    { 0 },
};

static const struct gguf_name gguf_merger[] = {
    { "norm", "norm", PLAIN },
    { "fc1", "linear_fc1", PLAIN },
    { "fc2", "linear_fc2", PLAIN },
    { 0 },
};

static const char *const gguf_texts[] = { "qwen3vl", "qwen3vlmoe", NULL };

static const struct gguf_encoder gguf_encoder = {
    QWEN3_VL_ENCODER,
    .texts = gguf_texts,
    .architecture = "Qwen3VLForConditionalGeneration",
    .model_type = "qwen3_vl",
    .mergers = "model.visual.deepstack_merger_list.",
    .merger = gguf_merger,
};

int qwen3_vl_check_mmproj(const struct model *m, struct err *err)
{
    return native_check_mmproj(m, GELU_TANH, err);
}

void qwen3_vl_put_mmproj(const struct model *m, struct gguf_writer *out)
{
    const struct vision_config *v = &m->vision.config;
    bool deep[VISION_BLOCKS_MOST] = { false };
    for (int i = 0; i < v->deep_count; i++) deep[v->deep[i]] = true;
    gguf_writer_u32(out, ".image_size", v->table_rows * v->patch);
    native_put_mmproj(m, out);
    gguf_writer_bools(out, ".is_deepstack_layers", deep, (size_t)v->layers);
    gguf_writer_bool(out, "clip.use_gelu", true);
}

static const struct family_mmproj mmproj = { QWEN3_VL_MMPROJ, .read = &gguf_encoder };

const struct family family_qwen3_vl = {
    .name = "qwen3_vl",
    .architectures = (const char *const[]){ "Qwen3VLForConditionalGeneration",
                                            "Qwen3VLMoeForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "qwen3_vl", "qwen3_vl_moe", NULL },
    .relatives = (const char *const[]){ "Qwen3OmniMoeForConditionalGeneration", NULL },
    .configure = qwen3_configure,
    .bind = qwen3_vl_bind,
    .part = qwen3_vl_part,
    .mmproj = &mmproj,
    .shapes = shapes,
    .boxes = "qwen3-vl",
    .picture_processors = (const char *const[]){ "Qwen2VL", "Qwen3VL", NULL },
    NATIVE_QWEN_FAMILY,
};
