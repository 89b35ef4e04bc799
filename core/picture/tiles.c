// core/picture/tiles.c -- a picture as a grid of encoder squares and a thumbnail, as InternVL cuts
// it (Chen et al. 2024, arXiv 2404.16821, section 3.3: dynamic aspect ratio matching).
//
// The picture is resized to cols x rows squares, its aspect ratio not kept, and cut; with more than
// one square the whole picture, resized to one, comes last. The step easy to get wrong is the tie:
// grids are compared in order of their number of tiles, then of their columns, and one that is as
// near as the best so far (1 x 1 and 2 x 2) replaces it only if the picture's area is more than
// half of the grid's.
#include "core/picture/tiles.h"

#include <math.h>

struct tile_grid tile_grid(const struct picture_config *c, int64_t width, int64_t height)
{
    const double aspect = (double)width / (double)height;
    const double half = 0.5 * (double)(c->width * c->height);
    double nearest = INFINITY;
    struct tile_grid best = { 1, 1, 1 };
    for (int64_t n = c->min_tiles; n <= c->max_tiles; n++)
        for (int64_t cols = 1; cols <= n; cols++) {
            if (n % cols) continue;
            const int64_t rows = n / cols;
            const double far = fabs(aspect - (double)cols / (double)rows);
            const bool larger = (double)width * (double)height > half * (double)n;
            if (!(far < nearest || (far == nearest && larger))) continue;
            nearest = far;
            best = (struct tile_grid){ cols, rows, n };
        }
    if (c->thumbnail && best.count > 1) best.count++;
    return best;
}

int preprocess_tiles(struct image *tiles, struct tile_grid grid, const struct image *from,
                     const struct picture_config *c, enum resize_order order, struct err *err)
{
    const int64_t w = c->width, h = c->height, cells = grid.cols * grid.rows;
    struct image own = { 0 };
    int64_t done = 0;
    int rc = preprocess_opaque(&own, &from, c, err);
    for (; rc == 0 && done < cells; done += rc == 0)
        rc = image_resize_part(&tiles[done], from, grid.cols * w, grid.rows * h,
                               done % grid.cols * w, done / grid.cols * h, w, h, c->resample, order,
                               err);
    if (rc == 0 && grid.count > cells) {
        rc = image_resize(&tiles[done], from, w, h, c->resample, order, err);
        done += rc == 0;
    }
    while (rc < 0 && done > 0) image_release(&tiles[--done]);
    image_release(&own);
    return rc;
}
