// core/picture/tile_grid.c -- cuts a picture into encoder squares.
//
// By aspect ratio, as InternVL does (Chen et al. 2024, arXiv 2404.16821, section 3.3): the picture
// is resized to cols x rows squares, its aspect ratio not kept, and cut; with more than one square
// the whole picture, resized to one square, comes last. Easy to get wrong, on ties: grids are
// compared in order of their number of tiles, then of columns, and a grid whose aspect ratio is as
// near as that of the best so far (2 x 2 after 1 x 1) replaces it only if the picture's area is
// more than half of the new grid's area.
//
// By size, as transformers does for Idefics3 and SmolVLM: the picture's longest edge is resized to
// a fixed length, even if that enlarges it; then both sides to multiples of a tile's side, the
// aspect ratio not kept; the result is cut, and the whole result, resized to one tile, comes last.
// A picture of one tile gets no such extra tile. Easy to get wrong: each of the three resizes
// starts from the result of the previous one, and a shorter side that the first one makes odd grows
// by one pixel.
//
// Into an overview and slices, as transformers does for MiniCPM-V 4.6 (LLaVA-UHD: Guo et al. 2024,
// arXiv 2403.11703): the number of slices is about the picture's area divided by that of a part; of
// the grids with one slice fewer, as many and one more, the one whose aspect ratio is nearest by
// its logarithm. Overview and slices are resized from the original picture, each to the area of a
// part. Easy to get wrong: Python rounds halves to the even number, and ties between grids prefer
// more rows.
//
// By resolution, as transformers does for LLaVA's anyres (select_best_resolution,
// get_patch_output_size): the grid that keeps most of the picture's pixels; on ties, the one with
// the least unused area. Then the picture is resized to touch two opposite sides of the grid and
// black is added at the other two.
#include "core/picture/tile_grid.h"

#include <math.h>

enum { CANVAS_MAX_SIDE = 16384, LONGEST_MAX = 4096 };

// --- grids by aspect ratio -----------------------------------------------------------------------

static int64_t with_thumbnail(const struct picture_config *c, int64_t tiles)
{
    return tiles + (c->thumbnail && tiles > 1);
}

int64_t tile_count(const struct picture_config *c, struct tile_grid grid)
{
    return with_thumbnail(c, grid.rows * grid.cols);
}

struct tile_grid tile_grid_by_aspect(const struct picture_config *c, int64_t width, int64_t height,
                                     int64_t most)
{
    const double aspect = (double)width / (double)height;
    const double half = 0.5 * (double)(c->width * c->height);
    double nearest = INFINITY;
    struct tile_grid best = { 1, 1 };
    for (int64_t n = c->min_tiles; n <= c->max_tiles; n++) {
        if (most && n > c->min_tiles && with_thumbnail(c, n) > most) break;
        const bool larger = (double)width * (double)height > half * (double)n;
        for (int64_t cols = 1; cols <= n; cols++) {
            if (n % cols) continue;
            const int64_t rows = n / cols;
            const double far = fabs(aspect - (double)cols / (double)rows);
            if (!(far < nearest || (far == nearest && larger))) continue;
            nearest = far;
            best = (struct tile_grid){ .rows = rows, .cols = cols };
        }
    }
    return best;
}

int tile_grid_cut(struct image *tiles, struct tile_grid grid, const struct image *from,
                  const struct picture_config *c, enum resize_order order, struct err *err)
{
    const int64_t w = c->width, h = c->height, cells = grid.cols * grid.rows;
    struct image own = { 0 };
    int64_t done = 0;
    int rc = preprocess_flatten(&own, &from, c, err);
    for (; rc == 0 && done < cells; done += rc == 0)
        rc = image_resize_part(&tiles[done], from, grid.cols * w, grid.rows * h,
                               done % grid.cols * w, done / grid.cols * h, w, h, c->resample, order,
                               err);
    if (rc == 0 && tile_count(c, grid) > cells) {
        rc = image_resize(&tiles[done], from, w, h, c->resample, order, err);
        done += rc == 0;
    }
    while (rc < 0 && done > 0) image_release(&tiles[--done]);
    image_release(&own);
    return rc;
}

