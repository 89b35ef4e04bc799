// core/model/families/smolvlm.c -- Idefics3, SmolVLM and SmolVLM2: a SigLIP encoder, pixel shuffle
// and one linear layer, a Llama decoder.
//
// A picture is a grid of tiles, row by row, and the whole picture as the last one; only the latter
// if the picture is not split (core/picture/tile_grid.h). Text precedes the tokens of each:
// <fake_token_around_image>, then the tile's row and column, or <global-img>; a line break follows
// each row of tiles, two follow the last. Positions are as in plain text.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/files/gguf_parts.h"
#include "core/files/gguf_write.h"
#include "core/model/bind.h"
#include "core/model/families/internvl.h"
#include "core/model/families/text.h"
#include "core/template/message.h"

// --- config --------------------------------------------------------------------------------------

static int read_config(struct model *m, const cJSON *config, struct err *err)
{
    const cJSON *vision;
    struct vision_config *v = &m->vision.config;
    if (json_object(config, "vision_config", &vision, err) < 0 ||
        family_text_read(m, NULL, config, err) < 0)
        return -1;
    if (vision_config_read(v, &vision_idefics3, vision, err) < 0)
        return err_in(err, "vision_config");
    if (json_int(config, "scale_factor", 1, 64, 2, &v->merge, err) < 0) return -1;
    return family_placeholder_read(m, config, "image_token_id", "image_token_index", 128257, err);
}

// Reads {"longest_edge": n}, or {"height": h, "width": w}.
static int read_size(struct picture_config *p, const cJSON *json, struct err *err)
{
    const cJSON *size;
    const int64_t most = IMAGE_MAX_SIDE;
    if (json_object(json, "size", &size, err) < 0) return -1;
    if (!json_get(size, "height"))
        return json_int(size, "longest_edge", 1, most, p->longest, &p->longest, err);
    p->longest = 0;
    if (json_int(size, "height", 1, most, p->height, &p->exact_height, err) < 0) return -1;
    return json_int(size, "width", 1, most, p->width, &p->exact_width, err);
}

// Without preprocessor_config.json, tiles have the encoder's image_size; if the file lacks the
// size, they have transformers' default.
static int read_pictures(struct model *m, const cJSON *json, struct err *err)
{
    struct vision_config *v = &m->vision.config;
    struct picture_config *p = &m->picture;
    const cJSON *tile;
    bool split;
    *p = vision_picture_defaults(v, FIT_EXACT);
    p->resample = RESAMPLE_LANCZOS;
    p->thumbnail = true;
    if (picture_config_read_shared(p, json, err) < 0 ||
        json_object(json, "max_image_size", &tile, err) < 0 ||
        json_int(tile, "longest_edge", 1, 10000, json ? 364 : v->image_size, &p->width, err) < 0 ||
        json_bool(json, "do_image_splitting", true, &split, err) < 0)
        return -1;
    p->height = v->image_size = p->width;
    p->longest = 4 * p->width;
    if (split) p->min_tiles = 1, p->max_tiles = TILE_GRID_MAX;
    if (read_size(p, json, err) < 0) return -1;
    if (!p->resize) p->longest = 0;
    const int64_t side = v->image_size / v->patch;
    if (side > 0 && side % v->merge == 0) return 0;
    return err_set(
        err,
        "tiles of %lld pixels have %lld patches a side, which \"scale_factor\" %lld does "
        "not divide",
        (long long)v->image_size, (long long)side, (long long)v->merge);
}

static int smolvlm_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    if (read_config(m, c->config, err) < 0) return err_in(err, "config.json");
    if (read_pictures(m, c->preprocessor, err) == 0) return 0;
    return err_in(err, "%s", checkpoint_preprocessor_file(c));
}

// --- pictures ------------------------------------------------------------------------------------

static int64_t tile_tokens(const struct model *m)
{
    const struct vision_picture tile = vision_square(&m->vision.config, NULL);
    return vision_features(&m->vision.config, &tile);
}

