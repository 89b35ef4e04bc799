// core/model/vision.c -- vision transformers: pixels [3,H,W] to features [S,Dv].
//
//   pixels -> patches -> linear -> (class token in front) -> + positions -> (norm: CLIP)
//          -> blocks: h += out(attention(norm1 h)), h += fc2(gelu(fc1(norm2 h)))
//          -> features: the stream after `depth` blocks, class token dropped
//
// The feature layer counts hidden states as the reference does: 0 enters the first block, -1 leaves
// the last one, -2 the one before. The encoder's last norm is never applied to them, so blocks
// after the feature layer are computed only for a listener that asks for what leaves them.
//
// S' rows in the encoder (patches and class token), S features; B pictures go through together.
#include "core/model/vision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/ops/ops.h"

// Pictures that are encoded together; their rows are concatenated.
struct batch {
    const struct vision *vision;
    struct tensor *const *pixels; // [count] of [3,H,W]
    const int *number;            // [count] index of each picture
    int64_t count;                // B
    struct tensor *first, *last;  // i32 [B*S'] rows that each row sees; NULL: all
};

// Indices of rows from..from+n of each picture: in the stream [B*S'], or in its own picture [S'].
static int32_t *row_places(const struct batch *b, int64_t from, int64_t n, bool in_picture)
{
    int64_t step = in_picture ? 0 : vision_rows(&b->vision->config);
    int32_t *place = xreallocarray(NULL, (size_t)(b->count * n), sizeof *place);
    for (int64_t i = 0; i < b->count * n; i++) place[i] = (int32_t)(i / n * step + from + i % n);
    return place;
}

// op_gather_rows and op_scatter_rows at these indices.
static struct tensor *gather(struct graph *g, struct tensor *x, const struct batch *b, int64_t from,
                             int64_t n, bool in_picture)
{
    int32_t *place = row_places(b, from, n, in_picture);
    x = op_gather_rows(g, x, place, b->count * n);
    free(place);
    return x;
}

static struct tensor *scatter(struct graph *g, struct tensor *into, struct tensor *x,
                              const struct batch *b, int64_t from, int64_t n)
{
    int32_t *place = row_places(b, from, n, false);
    into = op_scatter_rows(g, into, x, place);
    free(place);
    return into;
}

// All pictures cut into patches [B*patches, 3*p*p].
static struct tensor *patches_stage(struct graph *g, const struct batch *b)
{
    const struct vision_config *c = &b->vision->config;
    if (b->count == 1) return op_patches(g, b->pixels[0], c->patch);
    int64_t patches = vision_rows(c) - c->class_token;
    struct tensor *all = graph_new2(g, DTYPE_F32, b->count * patches, 3 * c->patch * c->patch);
    for (int64_t i = 0; i < b->count && graph_ok(g); i++) {
        struct arena_mark scratch = graph_scratch_begin(g);
        op_copy_rows_into(g, all, i * patches, op_patches(g, b->pixels[i], c->patch));
        graph_scratch_end(g, scratch);
    }
    return all;
}

// Pixels to the stream that enters the first block [B*S', Dv].
static struct tensor *embed_stage(struct graph *g, const struct batch *b)
{
    const struct vision *v = b->vision;
    const struct vision_config *c = &v->config;
    int64_t rows = vision_rows(c), patches = rows - c->class_token;
    struct tensor *x = patches_stage(g, b); // [B*patches, 3*p*p]
    x = linear_forward(g, x, &v->patch);    // [B*patches, Dv]

    struct tensor *h = x;
    if (c->class_token) {
        h = graph_new2(g, DTYPE_F32, b->count * rows, c->hidden); // [B*S', Dv]
        struct tensor *token = op_widen(g, graph_weight(&v->class_token));
        h = scatter(g, h, gather(g, token, b, 0, 1, true), b, 0, 1);
        h = scatter(g, h, x, b, 1, patches);
    }
    struct tensor *position = op_widen(g, graph_weight(&v->position)); // [S', Dv]
    if (b->count > 1) position = gather(g, position, b, 0, rows, true);
    h = op_add(g, h, position);
    if (c->pre_norm)
        h = op_layernorm(g, h, graph_weight(&v->pre_gain), graph_weight(&v->pre_bias),
                         (float)c->eps);
    return h;
}

// Arguments of a block.
struct block {
    const struct vision_config *config;
    const struct vision_layer *w;
    struct tensor *first, *last; // as the batch's
};

// One block of h [B*S', Dv]; all else is scratch. Every row sees every row of its picture.
static struct tensor *block_stage(struct graph *g, void *self, struct tensor *h)
{
    const struct block *block = self;
    const struct vision_config *c = block->config;
    const struct vision_layer *w = block->w;
    int64_t rows = h->shape[0], dim = c->hidden / c->heads;
    struct arena_mark scratch = graph_scratch_begin(g);

