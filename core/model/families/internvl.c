// core/model/families/internvl.c -- InternVL 2.5 and 3 in the layout of transformers (folders
// named *-hf): InternViT, pixel shuffle and a projector, a Qwen2 or Llama decoder.
//
// A picture is a grid of tiles, row by row, and, if there are several, a thumbnail
// (core/picture/tile_grid.h); its tokens are between <img> and </img>, tile by tile, and row by row
// within a tile. Positions are as in plain text.
#include "core/model/families/internvl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/bind.h"
#include "core/model/families/llava.h"
#include "core/picture/tile_grid.h"
#include "core/template/message.h"

// --- config --------------------------------------------------------------------------------------

// "downsample_ratio" 1/n: n x n patches become one token.
static int read_merge(struct vision_config *v, const cJSON *config, struct err *err)
{
    double ratio;
    if (json_real(config, "downsample_ratio", 0.5, &ratio, err) < 0) return -1;
    const int64_t side = v->image_size / v->patch;
    v->merge = ratio > 0 && ratio <= 1 ? llround(1 / ratio) : 0;
    if (v->merge < 1 || v->merge > side || 1 / (double)v->merge != ratio)
        return err_set(err, "\"downsample_ratio\" %g is not supported: it must be 1/n", ratio);
    if (side % v->merge)
        return err_set(err,
                       "\"downsample_ratio\" %g does not divide the encoder's %lld patches a side",
                       ratio, (long long)side);
    return 0;
}

int internvl_read_vision(struct model *m, const struct vision_kind *kind, const cJSON *config,
                         const cJSON *vision, const char *layer_key, struct err *err)
{
    struct vision_config *v = &m->vision.config;
    if (vision_config_read(v, kind, vision, err) < 0) return err_in(err, "vision_config");
    if (vision_feature_layer_read(v, config, layer_key, -1, err) < 0) return -1;
    return read_merge(v, config, err);
}

int internvl_read_decoder(struct model *m, const cJSON *config, const char *key, bool tied,
                          struct err *err)
{
    const cJSON *text;
    if (json_object(config, key, &text, err) < 0) return -1;
    const struct decoder_kind *kind = family_decoder(text, err);
    if (!kind || decoder_config_read(&m->decoder.config, kind, text, err) < 0)
        return err_in(err, "%s", key);
    if (json_get(text, "tie_word_embeddings")) tied = m->decoder.config.tied;
    return json_bool(config, "tie_word_embeddings", tied, &m->decoder.config.tied, err);
}

struct picture_config internvl_picture(const struct vision_config *v)
{
    struct picture_config p = vision_picture_defaults(v, FIT_EXACT);
    memcpy(p.mean, picture_imagenet_mean, sizeof p.mean);
    memcpy(p.std, picture_imagenet_std, sizeof p.std);
    p.min_tiles = p.max_tiles = 1;
    p.thumbnail = true;
    return p;
}

// "crop_to_patches" is not read: the arguments of the processor's call override it.
static int read_pictures(struct model *m, const struct checkpoint *c, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    struct picture_config *p = &m->picture, usual = internvl_picture(v);
    usual.max_tiles = 12;
    if (picture_config_read(p, c->preprocessor, &usual, err) < 0 ||
        json_int(c->preprocessor, "min_patches", 1, TILE_GRID_MAX, 1, &p->min_tiles, err) < 0 ||
        json_int(c->preprocessor, "max_patches", p->min_tiles, TILE_GRID_MAX, 12, &p->max_tiles,
                 err) < 0)
        return -1;
    if (p->fit != FIT_EXACT || p->crop || !p->resize || p->width != v->image_size ||
        p->height != v->image_size)
        return err_set(err, "tiles do not have the encoder's %lld x %lld pixels",
                       (long long)v->image_size, (long long)v->image_size);
    return 0;
}

static int read_config(struct model *m, const cJSON *config, struct err *err)
{
    const cJSON *vision;
    const char *strategy;
    if (json_object(config, "vision_config", &vision, err) < 0 ||
        internvl_read_decoder(m, config, "text_config", true, err) < 0 ||
        internvl_read_vision(m, &vision_intern_transformers, config, vision, "vision_feature_layer",
                             err) < 0 ||
        json_text(config, "vision_feature_select_strategy", "default", &strategy, err) < 0 ||
        gelu_form_read(&m->projector.act, config, "projector_hidden_act", "gelu", err) < 0 ||
        family_placeholder_read(m, config, "image_token_index", "image_token_id", 151667, err) < 0)
        return -1;
    if (strcmp(strategy, "default") != 0)
        return err_set(
            err, "\"vision_feature_select_strategy\" \"%s\" is not supported (known: default)",
            strategy);
    return 0;
}

static const struct projector_kind projector = {
    .norm = "layer_norm",
    .norm_bias = true,
    .eps = 1e-5,
    .linear_1 = "linear_1",
    .linear_2 = "linear_2",
};

static int internvl_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    m->projector.kind = &projector;
    m->projector.bias = true;
    if (read_config(m, c->config, err) < 0) return err_in(err, "config.json");
    return read_pictures(m, c, err) < 0 ? err_in(err, "%s", checkpoint_preprocessor_file(c)) : 0;
}

// --- pictures ------------------------------------------------------------------------------------

// Returns the encoder's input for a picture of `tiles` tiles.
static struct vision_picture tiles_of(const struct model *m, struct tensor *pixels, int64_t tiles)
{
    struct vision_picture p = vision_square(&m->vision.config, pixels);
    p.tiles = tiles;
    return p;
}

