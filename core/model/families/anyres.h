// core/model/families/anyres.h -- pictures of several tiles, as LLaVA-OneVision and LLaVA-Next cut
// them.
#ifndef CORE_MODEL_FAMILIES_ANYRES_H
#define CORE_MODEL_FAMILIES_ANYRES_H

#include "core/model/families/seeing.h"

struct picture_shape;

// Reads how pictures are cut; call after seeing_config. `grids`: default "image_grid_pinpoints" as
// JSON, if config.json has none.
int anyres_configure(struct model *m, const struct checkpoint *c, const char *grids,
                     struct err *err);
int anyres_bind(struct model *m, const struct checkpoint *c, struct err *err);

int64_t anyres_tokens(const struct model *m, struct picture_shape shape);
void anyres_usual(const struct model *m, int64_t *width, int64_t *height);
void anyres_newlines(const struct model *m, struct picture *p);
int anyres_tiles(const struct model *m, struct picture_shape shape, struct picture_tile *tiles,
                 int most);
struct vision_picture anyres_read(struct graph *g, const struct model *m,
                                  const struct picture *picture);
struct tensor *anyres_pack(struct graph *g, const struct model *m, const struct picture *picture,
                           struct tensor *x);

#endif
