// core/model/families/minicpmv4_6.c -- MiniCPM-V 4.6: a SigLIP encoder for pictures of any size
// (core/model/vision_minicpm.c), a two-layer projector, the decoder of qwen3_5_text.c.
//
// A picture is an overview and, if it is large, a grid of slices (core/picture/tile_grid.h). 16 or
// 4 patches become one visual token; the user may choose (image.downsample_mode). The sides of a
// part are whole numbers of tokens, so the mode also changes the pixels.
//
//   <image_id>0</image_id><image> tokens </image><slice> tokens </slice><slice> ...
//
// The number is left out if "use_image_id" is false. A line break ends each row of slices but the
// last. Positions are as in plain text, and on all rotary axes equal.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/files/gguf_parts.h"
#include "core/files/gguf_write.h"
#include "core/model/bind.h"
#include "core/model/families/family.h"
#include "core/model/families/text.h"
#include "core/picture/tile_grid.h"
#include "core/template/message.h"

enum { SLICES = 9, SCALE = 448 }; // of the published model; llama.cpp always uses this many slices

// --- config --------------------------------------------------------------------------------------

static int read_mode(const cJSON *json, int64_t otherwise, int64_t *mode, struct err *err)
{
    const char *text;
    if (json_text(json, "downsample_mode", otherwise == 4 ? "4x" : "16x", &text, err) < 0)
        return -1;
    *mode = !strcmp(text, "4x") ? 4 : 16;
    if (*mode == 4 || !strcmp(text, "16x")) return 0;
    return err_set(err, "\"downsample_mode\" \"%s\" is not supported (known: 4x, 16x)", text);
}

static int refuse_others(const cJSON *config, struct err *err)
{
    int64_t times;
    bool drop;
    if (json_int(config, "merger_times", INT32_MIN, INT32_MAX, 1, &times, err) < 0 ||
        json_bool(config, "drop_vision_last_layer", false, &drop, err) < 0)
        return -1;
    if (times != 1)
        return err_set(err, "\"merger_times\" %lld is not supported (known: 1)", (long long)times);
    if (drop) return err_set(err, "\"drop_vision_last_layer\" true is not supported");
    return vision_check_square(config, "merge_kernel_size", 2, err);
}

static int read_config(struct model *m, const cJSON *config, struct err *err)
{
    static const char id[] = "image_token_id";
    const cJSON *vision;
    struct vision_config *v = &m->vision.config;
    int64_t join;
    if (json_object(config, "vision_config", &vision, err) < 0 ||
        family_text_read(m, NULL, config, err) < 0)
        return -1;
    if (vision_config_read(v, &vision_minicpm, vision, err) < 0)
        return err_in(err, "vision_config");
    // The block's number in vision_config is not read.
    if (json_int(config, "insert_layer_id", -1, INT32_MAX, 6, &join, err) < 0 ||
        refuse_others(config, err) < 0 || read_mode(config, 16, &m->picture.mode, err) < 0)
        return -1;
    if (join >= v->layers || (join < 0 && m->picture.mode == 16))
        return err_set(err,
                       "\"insert_layer_id\" %lld is not one of the encoder's %d layers, so patches "
                       "would not be joined",
                       (long long)join, v->layers);
    v->join = (int)join;
    if (!json_get(config, id)) m->placeholder_word = "<|image_pad|>";
    return family_placeholder_read(m, config, id, id, 0, err);
}

static const char *const picture_keys[] = { PICTURE_SHARED_KEYS, "max_slice_nums",
                                            "scale_resolution",  "patch_size",
                                            "slice_mode",        "downsample_mode",
                                            "use_image_id",      NULL };

