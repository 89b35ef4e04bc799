// core/model/families/llava.c -- LLaVA: a CLIP or SigLIP encoder, a projector, a Llama or Qwen2
// decoder.
//
// A picture is resized to one square. Its features from one encoder layer pass the projector and
// replace the placeholder in the prompt, row by row of the grid. Positions are those of plain text.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/bind.h"
#include "core/model/families/llava.h"
#include "core/model/families/text.h"
#include "core/ops/ops.h"

static int read_feature_layer(struct vision_config *v, const cJSON *config, struct err *err)
{
    const char *strategy;
    int64_t layer;
    if (cJSON_IsArray(json_get(config, "vision_feature_layer")))
        return err_set(err,
                       "\"vision_feature_layer\": features from several layers are not supported");
    if (json_int(config, "vision_feature_layer", -1001, 1000, -2, &layer, err) < 0 ||
        json_text(config, "vision_feature_select_strategy", "default", &strategy, err) < 0)
        return -1;
    v->feature_layer = (int)layer;
    if (vision_depth(v) < 0 || vision_depth(v) > v->layers)
        return err_set(err, "\"vision_feature_layer\" %lld: the encoder has only %d layers",
                       (long long)layer, v->layers);
    if (strcmp(strategy, "default") != 0 && strcmp(strategy, "full") != 0)
        return err_set(
            err,
            "\"vision_feature_select_strategy\" \"%s\" is not supported (known: default, "
            "full)",
            strategy);
    // "default" drops the first row, whatever it is.
    v->drop_class = strcmp(strategy, "default") == 0;
    return vision_tokens(v) > 0 ? 0 : err_set(err, "a picture gives no visual tokens");
}

static int read_projector(struct projector *p, const cJSON *config, struct err *err)
{
    if (json_bool(config, "multimodal_projector_bias", true, &p->bias, err) < 0) return -1;
    return gelu_form_read(&p->act, config, "projector_hidden_act", "gelu", err);
}

static int read_placeholder(struct model *m, const cJSON *config, struct err *err)
{
    const char *key =
        json_get(config, "image_token_index") ? "image_token_index" : "image_token_id";
    int64_t id;
    if (json_int(config, key, 0, INT32_MAX, 32000, &id, err) < 0) return -1;
    m->placeholder = (int32_t)id;
    return 0;
}

// The class defaults of the named image processor, else of the encoder's usual one.
struct picture_config llava_picture_defaults(const struct vision_config *v, const char *type)
{
    bool clip = strncmp(type, "Siglip", 6) != 0 && (v->class_token || !strncmp(type, "CLIP", 4));
    struct picture_config p = {
        .fit = clip ? FIT_SHORTEST_CROP : FIT_EXACT,
        .resize = true,
        .crop = clip,
        .rescale = true,
        .normalize = true,
        .flatten = true,
        .shortest = v->image_size,
        .width = v->image_size,
        .height = v->image_size,
        .resample = RESAMPLE_BICUBIC,
        .rescale_factor = 1 / 255.0,
        .mean = { 0.5f, 0.5f, 0.5f },
        .std = { 0.5f, 0.5f, 0.5f },
        .background = { 255, 255, 255 },
    };
    static const float clip_mean[3] = { 0.48145466f, 0.4578275f, 0.40821073f };
    static const float clip_std[3] = { 0.26862954f, 0.26130258f, 0.27577711f };
    if (clip) {
        memcpy(p.mean, clip_mean, sizeof clip_mean);
        memcpy(p.std, clip_std, sizeof clip_std);
    }
    return p;
}

static int read_pictures(struct model *m, const struct checkpoint *c, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    const char *type; // older files name a feature extractor
    if (json_text(c->preprocessor, "feature_extractor_type", "", &type, err) < 0 ||
        json_text(c->preprocessor, "image_processor_type", type, &type, err) < 0)
        return -1;
    const struct picture_config defaults = llava_picture_defaults(v, type);
    if (picture_config_read(&m->picture, c->preprocessor, &defaults, err) < 0) return -1;
    if (m->picture.width != v->image_size || m->picture.height != v->image_size)
        return err_set(
            err, "pictures are resized to %lld x %lld pixels, but the encoder needs %lld x %lld",
            (long long)m->picture.width, (long long)m->picture.height, (long long)v->image_size,
            (long long)v->image_size);
    return 0;
}

// A part of config.json: absent (then NULL: the class defaults) or an object.
static int read_part(const cJSON *config, const char *key, const cJSON **part, struct err *err)
{
    *part = json_get(config, key);
    return !*part || cJSON_IsObject(*part) ? 0 : err_set(err, "\"%s\" must be an object", key);
}