static struct tile_plan plan_of(const struct model *m, struct picture_shape shape)
{
    const int64_t each = tile_tokens(m), most = shape.most_tokens;
    return tile_plan_by_size(&m->picture, shape.width, shape.height,
                             most && most < each ? 1 : most / each);
}

static int64_t picture_tokens(const struct model *m, struct picture_shape shape)
{
    return tile_count(&m->picture, plan_of(m, shape).grid) * tile_tokens(m);
}

static void picture_parts(const struct model *m, struct picture *p)
{
    p->part_tokens = p->tokens ? tile_tokens(m) : 0;
    p->part_cols = plan_of(m, p->shape).grid.cols;
}

static void picture_mark(struct buf *to, const struct picture_mark *mark)
{
    const int64_t i = mark->i, cols = mark->cols;
    const bool whole = i == mark->count - 1;
    if (i == mark->count) return;
    if (i && (whole || i % cols == 0)) buf_puts(to, whole ? "\n\n" : "\n");
    buf_puts(to, "<fake_token_around_image>");
    if (whole)
        buf_puts(to, "<global-img>");
    else
        buf_printf(to, "<row_%lld_col_%lld>", (long long)(i / cols + 1), (long long)(i % cols + 1));
}

// Sets the size of a picture with aspect ratio 4:3, whose longest edge needs no resizing.
static void picture_usual(const struct model *m, int64_t *width, int64_t *height)
{
    const struct picture_config *p = &m->picture;
    *width = p->longest ? p->longest : 4 * p->width;
    *height = *width * 3 / 4;
}

static int picture_tiles(const struct model *m, struct picture_shape shape,
                         struct picture_tile *tiles, int most)
{
    return internvl_places(m, shape, plan_of(m, shape).grid, tiles, most);
}

static struct vision_picture picture_read(struct graph *g, const struct model *m,
                                          const struct picture *picture)
{
    const struct tile_plan plan = plan_of(m, picture->shape);
    const int64_t count = tile_count(&m->picture, plan.grid);
    struct image *tiles = xcalloc((size_t)count + 1, sizeof *tiles);
    struct vision_picture input = { 0 };
    struct err err;
    if (tile_plan_cut(tiles, &plan, &picture->image, &m->picture, preprocess_order(g->settings),
                      &err) < 0)
        graph_fail(g, "%s", err.text);
    else
        input = internvl_input(g, m, tiles, count);
    free(tiles);
    return input;
}

static const struct picture_kind pictures = { .tokens = picture_tokens,
                                              .parts = picture_parts,
                                              .usual = picture_usual,
                                              .tiles = picture_tiles,
                                              .read = picture_read };

// --- weights -------------------------------------------------------------------------------------

static void bind_connector(struct projector *p, struct binder *b, int64_t in, int64_t out)
{
    bind_linear(b, &p->linear_1, out, in, false, "modality_projection.proj");
}

static const struct projector_kind connector = { .bind = bind_connector };

static int smolvlm_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct family_prefixes prefixes = { .text = "model.text_model.",
                                                     .head = "",
                                                     .vision = "model.vision_model.",
                                                     .projector = "model.connector." };
    m->projector.kind = &connector;
    return family_bind(m, c, &prefixes, err);
}

static enum model_part_kind smolvlm_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "vision_model.")) return PART_VISION;
    return strstr(tensor, "connector.") ? PART_PROJECTOR : text_part(m, tensor);
}

// --- published models ----------------------------------------------------------------------------

#define SHAPE_CONFIG(type, kind, vision, merge, text)                                            \
    "{\"architectures\": [\"" type "ForConditionalGeneration\"], \"model_type\": \"" kind "\", " \
    "\"image_token_id\": 0, \"pad_token_id\": 0, \"tie_word_embeddings\": false, "               \
    "\"scale_factor\": " merge ", \"torch_dtype\": \"bfloat16\", "                               \
    "\"vision_config\": {\"model_type\": \"" kind "_vision\", " vision                           \
    ", \"hidden_act\": \"gelu_pytorch_tanh\", \"layer_norm_eps\": 1e-06}, "                      \
    "\"text_config\": {\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": "              \
    "\"llama\", " text                                                                           \
    ", \"head_dim\": 64, \"hidden_act\": \"silu\", \"vocab_size\": 49280, \"attention_bias\": "  \
    "false, \"mlp_bias\": false, \"max_position_embeddings\": 8192, \"rms_norm_eps\": 1e-05, "   \
    "\"tie_word_embeddings\": false}}"