    struct tensor *x = op_layernorm(g, h, graph_weight(&w->norm1_gain),
                                    graph_weight(&w->norm1_bias), (float)c->eps);
    struct tensor *q = linear_forward(g, x, &w->q);
    struct tensor *k = linear_forward(g, x, &w->k);
    struct tensor *v = linear_forward(g, x, &w->v);
    q = graph_view3(g, q, rows, c->heads, dim); // [B*S', heads, dim]
    k = graph_view3(g, k, rows, c->heads, dim);
    v = graph_view3(g, v, rows, c->heads, dim);
    x = op_attention(g, q, k, v, block->first, block->last, 1 / sqrtf((float)dim), NULL);
    x = graph_view(g, x, 2, (int64_t[]){ rows, c->hidden });
    x = linear_forward(g, x, &w->out); // [B*S', Dv]
    h = op_add(g, h, x);

    x = op_layernorm(g, h, graph_weight(&w->norm2_gain), graph_weight(&w->norm2_bias),
                     (float)c->eps);
    x = linear_gelu(g, x, &w->fc1, c->act); // [B*S', ffn]
    x = linear_forward(g, x, &w->fc2);      // [B*S', Dv]
    h = op_add(g, h, x);
    graph_scratch_end(g, scratch);
    return h;
}

// Number of blocks to compute: those before the feature layer, more if something listens later.
static int blocks_wanted(const struct graph *g, const struct vision_config *c)
{
    for (int l = c->layers; l > vision_depth(c); l--)
        if (hooks_wanted(g, SITE_VISION_LAYER, l)) return l;
    return vision_depth(c);
}

// Runs the listeners of a site for each picture on its rows of x.
static void each_picture(struct graph *g, const struct batch *b, enum site site, int layer,
                         struct tensor *x)
{
    if (!x || !hooks_wanted(g, site, layer)) return;
    int64_t rows = x->shape[0] / b->count;
    for (int64_t i = 0; i < b->count && graph_ok(g); i++) {
        struct site_args args = { .layer = layer,
                                  .picture = b->number[i],
                                  .x = graph_rows(g, x, i * rows, rows),
                                  .prefill = true };
        hooks_run(g, site, &args);
    }
}

// Lets each row see only the rows of its picture.
static void picture_ranges(struct graph *g, struct batch *b)
{
    int64_t rows = vision_rows(&b->vision->config), n = b->count * rows;
    int32_t *edge = xreallocarray(NULL, (size_t)n, sizeof *edge);
    for (int64_t i = 0; i < n; i++) edge[i] = (int32_t)(i / rows * rows);
    b->first = graph_upload(g, DTYPE_I32, 1, &n, edge);
    for (int64_t i = 0; i < n; i++) edge[i] += (int32_t)rows;
    b->last = graph_upload(g, DTYPE_I32, 1, &n, edge);
    free(edge);
}

// The features that the projector reads [B*S, Dv].
static struct tensor *encode(struct graph *g, struct batch *b)
{
    const struct vision *v = b->vision;
    const struct vision_config *c = &v->config;
    struct tensor *features = NULL, *h = embed_stage(g, b); // [B*S', Dv]
    int blocks = blocks_wanted(g, c);
    if (b->count > 1) picture_ranges(g, b);
    for (int l = 0; !graph_stop(g); l++) {
        each_picture(g, b, SITE_VISION_LAYER, l, h);
        if (l == vision_depth(c))
            features = gather(g, h, b, c->drop_class, vision_tokens(c), false);
        if (l == blocks) break;
        struct block block = { c, &v->layer[l], b->first, b->last };
        h = graph_block(g, block_stage, &block, sizeof block, h);
    }
    return graph_ok(g) ? features : NULL;
}

struct tensor *vision_forward(struct graph *g, const struct vision *v, struct tensor *pixels,
                              int picture)
{
    struct batch b = { .vision = v, .pixels = &pixels, .number = &picture, .count = 1 };
    struct tensor *features = encode(g, &b);
    struct site_args args = { .layer = -1, .picture = picture, .x = features, .prefill = true };
    return hooks_run(g, SITE_VISION, &args) < 0 ? NULL : args.x; // [S, Dv]
}

struct tensor *vision_forward_all(struct graph *g, const struct vision *v,
                                  struct tensor *const *pixels, const int *number, size_t count)
{
    struct batch b = { .vision = v, .pixels = pixels, .number = number, .count = (int64_t)count };
    struct tensor *features = encode(g, &b); // [B*S, Dv]
    each_picture(g, &b, SITE_VISION, -1, features);
    return graph_ok(g) ? features : NULL;
}