static int read_pictures(struct model *m, const cJSON *json, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    struct picture_config *p = &m->picture;
    const int64_t mode = p->mode;
    bool slices;
    *p = vision_picture_defaults(v, FIT_SLICES);
    if (picture_config_read_shared(p, json, err) < 0 ||
        json_int(json, "max_slice_nums", 0, TILE_GRID_MAX, SLICES, &p->max_tiles, err) < 0 ||
        json_int(json, "scale_resolution", 1, 10000, SCALE, &p->scale, err) < 0 ||
        json_bool(json, "slice_mode", true, &slices, err) < 0 ||
        json_bool(json, "use_image_id", true, &p->numbered, err) < 0 ||
        read_mode(json, mode, &p->mode, err) < 0 ||
        vision_check_equal(json, "patch_size", v->patch, err) < 0)
        return -1;
    p->patch = v->patch;
    if (!slices) p->max_tiles = 0;
    if (!p->resize) return err_set(err, "\"do_resize\" false is not supported");
    if (p->mode == mode) return 0;
    return err_set(err,
                   "\"downsample_mode\" is %lldx, but that of config.json is %lldx: pictures would "
                   "not fit the prompt",
                   (long long)p->mode, (long long)mode);
}

static int minicpm_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    if (read_config(m, c->config, err) < 0) return err_in(err, "config.json");
    if (read_pictures(m, c->preprocessor, err) == 0) return 0;
    return err_in(err, "%s", checkpoint_preprocessor_file(c));
}

// --- pictures ------------------------------------------------------------------------------------

// A picture's parts, and the side of a visual token in pixels.
struct parts {
    struct slice_plan plan;
    int64_t side, slices;
    bool joins; // 16 patches per token
};

static int64_t overview_tokens(const struct parts *p)
{
    return p->plan.width / p->side * (p->plan.height / p->side);
}

static int64_t slice_tokens(const struct parts *p)
{
    return p->plan.slice_width / p->side * (p->plan.slice_height / p->side);
}

static int64_t all_tokens(const struct parts *p)
{
    return overview_tokens(p) + p->slices * slice_tokens(p);
}

// A limit first takes slices away, then makes the overview smaller.
static struct parts parts_of(const struct model *m, struct picture_shape shape)
{
    struct picture_config c = m->picture;
    const int64_t mode = shape.mode ? shape.mode : c.mode, most = shape.most_tokens;
    struct parts p = { .joins = mode == 16 };
    c.multiple = p.side = c.patch * (p.joins ? 4 : 2);
    for (;;) {
        p.plan = slice_plan_fit(&c, shape.width, shape.height);
        p.slices = p.plan.grid.rows * p.plan.grid.cols;
        if (!most || all_tokens(&p) <= most) return p;
        if (p.slices)
            c.max_tiles = p.slices - 1;
        else if (c.scale > 1)
            c.scale--;
        else
            return p;
    }
}

static int64_t picture_tokens(const struct model *m, struct picture_shape shape)
{
    const struct parts p = parts_of(m, shape);
    return all_tokens(&p);
}

static void picture_parts(const struct model *m, struct picture *p)
{
    const struct parts parts = parts_of(m, p->shape);
    p->part_first = overview_tokens(&parts);
    p->part_tokens = parts.slices ? slice_tokens(&parts) : p->part_first;
    p->part_cols = parts.plan.grid.cols;
}

static void picture_mark(struct buf *to, const struct picture_mark *mark)
{
    const int64_t slice = mark->i - 1;
    if (slice < 0) {
        if (mark->number >= 0) buf_printf(to, "<image_id>%lld</image_id>", (long long)mark->number);
        buf_puts(to, "<image>");
        return;
    }
    buf_puts(to, slice ? "</slice>" : "</image>");
    if (mark->i == mark->count) return;
    if (slice && slice % mark->cols == 0) buf_putc(to, '\n');
    buf_puts(to, "<slice>");
}

static void picture_usual(const struct model *m, int64_t *width, int64_t *height)
{
    *width = 4 * m->picture.scale;
    *height = 3 * m->picture.scale;
}

static int picture_tiles(const struct model *m, struct picture_shape shape,
                         struct picture_tile *tiles, int most)
{
    const struct parts p = parts_of(m, shape);
    const int64_t cols = p.plan.grid.cols;
    const double width = (double)shape.width, height = (double)shape.height;
    for (int64_t i = 0; i <= p.slices && i < most; i++) {
        const int64_t row = i ? (i - 1) / cols : 0, col = i ? (i - 1) % cols : 0;
        const double w = i ? width / (double)cols : width;
        const double h = i ? height / (double)p.plan.grid.rows : height;
        const int64_t across = (i ? p.plan.slice_width : p.plan.width) / p.side;
        tiles[i] = (struct picture_tile){
            .first = i ? overview_tokens(&p) + (i - 1) * slice_tokens(&p) : 0,
            .rows = (i ? p.plan.slice_height : p.plan.height) / p.side,
            .cols = across,
            .pitch = across,
            .left = (double)col * w,
            .top = (double)row * h,
            .right = (double)(col + 1) * w,
            .bottom = (double)(row + 1) * h,
        };
    }
    return 1 + (int)p.slices;
}

