// core/model/families/llava.c -- LLaVA: a CLIP, SigLIP, MoonViT or Pixtral encoder, a projector, a
// Llama, Mistral or Qwen2 decoder; and the code that other families of its layout share.
//
// A picture is resized to one square or, if the encoder reads pictures of any size, keeps its
// aspect ratio. Its features from one encoder layer pass through the projector and replace the
// placeholder in the prompt, row by row of the grid. Positions are as in plain text.
#include "core/model/families/llava.h"

#include <stdlib.h>
#include <string.h>

#include "core/model/bind.h"
#include "core/model/families/native.h"
#include "core/model/families/text.h"
#include "core/template/message.h"

// --- config.json ---------------------------------------------------------------------------------

static int read_feature_layer(struct vision_config *v, const cJSON *config,
                              const struct llava_defaults *d, struct err *err)
{
    const bool native = v->kind->read_pictures;
    const char *strategy, *usual = native ? "full" : d->strategy;
    if (vision_feature_layer_read(v, config, "vision_feature_layer", native ? -1 : d->feature_layer,
                                  err) < 0 ||
        json_text(config, "vision_feature_select_strategy", usual, &strategy, err) < 0)
        return -1;
    if (strcmp(strategy, "default") != 0 && strcmp(strategy, "full") != 0)
        return err_set(
            err,
            "\"vision_feature_select_strategy\" \"%s\" is not supported (known: default, "
            "full)",
            strategy);
    // "default" drops the first row, class token or not.
    v->drop_class = strcmp(strategy, "default") == 0;
    if (native) { // it has no class token
        if (v->drop_class)
            return err_set(err, "an encoder of native resolution needs "
                                "\"vision_feature_select_strategy\" \"full\"");
        if (vision_depth(v) == v->layers || !v->kind->post_norm) return 0;
        return err_set(err, "an encoder whose features pass its last norm needs "
                            "\"vision_feature_layer\" -1");
    }
    const struct vision_picture square = vision_square(v, NULL);
    return vision_features(v, &square) > 0 ? 0 : err_set(err, "a picture gives no visual tokens");
}

// "spatial_merge_size" n: each cell of n x n features becomes one visual token. Only Mistral 3
// configs have this key; no LLaVA does. The class token belongs to no cell.
static int read_merge(struct vision_config *v, const cJSON *config, struct err *err)
{
    if (json_int(config, "spatial_merge_size", 1, 64, 1, &v->merge, err) < 0) return -1;
    if (v->merge == 1) return 0;
    if (v->image_size / v->patch % v->merge)
        return err_set(err,
                       "\"spatial_merge_size\" %lld does not divide the %lld patches of a side",
                       (long long)v->merge, (long long)(v->image_size / v->patch));
    if (v->drop_class == v->class_token) return 0;
    return err_set(err, "with \"spatial_merge_size\", \"vision_feature_select_strategy\" must "
                        "leave out the class token and nothing else");
}

// At native resolution, merge x merge features are joined into one visual token.
static const struct projector_kind projector_joining = { .linear_1 = "linear_1",
                                                         .linear_2 = "linear_2" };

int llava_config(struct model *m, const cJSON *config, const struct llava_defaults *d,
                 struct err *err)
{
    const cJSON *vision;
    struct projector *p = &m->projector;
    if (family_text_read(m, NULL, config, err) < 0 ||
        json_object(config, "vision_config", &vision, err) < 0)
        return -1;
    if (!vision && d->vision_needed) return err_set(err, "\"vision_config\" is missing");
    const struct vision_kind *encoder = vision_kind_find(vision, err);
    if (!encoder || vision_config_read(&m->vision.config, encoder, vision, err) < 0)
        return err_in(err, "vision_config");
    if (encoder->read_pictures && !d->any_size)
        return err_set(err,
                       "vision_config: \"%s\" reads pictures of any size, but this family cuts "
                       "them into tiles (the llava family supports it)",
                       encoder->model_types[0]);
    if (read_feature_layer(&m->vision.config, config, d, err) < 0 ||
        (d->any_size && !encoder->read_pictures &&
         read_merge(&m->vision.config, config, err) < 0) ||
        json_bool(config, "multimodal_projector_bias", true, &p->bias, err) < 0 ||
        gelu_form_read(&p->act, config, "projector_hidden_act", "gelu", err) < 0 ||
        family_placeholder_read(m, config, "image_token_index", "image_token_id", d->placeholder,
                                err) < 0)
        return -1;
    const int64_t merge = m->vision.config.merge;
    p->kind = encoder->read_pictures ? &projector_joining : &projector_linear;
    p->merge = encoder->read_pictures ? merge * merge : 1;
    return 0;
}

// --- preprocessor_config.json --------------------------------------------------------------------

