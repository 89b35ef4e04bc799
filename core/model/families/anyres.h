// core/model/families/anyres.h -- pictures cut into several tiles, for LLaVA-OneVision and
// LLaVA-Next.
#ifndef CORE_MODEL_FAMILIES_ANYRES_H
#define CORE_MODEL_FAMILIES_ANYRES_H

#include "core/model/families/llava.h"

// Reads the config of pictures and tiles; call after llava_config. `grids`: JSON, the default of
// "image_grid_pinpoints".
int anyres_configure(struct model *m, const struct checkpoint *c, const char *grids,
                     struct err *err);
int anyres_bind(struct model *m, const struct checkpoint *c, struct err *err);
extern const struct picture_kind anyres_pictures;

#endif
