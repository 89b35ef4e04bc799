// core/model/vision_rows.c -- the rows of the encoder's stream: patch order, class tokens,
// positions, and which rows each row attends to.
//
//   square tiles   of each tile the class token, then its patches row by row; a row attends to its
//                  tile
//   any size       patches row by row, or cell by cell of merge x merge, and cells window by window
//                  if the kind has windows; a row attends to its window or picture or, if the
//                  picture is cut into slices (MiniCPM-V), to its slice
//
// The kind's features or the projector join each cell into one row (pixel shuffle in the reference
// implementations). Easy to get wrong: cells go row by row; a cell of 2 x 2 is ordered (2r, 2c),
// (2r, 2c+1), (2r+1, 2c), (2r+1, 2c+1).
#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/vision.h"
#include "core/ops/ops.h"

// --- counts --------------------------------------------------------------------------------------

int64_t vision_head_dim(const struct vision_config *c)
{
    return c->head_dim ? c->head_dim : c->hidden / c->heads;
}

int64_t vision_tile_rows(const struct vision_config *c, const struct vision_picture *p)
{
    return p->rows * p->cols + c->class_token;
}

int64_t vision_rows(const struct vision_config *c, const struct vision_picture *p)
{
    const int64_t more = p->first_rows ? p->first_rows * p->first_cols - p->rows * p->cols : 0;
    return p->tiles * vision_tile_rows(c, p) + more;
}

struct vision_picture vision_tile(const struct vision_picture *p, int64_t t)
{
    struct vision_picture tile = *p;
    if (t == 0 && p->first_rows) tile.rows = p->first_rows, tile.cols = p->first_cols;
    tile.first_rows = tile.first_cols = 0;
    tile.tiles = 1;
    return tile;
}

struct vision_picture vision_joined(const struct vision_config *c, const struct vision_picture *p)
{
    struct vision_picture joined = *p;
    if (!p->joins) return joined;
    joined.joins = false;
    joined.rows /= c->merge, joined.cols /= c->merge;
    joined.first_rows /= c->merge, joined.first_cols /= c->merge;
    return joined;
}

int64_t vision_features(const struct vision_config *c, const struct vision_picture *p)
{
    return c->kind->feature_rows ? c->kind->feature_rows(c, p) : p->rows * p->cols;
}

int64_t vision_feature_width(const struct vision_config *c)
{
    return c->kind->feature_width ? c->kind->feature_width(c) : c->hidden;
}

int64_t vision_cells(const struct vision_config *c, const struct vision_picture *p)
{
    const int64_t k = c->merge, each = p->rows / k * (p->cols / k);
    const int64_t more = p->first_rows ? p->first_rows / k * (p->first_cols / k) - each : 0;
    return p->tiles * each + more;
}

int64_t vision_cell_width(const struct vision_config *c)
{
    return c->merge * c->merge * c->hidden;
}

struct vision_picture vision_square(const struct vision_config *c, struct tensor *pixels)
{
    const int64_t side = c->image_size / c->patch;
    return (struct vision_picture){ .pixels = pixels, .tiles = 1, .rows = side, .cols = side };
}

static int64_t tile_count(const struct vision_batch *b)
{
    int64_t count = 0;
    for (size_t i = 0; i < b->count; i++) count += b->picture[i].tiles;
    return count;
}

// --- rows of tiles -------------------------------------------------------------------------------

// Lists n rows of each tile from row `from` on (n -1: all), by index in the stream, or with
// `in_tile` by index in the tile. Returns their number.
static int64_t list_rows(const struct vision_batch *b, int64_t from, int64_t n, bool in_tile,
                         int32_t *index)
{
    int64_t count = 0, tile = 0;
    for (size_t i = 0; i < b->count; i++) {
        const int64_t rows = vision_tile_rows(&b->vision->config, &b->picture[i]);
        const int64_t end = n < 0 ? rows : from + n;
        for (int64_t t = 0; t < b->picture[i].tiles; t++, tile += in_tile ? 0 : rows)
            for (int64_t row = from; row < end; row++) index[count++] = (int32_t)(tile + row);
    }
    return count;
}

// Gather and scatter the rows of list_rows.
static struct tensor *gather(struct graph *g, struct tensor *x, const struct vision_batch *b,
                             int64_t from, int64_t n, bool in_tile)
{
    int32_t *index = xreallocarray(NULL, (size_t)b->rows, sizeof *index);
    x = op_gather_rows(g, x, index, list_rows(b, from, n, in_tile, index));
    free(index);
    return x;
}