// --- grids by size -------------------------------------------------------------------------------

// Resizes the longer side to `longest`, and the other side in proportion, rounded down and then,
// with `even`, up to an even number.
static void fit_longest(int64_t *width, int64_t *height, int64_t longest, bool even)
{
    const double aspect = (double)*width / (double)*height;
    const bool wide = *width >= *height;
    int64_t other = (int64_t)(wide ? (double)longest / aspect : (double)longest * aspect);
    if (even) other += other % 2;
    *width = wide ? longest : other;
    *height = wide ? other : longest;
}

static int64_t tiles_along(int64_t pixels, int64_t tile)
{
    return (pixels + tile - 1) / tile;
}

static struct tile_plan plan_longest(const struct picture_config *c, int64_t width, int64_t height,
                                     int64_t longest)
{
    const int64_t tile = c->width;
    if (longest) {
        fit_longest(&width, &height, longest, true);
        if (width > LONGEST_MAX || height > LONGEST_MAX)
            fit_longest(&width, &height, LONGEST_MAX, false);
    } else if (c->resize && c->exact_width) {
        width = c->exact_width;
        height = c->exact_height;
    }
    if (width < 1) width = 1;
    if (height < 1) height = 1;
    struct tile_plan plan = { .width = { width, tile },
                              .height = { height, tile },
                              .grid = { 1, 1 } };
    if (!c->max_tiles) return plan;
    const double aspect = (double)width / (double)height;
    if (width >= height) {
        plan.grid.cols = tiles_along(width, tile);
        plan.grid.rows = tiles_along((int64_t)((double)(plan.grid.cols * tile) / aspect), tile);
    } else {
        plan.grid.rows = tiles_along(height, tile);
        plan.grid.cols = tiles_along((int64_t)((double)(plan.grid.rows * tile) * aspect), tile);
    }
    if (plan.grid.rows < 1) plan.grid.rows = 1;
    if (plan.grid.cols < 1) plan.grid.cols = 1;
    plan.width[1] = plan.grid.cols * tile;
    plan.height[1] = plan.grid.rows * tile;
    if (plan.grid.rows > c->max_tiles || plan.grid.cols > c->max_tiles / plan.grid.rows)
        plan.grid = (struct tile_grid){ 0 };
    return plan;
}

struct tile_plan tile_plan_by_size(const struct picture_config *c, int64_t width, int64_t height,
                                   int64_t most)
{
    struct tile_plan plan = plan_longest(c, width, height, c->longest);
    const int64_t side = plan.width[1] > plan.height[1] ? plan.width[1] : plan.height[1];
    for (int64_t n = tiles_along(side, c->width); most && n >= 1; n--) {
        if (plan.grid.rows && tile_count(c, plan.grid) <= most) break;
        plan = plan_longest(c, width, height, n * c->width - n * c->width % 2);
    }
    return plan;
}

int tile_plan_cut(struct image *tiles, const struct tile_plan *plan, const struct image *from,
                  const struct picture_config *c, enum resize_order order, struct err *err)
{
    const struct tile_grid grid = plan->grid;
    const int64_t w = c->width, h = c->height, cells = grid.cols * grid.rows;
    struct image own = { 0 }, first = { 0 }, second = { 0 };
    int64_t done = 0;
    int rc = preprocess_flatten(&own, &from, c, err);
    if (rc == 0)
        rc = image_resize(&first, from, plan->width[0], plan->height[0], c->resample, order, err);
    if (rc == 0)
        rc =
            image_resize(&second, &first, plan->width[1], plan->height[1], c->resample, order, err);
    for (; rc == 0 && done < cells; done += rc == 0)
        rc = image_crop(&tiles[done], &second, done % grid.cols * w, done / grid.cols * h, w, h,
                        (uint8_t[3]){ 0 }, err);
    if (rc == 0 && tile_count(c, grid) > cells) {
        rc = image_resize(&tiles[done], &second, w, h, c->resample, order, err);
        done += rc == 0;
    }
    while (rc < 0 && done > 0) image_release(&tiles[--done]);
    image_release(&second);
    image_release(&first);
    image_release(&own);
    return rc;
}

// --- slices --------------------------------------------------------------------------------------

