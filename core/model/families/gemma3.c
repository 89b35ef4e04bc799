// core/model/families/gemma3.c -- Gemma 3 (Gemma team 2025, arXiv 2503.19786): a SigLIP encoder,
// pooled features, the decoder of gemma3_text.c.
//
// A picture is resized to one square. Its features, a grid, are averaged in cells of k x k, normed
// and multiplied by one matrix [Dv,D], which the file stores with the outputs as columns. In all
// layers, each row of a picture also sees the picture's later rows; a sliding window limits only
// the earlier rows that it sees.
#include <math.h>
#include <stdlib.h>

#include "core/files/gguf_parts.h"
#include "core/files/gguf_write.h"
#include "core/model/families/llava.h"
#include "core/ops/ops.h"

// --- config --------------------------------------------------------------------------------------

// Sets the side of the pooled cells from the number of visual tokens, which must be a square.
static int read_pool(struct model *m, const cJSON *config, struct err *err)
{
    struct vision_config *v = &m->vision.config;
    struct projector *p = &m->projector;
    int64_t tokens;
    if (json_int(config, "mm_tokens_per_image", 1, 1000000, 256, &tokens, err) < 0) return -1;
    const int64_t side = llround(sqrt((double)tokens));
    p->side = v->image_size / v->patch;
    p->eps = v->eps;
    v->merge = p->side / side;
    p->merge = v->merge * v->merge;
    if (side * side == tokens && v->merge * side == p->side) return 0;
    return err_set(
        err,
        "\"mm_tokens_per_image\" %lld: %lld x %lld patches cannot be pooled to this number of "
        "tokens",
        (long long)tokens, (long long)p->side, (long long)p->side);
}

static int read_config(struct model *m, const cJSON *config, struct err *err)
{
    const cJSON *vision;
    if (json_object(config, "vision_config", &vision, err) < 0 ||
        family_text_read(m, NULL, config, err) < 0)
        return -1;
    if (vision_config_read(&m->vision.config, &vision_siglip_normed, vision, err) < 0)
        return err_in(err, "vision_config");
    m->decoder.config.pictures_whole = true;
    if (read_pool(m, config, err) < 0) return -1;
    return family_placeholder_read(m, config, "image_token_index", "image_token_id", 262144, err);
}

static int read_pictures(struct model *m, const cJSON *json, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    struct picture_config usual = vision_picture_defaults(v, FIT_EXACT);
    bool pan;
    usual.resample = RESAMPLE_BILINEAR;
    if (picture_config_read(&m->picture, json, &usual, err) < 0 ||
        json_bool(json, "do_pan_and_scan", false, &pan, err) < 0)
        return -1;
    if (pan)
        return err_set(err, "\"do_pan_and_scan\": adding crops of a picture as further pictures is "
                            "not supported; set it to false");
    m->picture.flatten = true; // transformers converts to RGB, although files say null
    if (m->picture.width == v->image_size && m->picture.height == v->image_size) return 0;
    return err_set(err,
                   "pictures are resized to %lld x %lld pixels, but the encoder needs %lld x %lld",
                   (long long)m->picture.width, (long long)m->picture.height,
                   (long long)v->image_size, (long long)v->image_size);
}

static int gemma3_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    if (read_config(m, c->config, err) < 0) return err_in(err, "config.json");
    if (read_pictures(m, c->preprocessor, err) == 0) return 0;
    return err_in(err, "%s", checkpoint_preprocessor_file(c));
}

// --- projector -----------------------------------------------------------------------------------

static void bind_projector(struct projector *p, struct binder *b, int64_t in, int64_t out)
{
    bind_gain(b, &p->norm.gain, in, true, "mm_soft_emb_norm.weight");
    bind_matrix(b, &p->linear_1.weight, in, out, "mm_input_projection_weight");
}

