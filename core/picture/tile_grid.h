// core/picture/tile_grid.h -- cuts a picture into encoder squares: finds the best grid, and
// computes the pixels. By the picture's aspect ratio (InternVL):
//
//   const struct tile_grid grid = tile_grid_by_aspect(&m->picture, width, height, 0);
//   struct image *tiles = xcalloc((size_t)tile_count(&m->picture, grid), sizeof *tiles);
//   if (tile_grid_cut(tiles, grid, picture, &m->picture, order, err) < 0) ...
//
// by the picture's size (Idefics3):
//
//   const struct tile_plan plan = tile_plan_by_size(&m->picture, width, height, 0);
//   if (tile_plan_cut(tiles, &plan, picture, &m->picture, order, err) < 0) ...
//
// into an overview and slices of their own sizes (MiniCPM-V):
//
//   const struct slice_plan plan = slice_plan_fit(&m->picture, width, height);
//   if (slice_plan_cut(parts, &plan, picture, &m->picture, order, err) < 0) ...
//
// or by the resolution that the grid preserves (LLaVA's anyres):
//
//   const struct tile_canvas canvas = tile_canvas_fit(&m->grids, width, height);
//   if (tile_canvas_draw(&pixels, picture, &m->grids, &canvas, &m->picture, order, err) < 0) ...
#ifndef CORE_PICTURE_TILE_GRID_H
#define CORE_PICTURE_TILE_GRID_H

#include "core/picture/preprocess.h"

// TILE_GRID_MAX: the largest number of tiles that a config may give a grid by aspect ratio; heat
// maps also show the thumbnail. TILE_GRIDS_MAX: the largest number of grids by resolution.
enum { TILE_GRID_MAX = 63, TILE_GRIDS_MAX = 128 };

struct tile_grid {
    int64_t rows, cols;
};

// --- grids by aspect ratio -----------------------------------------------------------------------

// Returns the grid of c->min_tiles to c->max_tiles tiles whose aspect ratio is nearest to the
// picture's. `most` > 0: the grid has at most that many tiles, including the thumbnail, or as few
// as c allows.
struct tile_grid tile_grid_by_aspect(const struct picture_config *c, int64_t width, int64_t height,
                                     int64_t most);
// Returns the number of tiles, including the thumbnail (c->thumbnail) if the grid has several.
int64_t tile_count(const struct picture_config *c, struct tile_grid grid);
// Fills tiles[tile_count] with squares of c->width x c->height pixels, row by row, the thumbnail
// last; on failure releases them all.
int tile_grid_cut(struct image *tiles, struct tile_grid grid, const struct image *from,
                  const struct picture_config *c, enum resize_order order, struct err *err);

// --- grids by size -------------------------------------------------------------------------------

// The sizes of a picture after its first two resizes, and the grid into which it is then cut; 0 x 0
// tiles: the picture would need too many.
struct tile_plan {
    int64_t width[2], height[2];
    struct tile_grid grid;
};

// `most` > 0: at most that many tiles, including the thumbnail, or as few as possible.
struct tile_plan tile_plan_by_size(const struct picture_config *c, int64_t width, int64_t height,
                                   int64_t most);
// Like tile_grid_cut.
int tile_plan_cut(struct image *tiles, const struct tile_plan *plan, const struct image *from,
                  const struct picture_config *c, enum resize_order order, struct err *err);

// --- slices --------------------------------------------------------------------------------------

// The sizes of the overview and of a slice in pixels, and the grid of slices; 0 x 0: no slices.
struct slice_plan {
    int64_t width, height, slice_width, slice_height;
    struct tile_grid grid;
};

// FIT_SLICES: parts of about c->scale x c->scale pixels, whose sides are multiples of c->multiple.
struct slice_plan slice_plan_fit(const struct picture_config *c, int64_t width, int64_t height);
// Fills parts[1 + slices] with the overview, then the slices row by row; on failure releases them
// all.
int slice_plan_cut(struct image *parts, const struct slice_plan *plan, const struct image *from,
                   const struct picture_config *c, enum resize_order order, struct err *err);

// --- grids by resolution -------------------------------------------------------------------------

struct tile_grids {
    int64_t tile; // side of a tile in pixels
    int count;
    struct tile_grid grid[TILE_GRIDS_MAX]; // in the config's order: the first wins ties
};

// A picture on its grid: a canvas of rows x cols tiles with the picture, resized with its aspect
// ratio kept, in the middle.
struct tile_canvas {
    int64_t rows, cols;
    int64_t left, top, width, height; // of the picture, in pixels of the canvas
};

// Reads "image_grid_pinpoints": [[height, width], ...] in pixels, each a whole number of tiles.
int tile_grids_read(struct tile_grids *t, const cJSON *json, int64_t tile, struct err *err);
struct tile_canvas tile_canvas_fit(const struct tile_grids *t, int64_t width, int64_t height);
// Computes the canvas, black around the picture; c sets resampling and flattening.
int tile_canvas_draw(struct image *to, const struct image *from, const struct tile_grids *t,
                     const struct tile_canvas *canvas, const struct picture_config *c,
                     enum resize_order order, struct err *err);

#endif