static struct tensor *scatter(struct graph *g, struct tensor *into, struct tensor *x,
                              const struct vision_batch *b, int64_t from, int64_t n)
{
    int32_t *index = xreallocarray(NULL, (size_t)b->rows, sizeof *index);
    list_rows(b, from, n, false, index);
    into = op_scatter_rows(g, into, x, index);
    free(index);
    return into;
}

// --- the stream that enters the first block ------------------------------------------------------

// Returns tile t of a picture's pixels, [3,H,W] or [T,3,H,W], as [3,H,W].
static struct tensor *tile_pixels(struct graph *g, struct tensor *pixels, int64_t t)
{
    if (!pixels || pixels->rank == 3) return pixels;
    const int64_t *shape = pixels->shape;
    return graph_view3(g, graph_rows(g, pixels, t, 1), shape[1], shape[2], shape[3]);
}

// Cuts all tiles into patches [patches, 3*p*p].
static struct tensor *tile_patches(struct graph *g, const struct vision_batch *b)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t tiles = tile_count(b);
    if (tiles == 1) return op_patches(g, tile_pixels(g, b->picture[0].pixels, 0), c->patch);
    const int64_t patches = b->rows - tiles * c->class_token;
    struct tensor *all = graph_new2(g, DTYPE_F32, patches, 3 * c->patch * c->patch);
    int64_t at = 0;
    for (size_t i = 0; i < b->count; i++)
        for (int64_t t = 0; t < b->picture[i].tiles && graph_ok(g); t++) {
            struct arena_mark scratch = graph_scratch_begin(g);
            struct tensor *x = op_patches(g, tile_pixels(g, b->picture[i].pixels, t), c->patch);
            op_copy_rows_into(g, all, at, x);
            at += b->picture[i].rows * b->picture[i].cols;
            graph_scratch_end(g, scratch);
        }
    return all;
}

struct tensor *vision_patches(struct graph *g, const struct vision_batch *b)
{
    const struct vision_config *c = &b->vision->config;
    if (c->image_size || c->kind->reads_planes) return tile_patches(g, b);
    if (b->count == 1) return b->picture[0].pixels; // already patches
    const int64_t width = b->picture[0].pixels->shape[1];
    struct tensor *all = graph_new2(g, DTYPE_F32, b->rows, width);
    for (size_t i = 0; i < b->count && graph_ok(g); i++)
        op_copy_rows_into(g, all, b->at[i], b->picture[i].pixels);
    return all;
}

// Maps each row of the stream to its patch in pixel order; NULL: the orders are equal.
static int32_t *patch_order(const struct vision_batch *b)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t size = c->merge * c->merge;
    if (!c->kind->order) return NULL;
    int32_t *patch = xreallocarray(NULL, (size_t)b->rows, sizeof *patch);
    int32_t *cell = xreallocarray(NULL, (size_t)b->rows, sizeof *cell);
    for (size_t k = 0; k < b->count; k++) {
        const int64_t at = b->at[k], n = b->at[k + 1] - at;
        c->kind->order(c, &b->picture[k], cell);
        for (int64_t i = 0; i < n; i++)
            patch[at + i] = (int32_t)(at + cell[i / size] * size + i % size);
    }
    free(cell);
    return patch;
}

struct tensor *vision_in_order(struct graph *g, const struct vision_batch *b, struct tensor *x)
{
    int32_t *patch = patch_order(b);
    if (patch) x = op_gather_rows(g, x, patch, b->rows);
    free(patch);
    return x;
}

struct tensor *vision_add_class(struct graph *g, const struct vision_batch *b, struct tensor *x)
{
    const struct vision_config *c = &b->vision->config;
    if (!c->class_token) return x;
    struct tensor *h = graph_new2(g, DTYPE_F32, b->rows, c->hidden);
    struct tensor *token = op_widen(g, graph_weight(&b->vision->class_token));
    h = scatter(g, h, gather(g, token, b, 0, 1, true), b, 0, 1);
    return scatter(g, h, x, b, 1, -1);
}

// Gathers the learned positions of the patches of all tiles, [S', Dv]: patch i of n along an axis
// takes position floor(i side / n). The reference implementation computes this in f32 and so gets
// the previous position at some sizes (19 patches, side 19), but not at the sizes of published
// models.
static struct tensor *bucket_positions(struct graph *g, const struct vision_batch *b)
{
    const struct vision_config *c = &b->vision->config;
    int32_t *row = xreallocarray(NULL, (size_t)b->rows, sizeof *row);
    int64_t n = 0;
    for (size_t k = 0; k < b->count; k++)
        for (int64_t t = 0; t < b->picture[k].tiles; t++) {
            const struct vision_picture p = vision_tile(&b->picture[k], t);
            for (int64_t i = 0; i < p.rows * p.cols; i++)
                row[n++] = (int32_t)(i / p.cols * c->table_rows / p.rows * c->table_cols +
                                     i % p.cols * c->table_cols / p.cols);
        }
    struct tensor *table = op_widen(g, graph_weight(&b->vision->position));
    struct tensor *positions = op_gather_rows(g, table, row, b->rows);
    free(row);
    return positions;
}