// Averages cells of k x k features x [T*side*side, Dv], row by row: [T*side*side/(k*k), Dv].
static struct tensor *pool(struct graph *g, const struct projector *p, struct tensor *x)
{
    const int64_t side = p->side, k = llround(sqrt((double)p->merge)), cols = side / k;
    const int64_t n = x ? x->shape[0] / p->merge : 0, count = n * p->merge;
    if (!x || !graph_ok(g)) return NULL;
    int32_t *index = xreallocarray(NULL, (size_t)count + 1, sizeof *index);
    float *weight = xreallocarray(NULL, (size_t)count + 1, sizeof *weight);
    for (int64_t i = 0; i < count; i++) {
        const int64_t cell = i / p->merge, in_cell = i % p->merge; // of all pictures
        const int64_t row = cell / cols * k + in_cell / k, col = cell % cols * k + in_cell % k;
        index[i] = (int32_t)(row * side + col);
        weight[i] = 1 / (float)p->merge;
    }
    x = op_blend_rows(g, x, index, weight, n, p->merge);
    free(index);
    free(weight);
    return x;
}

static struct tensor *project(struct graph *g, const struct projector *p, struct tensor *x)
{
    x = norm_forward(g, pool(g, p, x), &p->norm, p->eps);              // [S, Dv]
    return op_matmul_columns(g, x, graph_weight(&p->linear_1.weight)); // [S, D]
}

static const struct projector_kind projector = { .bind = bind_projector, .forward = project };

static int gemma3_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    m->projector.kind = &projector;
    return llava_bind_as(m, c, "mm_input_projection_weight", err);
}

// --- published models ----------------------------------------------------------------------------

#define SHAPE_CONFIG(text)                                                                     \
    "{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"model_type\": \"gemma3\", "   \
    "\"image_token_index\": 0, \"mm_tokens_per_image\": 256, \"torch_dtype\": \"bfloat16\", "  \
    "\"vision_config\": {\"model_type\": \"siglip_vision_model\", \"hidden_size\": 1152, "     \
    "\"intermediate_size\": 4304, \"num_hidden_layers\": 27, \"num_attention_heads\": 16, "    \
    "\"image_size\": 896, \"patch_size\": 14, \"vision_use_head\": false}, \"text_config\": {" \
    "\"model_type\": \"gemma3_text\", \"vocab_size\": 262208, \"max_position_embeddings\": "   \
    "131072, \"sliding_window\": 1024, \"rope_scaling\": {\"factor\": 8.0, \"rope_type\": "    \
    "\"linear\"}, " text "}}"
#define SHAPE_TEXT(hidden, ffn, layers, heads, kv_heads, width, scalar)                           \
    "\"hidden_size\": " hidden ", \"intermediate_size\": " ffn ", \"num_hidden_layers\": " layers \
    ", \"num_attention_heads\": " heads ", \"num_key_value_heads\": " kv_heads                    \
    ", \"head_dim\": " width ", \"query_pre_attn_scalar\": " scalar
#define SHAPE_PICTURES                                                                         \
    "{\"image_processor_type\": \"Gemma3ImageProcessor\", \"image_mean\": [0.5, 0.5, 0.5], "   \
    "\"image_std\": [0.5, 0.5, 0.5], \"resample\": 2, \"size\": {\"height\": 896, \"width\": " \
    "896}}"
#define SHAPE(id, text)                                                     \
    {                                                                       \
        id, SHAPE_CONFIG(text), SHAPE_PICTURES, 262208, 262144,             \
            "<start_of_image> <end_of_image> <start_of_turn> <end_of_turn>" \
    }

static const struct family_shape shapes[] = {
    SHAPE("gemma3-4b", SHAPE_TEXT("2560", "10240", "34", "8", "4", "256", "256")),
    SHAPE("gemma3-12b", SHAPE_TEXT("3840", "15360", "48", "16", "8", "256", "256")),
    SHAPE("gemma3-27b", SHAPE_TEXT("5376", "21504", "62", "32", "16", "128", "168")),
    { 0 },
};

// --- GGUF files ----------------------------------------------------------------------------------

