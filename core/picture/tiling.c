// core/picture/tiling.c -- which grid of tiles fits a picture best, and the picture on it.
//
// As in transformers (select_best_resolution, get_patch_output_size): the grid on which most of the
// picture's pixels survive; of those the one with the least area left over. Then the picture is
// resized to touch two opposite sides of the grid and black is added at the other two.
#include "core/picture/tiling.h"

#include <math.h>

enum { CANVAS_MAX_SIDE = 16384 };

static int grid_read(struct tiling_grid *g, const cJSON *pair, int64_t tile, struct err *err)
{
    const cJSON *height = cJSON_GetArrayItem(pair, 0), *width = cJSON_GetArrayItem(pair, 1);
    if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2 || !cJSON_IsNumber(height) ||
        !cJSON_IsNumber(width))
        return err_set(err, "\"image_grid_pinpoints\" must be a list of [height, width]");
    const double h = height->valuedouble, w = width->valuedouble, side = (double)tile;
    if (!(h >= side && w >= side && h <= CANVAS_MAX_SIDE && w <= CANVAS_MAX_SIDE) ||
        fmod(h, side) != 0 || fmod(w, side) != 0)
        return err_set(err,
                       "\"image_grid_pinpoints\": %g x %g is not a whole number of tiles of %lld "
                       "pixels, at most %d a side",
                       h, w, (long long)tile, CANVAS_MAX_SIDE);
    *g = (struct tiling_grid){ (int64_t)h / tile, (int64_t)w / tile };
    return 0;
}

int tiling_read(struct tiling *t, const cJSON *json, int64_t tile, struct err *err)
{
    const cJSON *pair;
    const int count = cJSON_GetArraySize(json);
    *t = (struct tiling){ .tile = tile };
    if (!cJSON_IsArray(json) || count < 1 || count > TILINGS_MAX)
        return err_set(err, "\"image_grid_pinpoints\" must list 1 to %d sizes [height, width]",
                       TILINGS_MAX);
    cJSON_ArrayForEach(pair, json)
    {
        if (grid_read(&t->grid[t->count++], pair, tile, err) < 0) return -1;
    }
    return 0;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

struct tile_canvas tiling_fit(const struct tiling *t, int64_t width, int64_t height)
{
    const double w = (double)width, h = (double)height, side = (double)t->tile;
    const struct tiling_grid *best = &t->grid[0];
    double most = 0, least_left = INFINITY;
    for (int i = 0; i < t->count; i++) {
        const double W = side * (double)t->grid[i].cols, H = side * (double)t->grid[i].rows;
        const double scale = smaller(W / w, H / h);
        const double seen = smaller(floor(w * scale) * floor(h * scale), w * h);
        if (seen < most || (seen == most && W * H - seen >= least_left)) continue;
        best = &t->grid[i];
        most = seen;
        least_left = W * H - seen;
    }
    const int64_t W = t->tile * best->cols, H = t->tile * best->rows;
    const double across = (double)W / w, down = (double)H / h;
    struct tile_canvas c = { .rows = best->rows, .cols = best->cols, .width = W, .height = H };
    if (across < down)
        c.height = (int64_t)smaller(ceil(h * across), (double)H);
    else
        c.width = (int64_t)smaller(ceil(w * down), (double)W);
    c.left = (W - c.width) / 2; // the odd pixel is added right and below
    c.top = (H - c.height) / 2;
    return c;
}

int tiling_draw(struct image *to, const struct image *from, const struct tiling *t,
                const struct tile_canvas *canvas, const struct picture_config *c,
                enum resize_order order, struct err *err)
{
    struct picture_config fit = *c;
    struct image picture;
    fit.fit = FIT_EXACT;
    fit.resize = true;
    fit.crop = fit.square = false;
    fit.exact_width = canvas->width, fit.exact_height = canvas->height;
    if (preprocess_bytes(&picture, from, &fit, order, err) < 0) return -1;
    const int rc = image_crop(to, &picture, -canvas->left, -canvas->top, t->tile * canvas->cols,
                              t->tile * canvas->rows, (uint8_t[3]){ 0 }, err);
    image_release(&picture);
    return rc;
}
