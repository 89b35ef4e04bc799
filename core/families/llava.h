// core/families/llava.h -- how pictures become what CLIP and SigLIP encoders read.
#ifndef CORE_FAMILIES_LLAVA_H
#define CORE_FAMILIES_LLAVA_H

#include "core/preprocess.h"
#include "core/vision.h"

// The class defaults of an image processor: of the type named ("CLIPImageProcessor"), else ("") of
// the one that goes with the encoder.
struct picture_config llava_picture_defaults(const struct vision_config *v, const char *type);

#endif