// Uploads the patches of all parts, [S', 3*p*p], and releases the parts.
static struct tensor *patches_of(struct graph *g, const struct model *m, struct image *part,
                                 int64_t count)
{
    const int64_t patch = m->vision.config.patch, width = 3 * patch * patch;
    int64_t rows = 0, at = 0;
    for (int64_t i = 0; i < count; i++) rows += part[i].width / patch * (part[i].height / patch);
    float *values = xreallocarray(NULL, (size_t)(rows * width), sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        preprocess_patches(values + at * width, &part[i], &m->picture, patch, 1, 1);
        at += part[i].width / patch * (part[i].height / patch);
        image_release(&part[i]);
    }
    struct tensor *patches =
        graph_upload(g, DTYPE_F32, 2, (const int64_t[]){ rows, width }, values);
    free(values);
    return patches;
}

static struct vision_picture picture_read(struct graph *g, const struct model *m,
                                          const struct picture *picture)
{
    const int64_t patch = m->vision.config.patch;
    const struct parts p = parts_of(m, picture->shape);
    struct vision_picture input = { .tiles = 1 + p.slices, .joins = p.joins };
    struct image *part = xcalloc((size_t)input.tiles, sizeof *part);
    struct err err;
    input.rows = p.plan.height / patch;
    input.cols = p.plan.width / patch;
    if (p.slices) {
        input.first_rows = input.rows, input.first_cols = input.cols;
        input.rows = p.plan.slice_height / patch;
        input.cols = p.plan.slice_width / patch;
    }
    if (slice_plan_cut(part, &p.plan, &picture->image, &m->picture, preprocess_order(g->settings),
                       &err) < 0)
        graph_fail(g, "%s", err.text);
    else
        input.pixels = patches_of(g, m, part, input.tiles);
    free(part);
    return input;
}

static const struct picture_kind pictures = { .tokens = picture_tokens,
                                              .parts = picture_parts,
                                              .usual = picture_usual,
                                              .tiles = picture_tiles,
                                              .read = picture_read };

// --- weights -------------------------------------------------------------------------------------

static const struct projector_kind projector = {
    .norm = "mlp.0.pre_norm",
    .norm_bias = true,
    .eps = 1e-6,
    .linear_1 = "mlp.0.linear_1",
    .linear_2 = "mlp.0.linear_2",
    .wide = true,
};

static int minicpm_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct family_prefixes prefixes = { .text = "model.language_model.",
                                                     .head = "",
                                                     .vision = "model.vision_tower.",
                                                     .projector = "model.merger." };
    m->projector.kind = &projector;
    m->projector.act = GELU_ERF;
    m->projector.bias = true;
    return family_bind(m, c, &prefixes, err);
}

static enum model_part_kind minicpm_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "vision_tower.")) return PART_VISION;
    return strstr(tensor, "model.merger.") ? PART_PROJECTOR : text_part(m, tensor);
}

// --- published models ----------------------------------------------------------------------------