struct tensor *vision_add_positions(struct graph *g, const struct vision_batch *b, struct tensor *h)
{
    const struct vision *v = b->vision;
    if (!v->position.data) return h;
    if (v->config.kind->buckets) return op_add(g, h, bucket_positions(g, b));
    if (v->config.table_rows) return op_add(g, h, vision_resampled(g, b));
    struct tensor *position = op_widen(g, graph_weight(&v->position)); // [rows of a tile, Dv]
    if (tile_count(b) > 1) position = gather(g, position, b, 0, -1, true);
    return op_add(g, h, position);
}

struct tensor *vision_add_axes(struct graph *g, const struct vision_batch *b, struct tensor *h,
                               int64_t step, int64_t apart)
{
    int32_t *index = xreallocarray(NULL, (size_t)b->rows + 1, 2 * sizeof *index);
    float *weight = xreallocarray(NULL, (size_t)b->rows + 1, 2 * sizeof *weight);
    for (size_t k = 0; k < b->count; k++)
        for (int64_t i = b->at[k]; i < b->at[k + 1]; i++) {
            const int64_t patch = i - b->at[k], cols = b->picture[k].cols;
            index[2 * i] = (int32_t)(step * (patch % cols));
            index[2 * i + 1] = (int32_t)(step * (patch / cols) + apart);
            weight[2 * i] = weight[2 * i + 1] = 1;
        }
    struct tensor *table = op_widen(g, graph_weight(&b->vision->position)); // [2*P, Dv]
    h = op_add(g, h, op_blend_rows(g, table, index, weight, b->rows, 2));
    free(index);
    free(weight);
    return h;
}

// --- the rows that a row attends to, and its angles ----------------------------------------------

static void whole_tiles(const struct vision_batch *b, int32_t *first, int32_t *end)
{
    int64_t row = 0;
    for (size_t i = 0; i < b->count; i++)
        for (int64_t t = 0; t < b->picture[i].tiles; t++) {
            const struct vision_picture tile = vision_tile(&b->picture[i], t);
            const int64_t from = row, to = from + vision_tile_rows(&b->vision->config, &tile);
            for (; row < to; row++) first[row] = (int32_t)from, end[row] = (int32_t)to;
        }
}

static struct vision_seen upload_seen(struct graph *g, const struct vision_batch *b,
                                      void (*fill)(const struct vision_batch *b, int32_t *first,
                                                   int32_t *end))
{
    int32_t *first = xreallocarray(NULL, (size_t)b->rows, sizeof *first);
    int32_t *end = xreallocarray(NULL, (size_t)b->rows, sizeof *end);
    fill(b, first, end);
    const struct vision_seen seen = { graph_upload(g, DTYPE_I32, 1, &b->rows, first),
                                      graph_upload(g, DTYPE_I32, 1, &b->rows, end) };
    free(first);
    free(end);
    return seen;
}

struct vision_seen vision_tiles(struct graph *g, const struct vision_batch *b)
{
    return tile_count(b) > 1 ? upload_seen(g, b, whole_tiles) : (struct vision_seen){ 0 };
}

struct vision_seen vision_windows(struct graph *g, const struct vision_batch *b)
{
    const struct vision_kind *kind = b->vision->config.kind;
    return kind->windows ? upload_seen(g, b, kind->windows) : (struct vision_seen){ 0 };
}

void vision_angles(struct graph *g, const struct vision_batch *b, struct tensor **cos,
                   struct tensor **sin)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t shape[] = { b->rows, vision_head_dim(c) / 2 };
    const size_t count = (size_t)(shape[0] * shape[1]);
    if (!c->kind->angles) return;
    float *cosines = xreallocarray(NULL, count, sizeof *cosines);
    float *sines = xreallocarray(NULL, count, sizeof *sines);
    c->kind->angles(b, cosines, sines);
    *cos = graph_upload(g, DTYPE_F32, 2, shape, cosines);
    *sin = graph_upload(g, DTYPE_F32, 2, shape, sines);
    free(cosines);
    free(sines);
}

