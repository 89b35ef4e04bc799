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

// --- config ------------------------------------------------------------------------------------

int gelu_form_read(enum gelu_form *form, const cJSON *json, const char *key, const char *otherwise,
                   struct err *err)
{
    static const struct {
        const char *name;
        enum gelu_form form;
    } known[] = { { "gelu", GELU_ERF },        { "gelu_pytorch_tanh", GELU_TANH },
                  { "gelu_new", GELU_TANH },   { "gelu_fast", GELU_TANH },
                  { "gelu_python", GELU_ERF }, { "quick_gelu", GELU_QUICK } };
    const char *name;
    if (json_text(json, key, otherwise, &name, err) < 0) return -1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) {
            *form = known[i].form;
            return 0;
        }
    return err_set(err,
                   "\"%s\" \"%s\" is not supported (known: gelu, gelu_pytorch_tanh, gelu_new, "
                   "gelu_fast, gelu_python, quick_gelu)",
                   key, name);
}

// Class defaults of transformers; hub files leave out keys that equal them.
static const struct vision_kind {
    const char *model_type, *act;
    int64_t patch;
    double eps;
    bool class_token, patch_bias, pre_norm;
} kinds[] = {
    { "clip_vision_model", "quick_gelu", 32, 1e-5, true, false, true },
    { "siglip_vision_model", "gelu_pytorch_tanh", 16, 1e-6, false, true, false },
};

static const struct vision_kind *kind_find(const cJSON *json, struct err *err)
{
    const char *type;
    if (json_text(json, "model_type", kinds[0].model_type, &type, err) < 0) return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].model_type) == 0) return &kinds[i];
    err_set(err,
            "vision encoder \"%s\" is not supported (known: clip_vision_model, "
            "siglip_vision_model)",
            type);
    return NULL;
}

static int read_sizes(struct vision_config *v, const struct vision_kind *kind, const cJSON *json,
                      struct err *err)
{
    int64_t layers, channels;
    if (json_int(json, "num_hidden_layers", 1, 1000, 12, &layers, err) < 0 ||
        json_int(json, "hidden_size", 1, 100000, 768, &v->hidden, err) < 0 ||
        json_int(json, "intermediate_size", 1, 1000000, 3072, &v->ffn, err) < 0 ||
        json_int(json, "num_attention_heads", 1, 10000, 12, &v->heads, err) < 0 ||
        json_int(json, "num_channels", 1, 100, 3, &channels, err) < 0 ||
        json_int(json, "image_size", 1, 10000, 224, &v->image_size, err) < 0 ||
        json_int(json, "patch_size", 1, 1000, kind->patch, &v->patch, err) < 0)
        return -1;
    v->layers = (int)layers;
    if (channels != 3) return err_set(err, "\"num_channels\" must be 3");
    if (v->hidden % v->heads)
        return err_set(err,
                       "\"hidden_size\" %lld is not a multiple of \"num_attention_heads\" %lld",
                       (long long)v->hidden, (long long)v->heads);
    if (v->patch > v->image_size)
        return err_set(err, "\"patch_size\" %lld is larger than \"image_size\" %lld",
                       (long long)v->patch, (long long)v->image_size);
    return 0;
}

int vision_config_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    *v = (struct vision_config){ 0 };
    const struct vision_kind *kind = kind_find(json, err);
    if (!kind || read_sizes(v, kind, json, err) < 0 ||
        gelu_form_read(&v->act, json, "hidden_act", kind->act, err) < 0 ||
        json_real(json, "layer_norm_eps", kind->eps, &v->eps, err) < 0)
        return -1;
    if (v->eps < 0 || v->eps > 1) return err_set(err, "\"layer_norm_eps\" must lie in 0..1");
    if (!json) { // ViT-L/14 at 336 pixels
        v->layers = 24, v->hidden = 1024, v->heads = 16, v->ffn = 4096;
        v->image_size = 336, v->patch = 14;
    }
    v->class_token = kind->class_token;
    v->patch_bias = kind->patch_bias;
    v->pre_norm = kind->pre_norm;
    v->post_norm = true;
    v->feature_layer = -1;
    return 0;
}

int vision_depth(const struct vision_config *c)
{
    return c->feature_layer < 0 ? c->layers + 1 + c->feature_layer : c->feature_layer;
}

