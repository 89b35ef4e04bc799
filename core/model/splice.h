// core/model/splice.h -- combines token embeddings and visual tokens into h[0], the input of the
// decoder.
#ifndef CORE_MODEL_SPLICE_H
#define CORE_MODEL_SPLICE_H

#include "core/graph/hooks.h"

// Builds rows from.. of `s`: a text row is its id's row of the embedding table [V,D], a visual row
// is row cell[i] of visual[picture[i]] ([S,D], one tensor per picture; data may be NULL if no row
// needs it). focus[p] [S] is what the encoder attends to in picture p (family_encode), which
// SITE_FOCUS needs where something listens; NULL: none. Runs SITE_VISUAL on the tokens of each
// picture that has rows here, before copying them, and SITE_EMBED on the result. Returns h[0] [s->n
// - from, D].
struct tensor *splice(struct graph *g, const struct tensor *embed, const struct sequence *s,
                      int64_t from, struct tensor *const *visual, const float *const *focus,
                      int picture_count);

#endif