// Class defaults of the named image processor, or else of the encoder's usual one.
static struct picture_config picture_defaults(const struct vision_config *v, const char *type)
{
    bool clip = strncmp(type, "Siglip", 6) != 0 && (v->class_token || !strncmp(type, "CLIP", 4));
    struct picture_config p = vision_picture_defaults(v, clip ? FIT_SHORTEST_CROP : FIT_EXACT);
    p.crop = clip;
    if (clip) {
        memcpy(p.mean, picture_clip_mean, sizeof p.mean);
        memcpy(p.std, picture_clip_std, sizeof p.std);
    }
    return p;
}

int llava_read_pictures(struct model *m, const struct checkpoint *c, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    const char *type; // older files name a feature extractor
    if (json_text(c->preprocessor, "feature_extractor_type", "", &type, err) < 0 ||
        json_text(c->preprocessor, "image_processor_type", type, &type, err) < 0)
        return -1;
    const struct picture_config defaults = picture_defaults(v, type);
    if (picture_config_read(&m->picture, c->preprocessor, &defaults, err) < 0) return -1;
    if (m->picture.width != v->image_size || m->picture.height != v->image_size)
        return err_set(
            err, "pictures are resized to %lld x %lld pixels, but the encoder needs %lld x %lld",
            (long long)m->picture.width, (long long)m->picture.height, (long long)v->image_size,
            (long long)v->image_size);
    return 0;
}

static bool native(const struct model *m)
{
    return m->vision.config.kind->read_pictures;
}

static int llava_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct llava_defaults defaults = {
        .feature_layer = -2, .strategy = "default", .placeholder = 32000, .any_size = true
    };
    if (llava_config(m, c->config, &defaults, err) < 0) return err_in(err, "config.json");
    if (m->vision.config.class_token) m->usual_layout = m->decoder.config.kind->llava_layout;
    const struct vision_config *v = &m->vision.config;
    const int status = native(m) ? v->kind->read_pictures(&m->picture, v, c->preprocessor, err)
                                 : llava_read_pictures(m, c, err);
    return status < 0 ? err_in(err, "%s", checkpoint_preprocessor_file(c)) : 0;
}

// --- pictures ------------------------------------------------------------------------------------

static int64_t picture_tokens(const struct model *m, struct picture_shape shape)
{
    if (native(m)) return native_pictures.tokens(m, shape);
    const struct vision_picture square = vision_square(&m->vision.config, NULL);
    return vision_features(&m->vision.config, &square) /
           m->projector.merge; // every picture becomes the same square
}

static void picture_usual(const struct model *m, int64_t *width, int64_t *height)
{
    *width = *height = m->vision.config.image_size;
    if (native(m)) native_pictures.usual(m, width, height);
}

// Sets the area of a picture that the encoder sees.
static void shown_part(const struct picture_config *c, struct picture_shape shape,
                       struct picture_tile *t)
{
    double w = (double)shape.width, h = (double)shape.height, long_side = w > h ? w : h;
    if (c->square) { // padded: the rest of the square is border
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

static void picture_parts(const struct model *m, struct picture *p)
{
    if (native(m)) native_pictures.parts(m, p);
}

static int picture_tiles(const struct model *m, struct picture_shape shape,
                         struct picture_tile *tiles, int most)
{
    const struct vision_config *v = &m->vision.config;
    if (native(m)) return native_pictures.tiles(m, shape, tiles, most);
    const int64_t side = v->image_size / v->patch / v->merge;
    if (most < 1) return 1;
    tiles[0] = (struct picture_tile){ .rows = side,
                                      .cols = side,
                                      .pitch = side,
                                      .right = (double)shape.width,
                                      .bottom = (double)shape.height };
    // A class token among the tokens, or a missing first patch, shifts the grid.
    tiles[0].first = picture_tokens(m, shape) - side * side;
    shown_part(&m->picture, shape, &tiles[0]);
    return 1;
}

static struct vision_picture picture_read(struct graph *g, const struct model *m,
                                          const struct picture *picture)
{
    if (native(m)) return native_pictures.read(g, m, picture);
    const struct picture_config *c = &m->picture;
    struct image square = { 0 };
    struct tensor *pixels = NULL;
    struct err err;
    if (preprocess_bytes(&square, &picture->image, c, preprocess_order(g->settings), &err) < 0) {
        graph_fail(g, "%s", err.text);
    } else if (square.width != c->width || square.height != c->height) {
        graph_fail(
            g,
            "the picture is resized to %lld x %lld pixels, but the encoder needs %lld x %lld: crop "
            "it to a square first, or set do_resize and do_center_crop in preprocessor_config.json",
            (long long)square.width, (long long)square.height, (long long)c->width,
            (long long)c->height);
    } else {
        const int64_t shape[] = { 3, square.height, square.width };
        float *floats = xreallocarray(NULL, (size_t)(shape[1] * shape[2]), 3 * sizeof *floats);
        preprocess_floats(floats, &square, c);
        pixels = graph_upload(g, DTYPE_F32, 3, shape, floats);
        free(floats);
    }
    image_release(&square);
    return vision_square(&m->vision.config, pixels);
}

const struct picture_kind llava_pictures = { .tokens = picture_tokens,
                                             .parts = picture_parts,
                                             .usual = picture_usual,
                                             .tiles = picture_tiles,
                                             .read = picture_read };

// --- weights -------------------------------------------------------------------------------------

// The hub's names, and the names that newer versions of transformers write.
static const char *const text_prefixes[] = { "language_model.model.", "model.language_model.",
                                             NULL };
static const char *const head_prefixes[] = { "language_model.", "", "model.", NULL };
static const char *const vision_prefixes[] = { "vision_tower.vision_model.",
                                               "model.vision_tower.vision_model.",
                                               "model.vision_tower.", "vision_tower.", NULL };
static const char *const projector_prefixes[] = { "multi_modal_projector.",
                                                  "model.multi_modal_projector.", NULL };

int llava_bind_as(struct model *m, const struct checkpoint *c, const char *projector,
                  struct err *err)
{
    const struct decoder_kind *kind = m->decoder.config.kind;
    return family_bind(
        m, c,
        &(struct family_prefixes){
            .text = decoder_prefix(c, kind, text_prefixes, "embed_tokens"),
            .head = decoder_prefix(c, kind, head_prefixes, "lm_head"),
            .vision = bind_prefix(c, vision_prefixes, m->vision.config.kind->patch_weight),
            .projector = bind_prefix(c, projector_prefixes, projector),
        },
        err);
}

int llava_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    return llava_bind_as(m, c, "linear_1.weight", err);
}

enum model_part_kind llava_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "vision_tower.")) return PART_VISION;
    return strstr(tensor, "multi_modal_projector.") ? PART_PROJECTOR : text_part(m, tensor);
}

