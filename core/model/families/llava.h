// core/model/families/llava.h -- how pictures become what CLIP and SigLIP encoders read.
#ifndef CORE_MODEL_FAMILIES_LLAVA_H
#define CORE_MODEL_FAMILIES_LLAVA_H

#include "core/model/vision.h"
#include "core/picture/preprocess.h"

// The class defaults of an image processor: of the type named ("CLIPImageProcessor"), else ("") of
// the one that goes with the encoder.
struct picture_config llava_picture_defaults(const struct vision_config *v, const char *type);

#endif
