// core/model/families/anyres.c -- pictures of several tiles.
//
//   picture -> resized to one square tile                              -> [side, side] features
//           -> on the best-fitting grid, with a black border -> tiles  -> one map of features
//   map -> cropped to the rows and columns that show the picture -> downsampled if too large
//   tokens: the square's, then the map's row by row, each row followed by a newline
//
// If a prompt has several pictures and the family treats several differently
// (family->several_differ), each picture gives only its square (padded, not squeezed) and one
// newline.
//
// Easy to get wrong: each side loses only the features that fit into its half of the black border,
// so features that show some black stay.
#include "core/model/families/anyres.h"

#include <math.h>
#include <stdlib.h>

#include "core/model/bind.h"
#include "core/ops/ops.h"
#include "core/picture/tile_grid.h"
#include "core/template/message.h"

// --- config --------------------------------------------------------------------------------------

// config.json gives the grids to the model, preprocessor_config.json to the picture processor; both
// must agree.
static int read_grids(struct model *m, const struct checkpoint *c, const char *grids,
                      struct err *err)
{
    const cJSON *ours = json_get(c->config, "image_grid_pinpoints");
    const cJSON *theirs = json_get(c->preprocessor, "image_grid_pinpoints");
    if (ours && theirs && !cJSON_Compare(ours, theirs, true))
        return err_set(err, "\"image_grid_pinpoints\" differ in config.json and %s",
                       checkpoint_preprocessor_file(c));
    cJSON *plain = cJSON_Parse(grids);
    const int rc = tile_grids_read(&m->grids,
                                   ours     ? ours
                                   : theirs ? theirs
                                            : plain,
                                   m->vision.config.image_size, err);
    cJSON_Delete(plain);
    return rc;
}

static int read_pictures(struct model *m, const struct checkpoint *c, struct err *err)
{
    if (llava_read_pictures(m, c, err) < 0)
        return err_in(err, "%s", checkpoint_preprocessor_file(c));
    struct picture_config *p = &m->picture;
    if (p->fit == FIT_SHORTEST_CROP && p->shortest != m->vision.config.image_size)
        return err_set(err, "%s: tiles of %lld pixels a side (\"size\") are not the encoder's %lld",
                       checkpoint_preprocessor_file(c), (long long)p->shortest,
                       (long long)m->vision.config.image_size);
    p->fit = FIT_EXACT; // tiles are already square: nothing to crop
    p->resize = true;
    p->crop = p->square = false;
    p->exact_width = p->exact_height = 0;
    picture_border_of_mean(p);
    return 0;
}

static int64_t side_of(const struct model *m)
{
    return m->vision.config.image_size / m->vision.config.patch;
}

int anyres_configure(struct model *m, const struct checkpoint *c, const char *grids,
                     struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    const struct vision_picture square = vision_square(v, NULL);
    if (vision_features(v, &square) != side_of(m) * side_of(m))
        return err_set(err,
                       "config.json: \"vision_feature_select_strategy\" leaves %lld features "
                       "of a tile, which has %lld x %lld patches",
                       (long long)vision_features(v, &square), (long long)side_of(m),
                       (long long)side_of(m));
    if (read_pictures(m, c, err) < 0) return -1;
    return read_grids(m, c, grids, err);
}

int anyres_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const char *const prefixes[] = { "", "model.", NULL };
    if (llava_bind(m, c, err) < 0) return -1;
    struct binder b = { .checkpoint = c,
                        .arena = &m->arena,
                        .weights = &m->weights,
                        .prefix = bind_prefix(c, prefixes, "image_newline"),
                        .err = err };
    bind_vector(&b, &m->newline, m->decoder.config.hidden, "image_newline");
    m->newline.rank = 2;
    m->newline.shape[1] = m->newline.shape[0];
    m->newline.shape[0] = 1;
    return b.failed ? -1 : 0;
}

// --- the order of features -----------------------------------------------------------------------

// A picture's tiles, and which of their features become tokens.
struct packing {
    int64_t side, tiles;        // features per side of a tile; tiles, including the square
    struct tile_canvas canvas;  // rows 0: only the square
    int64_t top, left;          // of the map inside its border, in features
    int64_t rows, cols;         // of the map inside its border
    int64_t out_rows, out_cols; // after resampling
    int64_t tokens;
};