// Rows in the encoder: whole patches only, what is left at the right and below is not seen.
static int64_t vision_rows(const struct vision_config *c)
{
    int64_t side = c->image_size / c->patch;
    return side * side + c->class_token;
}

int64_t vision_tokens(const struct vision_config *c)
{
    return vision_rows(c) - c->drop_class;
}

// --- weights -----------------------------------------------------------------------------------

static void bind_block(struct binder *b, struct vision_layer *w, const struct vision_config *c,
                       int l)
{
    int64_t Dv = c->hidden;
    bind_vector(b, &w->norm1_gain, Dv, "encoder.layers.%d.layer_norm1.weight", l);
    bind_vector(b, &w->norm1_bias, Dv, "encoder.layers.%d.layer_norm1.bias", l);
    bind_linear(b, &w->q, Dv, Dv, true, "encoder.layers.%d.self_attn.q_proj", l);
    bind_linear(b, &w->k, Dv, Dv, true, "encoder.layers.%d.self_attn.k_proj", l);
    bind_linear(b, &w->v, Dv, Dv, true, "encoder.layers.%d.self_attn.v_proj", l);
    bind_linear(b, &w->out, Dv, Dv, true, "encoder.layers.%d.self_attn.out_proj", l);
    bind_vector(b, &w->norm2_gain, Dv, "encoder.layers.%d.layer_norm2.weight", l);
    bind_vector(b, &w->norm2_bias, Dv, "encoder.layers.%d.layer_norm2.bias", l);
    bind_linear(b, &w->fc1, c->ffn, Dv, true, "encoder.layers.%d.mlp.fc1", l);
    bind_linear(b, &w->fc2, Dv, c->ffn, true, "encoder.layers.%d.mlp.fc2", l);
}

int vision_bind(struct vision *v, struct binder *b)
{
    struct vision_config *config = &v->config;
    int64_t Dv = config->hidden;
    bind_patches(b, &v->patch.weight, Dv, config->patch, "embeddings.patch_embedding.weight");
    if (config->patch_bias) bind_vector(b, &v->patch.bias, Dv, "embeddings.patch_embedding.bias");
    bind_matrix(b, &v->position, vision_rows(config), Dv, "embeddings.position_embedding.weight");
    if (config->class_token) {
        bind_vector(b, &v->class_token, Dv, "embeddings.class_embedding");
        v->class_token.rank = 2;
        v->class_token.shape[0] = 1;
        v->class_token.shape[1] = Dv;
    }
    if (config->pre_norm) { // spelled so in every file
        bind_vector(b, &v->pre_gain, Dv, "pre_layrnorm.weight");
        bind_vector(b, &v->pre_bias, Dv, "pre_layrnorm.bias");
    }
    v->layer = xcalloc((size_t)config->layers, sizeof *v->layer);
    for (int l = 0; l < config->layers; l++) bind_block(b, &v->layer[l], config, l);

    config->post_norm = bind_has(b->checkpoint, b->prefix, "post_layernorm.weight");
    return b->failed ? -1 : 0;
}

void vision_release(struct vision *v)
{
    free(v->layer);
    *v = (struct vision){ 0 };
}

// --- forward -----------------------------------------------------------------------------------

// Pictures that go through the encoder together: their rows stand one after the other.
struct batch {
    const struct vision *vision;
    struct tensor *const *pixels; // [count] of [3,H,W]
    const int *number;            // [count] index of each picture
    int64_t count;                // B
    struct tensor *first, *last;  // i32 [B*S'] rows that each row sees; NULL: all
};

// For each picture its rows from..from+n of the encoder: their places in the stream [B*S'], or in
// one picture's [S'].
static int32_t *row_places(const struct batch *b, int64_t from, int64_t n, bool in_picture)
{
    int64_t step = in_picture ? 0 : vision_rows(&b->vision->config);
    int32_t *place = xreallocarray(NULL, (size_t)(b->count * n), sizeof *place);
    for (int64_t i = 0; i < b->count * n; i++) place[i] = (int32_t)(i / n * step + from + i % n);
    return place;
}

// What op_gather_rows and op_scatter_rows do at those places.
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

// What a block is computed with.
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

// How many blocks to compute: those before the feature layer, and more for who listens later.
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

// Row i sees the rows of its own picture.
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
