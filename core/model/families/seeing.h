// core/model/families/seeing.h -- shared by the families of an encoder, a projector and a language
// model, in the layout of LLaVA: config keys, names of tensors, pixels, sites.
#ifndef CORE_MODEL_FAMILIES_SEEING_H
#define CORE_MODEL_FAMILIES_SEEING_H

#include "core/model/families/family.h"

// The class defaults of config.json in which the families differ.
struct seeing_defaults {
    int64_t feature_layer; // "vision_feature_layer"
    const char *strategy;  // "vision_feature_select_strategy"
    int64_t placeholder;   // "image_token_index"
    bool vision_needed;    // "vision_config" is required; else a missing one means LLaVA-1.5's
    bool any_size;         // also accepts encoders of native resolution, and squares whose
                           // features are merged
};

// Reads config.json: both parts, the feature layer, the projector, the placeholder.
int seeing_config(struct model *m, const cJSON *config, const struct seeing_defaults *d,
                  struct err *err);
// Class defaults of an image processor: of the named type ("CLIPImageProcessor"), or for "" of the
// encoder's usual one.
struct picture_config seeing_picture_defaults(const struct vision_config *v, const char *type);
// Reads preprocessor_config.json into m->picture, which then produces the encoder's square.
int seeing_pictures(struct model *m, const struct checkpoint *c, struct err *err);
int seeing_bind(struct model *m, const struct checkpoint *c, struct err *err);
enum model_part_kind seeing_part(const struct model *m, const char *tensor);

#endif