// Returns how many features to crop at each end of a side of `whole` features, of which the picture
// fills `seen`.
static int64_t border_features(int64_t whole, double seen)
{
    // Python's int(round(seen, 7)).
    return (whole - (int64_t)floor(seen + 0.5e-7)) / 2;
}

static void crop_border(struct packing *p, struct picture_shape s)
{
    const double w = (double)s.width, h = (double)s.height;
    const double rows = (double)p->rows, cols = (double)p->cols;
    if (w / h > cols / rows) {
        p->top = border_features(p->rows, h * (cols / w));
        p->rows -= 2 * p->top;
    } else {
        p->left = border_features(p->cols, w * (rows / h));
        p->cols -= 2 * p->left;
    }
}

// "anyres_max_9": shrinks a map with more than 1.1^2 times the features of 9 tiles.
static void shrink(struct packing *p, int64_t most)
{
    p->out_rows = p->rows;
    p->out_cols = p->cols;
    if (!most) return;
    const double area = (double)(p->rows * p->cols);
    const double ratio = sqrt(area / (double)(most * p->side * p->side));
    if (!(ratio > 1.1)) return;
    p->out_rows = (int64_t)floor((double)p->rows / ratio);
    p->out_cols = (int64_t)floor((double)p->cols / ratio);
    if (p->out_rows < 1) p->out_rows = 1;
    if (p->out_cols < 1) p->out_cols = 1;
}

static struct packing packing_on(const struct model *m, const struct tile_grids *grids,
                                 struct picture_shape s)
{
    struct packing p = { .side = side_of(m), .tiles = 1 };
    p.tokens = p.side * p.side + 1;
    if (s.several) return p;
    p.canvas = tile_canvas_fit(grids, s.width, s.height);
    p.tiles += p.canvas.rows * p.canvas.cols;
    p.rows = p.side * p.canvas.rows;
    p.cols = p.side * p.canvas.cols;
    crop_border(&p, s);
    shrink(&p, m->map_tiles);
    p.tokens = p.side * p.side + p.out_rows * (p.out_cols + 1);
    return p;
}

// Returns the grids on which the picture costs at most s.most_tokens; if no grid is that cheap,
// those on which it costs least.
static struct tile_grids affordable(const struct model *m, struct picture_shape s)
{
    struct tile_grids some = { .tile = m->grids.tile }, one = { .tile = m->grids.tile, .count = 1 };
    int64_t least = 0, most = s.most_tokens;
    for (int pass = 0; pass < 2 && !some.count; pass++, most = least)
        for (int i = 0; i < m->grids.count; i++) {
            one.grid[0] = m->grids.grid[i];
            const int64_t tokens = packing_on(m, &one, s).tokens;
            if (!least || tokens < least) least = tokens;
            if (tokens <= most) some.grid[some.count++] = m->grids.grid[i];
        }
    return some;
}

static struct packing packing_of(const struct model *m, struct picture_shape s)
{
    if (!s.most_tokens || s.several) return packing_on(m, &m->grids, s);
    const struct tile_grids grids = affordable(m, s);
    return packing_on(m, &grids, s);
}

static int64_t picture_tokens(const struct model *m, struct picture_shape shape)
{
    return packing_of(m, shape).tokens;
}

static void picture_usual(const struct model *m, int64_t *width, int64_t *height)
{
    *width = 640, *height = 480;
}

static void picture_newlines(const struct model *m, struct picture *p)
{
    const struct packing k = packing_of(m, p->shape);
    const int64_t square = k.side * k.side;
    p->newline = square + k.out_cols;
    p->newline_step = k.out_cols + 1;
}

