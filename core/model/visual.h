// core/model/visual.h -- encodes pictures into visual tokens, and combines visual tokens and text
// embeddings into h[0], the decoder's input.
#ifndef CORE_MODEL_VISUAL_H
#define CORE_MODEL_VISUAL_H

#include "core/model/model.h"

// Encodes one or several pictures in one pass into visual tokens [S,D] in sequence order: tokens[i]
// for pictures[i], whose index is number[i]. With DeepStack they are [S,(1+n)*D]: beside each
// token, the n rows that the decoder adds to it after its first n layers (visual_deepstack).
// SITE_PIXELS .. SITE_PROJECTED run inside, before the DeepStack rows are joined. Failures return
// NULL or -1 and set g->err. With listeners at SITE_FOCUS, focus[i] becomes the encoder's attention
// to pictures[i], [S] in the arena's host memory, else NULL; `focus` NULL: not needed.
struct tensor *visual_encode(struct graph *g, const struct model *m, const struct picture *picture,
                             int number, float **focus);
int visual_encode_all(struct graph *g, const struct model *m, const struct picture *const *pictures,
                      const int *number, size_t count, struct tensor **tokens, float **focus);

// Copies tokens to their own device memory, for later passes; NULL on failure (g->err).
struct tensor *visual_keep(struct graph *g, const struct tensor *tokens);
void visual_free(const struct backend *b, struct tensor *kept); // NULL is fine

// Builds rows from.. of `s`: a text row is its id's row of the embedding table [V,D], times
// config.embed_scale; a visual row is row cell[i] of visual[picture[i]] (one tensor per
// picture; NULL if no row needs it). focus[p] [S] is the encoder's attention to each token of
// picture p (visual_encode), for listeners at SITE_FOCUS; NULL: none. Runs SITE_VISUAL on the
// tokens of each picture that has rows here before copying them, then SITE_EMBED on the result.
// Returns h[0] [s->n - from, D], and keeps the list `visual` in g->visual for the pass.
struct tensor *splice(struct graph *g, const struct decoder *d, const struct sequence *s,
                      int64_t from, struct tensor *const *visual, const float *const *focus,
                      int picture_count);

// DeepStack (Meng et al. 2024, arXiv 2406.04334), for after_layer of a family's decoder: adds to
// each visual token in h [n,D] its row for this layer, if it has one.
struct tensor *visual_deepstack(struct graph *g, const struct layer *layer, struct tensor *h);

#endif
