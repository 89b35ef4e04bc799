// core/picture/tiles.h -- a picture as a grid of encoder squares and a thumbnail, as InternVL cuts
// it.
//
//   const struct tile_grid grid = tile_grid(&m->picture, width, height);
//   struct image *tiles = xcalloc((size_t)grid.count, sizeof *tiles);
//   if (preprocess_tiles(tiles, grid, picture, &m->picture, order, err) < 0) ...
#ifndef CORE_PICTURE_TILES_H
#define CORE_PICTURE_TILES_H

#include "core/picture/preprocess.h"

enum { TILES_MAX = 63 }; // most tiles of a grid that a config may ask for; heat maps show one more

struct tile_grid {
    int64_t cols, rows;
    int64_t count; // tiles row by row, then the thumbnail if there is more than one
};

// The grid of c->min_tiles to c->max_tiles tiles whose aspect ratio is nearest to the picture's.
struct tile_grid tile_grid(const struct picture_config *c, int64_t width, int64_t height);
// Fills tiles[grid.count] with squares of c->width x c->height pixels; nothing is left on failure.
int preprocess_tiles(struct image *tiles, struct tile_grid grid, const struct image *from,
                     const struct picture_config *c, enum resize_order order, struct err *err);

#endif