static int read_config(struct model *m, const cJSON *config, struct err *err)
{
    const cJSON *text, *vision;
    bool tied;
    if (read_part(config, "text_config", &text, err) < 0 ||
        read_part(config, "vision_config", &vision, err) < 0)
        return -1;
    const struct decoder_kind *kind = family_decoder(text, err);
    if (!kind || decoder_config_read(&m->decoder.config, kind, text, err) < 0)
        return err_in(err, "text_config");
    // transformers takes the flag from either level.
    if (json_bool(config, "tie_word_embeddings", false, &tied, err) < 0) return -1;
    m->decoder.config.tied |= tied;
    if (vision_config_read(&m->vision.config, vision, err) < 0) return err_in(err, "vision_config");
    if (read_feature_layer(&m->vision.config, config, err) < 0 ||
        read_projector(&m->projector, config, err) < 0 || read_placeholder(m, config, err) < 0)
        return -1;
    return 0;
}

static int llava_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    if (read_config(m, c->config, err) < 0) return err_in(err, "config.json");
    return read_pictures(m, c, err) < 0 ? err_in(err, "%s", checkpoint_preprocessor_file(c)) : 0;
}

// The hub's names, and those that newer versions of transformers write.
static const char *const text_prefixes[] = { "language_model.model.", "model.language_model.",
                                             NULL };
static const char *const head_prefixes[] = { "language_model.", "", "model.", NULL };
static const char *const vision_prefixes[] = { "vision_tower.vision_model.",
                                               "model.vision_tower.vision_model.",
                                               "model.vision_tower.", "vision_tower.", NULL };
static const char *const projector_prefixes[] = { "multi_modal_projector.",
                                                  "model.multi_modal_projector.", NULL };

static int llava_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    const struct decoder_kind *kind = m->decoder.config.kind;
    const char *text = decoder_prefix(c, kind, text_prefixes, "embed_tokens");
    const char *vision = bind_prefix(c, vision_prefixes, "embeddings.patch_embedding.weight");
    const char *projector = bind_prefix(c, projector_prefixes, "linear_1.weight");
    const char *head = decoder_prefix(c, kind, head_prefixes, "lm_head");
    struct binder b = {
        .checkpoint = c, .arena = &m->arena, .weights = &m->weights, .prefix = text, .err = err
    };
    if (decoder_bind(&m->decoder, &b, head) < 0) return -1;
    b.prefix = vision;
    if (vision_bind(&m->vision, &b) < 0) return -1;
    b.prefix = projector;
    return projector_bind(&m->projector, &b, m->vision.config.hidden, m->decoder.config.hidden);
}

static enum model_part_kind llava_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "vision_tower.")) return PART_VISION;
    return strstr(tensor, "multi_modal_projector.") ? PART_PROJECTOR : text_part(m, tensor);
}

static int64_t llava_picture_tokens(const struct model *m, int64_t width, int64_t height)
{
    return vision_tokens(&m->vision.config); // every picture becomes the same square
}

// The part of a picture that the encoder sees.
static void shown_part(const struct picture_config *c, int64_t width, int64_t height,
                       struct picture_tile *t)
{
    double w = (double)width, h = (double)height, long_side = w > h ? w : h;
    if (c->square) { // padded: what lies outside is border
        t->left = (w - long_side) / 2, t->right = t->left + long_side;
        t->top = (h - long_side) / 2, t->bottom = t->top + long_side;
        w = h = long_side;
    }
    if (!c->crop) return;
    // Resized, then cut in the middle.
    double scale_x = 1, scale_y = 1;
    if (c->resize && c->fit == FIT_SHORTEST_CROP) {
        scale_x = scale_y = (double)c->shortest / (w < h ? w : h);
    } else if (c->resize && c->exact_width) {
        scale_x = (double)c->exact_width / w;
        scale_y = (double)c->exact_height / h;
    }
    const double cut_x = w - (double)c->width / scale_x, cut_y = h - (double)c->height / scale_y;
    t->left += cut_x / 2, t->right -= cut_x / 2;
    t->top += cut_y / 2, t->bottom -= cut_y / 2;
}