static double rounded_to(double length, double multiple)
{
    const double n = nearbyint(length / multiple) * multiple;
    return n > multiple ? n : multiple;
}

// Sets the size of a part whose aspect ratio is that of width x height.
static void part_size(const struct picture_config *c, double width, double height,
                      int64_t *to_width, int64_t *to_height)
{
    const double aspect = width / height, multiple = (double)c->multiple;
    const double h = trunc((double)c->scale / sqrt(aspect)), w = trunc(h * aspect);
    *to_width = (int64_t)rounded_to(w, multiple);
    *to_height = (int64_t)rounded_to(h, multiple);
}

static struct tile_grid slice_grid(const struct picture_config *c, int64_t width, int64_t height)
{
    const double aspect = log((double)width / (double)height);
    const double wanted = ceil((double)width * (double)height / (double)(c->scale * c->scale));
    const int64_t count = wanted < (double)c->max_tiles ? (int64_t)wanted : c->max_tiles;
    struct tile_grid best = { 0 };
    double nearest = INFINITY;
    if (count <= 1) return best;
    for (int64_t n = count - 1; n <= count + 1; n++)
        for (int64_t rows = 1; n > 1 && n <= c->max_tiles && rows <= n; rows++) {
            if (n % rows) continue;
            const int64_t cols = n / rows;
            const double far = fabs(aspect - log((double)cols / (double)rows));
            if (far > nearest || (far == nearest && rows <= best.rows)) continue;
            nearest = far;
            best = (struct tile_grid){ .rows = rows, .cols = cols };
        }
    return best;
}

struct slice_plan slice_plan_fit(const struct picture_config *c, int64_t width, int64_t height)
{
    struct slice_plan plan = { .grid = slice_grid(c, width, height) };
    part_size(c, (double)width, (double)height, &plan.width, &plan.height);
    if (!plan.grid.rows) return plan;
    const double cols = (double)plan.grid.cols, rows = (double)plan.grid.rows;
    part_size(c, rounded_to((double)width, cols) / cols, rounded_to((double)height, rows) / rows,
              &plan.slice_width, &plan.slice_height);
    return plan;
}

int slice_plan_cut(struct image *parts, const struct slice_plan *plan, const struct image *from,
                   const struct picture_config *c, enum resize_order order, struct err *err)
{
    const int64_t w = plan->slice_width, h = plan->slice_height, cols = plan->grid.cols;
    const int64_t count = 1 + plan->grid.rows * cols;
    struct image own = { 0 };
    int64_t done = 0;
    int rc = preprocess_flatten(&own, &from, c, err);
    for (; rc == 0 && done < count; done += rc == 0) {
        const int64_t slice = done - 1;
        rc = done ? image_resize_part(&parts[done], from, w * cols, h * plan->grid.rows,
                                      slice % cols * w, slice / cols * h, w, h, c->resample, order,
                                      err)
                  : image_resize(parts, from, plan->width, plan->height, c->resample, order, err);
    }
    while (rc < 0 && done > 0) image_release(&parts[--done]);
    image_release(&own);
    return rc;
}

// --- grids by resolution -------------------------------------------------------------------------

static int grid_read(struct tile_grid *g, const cJSON *pair, int64_t tile, struct err *err)
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
    *g = (struct tile_grid){ (int64_t)h / tile, (int64_t)w / tile };
    return 0;
}

int tile_grids_read(struct tile_grids *t, const cJSON *json, int64_t tile, struct err *err)
{
    const cJSON *pair;
    const int count = cJSON_GetArraySize(json);
    *t = (struct tile_grids){ .tile = tile };
    if (!cJSON_IsArray(json) || count < 1 || count > TILE_GRIDS_MAX)
        return err_set(err, "\"image_grid_pinpoints\" must list 1 to %d sizes [height, width]",
                       TILE_GRIDS_MAX);
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

struct tile_canvas tile_canvas_fit(const struct tile_grids *t, int64_t width, int64_t height)
{
    const double w = (double)width, h = (double)height, side = (double)t->tile;
    const struct tile_grid *best = &t->grid[0];
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

int tile_canvas_draw(struct image *to, const struct image *from, const struct tile_grids *t,
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
