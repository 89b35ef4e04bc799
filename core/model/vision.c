// core/model/vision.c -- vision transformers: what all kinds of encoders share.
//
//   pixels -> the kind's embedding -> h
//          -> blocks: h += scale1 out(attention(norm1 h)), h += scale2 ffn(norm2 h)
//          -> the kind's features: of the stream after `depth` blocks
//
// The feature layer counts hidden states as the reference does: 0 enters the first block, -1 leaves
// the last one, -2 the one before. Blocks after the feature layer are computed only for a listener
// that asks for what leaves them.
//
// S' rows in the encoder, S features; several pictures go through together, a row sees rows of its
// own tile or window only.
#include "core/model/vision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/graph/tape.h"
#include "core/model/fused.h"
#include "core/model/linear_rows.h"
#include "core/ops/ops.h"

// --- rows ----------------------------------------------------------------------------------------

int64_t vision_tile_rows(const struct vision_config *c, const struct vision_picture *p)
{
    return p->rows * p->cols + c->class_token;
}

int64_t vision_features(const struct vision_config *c, const struct vision_picture *p)
{
    return c->kind->feature_rows ? c->kind->feature_rows(c, p) : p->rows * p->cols;
}

int64_t vision_feature_width(const struct vision_config *c)
{
    return c->kind->feature_width ? c->kind->feature_width(c) : c->hidden;
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

// Indices of rows from..from+n of each tile (n -1: all from there) in the stream, or with `in_tile`
// in their own tile. Returns their number.
static int64_t row_places(const struct vision_batch *b, int64_t from, int64_t n, bool in_tile,
                          int32_t *place)
{
    int64_t count = 0, tile = 0;
    for (size_t i = 0; i < b->count; i++) {
        const int64_t rows = vision_tile_rows(&b->vision->config, &b->picture[i]);
        const int64_t end = n < 0 ? rows : from + n;
        for (int64_t t = 0; t < b->picture[i].tiles; t++, tile += in_tile ? 0 : rows)
            for (int64_t row = from; row < end; row++) place[count++] = (int32_t)(tile + row);
    }
    return count;
}

// op_gather_rows and op_scatter_rows at these indices.
static struct tensor *gather(struct graph *g, struct tensor *x, const struct vision_batch *b,
                             int64_t from, int64_t n, bool in_tile)
{
    int32_t *place = xreallocarray(NULL, (size_t)b->rows, sizeof *place);
    x = op_gather_rows(g, x, place, row_places(b, from, n, in_tile, place));
    free(place);
    return x;
}

static struct tensor *scatter(struct graph *g, struct tensor *into, struct tensor *x,
                              const struct vision_batch *b, int64_t from, int64_t n)
{
    int32_t *place = xreallocarray(NULL, (size_t)b->rows, sizeof *place);
    row_places(b, from, n, false, place);
    into = op_scatter_rows(g, into, x, place);
    free(place);
    return into;
}

struct tensor *vision_drop_rows(struct graph *g, const struct vision_batch *b, struct tensor *h,
                                int64_t from)
{
    return gather(g, h, b, from, -1, false);
}

struct tensor *vision_in_sequence(struct graph *g, const struct vision *v,
                                  const struct vision_picture *pictures, size_t count,
                                  struct tensor *x)
{
    if (!v->config.kind->order || !x || !graph_ok(g)) return x;
    const int64_t n = x->shape[0], cell = v->config.merge * v->config.merge;
    int32_t *token = xreallocarray(NULL, (size_t)n, sizeof *token);
    int32_t *place = xreallocarray(NULL, (size_t)n, sizeof *place);
    int64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t tokens = pictures[i].rows * pictures[i].cols / cell;
        v->config.kind->order(&v->config, &pictures[i], token);
        for (int64_t t = 0; t < tokens; t++) place[at + token[t]] = (int32_t)(at + t);
        at += tokens;
    }
    x = op_gather_rows(g, x, place, n);
    free(token);
    free(place);
    return x;
}

// --- patches block by block ----------------------------------------------------------------------

struct tensor *vision_patch_rows(struct graph *g, const struct vision_batch *b)
{
    if (b->count == 1 || !graph_ok(g)) return b->picture[0].pixels;
    const int64_t width = b->picture[0].pixels->shape[1];
    struct tensor *all = graph_new2(g, DTYPE_F32, b->rows, width);
    for (size_t i = 0; i < b->count && graph_ok(g); i++)
        op_copy_rows_into(g, all, b->at[i], b->picture[i].pixels);
    return all;
}

