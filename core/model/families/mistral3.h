// core/model/families/mistral3.h -- shared by Pixtral's encoder and the families that have it.
#ifndef CORE_MODEL_FAMILIES_MISTRAL3_H
#define CORE_MODEL_FAMILIES_MISTRAL3_H

#include "core/model/families/family.h"

// Tokens after each row of a picture's visual tokens but the last, and after the last.
#define PIXTRAL_BREAK "[IMG_BREAK]"
#define PIXTRAL_END   "[IMG_END]"

extern const struct family_mmproj pixtral_mmproj; // core/model/vision_pixtral.c

#endif