#define SHAPE_CONFIG                                                                             \
    "{\"architectures\": [\"MiniCPMV4_6ForConditionalGeneration\"], \"model_type\": "            \
    "\"minicpmv4_6\", \"drop_vision_last_layer\": false, \"image_size\": 1120, "                 \
    "\"image_token_id\": 0, \"tie_word_embeddings\": true, \"dtype\": \"bfloat16\", "            \
    "\"vision_config\": {\"model_type\": \"minicpmv4_6_vision\", \"hidden_act\": "               \
    "\"gelu_pytorch_tanh\", \"hidden_size\": 1152, \"image_size\": 980, \"intermediate_size\": " \
    "4304, \"layer_norm_eps\": 1e-06, \"num_attention_heads\": 16, \"num_channels\": 3, "        \
    "\"num_hidden_layers\": 27, \"patch_size\": 14}, \"text_config\": {\"model_type\": "         \
    "\"qwen3_5_text\", \"attention_bias\": false, \"attn_output_gate\": true, "                  \
    "\"full_attention_interval\": 4, \"head_dim\": 256, \"hidden_act\": \"silu\", "              \
    "\"hidden_size\": 1024, \"intermediate_size\": 3584, \"linear_conv_kernel_dim\": 4, "        \
    "\"linear_key_head_dim\": 128, \"linear_num_key_heads\": 16, \"linear_num_value_heads\": "   \
    "16, \"linear_value_head_dim\": 128, \"max_position_embeddings\": 262144, "                  \
    "\"num_attention_heads\": 8, \"num_hidden_layers\": 24, \"num_key_value_heads\": 2, "        \
    "\"rms_norm_eps\": 1e-06, \"rope_parameters\": {\"rope_type\": \"default\", "                \
    "\"rope_theta\": 10000000, \"partial_rotary_factor\": 0.25, \"mrope_interleaved\": true, "   \
    "\"mrope_section\": [11, 11, 10]}, \"tie_word_embeddings\": true, \"vocab_size\": 248320}}"
#define SHAPE_PICTURES                                                                  \
    "{\"image_processor_type\": \"MiniCPMV4_6ImageProcessor\", \"max_slice_nums\": 9, " \
    "\"scale_resolution\": 448, \"patch_size\": 14, \"use_image_id\": true, "           \
    "\"slice_mode\": true, \"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5]}"

static const struct family_shape shapes[] = {
    { "minicpm-v-4.6", SHAPE_CONFIG, SHAPE_PICTURES, 248320, 248044,
      "<image_id> </image_id> <image> </image> <slice> </slice>" },
    { 0 },
};

// --- GGUF files ----------------------------------------------------------------------------------

static void read_gguf(struct encoder_config *e)
{
    const struct safetensor *table = gguf_find(e->c.file, "v.position_embd.weight");
    const int64_t patch = config_value(&e->c, "patch_size", 1, GGUF_NEEDED);
    const int64_t side = config_value(&e->c, "projector.scale_factor", 1, 4);
    const struct gguf_entry *join = config_list(&e->c, "wa_layer_indexes", VISION_BLOCKS_MOST);
    const int64_t rows = table && table->rank == 2 ? gguf_square_side(table->shape[0]) : 0;
    const bool joins = encoder_has(e, "v.vit_merger.ln1.weight");
    if (!rows)
        config_refuse(&e->c, "tensor 'v.position_embd.weight' is missing, or not a square grid");
    if (side != 4 && side != 2)
        config_refuse(&e->c, "'clip.vision.projector.scale_factor' is %lld, not 2 or 4",
                      (long long)side);
    if ((joins || side == 4) && (!join || join->count != 1))
        config_refuse(&e->c, "'clip.vision.wa_layer_indexes' is not a list of one block");
    if (patch > 1000) config_refuse(&e->c, "'clip.vision.patch_size' is too large");
    if (e->c.failed) return;
    config_put_text(e->vision, "model_type", "minicpmv4_6_vision");
    encoder_sizes(e, "num_hidden_layers", "num_attention_heads");
    cJSON_AddNumberToObject(e->vision, "image_size", (double)(rows * patch));
    config_real(&e->c, "attention.layer_norm_epsilon", "layer_norm_eps", 1e-6);
    gguf_expect(e->c.file, "clip.use_gelu", 1);
    encoder_means(e);
    encoder_placeholder(e, "image_token_id", "<|image_pad|>");
    cJSON_AddNumberToObject(e->whole, "insert_layer_id", joins ? gguf_number(join, 0) : -1);
    config_put_text(e->whole, "downsample_mode", side == 4 ? "16x" : "4x");
    config_put_text(e->preprocessor, "image_processor_type", "MiniCPMV4_6ImageProcessor");
    cJSON_AddNumberToObject(e->preprocessor, "patch_size", (double)patch);
    cJSON_AddNumberToObject(e->preprocessor, "scale_resolution",
                            (double)config_value(&e->c, "image_size", 1, SCALE));
}