void vision_block_place(const struct vision_config *c, const struct vision_picture *p, int64_t i,
                        int64_t *row, int64_t *col)
{
    const int64_t merge = c->merge, block = i / (merge * merge), in = i % (merge * merge);
    const int64_t blocks = p->cols / merge;
    *row = block / blocks * merge + in / merge;
    *col = block % blocks * merge + in % merge;
}

void vision_plane_angles(const struct vision_batch *b, float *cos_out, float *sin_out)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t half = c->hidden / c->heads / 2, quarter = half / 2;
    float *frequency = xreallocarray(NULL, (size_t)quarter, sizeof *frequency);
    for (int64_t j = 0; j < quarter; j++)
        frequency[j] = (float)pow(10000, -2.0 * (double)j / (double)half);
    for (size_t k = 0; k < b->count; k++)
        for (int64_t i = b->at[k]; i < b->at[k + 1]; i++) {
            int64_t row, col;
            vision_block_place(c, &b->picture[k], i - b->at[k], &row, &col);
            for (int64_t j = 0; j < half; j++) {
                const int64_t place = j < quarter ? row : col;
                const float angle = (float)place * frequency[j % quarter];
                cos_out[i * half + j] = (float)cos((double)angle);
                sin_out[i * half + j] = (float)sin((double)angle);
            }
        }
    free(frequency);
}

// --- embedding of square tiles -------------------------------------------------------------------

// Tile t of a picture's pixels, [3,H,W] or [T,3,H,W], as [3,H,W].
static struct tensor *tile_pixels(struct graph *g, struct tensor *pixels, int64_t t)
{
    if (!pixels || pixels->rank == 3) return pixels;
    const int64_t *shape = pixels->shape;
    return graph_view3(g, graph_rows(g, pixels, t, 1), shape[1], shape[2], shape[3]);
}

// All tiles cut into patches [patches, 3*p*p].
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

struct tensor *vision_embed_tiles(struct graph *g, const struct vision_batch *b)
{
    const struct vision *v = b->vision;
    const struct vision_config *c = &v->config;
    struct tensor *x = tile_patches(g, b); // [patches, 3*p*p]
    x = linear_forward(g, x, &v->patch);   // [patches, Dv]

    struct tensor *h = x;
    if (c->class_token) {
        h = graph_new2(g, DTYPE_F32, b->rows, c->hidden); // [S', Dv]
        struct tensor *token = op_widen(g, graph_weight(&v->class_token));
        h = scatter(g, h, gather(g, token, b, 0, 1, true), b, 0, 1);
        h = scatter(g, h, x, b, 1, -1);
    }
    struct tensor *position = op_widen(g, graph_weight(&v->position)); // [rows of a tile, Dv]
    if (tile_count(b) > 1) position = gather(g, position, b, 0, -1, true);
    h = op_add(g, h, position);
    return norm_forward(g, h, &v->pre, c->eps);
}

// --- a block -------------------------------------------------------------------------------------

// The rows that each row sees: i32 [S'] first and last; NULL: all.
struct ranges {
    struct tensor *first, *last;
};

// Arguments of a block.
struct block {
    const struct vision_config *config;
    const struct vision_layer *w;
    struct ranges seen;
    struct tensor *cos, *sin;         // [S', d/2], or NULL
    const struct vision_batch *focus; // whose attention is wanted; NULL: of none
};

// Heads [S', heads, d] with numbers 2j first, then 2j + 1, as op_rope pairs them: the same
// reordering of queries and keys changes no score.
static struct tensor *pairs_apart(struct graph *g, struct tensor *x)
{
    const int64_t n = x->shape[0], heads = x->shape[1], d = x->shape[2];
    x = graph_view(g, x, 2, (int64_t[]){ n * heads, d });
    const struct column_part halves[] = { { x, { 0, 2, d / 2 } }, { x, { 1, 2, d / 2 } } };
    x = x ? op_columns_of(g, n * heads, halves, 2) : NULL;
    return x ? graph_view3(g, x, n, heads, d) : NULL;
}

// Queries, keys or values as heads [S', heads, d], rotated.
static struct tensor *heads(struct graph *g, const struct block *block, struct tensor *x,
                            const struct norm *norm, bool turned)
{
    const struct vision_config *c = block->config;
    x = norm_forward(g, x, norm, c->qk_eps);
    if (!x) return NULL;
    x = graph_view3(g, x, x->shape[0], c->heads, c->hidden / c->heads);
    if (!turned || !block->cos) return x;
    if (c->kind->adjacent_pairs) x = pairs_apart(g, x);
    return op_rope(g, x, block->cos, block->sin);
}

