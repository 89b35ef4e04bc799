// core/model/splice.h -- combines token embeddings and visual tokens into h[0], the input of the
// decoder.
#ifndef CORE_MODEL_SPLICE_H
#define CORE_MODEL_SPLICE_H

#include "core/graph/hooks.h"

// Rows from.. of `s`: text rows are the embedding table's [V,D] rows of their ids, visual rows are
// row cell[i] of visual[picture[i]] ([S,D], one tensor a picture; data NULL where no row needs it).
// SITE_VISUAL runs on the tokens of each picture that has rows here, before they are taken.
// Returns h[0] [s->n - from, D]; SITE_EMBED runs on it.
struct tensor *splice(struct graph *g, const struct tensor *embed, const struct sequence *s,
                      int64_t from, struct tensor *const *visual, int picture_count);

#endif