// Sets the area of the picture that the map shows. Pixels at a tile's right and lower edges that
// fill no patch are left out.
static void map_area(const struct packing *p, struct picture_shape s, int64_t tile,
                     struct picture_tile *t)
{
    const struct tile_canvas *c = &p->canvas;
    const double feature = (double)tile / (double)p->side; // in canvas pixels
    const double across = (double)s.width / (double)c->width;
    const double down = (double)s.height / (double)c->height;
    t->left = ((double)p->left * feature - (double)c->left) * across;
    t->top = ((double)p->top * feature - (double)c->top) * down;
    t->right = t->left + (double)p->cols * feature * across;
    t->bottom = t->top + (double)p->rows * feature * down;
}

static int picture_tiles(const struct model *m, struct picture_shape shape,
                         struct picture_tile *tiles, int most)
{
    const struct packing p = packing_of(m, shape);
    const double w = (double)shape.width, h = (double)shape.height, side = w > h ? w : h;
    struct picture_tile square = { .rows = p.side, .cols = p.side, .pitch = p.side };
    const bool padded = !p.canvas.rows;
    square.left = padded ? (w - side) / 2 : 0;
    square.top = padded ? (h - side) / 2 : 0;
    square.right = w - square.left;
    square.bottom = h - square.top;
    if (most > 0) tiles[0] = square;
    if (padded || p.out_rows * p.out_cols == 0) return 1;
    struct picture_tile map = {
        .first = p.side * p.side, .rows = p.out_rows, .cols = p.out_cols, .pitch = p.out_cols + 1
    };
    map_area(&p, shape, m->grids.tile, &map);
    if (most > 1) tiles[1] = map;
    return 2;
}

// --- pixels --------------------------------------------------------------------------------------

static int map_pixels(float *to, const struct model *m, const struct picture *p,
                      const struct tile_canvas *canvas, enum resize_order order, struct err *err)
{
    const int64_t tile = m->grids.tile;
    struct image whole = { 0 }, part;
    int status = tile_canvas_draw(&whole, &p->image, &m->grids, canvas, &m->picture, order, err);
    for (int64_t i = 0; i < canvas->rows * canvas->cols && status == 0; i++) {
        const int64_t x = i % canvas->cols * tile, y = i / canvas->cols * tile;
        status = image_crop(&part, &whole, x, y, tile, tile, (uint8_t[3]){ 0 }, err);
        if (status < 0) break;
        preprocess_floats(to + i * 3 * tile * tile, &part, &m->picture);
        image_release(&part);
    }
    image_release(&whole);
    return status;
}

// Returns [T,3,tile,tile]: the square, then the tiles of the grid row by row.
static struct tensor *picture_pixels(struct graph *g, const struct model *m,
                                     const struct picture *picture, const struct packing *p)
{
    const int64_t tile = m->grids.tile, shape[] = { p->tiles, 3, tile, tile };
    const enum resize_order order = preprocess_order(g->settings);
    struct picture_config c = m->picture;
    struct image square;
    struct tensor *pixels = NULL;
    struct err err;
    float *floats = malloc((size_t)(p->tiles * 3 * tile * tile) * sizeof *floats);
    if (!floats) return graph_fail(g, "out of memory for %lld tiles", (long long)p->tiles);
    c.square = picture->shape.several;
    int status = preprocess_bytes(&square, &picture->image, &c, order, &err);
    if (status == 0) {
        preprocess_floats(floats, &square, &c);
        image_release(&square);
    }
    if (status == 0 && p->canvas.rows)
        status = map_pixels(floats + 3 * tile * tile, m, picture, &p->canvas, order, &err);
    if (status == 0)
        pixels = graph_upload(g, DTYPE_F32, 4, shape, floats);
    else
        graph_fail(g, "%s", err.text);
    free(floats);
    return pixels;
}

// --- features to tokens --------------------------------------------------------------------------

// Returns the index of the map's feature (row, col), counted inside its border, among the features
// of all tiles.
static int32_t feature_at(const struct packing *p, int64_t row, int64_t col)
{
    const int64_t r = row + p->top, c = col + p->left, side = p->side;
    const int64_t tile = 1 + r / side * p->canvas.cols + c / side;
    return (int32_t)((tile * side + r % side) * side + c % side);
}

