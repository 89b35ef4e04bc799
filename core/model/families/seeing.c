// core/model/families/seeing.c -- shared by the families of an encoder, a projector and a language
// model.
#include "core/model/families/seeing.h"

#include <string.h>

#include "core/model/bind.h"
#include "core/model/families/text.h"

// --- config.json ---------------------------------------------------------------------------------

static int read_feature_layer(struct vision_config *v, const cJSON *config,
                              const struct seeing_defaults *d, struct err *err)
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
    if (native) { // it returns all rows, after its last norm
        if (vision_depth(v) == v->layers && !v->drop_class) return 0;
        return err_set(err, "an encoder of native resolution needs \"vision_feature_layer\" -1 and "
                            "\"vision_feature_select_strategy\" \"full\"");
    }
    const struct vision_picture square = vision_square(v, NULL);
    return vision_features(v, &square) > 0 ? 0 : err_set(err, "a picture gives no visual tokens");
}

// "spatial_merge_size" n: n x n features become one visual token. Only Mistral 3 configs have this
// key; no LLaVA does. The class token belongs to no cell.
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

int seeing_config(struct model *m, const cJSON *config, const struct seeing_defaults *d,
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
                       "them into tiles (the llava family takes it)",
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
struct picture_config seeing_picture_defaults(const struct vision_config *v, const char *type)
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
    return family_bind(
        m, c,
        &(struct family_prefixes){
            .text = decoder_prefix(c, kind, text_prefixes, "embed_tokens"),
            .head = decoder_prefix(c, kind, head_prefixes, "lm_head"),
            .vision = bind_prefix(c, vision_prefixes, m->vision.config.kind->patch_weight),
            .projector = bind_prefix(c, projector_prefixes, "linear_1.weight"),
        },
        err);
}

enum model_part_kind seeing_part(const struct model *m, const char *tensor)
{
    if (strstr(tensor, "vision_tower.")) return PART_VISION;
    return strstr(tensor, "multi_modal_projector.") ? PART_PROJECTOR : text_part(m, tensor);
}