static int llava_picture_tiles(const struct model *m, int64_t width, int64_t height,
                               struct picture_tile *tiles, int most)
{
    const struct vision_config *v = &m->vision.config;
    const int64_t side = v->image_size / v->patch;
    if (most < 1) return 1;
    tiles[0] = (struct picture_tile){
        .rows = side, .cols = side, .pitch = side, .right = (double)width, .bottom = (double)height
    };
    // With a class token among the tokens, or without the first patch, the grid is shifted.
    tiles[0].first = vision_tokens(v) - side * side;
    shown_part(&m->picture, width, height, &tiles[0]);
    return 1;
}

// The picture as the encoder reads it: [3, image_size, image_size].
static struct tensor *picture_pixels(struct graph *g, const struct model *m,
                                     const struct image *image)
{
    bool pillow12 = settings_is(g->settings, "image.resize_order", "pillow12");
    struct image square = { 0 };
    struct err err;
    if (preprocess_bytes(&square, image, &m->picture, pillow12 ? RESIZE_PILLOW12 : RESIZE_PILLOW13,
                         &err) < 0)
        return graph_fail(g, "%s", err.text);
    if (square.width != m->picture.width || square.height != m->picture.height) {
        int64_t width = square.width, height = square.height;
        image_release(&square);
        return graph_fail(
            g,
            "the picture is resized to %lld x %lld pixels, but the encoder needs %lld x %lld: crop "
            "it to a square first, or set do_resize and do_center_crop in preprocessor_config.json",
            (long long)width, (long long)height, (long long)m->picture.width,
            (long long)m->picture.height);
    }
    size_t count = 3 * (size_t)square.width * (size_t)square.height;
    float *floats = xreallocarray(NULL, count, sizeof *floats);
    preprocess_floats(floats, &square, &m->picture);
    int64_t shape[3] = { 3, square.height, square.width };
    struct tensor *pixels = graph_upload(g, DTYPE_F32, 3, shape, floats);
    free(floats);
    image_release(&square);
    return pixels;
}

static struct tensor *site(struct graph *g, enum site where, int picture, struct tensor *x)
{
    struct site_args args = { .layer = -1, .picture = picture, .x = x, .v = x, .prefill = true };
    if (!x || hooks_run(g, where, &args) < 0) return NULL;
    return args.x;
}

static struct tensor *llava_picture_encode(struct graph *g, const struct model *m,
                                           const struct image *image, int picture)
{
    struct tensor *pixels = site(g, SITE_PIXELS, picture, picture_pixels(g, m, image)); // [3,H,W]
    struct tensor *features = vision_forward(g, &m->vision, pixels, picture);           // [S,Dv]
    struct tensor *tokens = projector_forward(g, &m->projector, features);              // [S,D]
    return site(g, SITE_PROJECTED, picture, tokens);
}

// Pixels, features and visual tokens of all pictures; sites run for each picture.
static int llava_pictures_encode(struct graph *g, const struct model *m,
                                 const struct image *const *pictures, const int *number,
                                 size_t count, struct tensor **tokens)
{
    int64_t rows = vision_tokens(&m->vision.config);
    struct tensor **pixels = xcalloc(count + 1, sizeof(struct tensor *)); // of [3,H,W]
    for (size_t i = 0; i < count; i++)
        pixels[i] = site(g, SITE_PIXELS, number[i], picture_pixels(g, m, pictures[i]));
    struct tensor *x = NULL;
    if (graph_ok(g)) x = vision_forward_all(g, &m->vision, pixels, number, count); // [B*S,Dv]
    x = projector_forward(g, &m->projector, x);                                    // [B*S,D]
    for (size_t i = 0; i < count && graph_ok(g); i++) {
        tokens[i] = graph_rows(g, x, (int64_t)i * rows, rows); // [S,D]
        tokens[i] = site(g, SITE_PROJECTED, number[i], tokens[i]);
    }
    free((void *)pixels);
    return graph_ok(g) ? 0 : -1;
}

static const struct phase_layers phases[] = {
    { 32, 4096, 5, 12, 16, "2-5,22-29" }, // LLaVA-1.5-7B
    { 0 },
};

const struct family family_llava = {
    .name = "llava",
    .architectures = (const char *const[]){ "LlavaForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "llava", NULL },
    .configure = llava_configure,
    .bind = llava_bind,
    .part = llava_part,
    .module_prefix = { [PART_VISION] = "model.",
                       [PART_PROJECTOR] = "model.",
                       [PART_EMBEDDING] = "model.language_model.",
                       [PART_DECODER] = "model.language_model.",
                       [PART_HEAD] = "" },
    .picture_tokens = llava_picture_tokens,
    .picture_tiles = llava_picture_tiles,
    .picture_encode = llava_picture_encode,
    .phases = phases,
    .pictures_encode = llava_pictures_encode,
};