// --- published models ----------------------------------------------------------------------------

// Those with CLIP or SigLIP are in core/new/shapes.c.
static const struct family_shape shapes[] = {
    { "pixtral-12b",
      "{\"architectures\": [\"LlavaForConditionalGeneration\"], \"model_type\": \"llava\", "
      "\"image_seq_length\": 1, \"image_token_index\": 0, \"projector_hidden_act\": \"gelu\", "
      "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\", \"vision_feature_layer\": "
      "-1, \"vision_feature_select_strategy\": \"full\", \"vision_config\": {\"model_type\": "
      "\"pixtral\", \"head_dim\": 64, \"hidden_act\": \"silu\", \"hidden_size\": 1024, "
      "\"image_size\": 1024, \"intermediate_size\": 4096, \"num_attention_heads\": 16, "
      "\"num_hidden_layers\": 24, \"patch_size\": 16, \"rope_theta\": 10000.0}, \"text_config\": "
      "{\"model_type\": \"mistral\", \"head_dim\": 128, \"hidden_act\": \"silu\", "
      "\"hidden_size\": 5120, \"intermediate_size\": 14336, \"max_position_embeddings\": 1024000, "
      "\"num_attention_heads\": 32, \"num_hidden_layers\": 40, \"num_key_value_heads\": 8, "
      "\"rms_norm_eps\": 1e-05, \"rope_theta\": 1000000000.0, \"sliding_window\": null, "
      "\"vocab_size\": 131072}}",
      "{\"image_processor_type\": \"PixtralImageProcessor\", \"image_mean\": [0.48145466, "
      "0.4578275, 0.40821073], \"image_std\": [0.26862954, 0.26130258, 0.27577711], "
      "\"patch_size\": {\"height\": 16, \"width\": 16}, \"size\": {\"longest_edge\": 1024}}",
      131072, 130072, "[INST] [/INST] [IMG_BREAK] [IMG_END]" },
    { 0 },
};

static const struct phase_layers phases[] = {
    { 32, 4096, 11008, { 5, 12, 16 }, "2-5,22-29" }, // LLaVA-1.5-7B
    { 0 },
};

const struct family family_llava = {
    .name = "llava",
    .architectures = (const char *const[]){ "LlavaForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "llava", NULL },
    .configure = llava_configure,
    .bind = llava_bind,
    .part = llava_part,
    .gguf = "mlp",
    .shapes = shapes,
    .module_prefix = FAMILY_MODULE_PREFIX,
    .pictures = &llava_pictures,
    .boxes = "llava",
    .picture_processors = (const char *const[]){ "CLIP", "Siglip", "LlavaImage", NULL },
    .picture_keys = (const char *const[]){ PICTURE_KEYS, NULL },
    .phases = phases,
};