static const struct gguf_name gguf_outer[] = {
    { "v.patch_embd", "model.vision_tower.embeddings.patch_embedding", PLAIN },
    { "v.position_embd", "model.vision_tower.embeddings.position_embedding", PLAIN },
    { "v.post_ln", "model.vision_tower.post_layernorm", PLAIN },
    { "v.vit_merger.ln1", "model.vision_tower.vit_merger.layer_norm1", PLAIN },
    { "v.vit_merger.attn_q", "model.vision_tower.vit_merger.self_attn.q_proj", PLAIN },
    { "v.vit_merger.attn_k", "model.vision_tower.vit_merger.self_attn.k_proj", PLAIN },
    { "v.vit_merger.attn_v", "model.vision_tower.vit_merger.self_attn.v_proj", PLAIN },
    { "v.vit_merger.attn_out", "model.vision_tower.vit_merger.self_attn.out_proj", PLAIN },
    { "v.vit_merger.ds_ln", "model.vision_tower.vit_merger.pre_norm", PLAIN },
    { "v.vit_merger.ds_ffn_up", "model.vision_tower.vit_merger.linear_1", PLAIN },
    { "v.vit_merger.ds_ffn_down", "model.vision_tower.vit_merger.linear_2", PLAIN },
    { "mm.input_norm", "model.merger.mlp.0.pre_norm", PLAIN },
    { "mm.up", "model.merger.mlp.0.linear_1", PLAIN },
    { "mm.down", "model.merger.mlp.0.linear_2", PLAIN },
    { 0 },
};

static const char *const gguf_texts[] = { "qwen35", NULL };

static const struct gguf_encoder gguf_encoder = {
    .type = "minicpmv4_6",
    .texts = gguf_texts,
    .architecture = "MiniCPMV4_6ForConditionalGeneration",
    .model_type = "minicpmv4_6",
    .prefixes = { "model.language_model.", "" },
    .outer = gguf_outer,
    .blocks = "model.vision_tower.encoder.layers.",
    .block = gguf_siglip_block,
    .last = "mm.down.weight",
    .read = read_gguf,
};

// GGUF has no keys for the number of slices and for numbered pictures.
static int check_gguf(const struct model *m, struct err *err)
{
    const struct picture_config *p = &m->picture;
    if (m->vision.config.act != GELU_TANH)
        return err_set(err, FAMILY_MMPROJ_REFUSED, "its activation");
    if (p->max_tiles != SLICES)
        return err_set(err, FAMILY_MMPROJ_REFUSED, "\"max_slice_nums\" or \"slice_mode\"");
    return p->numbered ? 0 : err_set(err, FAMILY_MMPROJ_REFUSED, "\"use_image_id\"");
}

static void put_gguf(const struct model *m, struct gguf_writer *out)
{
    const int32_t join = m->vision.config.join;
    gguf_writer_u32(out, ".image_size", m->picture.scale);
    gguf_writer_u32(out, ".projector.scale_factor", m->picture.mode == 16 ? 4 : 2);
    if (m->picture.mode == 16) gguf_writer_i32s(out, ".wa_layer_indexes", &join, 1);
    gguf_writer_bool(out, "clip.use_gelu", true);
}

static const struct family_mmproj mmproj = { .type = "minicpmv4_6",
                                             .post = "v.post_ln",
                                             .norm = "mm.input_norm",
                                             .linear = { "mm.up", "mm.down" },
                                             .check = check_gguf,
                                             .put = put_gguf,
                                             .read = &gguf_encoder };

const struct family family_minicpmv4_6 = {
    .name = "minicpmv4_6",
    .architectures = (const char *const[]){ "MiniCPMV4_6ForConditionalGeneration", NULL },
    .relatives =
        (const char *const[]){ "MiniCPMV4_7ForConditionalGeneration",
                               "MiniCPMOcrForConditionalGeneration", "MiniCPMV", "MiniCPMO", NULL },
    .model_types = (const char *const[]){ "minicpmv4_6", NULL },
    .configure = minicpm_configure,
    .bind = minicpm_bind,
    .part = minicpm_part,
    .mmproj = &mmproj,
    .shapes = shapes,
    .module_prefix = FAMILY_MODULE_PREFIX,
    .picture_mark = picture_mark,
    .pictures = &pictures,
    .picture_processors = (const char *const[]){ "MiniCPMV4_6", NULL },
    .picture_keys = picture_keys,
};