// Queries, keys and values [S', Dv] of norm1 h; with `packs` those that nothing but attention
// changes are rounded to bf16, as it would.
static void parts_of(struct graph *g, const struct block *block, struct tensor *h, bool packs,
                     struct tensor **part)
{
    const struct vision_layer *w = block->w;
    const struct linear *const read_by[] = { &w->qkv, &w->q, &w->k, &w->v, NULL };
    const bool changed = block->cos || w->k_norm.gain.data;
    const enum dtype dtype[] = { DTYPE_F32, packs && !changed ? DTYPE_BF16 : DTYPE_F32,
                                 packs ? DTYPE_BF16 : DTYPE_F32 };
    const struct linear_rows x = linear_rows_norm(g, h, &w->norm1, block->config->eps, read_by);
    if (w->qkv.weight.data) linear_rows_apart(g, &x, &w->qkv, 3, dtype, part);
    for (int i = 0; i < 3 && !w->qkv.weight.data; i++)
        part[i] = linear_rows_times(g, &x, read_by[i + 1], dtype[i]);
}

// attention(norm1 h) for `out`, with `packs` in the device's packed rows.
static struct linear_rows attention_of(struct graph *g, const struct block *block, struct tensor *h,
                                       bool packs)
{
    static const struct norm none;
    const struct vision_layer *w = block->w;
    const struct vision_config *c = block->config;
    const int64_t head_dim = c->hidden / c->heads;
    const float scale = 1 / sqrtf((float)head_dim);
    struct tensor *part[3];
    parts_of(g, block, h, packs, part);
    struct tensor *q = heads(g, block, part[0], &w->q_norm, !packs); // [S', heads, d]
    struct tensor *k = heads(g, block, part[1], &w->k_norm, !packs);
    struct tensor *v = heads(g, block, part[2], &none, false);
    if (packs)
        return linear_rows_attention(
            g, &(struct packed_attention){ .q = q,
                                           .k = k,
                                           .v = v,
                                           .cos = block->cos,
                                           .sin = block->sin,
                                           .adjacent = c->kind->adjacent_pairs,
                                           .first = block->seen.first,
                                           .last = block->seen.last,
                                           .scale = scale });
    if (block->focus) vision_focus_add(g, block->focus, q, k, block->seen.first, block->seen.last);
    struct tensor *a = op_attention(g, q, k, v, block->seen.first, block->seen.last, scale, NULL);
    a = a ? graph_view(g, a, 2, (int64_t[]){ a->shape[0], c->hidden }) : NULL;
    return linear_rows_norm(g, a, &none, 0, (const struct linear *const[]){ &w->out, NULL });
}

// h[S', Dv] += scale1 out(attention(norm1 h)).
static struct tensor *attention_stage(struct graph *g, const struct block *block, struct tensor *h)
{
    const struct vision_layer *w = block->w;
    const bool packs = h && !block->focus && linear_rows_attends(g, h->shape[0], &w->out);
    const struct linear_rows x = attention_of(g, block, h, packs);
    return linear_rows_add(g, h, 0, &x, &w->out, &w->scale1);
}

// Can a device's fused forms compute a sublayer behind this norm (RMSNorm), without a layer scale?
static bool fusible(const struct graph *g, const struct norm *norm, const struct tensor *scale)
{
    return g->backend->fused && !g->tape && norm->gain.data && !norm->bias.data && !scale->data;
}

// h += out(attention(norm1 h)) in one call for queries, keys and values, and one behind them.
static bool attention_fused(struct graph *g, const struct block *block, struct tensor *h)
{
    const struct vision_layer *w = block->w;
    const struct vision_config *c = block->config;
    if (!fusible(g, &w->norm1, &w->scale1) || !w->qkv.weight.data || w->q_norm.gain.data ||
        !block->cos || block->focus || !h || !graph_ok(g))
        return false;
    const int64_t n = h->shape[0], D = c->hidden, d = D / c->heads;
    struct tensor *q = graph_new3(g, DTYPE_F32, n, c->heads, d);
    struct tensor *k = graph_new3(g, DTYPE_BF16, n, c->heads, d);
    struct tensor *v = graph_new3(g, DTYPE_BF16, n, c->heads, d);
    const struct linear *all = &w->qkv;
    struct fused_qkv form = { .h = h,
                              .gain = graph_weight(&w->norm1.gain),
                              .eps = (float)c->eps,
                              .wq = fused_whole(all),
                              .adjacent = c->kind->adjacent_pairs ? d / 2 : 0,
                              .cos = block->cos,
                              .sin = block->sin,
                              .q = q,
                              .k = k,
                              .v = v };
    form.wq.run = form.wq.step = D;
    form.wk = form.wv = form.wq;
    form.wk.first = D;
    form.wv.first = 2 * D;
    if (d % 8 || !fused_qkv(g, all, 1, &form)) return false;
    const struct fused_attend attend = {
        .h = h, .q = q, .k = k, .v = v, .first = block->seen.first, .last = block->seen.last
    };
    return fused_attend(g, &w->out, &attend);
}

