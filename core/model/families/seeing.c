// core/model/families/seeing.c -- what the families of an encoder, a projector and a language model
// share.
#include "core/model/families/seeing.h"

#include <string.h>

#include "core/model/bind.h"
#include "core/model/families/text.h"
#include "core/settings/settings.h"

// --- config.json ---------------------------------------------------------------------------------

static int read_feature_layer(struct vision_config *v, const cJSON *config,
                              const struct seeing_defaults *d, struct err *err)
{
    const char *strategy;
    int64_t layer;
    if (cJSON_IsArray(json_get(config, "vision_feature_layer")))
        return err_set(err,
                       "\"vision_feature_layer\": features from several layers are not supported");
    if (json_int(config, "vision_feature_layer", -1001, 1000, d->feature_layer, &layer, err) < 0 ||
        json_text(config, "vision_feature_select_strategy", d->strategy, &strategy, err) < 0)
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
    // "default" leaves the first row out, whatever it is.
    v->drop_class = strcmp(strategy, "default") == 0;
    const struct vision_picture square = vision_square(v, NULL, 0);
    return vision_features(v, &square) > 0 ? 0 : err_set(err, "a picture gives no visual tokens");
}

static int read_projector(struct projector *p, const cJSON *config, struct err *err)
{
    p->kind = &projector_linear;
    if (json_bool(config, "multimodal_projector_bias", true, &p->bias, err) < 0) return -1;
    return gelu_form_read(&p->act, config, "projector_hidden_act", "gelu", err);
}

static int read_placeholder(struct model *m, const cJSON *config, int64_t otherwise,
                            struct err *err)
{
    const char *key =
        json_get(config, "image_token_index") ? "image_token_index" : "image_token_id";
    int64_t id;
    if (json_int(config, key, 0, INT32_MAX, otherwise, &id, err) < 0) return -1;
    m->placeholder = (int32_t)id;
    return 0;
}

// A part of config.json: absent (then NULL: the class defaults) or an object.
static int read_part(const cJSON *config, const char *key, const cJSON **part, struct err *err)
{
    *part = json_get(config, key);
    return !*part || cJSON_IsObject(*part) ? 0 : err_set(err, "\"%s\" must be an object", key);
}

int seeing_config(struct model *m, const cJSON *config, const struct seeing_defaults *d,
                  struct err *err)
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
    if (!vision && d->vision_needed) return err_set(err, "\"vision_config\" is missing");
    const struct vision_kind *encoder = vision_kind_find(vision, err);
    if (!encoder || vision_config_read(&m->vision.config, encoder, vision, err) < 0)
        return err_in(err, "vision_config");
    if (read_feature_layer(&m->vision.config, config, d, err) < 0 ||
        read_projector(&m->projector, config, err) < 0 ||
        read_placeholder(m, config, d->placeholder, err) < 0)
        return -1;
    return 0;
}

// --- preprocessor_config.json --------------------------------------------------------------------

// The class defaults of the image processor: of the named one, else of the one that goes with the
// encoder.
struct picture_config seeing_picture_defaults(const struct vision_config *v, const char *type)
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
    if (clip) {
        memcpy(p.mean, picture_clip_mean, sizeof p.mean);
        memcpy(p.std, picture_clip_std, sizeof p.std);
    }
    return p;
}

int seeing_pictures(struct model *m, const struct checkpoint *c, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    const char *type; // older files name a feature extractor
    if (json_text(c->preprocessor, "feature_extractor_type", "", &type, err) < 0 ||
        json_text(c->preprocessor, "image_processor_type", type, &type, err) < 0)
        return -1;
    const struct picture_config defaults = seeing_picture_defaults(v, type);
    if (picture_config_read(&m->picture, c->preprocessor, &defaults, err) < 0) return -1;
    if (m->picture.width != v->image_size || m->picture.height != v->image_size)
        return err_set(
            err, "pictures are resized to %lld x %lld pixels, but the encoder needs %lld x %lld",
            (long long)m->picture.width, (long long)m->picture.height, (long long)v->image_size,
            (long long)v->image_size);
    return 0;
}

enum resize_order seeing_resize_order(const struct graph *g)
{
    const bool pillow12 = settings_is(g->settings, "image.resize_order", "pillow12");
    return pillow12 ? RESIZE_PILLOW12 : RESIZE_PILLOW13;
}

// --- weights -------------------------------------------------------------------------------------

// The hub's names, and those that newer versions of transformers write.
static const char *const text_prefixes[] = { "language_model.model.", "model.language_model.",
                                             NULL };
static const char *const head_prefixes[] = { "language_model.", "", "model.", NULL };
static const char *const vision_prefixes[] = { "vision_tower.vision_model.",
                                               "model.vision_tower.vision_model.",
                                               "model.vision_tower.", "vision_tower.", NULL };
static const char *const projector_prefixes[] = { "multi_modal_projector.",
                                                  "model.multi_modal_projector.", NULL };

int seeing_bind(struct model *m, const struct checkpoint *c, struct err *err)
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
    const struct vision_config *v = &m->vision.config;
    return projector_bind(&m->projector, &b, v->kind->feature_width(v), m->decoder.config.hidden);
}

enum model_part_kind seeing_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "vision_tower.")) return PART_VISION;
    return strstr(tensor, "multi_modal_projector.") ? PART_PROJECTOR : text_part(m, tensor);
}

// --- the pass ------------------------------------------------------------------------------------

struct tensor *seeing_site(struct graph *g, enum site where, int number, struct tensor *x)
{
    struct site_args args = { .layer = -1, .picture = number, .x = x, .v = x, .prefill = true };
    if (!x || hooks_run(g, where, &args) < 0) return NULL;
    return args.x;
}
