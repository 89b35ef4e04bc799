// core/model/families/llava.h -- shared by families of LLaVA's layout: config keys, preprocessing
// and tensor names of an encoder, a projector and a language model.
#ifndef CORE_MODEL_FAMILIES_LLAVA_H
#define CORE_MODEL_FAMILIES_LLAVA_H

#include "core/model/families/family.h"

// The class defaults of config.json in which the families differ.
struct llava_defaults {
    int64_t feature_layer; // "vision_feature_layer"
    const char *strategy;  // "vision_feature_select_strategy"
    int64_t placeholder;   // "image_token_index"
    bool vision_needed;    // "vision_config" is required; else LLaVA-1.5's is the default
    bool any_size;         // also accepts encoders of native resolution, and squares whose
                           // features are merged
};

// Reads config.json: the encoder, the decoder, the feature layer, the projector, the placeholder.
int llava_config(struct model *m, const cJSON *config, const struct llava_defaults *d,
                 struct err *err);
// Reads preprocessor_config.json into m->picture, which then produces the encoder's square.
int llava_read_pictures(struct model *m, const struct checkpoint *c, struct err *err);
// How square pictures, or those of native resolution, become visual tokens.
extern const struct picture_kind llava_pictures;
// Binds all parts; `projector` is a tensor that only the projector has.
int llava_bind_as(struct model *m, const struct checkpoint *c, const char *projector,
                  struct err *err);
int llava_bind(struct model *m, const struct checkpoint *c, struct err *err);
enum model_part_kind llava_part(const struct model *m, const char *tensor);

#endif
