// core/picture/tiling.h -- pictures cut into square tiles: which of the model's grids fits a
// picture best, and where the picture lies on it.
#ifndef CORE_PICTURE_TILING_H
#define CORE_PICTURE_TILING_H

#include "core/picture/preprocess.h"

enum { TILINGS_MAX = 128 };

struct tiling {
    int64_t tile; // side of a tile in pixels
    int count;
    struct tiling_grid {
        int64_t rows, cols; // of tiles
    } grid[TILINGS_MAX];    // in the config's order: of equals the first one is taken
};

// A picture on its grid: the canvas has rows x cols tiles, and the picture, resized with its aspect
// ratio kept, lies in the middle of it. All in pixels of the canvas.
struct tile_canvas {
    int64_t rows, cols;
    int64_t left, top, width, height; // of the picture
};

// "image_grid_pinpoints": [[height, width], ...] in pixels, each a whole number of tiles.
int tiling_read(struct tiling *t, const cJSON *json, int64_t tile, struct err *err);
struct tile_canvas tiling_fit(const struct tiling *t, int64_t width, int64_t height);
// The canvas's pixels, black around the picture; c says how a picture is read.
int tiling_draw(struct image *to, const struct image *from, const struct tiling *t,
                const struct tile_canvas *canvas, const struct picture_config *c,
                enum resize_order order, struct err *err);

#endif
