// core/model/families/family.h -- a model family: everything that is particular to it, in one
// struct.
//
// A new family is one file core/model/families/NAME.c with one constant struct, and one line in
// core/lists.h. Nothing elsewhere tests a family's name.
#ifndef CORE_MODEL_FAMILIES_FAMILY_H
#define CORE_MODEL_FAMILIES_FAMILY_H

#include "core/model/model.h"

// Layers of a known checkpoint at which the role of attention to pictures changes (CAPA, section
// 4): where visual tokens are first read, where they stop mattering.
struct phase_layers {
    int layers; // the checkpoint's L and D
    int64_t hidden;
    int early, transition, late;
    const char *ffn; // layers whose FFN is approximated (CAPA's sets), NULL: unknown
};

// A rectangle of visual tokens of a picture and what part of the picture it shows: token (r, c) is
// number first + r * pitch + c of the picture (pitch > cols where rows end with further tokens).
struct picture_tile {
    int64_t first, rows, cols, pitch;
    double left, top, right, bottom; // in pixels of the picture; may lie outside where it is padded
};

struct family {
    const char *name;                 // "llava"
    const char *const *architectures; // config.json "architectures" it answers to, NULL-terminated
    const char *const *model_types;   // or, without architectures, "model_type"
    // Of a language model, which others may have as their decoder (text_config); else NULL.
    const struct decoder_kind *decoder;
    // Configs from the folder's JSON files into m->vision.config, m->decoder.config, m->picture ...
    int (*configure)(struct model *m, const struct checkpoint *c, struct err *err);
    // Tensors from the checkpoint into the model (m->arena).
    int (*bind)(struct model *m, const struct checkpoint *c, struct err *err);
    // Which part a tensor of the file belongs to, by its name.
    enum model_part_kind (*part)(const struct model *m, const char *tensor);
    // What today's transformers put before the plain name (core/model/weights.h) of a tensor of
    // each part.
    const char *module_prefix[MODEL_PARTS];
    // Visual tokens of a picture of that size: the one place that counts them. NULL: text only.
    int64_t (*picture_tokens)(const struct model *m, int64_t width, int64_t height);
    // Where its visual tokens lie; at most `most` tiles are written, their number is returned.
    // NULL: not known, tokens are shown as one row.
    int (*picture_tiles)(const struct model *m, int64_t width, int64_t height,
                         struct picture_tile *tiles, int most);
    // Pixels to visual tokens [S,D] in sequence order (SITE_PIXELS .. SITE_PROJECTED run inside).
    struct tensor *(*picture_encode)(struct graph *g, const struct model *m,
                                     const struct image *image, int picture);
    // The same for several pictures in one pass: tokens[i] of pictures[i], whose index is
    // number[i]. NULL: they go one by one. 0 or -1 (g->err).
    int (*pictures_encode)(struct graph *g, const struct model *m,
                           const struct image *const *pictures, const int *number, size_t count,
                           struct tensor **tokens);
    const struct phase_layers *phases; // ends with layers 0; NULL: none is known
    // Rotary positions of s; NULL: 0..n-1.
    void (*positions)(const struct model *m, struct sequence *s);
};

// The module a weight belongs to, as transformers' class of today names it (adapters):
// "model.language_model.layers.0.mlp.up_proj". Belongs to the caller.
char *family_module_name(const struct family *f, const struct weight *w);

// All families, NULL behind the last; they live as long as the program.
void families_hand_over(const struct family *const *all);
const struct family *family_named(const char *name); // NULL if unknown
// The decoder a config names by its model_type; without one by its architecture, else the first
// family's that has one, as transformers takes it. NULL with a message that says which there are.
const struct decoder_kind *family_decoder(const cJSON *config, struct err *err);
const struct family *family_find(const cJSON *config, struct err *err);

#endif