static void read_gguf(struct encoder_config *e)
{
    const int64_t side = config_value(&e->c, "image_size", 1, GGUF_NEEDED);
    const int64_t patch = config_value(&e->c, "patch_size", 1, GGUF_NEEDED);
    const int64_t cell = config_value(&e->c, "projector.scale_factor", 1, 4);
    if (e->c.failed) return;
    const int64_t tokens = side / patch / cell;
    config_put_text(e->vision, "model_type", "siglip_vision_model");
    encoder_sizes(e, "num_hidden_layers", "num_attention_heads");
    config_int(&e->c, "image_size", "image_size", GGUF_NEEDED);
    config_real(&e->c, "attention.layer_norm_epsilon", "layer_norm_eps", 1e-6);
    gguf_expect(e->c.file, "clip.use_gelu", 1);
    encoder_means(e);
    encoder_placeholder(e, "image_token_index", "<image_soft_token>");
    cJSON_AddNumberToObject(e->whole, "mm_tokens_per_image", (double)(tokens * tokens));
    config_put_text(e->preprocessor, "image_processor_type", "Gemma3ImageProcessor");
    cJSON *size = cJSON_AddObjectToObject(e->preprocessor, "size");
    cJSON_AddNumberToObject(size, "height", (double)side);
    cJSON_AddNumberToObject(size, "width", (double)side);
}

static const struct gguf_name gguf_names[] = {
    { "v.patch_embd", "vision_tower.vision_model.embeddings.patch_embedding", PLAIN },
    { "v.position_embd", "vision_tower.vision_model.embeddings.position_embedding", PLAIN },
    { "v.post_ln", "vision_tower.vision_model.post_layernorm", PLAIN },
    { "mm.soft_emb_norm", "multi_modal_projector.mm_soft_emb_norm", LESS_1 },
    { "mm.input_projection", "multi_modal_projector.mm_input_projection_weight", BARE },
    { 0 },
};

static const char *const gguf_texts[] = { "gemma3", NULL };

static const struct gguf_encoder gguf_encoder = {
    .type = "gemma3",
    .texts = gguf_texts,
    .architecture = "Gemma3ForConditionalGeneration",
    .model_type = "gemma3",
    .prefixes = { "language_model.model.", "language_model." },
    .outer = gguf_names,
    .blocks = "vision_tower.vision_model.encoder.layers.",
    .block = gguf_siglip_block,
    .last = "mm.input_projection.weight",
    .last_columns = true,
    .read = read_gguf,
};

static int check_gguf(const struct model *m, struct err *err)
{
    if (m->vision.config.act == GELU_TANH) return 0;
    return err_set(err, FAMILY_MMPROJ_REFUSED, "its activation");
}

static void put_gguf(const struct model *m, struct gguf_writer *out)
{
    const int64_t cell = m->vision.config.merge;
    if (cell != 4) gguf_writer_u32(out, ".projector.scale_factor", cell);
    gguf_writer_bool(out, "clip.use_gelu", true);
}

static const struct family_mmproj mmproj = { .type = "gemma3",
                                             .post = "v.post_ln",
                                             .columns = true,
                                             .norm = "mm.soft_emb_norm",
                                             .linear = { "mm.input_projection" },
                                             .check = check_gguf,
                                             .put = put_gguf,
                                             .read = &gguf_encoder };

const struct family family_gemma3 = {
    .name = "gemma3",
    .architectures = (const char *const[]){ "Gemma3ForConditionalGeneration", NULL },
    .relatives = (const char *const[]){ "PaliGemmaForConditionalGeneration",
                                        "Gemma3nForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "gemma3", NULL },
    .configure = gemma3_configure,
    .bind = gemma3_bind,
    .part = llava_part,
    .mmproj = &mmproj,
    .shapes = shapes,
    .module_prefix = FAMILY_MODULE_PREFIX,
    .picture_before = "\n\n<start_of_image>",
    .picture_after = "<end_of_image>\n\n",
    .picture_word = "<start_of_image>",
    .pictures = &llava_pictures,
    .picture_processors = (const char *const[]){ "Gemma3", NULL },
    .picture_keys = (const char *const[]){ PICTURE_KEYS, "do_pan_and_scan", NULL },
};