// h += ffn(norm2 h), gated.
static bool ffn_fused(struct graph *g, const struct block *block, struct tensor *h)
{
    const struct vision_layer *w = block->w;
    if (!fusible(g, &w->norm2, &w->scale2) || !w->gate.weight.data) return false;
    const struct linear all[] = { w->gate, w->up, w->down };
    const struct fused_ffn form = { .h = h,
                                    .gain = graph_weight(&w->norm2.gain),
                                    .eps = (float)block->config->eps,
                                    .gate = fused_whole(&w->gate),
                                    .up = fused_whole(&w->up),
                                    .down = fused_whole(&w->down) };
    return fused_ffn(g, all, 3, &form, false) != NULL;
}

// h[S', Dv] += scale2 ffn(norm2 x), x rows from.. of h.
static struct tensor *ffn(struct graph *g, const struct block *block, struct tensor *h,
                          int64_t from, struct tensor *x)
{
    const struct vision_layer *w = block->w;
    const bool gated = w->gate.weight.data;
    const struct linear *const read_by[] = { &w->gate, &w->up, &w->fc1, NULL };
    const struct linear *last = gated ? &w->down : &w->fc2;
    struct linear_rows rows = linear_rows_norm(g, x, &w->norm2, block->config->eps, read_by);
    rows = gated ? linear_rows_gated(g, &rows, &w->gate, &w->up, last)
                 : linear_rows_gelu(g, &rows, &w->fc1, block->config->act, last); // [m, ffn]
    return linear_rows_add(g, h, from, &rows, last, &w->scale2);
}

// h[S', Dv] += scale2 ffn(norm2 h), in blocks of rows, so that thousands of patches take little
// memory; a tape keeps everything anyway.
static struct tensor *ffn_stage(struct graph *g, const struct block *block, struct tensor *h)
{
    enum { ROWS = 4096 };
    for (int64_t i = 0, m, n = h ? h->shape[0] : 0; i < n && graph_ok(g); i += m) {
        m = g->tape || n - i < ROWS ? n - i : ROWS;
        struct arena_mark scratch = graph_scratch_begin(g);
        struct tensor *x = graph_rows(g, h, i, m);
        if (!ffn_fused(g, block, x)) h = ffn(g, block, h, i, x);
        graph_scratch_end(g, scratch);
    }
    return h;
}

// One block of h [S', Dv]; all else is scratch.
static struct tensor *block_stage(struct graph *g, void *self, struct tensor *h)
{
    const struct block *block = self;
    struct arena_mark scratch = graph_scratch_begin(g);
    if (!attention_fused(g, block, h)) h = attention_stage(g, block, h);
    h = ffn_stage(g, block, h);
    graph_scratch_end(g, scratch);
    return h;
}

// --- the pass ------------------------------------------------------------------------------------

// Number of blocks to compute: those before the feature layer, more if something listens later.
static int blocks_wanted(const struct graph *g, const struct vision_config *c)
{
    for (int l = c->layers; l > vision_depth(c); l--)
        if (hooks_wanted(g, SITE_VISION_LAYER, l)) return l;
    return vision_depth(c);
}

// Runs the listeners of a site for each picture on its rows of x: those of the stream, or with
// `features` those that the projector reads.
static void each_picture(struct graph *g, const struct vision_batch *b, const struct site *site,
                         int layer, bool features, struct tensor *x)
{
    if (!x || !hooks_wanted(g, site, layer)) return;
    int64_t at = 0;
    for (size_t i = 0; i < b->count && graph_ok(g); i++) {
        const struct vision_picture *p = &b->picture[i];
        const int64_t rows =
            features ? vision_features(&b->vision->config, p) : b->at[i + 1] - b->at[i];
        struct site_args args = {
            .layer = layer, .picture = p->number, .x = graph_rows(g, x, at, rows), .prefill = true
        };
        hooks_run(g, site, &args);
        at += rows;
    }
}