// Finds the two of `in` features on an axis that surround feature `i` of `out`; returns the weight
// of the second. Computes in f32, like torch's interpolate (bilinear, align_corners false).
static float between(int64_t i, int64_t out, int64_t in, int64_t at[2])
{
    const float scale = (float)in / (float)out, x = scale * ((float)i + 0.5f) - 0.5f;
    const float from = x > 0 ? x : 0;
    at[0] = (int64_t)from;
    at[1] = at[0] + 1 < in ? at[0] + 1 : at[0];
    return from - (float)at[0];
}

// Resamples the map: [out_rows * out_cols, D].
static struct tensor *resampled(struct graph *g, struct tensor *x, const struct packing *p)
{
    const int64_t n = p->out_rows * p->out_cols;
    int32_t *index = xreallocarray(NULL, (size_t)n * 4 + 1, sizeof *index);
    float *weight = xreallocarray(NULL, (size_t)n * 4 + 1, sizeof *weight);
    for (int64_t i = 0; i < n; i++) {
        int64_t row[2], col[2];
        const float down = between(i / p->out_cols, p->out_rows, p->rows, row);
        const float right = between(i % p->out_cols, p->out_cols, p->cols, col);
        for (int k = 0; k < 4; k++) {
            index[4 * i + k] = feature_at(p, row[k / 2], col[k % 2]);
            weight[4 * i + k] = (k / 2 ? down : 1 - down) * (k % 2 ? right : 1 - right);
        }
    }
    x = op_blend_rows(g, x, index, weight, n, 4);
    free(index);
    free(weight);
    return x;
}

// Puts x [n, D] into lines of `cols` rows with gaps of `gap` rows between them, from row `at`.
static struct tensor *put_lines(struct graph *g, struct tensor *into, struct tensor *x, int64_t n,
                                int64_t at, int64_t cols, int64_t gap)
{
    int32_t *index = xreallocarray(NULL, (size_t)n + 1, sizeof *index);
    for (int64_t i = 0; i < n; i++) index[i] = (int32_t)(at + i + i / cols * gap);
    into = op_scatter_rows(g, into, x, index);
    free(index);
    return into;
}

// Turns the features of all tiles of a picture [T*side*side, D] into its visual tokens [tokens, D].
static struct tensor *picture_pack(struct graph *g, const struct model *m,
                                   const struct picture *picture, struct tensor *x)
{
    const struct packing packing = packing_of(m, picture->shape), *const p = &packing;
    const int64_t square = p->side * p->side, map = p->out_rows * p->out_cols;
    const int64_t lines = p->tokens - square - map; // one newline each
    struct tensor *h = graph_new2(g, DTYPE_F32, p->tokens, m->decoder.config.hidden);
    h = put_lines(g, h, graph_rows(g, x, 0, square), square, 0, square, 0);
    if (map) {
        if (p->out_rows == p->rows && p->out_cols == p->cols) { // the map unchanged, in order
            int32_t *index = xreallocarray(NULL, (size_t)map, sizeof *index);
            for (int64_t i = 0; i < map; i++) index[i] = feature_at(p, i / p->cols, i % p->cols);
            x = op_gather_rows(g, x, index, map);
            free(index);
        } else {
            x = resampled(g, x, p);
        }
        h = put_lines(g, h, x, map, square, p->out_cols, 1);
    }
    if (!lines) return h;
    int32_t *first = xcalloc((size_t)lines, sizeof *first);
    struct tensor *newline = op_widen(g, graph_weight(&m->newline)); // [1, D]
    h = put_lines(g, h, op_gather_rows(g, newline, first, lines), lines, square + p->out_cols, 1,
                  p->out_cols);
    free(first);
    return h;
}

static struct vision_picture picture_read(struct graph *g, const struct model *m,
                                          const struct picture *picture)
{
    const struct packing p = packing_of(m, picture->shape);
    struct vision_picture read =
        vision_square(&m->vision.config, picture_pixels(g, m, picture, &p)); // [T,3,tile,tile]
    read.tiles = p.tiles;
    return read;
}

const struct picture_kind anyres_pictures = { .tokens = picture_tokens,
                                              .newlines = picture_newlines,
                                              .usual = picture_usual,
                                              .tiles = picture_tiles,
                                              .read = picture_read,
                                              .pack = picture_pack };