void vision_grid_position(const struct vision_config *c, const struct vision_picture *p, int64_t i,
                          int64_t *row, int64_t *col)
{
    const int64_t merge = c->kind->row_by_row ? 1 : c->merge;
    const int64_t cell = i / (merge * merge), in = i % (merge * merge), cells = p->cols / merge;
    *row = cell / cells * merge + in / merge;
    *col = cell % cells * merge + in % merge;
}

void vision_plane_angles(const struct vision_batch *b, float *cos_out, float *sin_out)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t half = c->hidden / c->heads / 2, quarter = half / 2;
    int32_t *patch = patch_order(b);
    float *frequency = xreallocarray(NULL, (size_t)quarter, sizeof *frequency);
    for (int64_t j = 0; j < quarter; j++)
        frequency[j] = (float)pow(10000, -2.0 * (double)j / (double)half);
    for (size_t k = 0; k < b->count; k++)
        for (int64_t i = b->at[k]; i < b->at[k + 1]; i++) {
            int64_t row, col;
            vision_grid_position(c, &b->picture[k], (patch ? patch[i] : i) - b->at[k], &row, &col);
            for (int64_t j = 0; j < half; j++) {
                const int64_t position = j < quarter ? row : col;
                const float angle = (float)position * frequency[j % quarter];
                cos_out[i * half + j] = (float)cos((double)angle);
                sin_out[i * half + j] = (float)sin((double)angle);
            }
        }
    free(frequency);
    free(patch);
}

// --- features ------------------------------------------------------------------------------------

struct tensor *vision_drop_rows(struct graph *g, const struct vision_batch *b, struct tensor *h,
                                int64_t from)
{
    return gather(g, h, b, from, -1, false);
}

struct tensor *vision_gather_cells(struct graph *g, const struct vision_batch *b, struct tensor *h)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t k = c->merge;
    int32_t *from = xreallocarray(NULL, (size_t)b->rows, sizeof *from);
    int64_t n = 0;
    for (size_t i = 0; i < b->count; i++) {
        int64_t at = b->at[i];
        for (int64_t t = 0; t < b->picture[i].tiles; t++) {
            const struct vision_picture p = vision_tile(&b->picture[i], t);
            const int64_t cols = p.cols / k, cells = p.rows / k * cols;
            for (int64_t cell = 0; cell < cells; cell++)
                for (int64_t in = 0; in < k * k; in++) {
                    const int64_t row = cell / cols * k + in / k, col = cell % cols * k + in % k;
                    from[n++] = (int32_t)(at + c->class_token + row * p.cols + col);
                }
            at += vision_tile_rows(c, &p);
        }
    }
    h = op_gather_rows(g, h, from, n);
    free(from);
    return h;
}

struct tensor *vision_channels_first(struct graph *g, struct tensor *h, int64_t cell)
{
    if (!h || !graph_ok(g)) return NULL;
    const int64_t n = tensor_count(h), width = h->shape[1] * cell, tokens = n / width;
    if (n > INT32_MAX) return graph_fail(g, "the picture has too many patches");
    int32_t *from = xreallocarray(NULL, (size_t)n + 1, sizeof *from);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i % width, channel = at / cell, patch = at % cell;
        from[i] = (int32_t)(i - at + patch * h->shape[1] + channel);
    }
    h = op_gather_rows(g, graph_view(g, h, 2, (int64_t[]){ n, 1 }), from, n);
    free(from);
    return h ? graph_view(g, h, 2, (int64_t[]){ tokens, width }) : NULL;
}

struct tensor *vision_join_cells(struct graph *g, const struct vision_batch *b, struct tensor *h)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t width = vision_cell_width(c);
    h = vision_gather_cells(g, b, h); // [S*merge*merge, Dv]
    return h ? graph_view(g, h, 2, (int64_t[]){ tensor_count(h) / width, width }) : NULL;
}

struct tensor *vision_in_sequence(struct graph *g, const struct vision *v,
                                  const struct vision_picture *pictures, size_t count,
                                  struct tensor *x)
{
    if (!v->config.kind->order || !x || !graph_ok(g)) return x;
    const int64_t n = x->shape[0], cell = v->config.merge * v->config.merge;
    int32_t *token = xreallocarray(NULL, (size_t)n, sizeof *token);
    int32_t *index = xreallocarray(NULL, (size_t)n, sizeof *index);
    int64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t tokens = pictures[i].rows * pictures[i].cols / cell;
        v->config.kind->order(&v->config, &pictures[i], token);
        for (int64_t t = 0; t < tokens; t++) index[at + token[t]] = (int32_t)(at + t);
        at += tokens;
    }
    x = op_gather_rows(g, x, index, n);
    free(token);
    free(index);
    return x;
}