static void whole_tiles(const struct vision_batch *b, int32_t *first, int32_t *last)
{
    int64_t row = 0;
    for (size_t i = 0; i < b->count; i++) {
        const int64_t rows = vision_tile_rows(&b->vision->config, &b->picture[i]);
        for (int64_t n = 0; n < b->picture[i].tiles * rows; n++, row++) {
            first[row] = (int32_t)(row - n % rows);
            last[row] = (int32_t)(first[row] + rows);
        }
    }
}

static struct ranges upload_ranges(struct graph *g, const struct vision_batch *b,
                                   void (*fill)(const struct vision_batch *b, int32_t *first,
                                                int32_t *last))
{
    int32_t *first = xreallocarray(NULL, (size_t)b->rows, sizeof *first);
    int32_t *last = xreallocarray(NULL, (size_t)b->rows, sizeof *last);
    fill(b, first, last);
    const struct ranges seen = { graph_upload(g, DTYPE_I32, 1, &b->rows, first),
                                 graph_upload(g, DTYPE_I32, 1, &b->rows, last) };
    free(first);
    free(last);
    return seen;
}

static void upload_angles(struct graph *g, const struct vision_batch *b, struct block *block)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t shape[] = { b->rows, c->hidden / c->heads / 2 };
    const size_t count = (size_t)(shape[0] * shape[1]);
    float *cos = xreallocarray(NULL, count, sizeof *cos);
    float *sin = xreallocarray(NULL, count, sizeof *sin);
    c->kind->angles(b, cos, sin);
    block->cos = graph_upload(g, DTYPE_F32, 2, shape, cos);
    block->sin = graph_upload(g, DTYPE_F32, 2, shape, sin);
    free(cos);
    free(sin);
}

// Does somebody want the attention? A tape would compute blocks again after the batch is gone.
static bool focused(const struct graph *g, const struct vision_batch *b)
{
    return b->count && b->picture[0].received && !g->tape;
}

// The features that the projector reads [S, Dv'].
static struct tensor *encode(struct graph *g, const struct vision_batch *b)
{
    const struct vision *v = b->vision;
    const struct vision_config *c = &v->config;
    const struct vision_kind *kind = c->kind;
    struct tensor *features = NULL, *h = kind->embed(g, b); // [S', Dv]
    const int blocks = blocks_wanted(g, c);
    struct ranges tiles = { 0 }, windows = { 0 };
    struct block block = { .config = c };
    if (tile_count(b) > 1) tiles = upload_ranges(g, b, whole_tiles);
    if (kind->windows) windows = upload_ranges(g, b, kind->windows);
    if (kind->angles) upload_angles(g, b, &block);
    for (int l = 0; !graph_stop(g); l++) {
        each_picture(g, b, SITE_VISION_LAYER, l, false, h);
        if (l == vision_depth(c)) features = kind->features(g, b, h);
        if (l == blocks) break;
        block.w = &v->layer[l];
        block.seen = kind->windowed && kind->windowed(c, l) ? windows : tiles;
        block.focus = l == vision_depth(c) - 1 && focused(g, b) ? b : NULL;
        h = graph_block(g, block_stage, &block, sizeof block, h);
    }
    return graph_ok(g) ? features : NULL;
}

struct tensor *vision_forward(struct graph *g, const struct vision *v,
                              const struct vision_picture *pictures, size_t count)
{
    if (!graph_ok(g)) return NULL;
    int64_t *at = xcalloc(count + 1, sizeof *at);
    for (size_t i = 0; i < count; i++)
        at[i + 1] = at[i] + pictures[i].tiles * vision_tile_rows(&v->config, &pictures[i]);
    const struct vision_batch b = {
        .vision = v, .picture = pictures, .count = count, .rows = at[count], .at = at
    };
    struct tensor *features = encode(g, &b); // [S, Dv']
    each_picture(g, &b, SITE_VISION, -1, true, features);
    free(at);
    return graph_ok(g) ? features : NULL;
}

struct tensor *projector_forward(struct graph *g, const struct projector *p, struct tensor *x)
{
    if (p->kind->forward) return p->kind->forward(g, p, x);
    x = norm_forward(g, x, &p->norm, p->kind->eps); // [S, Dv]
    if (x && p->merge > 1)
        x = graph_view(g, x, 2, (int64_t[]){ x->shape[0] / p->merge, p->merge * x->shape[1] });
    if (!p->linear_2.weight.data) return linear_forward(g, x, &p->linear_1); // [S', D]
    x = linear_gelu(g, x, &p->linear_1, p->act);                             // [S', inner]
    return linear_forward(g, x, &p->linear_2);                               // [S', D]
}
