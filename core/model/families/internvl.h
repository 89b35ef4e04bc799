// core/model/families/internvl.h -- shared by InternVL's two layouts of folders: pictures of
// several tiles, InternViT, pixel shuffle and a projector.
#ifndef CORE_MODEL_FAMILIES_INTERNVL_H
#define CORE_MODEL_FAMILIES_INTERNVL_H

#include "core/model/families/family.h"

// Reads the vision config of that kind, the feature layer (an index of hidden states) and
// "downsample_ratio" into m->vision.
int internvl_read_vision(struct model *m, const struct vision_kind *kind, const cJSON *config,
                         const cJSON *vision, const char *layer_key, struct err *err);
// Reads the decoder that the config's object `key` selects; `tied` is the default of
// "tie_word_embeddings" if neither the object nor the config has it.
int internvl_read_decoder(struct model *m, const cJSON *config, const char *key, bool tied,
                          struct err *err);
// Class defaults of the picture processor: ImageNet's mean and deviation, one tile.
struct picture_config internvl_picture(const struct vision_config *v);

// For picture kinds whose tiles are in row order, with the thumbnail last. internvl_places locates
// the tiles of a picture on its grid; internvl_input makes the encoder's input from the tiles'
// pixels and releases these.
int internvl_places(const struct model *m, struct picture_shape shape, struct tile_grid grid,
                    struct picture_tile *tiles, int most);
struct vision_picture internvl_input(struct graph *g, const struct model *m, struct image *tiles,
                                     int64_t count);

extern const struct phase_layers internvl_phases[];
extern const struct picture_kind internvl_pictures;

#endif
