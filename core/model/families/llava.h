// core/model/families/llava.h -- picture preprocessing for CLIP and SigLIP encoders.
#ifndef CORE_MODEL_FAMILIES_LLAVA_H
#define CORE_MODEL_FAMILIES_LLAVA_H

#include "core/model/vision.h"
#include "core/picture/preprocess.h"

// Class defaults of an image processor: of the named type ("CLIPImageProcessor"), or for "" of the
// encoder's usual one.
struct picture_config llava_picture_defaults(const struct vision_config *v, const char *type);

#endif