#define SHAPE_SIGLIP_93M                                                             \
    "\"hidden_size\": 768, \"intermediate_size\": 3072, \"num_hidden_layers\": 12, " \
    "\"num_attention_heads\": 12, \"image_size\": 512, \"patch_size\": 16"
#define SHAPE_SIGLIP_400M                                                             \
    "\"hidden_size\": 1152, \"intermediate_size\": 4304, \"num_hidden_layers\": 27, " \
    "\"num_attention_heads\": 16, \"image_size\": 384, \"patch_size\": 14"
#define SHAPE_TEXT(hidden, ffn, layers, heads, kv_heads, theta)                                   \
    "\"hidden_size\": " hidden ", \"intermediate_size\": " ffn ", \"num_hidden_layers\": " layers \
    ", \"num_attention_heads\": " heads ", \"num_key_value_heads\": " kv_heads                    \
    ", \"rope_theta\": " theta
#define SHAPE_PICTURES(type, tile, longest)                                                 \
    "{\"image_processor_type\": \"" type "ImageProcessor\", \"do_image_splitting\": true, " \
    "\"resample\": 1, \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5], "    \
    "\"max_image_size\": {\"longest_edge\": " tile "}, \"size\": {\"longest_edge\": " longest "}}"
#define MARK_ROW(r)                                                                    \
    " <row_" r "_col_1> <row_" r "_col_2> <row_" r "_col_3> <row_" r "_col_4> <row_" r \
    "_col_5> <row_" r "_col_6>"
#define MARKS                                                                          \
    "<fake_token_around_image> <global-img>" MARK_ROW("1") MARK_ROW("2") MARK_ROW("3") \
        MARK_ROW("4") MARK_ROW("5") MARK_ROW("6")
#define SHAPE(id, type, kind, vision, merge, text, tile, longest)                               \
    {                                                                                           \
        id, SHAPE_CONFIG(type, kind, vision, merge, text), SHAPE_PICTURES(type, tile, longest), \
            49280, 49152, MARKS                                                                 \
    }

static const struct family_shape shapes[] = {
    SHAPE("smolvlm-256m", "Idefics3", "idefics3", SHAPE_SIGLIP_93M, "4",
          SHAPE_TEXT("576", "1536", "30", "9", "3", "100000.0"), "512", "2048"),
    SHAPE("smolvlm-500m", "Idefics3", "idefics3", SHAPE_SIGLIP_93M, "4",
          SHAPE_TEXT("960", "2560", "32", "15", "5", "100000.0"), "512", "2048"),
    SHAPE("smolvlm2-2.2b", "SmolVLM", "smolvlm", SHAPE_SIGLIP_400M, "3",
          SHAPE_TEXT("2048", "8192", "24", "32", "32", "130000.0"), "384", "1536"),
    { 0 },
};

// --- GGUF files ----------------------------------------------------------------------------------

static void put_edge(cJSON *to, const char *key, int64_t edge)
{
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(to, key), "longest_edge", (double)edge);
}