static struct tile_grid grid_of(const struct model *m, struct picture_shape shape)
{
    const struct vision_picture tile = vision_square(&m->vision.config, NULL);
    const int64_t each = vision_features(&m->vision.config, &tile);
    const int64_t most = !shape.most_tokens             ? 0
                         : shape.most_tokens < 2 * each ? 1
                                                        : shape.most_tokens / each;
    return tile_grid_by_aspect(&m->picture, shape.width, shape.height, most);
}

static int64_t picture_tokens(const struct model *m, struct picture_shape shape)
{
    const struct vision_picture p = tiles_of(m, NULL, tile_count(&m->picture, grid_of(m, shape)));
    return vision_features(&m->vision.config, &p);
}

// Sets the size of a picture that becomes 4 x 3 tiles, if the limit allows that many.
static void picture_usual(const struct model *m, int64_t *width, int64_t *height)
{
    *width = 4 * m->vision.config.image_size;
    *height = 3 * m->vision.config.image_size;
}

int internvl_places(const struct model *m, struct picture_shape shape, struct tile_grid grid,
                    struct picture_tile *tiles, int most)
{
    const struct vision_config *v = &m->vision.config;
    const int64_t side = v->image_size / v->patch / v->merge, count = tile_count(&m->picture, grid);
    for (int64_t i = 0; i < count && i < most; i++) {
        const bool whole = i == grid.cols * grid.rows; // the thumbnail
        const int64_t cols = whole ? 1 : grid.cols, rows = whole ? 1 : grid.rows;
        const double w = (double)shape.width / (double)cols;
        const double h = (double)shape.height / (double)rows;
        const int64_t row = whole ? 0 : i / cols, col = whole ? 0 : i % cols;
        tiles[i] = (struct picture_tile){ .first = i * side * side,
                                          .rows = side,
                                          .cols = side,
                                          .pitch = side,
                                          .left = (double)col * w,
                                          .top = (double)row * h,
                                          .right = (double)(col + 1) * w,
                                          .bottom = (double)(row + 1) * h };
    }
    return (int)count;
}

static int picture_tiles(const struct model *m, struct picture_shape shape,
                         struct picture_tile *tiles, int most)
{
    return internvl_places(m, shape, grid_of(m, shape), tiles, most);
}

struct vision_picture internvl_input(struct graph *g, const struct model *m, struct image *tiles,
                                     int64_t count)
{
    const struct picture_config *p = &m->picture;
    const int64_t shape[] = { count, 3, p->height, p->width }, one = 3 * p->height * p->width;
    float *floats = xreallocarray(NULL, (size_t)(count * one), sizeof *floats);
    for (int64_t i = 0; i < count; i++) {
        preprocess_floats(floats + i * one, &tiles[i], p);
        image_release(&tiles[i]);
    }
    struct tensor *pixels = graph_upload(g, DTYPE_F32, 4, shape, floats);
    free(floats);
    return tiles_of(m, pixels, pixels ? count : 0);
}

// Returns the encoder's input: the picture's tiles, [T, 3, image_size, image_size].
static struct vision_picture picture_read(struct graph *g, const struct model *m,
                                          const struct picture *picture)
{
    const struct picture_config *p = &m->picture;
    const struct tile_grid grid = grid_of(m, picture->shape);
    const int64_t count = tile_count(p, grid);
    struct image *tiles = xcalloc((size_t)count, sizeof *tiles);
    struct vision_picture input = { 0 };
    struct err err;
    if (tile_grid_cut(tiles, grid, &picture->image, p, preprocess_order(g->settings), &err) < 0)
        graph_fail(g, "%s", err.text);
    else
        input = internvl_input(g, m, tiles, count);
    free(tiles);
    return input;
}

const struct picture_kind internvl_pictures = {
    .tokens = picture_tokens, .usual = picture_usual, .tiles = picture_tiles, .read = picture_read
};

const struct phase_layers internvl_phases[] = {
    { 28, 3584, 18944, { 3, 11, 21 }, "2-4,14-20" }, // InternVL3-8B
    { 0 },
};

static const char *const text_prefixes[] = { "language_model.model.", "model.language_model.",
                                             NULL };
static const char *const head_prefixes[] = { "language_model.", "", NULL };
static const char *const vision_prefixes[] = { "vision_tower.", "model.vision_tower.", NULL };
static const char *const projector_prefixes[] = { "multi_modal_projector.",
                                                  "model.multi_modal_projector.", NULL };

static int internvl_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    const struct decoder_kind *kind = m->decoder.config.kind;
    return family_bind(m, c,
                       &(struct family_prefixes){
                           .text = decoder_prefix(c, kind, text_prefixes, "embed_tokens"),
                           .head = decoder_prefix(c, kind, head_prefixes, "lm_head"),
                           .vision = bind_prefix(c, vision_prefixes, "embeddings.cls_token"),
                           .projector = bind_prefix(c, projector_prefixes, "linear_1.weight"),
                       },
                       err);
}

const struct family family_internvl = {
    .name = "internvl",
    .architectures = (const char *const[]){ "InternVLForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "internvl", NULL },
    .configure = internvl_configure,
    .bind = internvl_bind,
    .part = llava_part,
    .gguf = "internvl",
    .module_prefix = FAMILY_MODULE_PREFIX,
    .picture_before = "<img>",
    .picture_after = "</img>",
    .pictures = &internvl_pictures,
    .boxes = "internvl",
    .picture_processors = (const char *const[]){ "GotOcr2", "InternVL", NULL },
    .picture_keys = (const char *const[]){ PICTURE_KEYS, "min_patches", "max_patches", NULL },
    .phases = internvl_phases,
};
