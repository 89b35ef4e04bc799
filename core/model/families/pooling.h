// core/model/families/pooling.h -- image.downsample for encoders with a fixed picture size:
// averages each grid of visual tokens to a smaller grid before the decoder.
//
//   token (r, c) of R' x C' = the mean of the tokens of R x C over the area
//   [r R/R', (r+1) R/R') x [c C/C', (c+1) C/C'), each weighted by the part of it that lies inside
//
// R' = floor(R sqrt(share)), C' = floor(round(share R C) / R'), each at least 1. Apart from this
// minimum, no more tokens remain than the share allows. Tokens outside grids (a class token, the
// newlines of the rows that remain) stay unchanged. This is area interpolation, the baseline that
// beats most pruning in "Are we using the right benchmark" (arXiv 2510.07143).
#ifndef CORE_MODEL_FAMILIES_POOLING_H
#define CORE_MODEL_FAMILIES_POOLING_H

#include "core/model/families/family.h"

// Updates p->tokens and the indices of the picture's newlines for p->shape.share.
void pooling_size(const struct model *m, struct picture *p);
// Like the picture kind's `tiles`, after pooling by shape.share.
int pooling_tiles(const struct model *m, struct picture_shape shape, struct picture_tile *tiles,
                  int most);
// Pools the visual tokens x [S, D] of a picture.
struct tensor *pooling_forward(struct graph *g, const struct model *m,
                               const struct picture *picture, struct tensor *x);

#endif