static void read_gguf(struct encoder_config *e)
{
    const int64_t side = config_value(&e->c, "image_size", 1, GGUF_NEEDED);
    config_put_text(e->vision, "model_type", "idefics3_vision");
    encoder_sizes(e, "num_hidden_layers", "num_attention_heads");
    config_int(&e->c, "image_size", "image_size", GGUF_NEEDED);
    config_real(&e->c, "attention.layer_norm_epsilon", "layer_norm_eps", 1e-6);
    gguf_expect(e->c.file, "clip.use_gelu", 1);
    encoder_means(e);
    encoder_placeholder(e, "image_token_id", "<image>");
    cJSON_AddNumberToObject(e->whole, "scale_factor",
                            (double)config_value(&e->c, "projector.scale_factor", 1, 2));
    config_put_text(e->preprocessor, "image_processor_type", "Idefics3ImageProcessor");
    // Files of converters before October 2025 lack the longest edge.
    put_edge(e->preprocessor, "size", config_value(&e->c, "preproc_image_size", 1, 4 * side));
    put_edge(e->preprocessor, "max_image_size", side);
}

static const struct gguf_name gguf_names[] = {
    { "v.patch_embd", "model.vision_model.embeddings.patch_embedding", PLAIN },
    { "v.position_embd", "model.vision_model.embeddings.position_embedding", PLAIN },
    { "v.post_ln", "model.vision_model.post_layernorm", PLAIN },
    { "mm.model.fc", "model.connector.modality_projection.proj", PLAIN },
    { 0 },
};

static const char *const gguf_texts[] = { "llama", NULL };

static const struct gguf_encoder gguf_encoder = {
    .type = "idefics3",
    .texts = gguf_texts,
    .architecture = "Idefics3ForConditionalGeneration",
    .model_type = "idefics3",
    .prefixes = { "model.text_model.", "" },
    .outer = gguf_names,
    .blocks = "model.vision_model.encoder.layers.",
    .block = gguf_siglip_block,
    .last = "mm.model.fc.weight",
    .read = read_gguf,
};

// llama.cpp always cuts pictures into tiles, of exactly the size that the table of positions
// covers.
static int check_gguf(const struct model *m, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    const struct picture_config *p = &m->picture;
    if (v->act != GELU_TANH) return err_set(err, FAMILY_MMPROJ_REFUSED, "its activation");
    if (v->image_size / v->patch != v->table_rows)
        return err_set(err, FAMILY_MMPROJ_REFUSED, "its tiles differ from its table of positions");
    if (p->max_tiles && p->longest) return 0;
    return err_set(err, FAMILY_MMPROJ_REFUSED,
                   "it does not resize pictures or cut them into tiles");
}

static void put_gguf(const struct model *m, struct gguf_writer *out)
{
    gguf_writer_u32(out, ".projector.scale_factor", m->vision.config.merge);
    gguf_writer_u32(out, ".preproc_image_size", m->picture.longest);
    gguf_writer_bool(out, "clip.use_gelu", true);
}

static const struct family_mmproj mmproj = { .type = "idefics3",
                                             .post = "v.post_ln",
                                             .linear = { "mm.model.fc" },
                                             .check = check_gguf,
                                             .put = put_gguf,
                                             .read = &gguf_encoder };

const struct family family_smolvlm = {
    .name = "smolvlm",
    .architectures = (const char *const[]){ "Idefics3ForConditionalGeneration",
                                            "SmolVLMForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "idefics3", "smolvlm", NULL },
    .relatives = (const char *const[]){ "Idefics2ForConditionalGeneration", NULL },
    .configure = smolvlm_configure,
    .bind = smolvlm_bind,
    .part = smolvlm_part,
    .mmproj = &mmproj,
    .shapes = shapes,
    .module_prefix = { [PART_VISION] = "model.vision_model.",
                       [PART_PROJECTOR] = "model.",
                       [PART_EMBEDDING] = "model.text_model.",
                       [PART_DECODER] = "model.text_model.",
                       [PART_HEAD] = "" },
    .picture_after = "<fake_token_around_image>",
    .picture_mark = picture_mark,
    .plain_marks = true, // <row_1_col_1> and <global-img> are tokens of SmolVLM only
    .pictures = &pictures,
    .picture_processors = (const char *const[]){ "Idefics3", "SmolVLM", NULL },
    .picture_keys = (const char *const[]){ PICTURE_SHARED_KEYS, "size", "max_image_size",
                                           "do_image_splitting", NULL },
};
