// core/adapter/model_mmproj.c -- writes a picture encoder and projector as a GGUF file (mmproj).
// The table `encoders` lists projector types; families and kinds of encoders have rows of their
// own.
//
// Keys and tensor names are those of llama.cpp (clip-impl.h of mtmd, conversion/*.py);
// core/files/gguf_vision.c reads them. Easy to get wrong:
//   - a convolution over two video frames becomes two convolutions over one frame each;
//   - the file omits the blocks after the one whose features are used, and the norm after the last
//     block (LLaVA);
//   - queries, keys and values are three tensors, except in GLM's and Qwen3-VL's files.
// llama.cpp needs convolutions in f16 or f32, and position tables in f32.
#include "core/adapter/model_gguf.h"

#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter_entry.h"
#include "core/adapter/gguf_tensors.h"
#include "core/base/text.h"
#include "core/files/gguf.h"
#include "core/model/families/family.h"
#include "core/model/families/native.h"

struct export
{
    const struct model *model;
    const struct family_mmproj *encoder;
    enum dtype dtype;
    struct gguf_writer *out;
    struct gguf_tensors tensors;
};

// --- metadata ------------------------------------------------------------------------------------

static void put_pixels(const struct model *m, struct gguf_writer *out)
{
    native_put_mmproj(m, out);
    gguf_writer_bool(out, "clip.use_silu", true);
}

static int refuse(const char *what, struct err *err)
{
    return err_set(err, FAMILY_MMPROJ_REFUSED, what);
}

// GGUF's key for the activation, clip.use_gelu, means GELU with erf in CLIP and with tanh in
// SigLIP, so the other one cannot be written.
static int check_llava(const struct model *m, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    const enum gelu_form other = v->class_token ? GELU_TANH : GELU_ERF;
    if (v->act == other) return refuse("GGUF has no name for its activation", err);
    if (v->drop_class != v->class_token)
        return refuse("the class token is one of its features", err);
    if (m->projector.act != GELU_ERF) return refuse("the projector's activation", err);
    if (v->merge > 1) return refuse("its features are merged", err);
    return 0;
}

static void put_llava(const struct model *m, struct gguf_writer *out)
{
    gguf_writer_bool(out, "clip.use_gelu", m->vision.config.act != GELU_QUICK);
}

// Writes the grids of tiles as pairs of width and height in pixels.
static void put_next(const struct model *m, struct gguf_writer *out)
{
    const struct tile_grids *g = &m->grids;
    int32_t pairs[2 * TILE_GRIDS_MAX];
    for (int i = 0; i < g->count; i++) {
        pairs[2 * i] = (int32_t)(g->grid[i].cols * g->tile);
        pairs[2 * i + 1] = (int32_t)(g->grid[i].rows * g->tile);
    }
    put_llava(m, out);
    gguf_writer_i32s(out, ".image_grid_pinpoints", pairs, 2 * (size_t)g->count);
    gguf_writer_text(out, ".mm_patch_merge_type", "spatial_unpad");
}

// Writes the blocks that attend to the whole picture: n if every nth block does, otherwise a list.
static void put_whole_blocks(const struct model *m, struct gguf_writer *out)
{
    const struct vision_config *v = &m->vision.config;
    int32_t *list = xreallocarray(NULL, (size_t)v->layers + 1, sizeof *list);
    size_t count = 0;
    for (int i = 0; i < v->layers; i++)
        if (v->whole[i / 64] >> i % 64 & 1) list[count++] = i;
    const int every = count ? list[0] + 1 : 0;
    bool regular = count && (int)count == v->layers / every;
    for (size_t i = 0; i < count; i++) regular &= (list[i] + 1) % every == 0;
    if (regular)
        gguf_writer_u32(out, ".n_wa_pattern", every);
    else
        gguf_writer_i32s(out, ".wa_layer_indexes", list, count);
    free(list);
}

static void put_qwen(const struct model *m, struct gguf_writer *out)
{
    const struct vision_config *v = &m->vision.config;
    gguf_writer_u32(out, ".image_size",
                    560); // readers accept any size; this is the value of llama.cpp's converter
    gguf_writer_u32(out, ".window_size", v->window * v->merge * v->patch);
    put_whole_blocks(m, out);
    put_pixels(m, out);
}

static int check_intern(const struct model *m, struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    if (m->projector.act != GELU_ERF || v->act != GELU_ERF) return refuse("its activation", err);
    if (v->qk_norm && v->qk_eps != 1e-6) return refuse("the norms of queries and keys", err);
    if (!m->picture.thumbnail && m->picture.max_tiles > 1)
        return refuse("its pictures are cut into tiles without a thumbnail", err);
    return 0;
}

static void put_intern(const struct model *m, struct gguf_writer *out)
{
    const struct picture_config *p = &m->picture;
    gguf_writer_u32(out, ".projector.scale_factor", m->vision.config.merge);
    gguf_writer_u32(out, ".preproc_min_tiles", p->min_tiles > 1 ? p->min_tiles : 1);
    gguf_writer_u32(out, ".preproc_max_tiles", p->max_tiles > 1 ? p->max_tiles : 1);
    gguf_writer_bool(out, "clip.use_gelu", true);
}

static void put_kimi(const struct model *m, struct gguf_writer *out)
{
    const struct vision_config *v = &m->vision.config;
    gguf_writer_u32(out, ".image_size", v->table_rows * v->patch);
    gguf_writer_u32(out, ".projector.scale_factor", v->merge);
    gguf_writer_u32(out, ".image_max_pixels", m->picture.most_patches * v->patch * v->patch);
    gguf_writer_bool(out, "clip.use_gelu", true);
}

static void put_glm(const struct model *m, struct gguf_writer *out)
{
    const struct vision_config *v = &m->vision.config;
    gguf_writer_u32(out, ".image_size", v->table_rows * v->patch);
    put_pixels(m, out);
}

static const struct family_mmproj encoders[] = {
    { .type = "mlp",
      .pre = "v.pre_ln",
      .linear = { "mm.0", "mm.2" },
      .check = check_llava,
      .put = put_llava },
    { .type = "mlp",
      .newline = true,
      .pre = "v.pre_ln",
      .linear = { "mm.0", "mm.2" },
      .check = check_llava,
      .put = put_next },
    { .type = "qwen2.5vl_merger",
      .norm = "v.post_ln",
      .linear = { "mm.0", "mm.2" },
      .put = put_qwen },
    { .type = "internvl",
      .norm = "mm.model.mlp.0",
      .linear = { "mm.model.mlp.1", "mm.model.mlp.3" },
      .check = check_intern,
      .put = put_intern },
    { .type = "kimivl",
      .post = "v.post_ln",
      .norm = "mm.input_norm",
      .linear = { "mm.1", "mm.2" },
      .put = put_kimi },
    { .type = "glm4v",
      .pre = "v.norm_embd",
      .post = "v.post_ln",
      .whole_qkv = true,
      .norm = "mm.post_norm",
      .linear = { "mm.model.fc" },
      .put = put_glm },
};

static const struct family_mmproj *find(const struct model *m)
{
    if (m->vision.config.kind->mmproj) return m->vision.config.kind->mmproj;
    if (m->family->mmproj) return m->family->mmproj;
    const bool newline = m->newline.data != NULL;
    for (size_t i = 0; i < sizeof encoders / sizeof *encoders; i++)
        if (m->family->gguf && !strcmp(m->family->gguf, encoders[i].type) &&
            encoders[i].newline == newline)
            return &encoders[i];
    return NULL;
}

static void put_sizes(struct export *e)
{
    const struct model *m = e->model;
    const struct vision_config *v = &m->vision.config;
    static const float none[] = { 0, 0, 0 }, one[] = { 1, 1, 1 }; // changes no pixel
    gguf_writer_text(e->out, "general.architecture", "clip");
    gguf_writer_text(e->out, "general.type", "mmproj");
    gguf_writer_bool(e->out, "clip.has_vision_encoder", true);
    gguf_writer_text(e->out, e->encoder->audio ? ".projector_type" : "clip.projector_type",
                     e->encoder->type);
    gguf_writer_u32(e->out, ".embedding_length", v->hidden);
    gguf_writer_u32(e->out, ".feed_forward_length", v->ffn);
    gguf_writer_u32(e->out, ".block_count", vision_depth(v));
    gguf_writer_u32(e->out, ".attention.head_count", v->layers ? v->heads : 0);
    gguf_writer_u32(e->out, ".patch_size", v->patch / (e->encoder->pool ? e->encoder->pool : 1));
    gguf_writer_u32(e->out, ".projection_dim", m->decoder.config.hidden);
    if (v->image_size) gguf_writer_u32(e->out, ".image_size", v->image_size);
    // Without blocks, readers take this key for the projector's norm.
    gguf_writer_f32(e->out, ".attention.layer_norm_epsilon",
                    (float)(v->layers ? v->eps : m->projector.eps));
    gguf_writer_f32s(e->out, ".image_mean", m->picture.normalize ? m->picture.mean : none, 3);
    gguf_writer_f32s(e->out, ".image_std", m->picture.normalize ? m->picture.std : one, 3);
    e->encoder->put(m, e->out);
}

// --- tensors -------------------------------------------------------------------------------------

static const struct weight *weight_of(const struct export *e, const struct tensor *t)
{
    const struct weights *all = &e->model->weights;
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].tensor == t) return &all->list[i];
    return NULL;
}

// Adds rows of a matrix, or a vector.
static struct gguf_tensor *add_rows(struct export *e, char *name, const struct weight *w,
                                    int64_t first, int64_t rows)
{
    const bool vector = w->tensor->rank < 2 || w->tensor->shape[0] == 1; // a class token
    const int64_t width = vector ? tensor_count(w->tensor) : tensor_row(w->tensor);
    const int64_t shape[] = { rows, width };
    const enum dtype dtype = vector ? DTYPE_F32 : gguf_fitting_dtype(e->dtype, width);
    struct gguf_tensor *t = gguf_tensors_add(&e->tensors, name, dtype, vector ? 1 : 2,
                                             vector && w->tensor->rank > 1 ? shape + 1 : shape);
    gguf_tensor_rows(t, w, first, rows);
    return t;
}

static void add(struct export *e, const char *start, const char *name, const char *end,
                const struct tensor *from)
{
    const struct weight *w = from->data ? weight_of(e, from) : NULL;
    if (w) add_rows(e, xasprintf("%s%s%s", start, name, end), w, 0, w->tensor->shape[0]);
}

// Adds a vector as it is in memory; adds nothing if the encoder has none.
static void add_vector(struct export *e, const char *name, const char *end, const struct tensor *t)
{
    const int64_t count = tensor_count(t);
    if (!t->data) return;
    gguf_tensors_add(&e->tensors, xasprintf("%s%s", name, end), DTYPE_F32, 1, &count)->numbers =
        adapter_vector(e->model->arena.backend, t);
}

// Adds weight and bias; adds nothing if `name` is NULL.
static void add_pair(struct export *e, const char *start, const char *name,
                     const struct tensor *weight, const struct tensor *bias)
{
    if (!name) return;
    add(e, start, name, ".weight", weight);
    add(e, start, name, ".bias", bias);
}

static void add_norm(struct export *e, const char *start, const char *name, const struct norm *n)
{
    add_pair(e, start, name, &n->gain, &n->bias);
}

static void add_linear(struct export *e, const char *start, const char *name,
                       const struct linear *l)
{
    add_pair(e, start, name, &l->weight, &l->bias);
}

// Adds a convolution [rows, channels, (frames,) side, side], as one tensor per frame, or a matrix
// over the numbers of a patch [rows, side*side*3] as the convolution that it is.
static void add_squares(struct export *e, const char *name, const struct linear *l)
{
    const struct weight *w = weight_of(e, &l->weight);
    const enum dtype dtype = e->dtype == DTYPE_F16 ? DTYPE_F16 : DTYPE_F32;
    const bool matrix = w->rank == 2;
    const int64_t side = matrix ? e->model->vision.config.patch : w->shape[w->rank - 1];
    const int64_t shape[] = { w->shape[0], matrix ? 3 : w->shape[1], side, side };
    const int frames = w->rank == 5 ? (int)w->shape[2] : 1;
    for (int i = 0; i < frames; i++) {
        char *whole = i ? xasprintf("%s.weight.%d", name, i) : xasprintf("%s.weight", name);
        struct gguf_tensor *t = gguf_tensors_add(&e->tensors, whole, dtype, 4, shape);
        t->frames = frames > 1 ? frames : 0;
        t->frame = i;
        if (matrix) t->columns.groups = side * side, t->columns.each = 3, t->columns.width = 1;
        gguf_tensor_rows(t, w, 0, w->shape[0]);
    }
    add(e, "", name, ".bias", &l->bias);
}

static void add_third(struct export *e, const char *start, const struct tensor *from, int i,
                      const char *end)
{
    const struct weight *w = from->data ? weight_of(e, from) : NULL;
    const int64_t rows = w ? w->tensor->shape[0] / 3 : 0;
    if (w) add_rows(e, xasprintf("%sattn_%c%s", start, "qkv"[i], end), w, i * rows, rows);
}

// Adds queries or keys; their rotary pairs become adjacent if the encoder stores them so.
static void add_rotated(struct export *e, const char *start, const char *name,
                        const struct linear *l)
{
    const struct vision_config *v = &e->model->vision.config;
    const struct weight *w = weight_of(e, &l->weight);
    if (!e->encoder->pairs || !w) {
        add_linear(e, start, name, l);
        return;
    }
    const int16_t head = (int16_t)(v->hidden / v->heads);
    add_rows(e, xasprintf("%s%s.weight", start, name), w, 0, v->hidden)->order =
        (struct head_order){ head, head };
}

static void add_qkv(struct export *e, const char *start, const struct vision_layer *l)
{
    if (e->encoder->whole_qkv) add_linear(e, start, "attn_qkv", &l->qkv);
    for (int i = 0; i < 3 && !e->encoder->whole_qkv; i++) {
        add_third(e, start, &l->qkv.weight, i, ".weight");
        add_third(e, start, &l->qkv.bias, i, ".bias");
    }
    add_rotated(e, start, "attn_q", &l->q);
    add_rotated(e, start, "attn_k", &l->k);
    add_linear(e, start, "attn_v", &l->v);
}

// Adds the limits of a block's linear layers.
static void add_clips(struct export *e, const char *start, int block)
{
    static const char *const names[CLIP_COUNT] = {
        [CLIP_Q] = "attn_q",      [CLIP_K] = "attn_k",      [CLIP_V] = "attn_v",
        [CLIP_OUT] = "attn_out",  [CLIP_GATE] = "ffn_gate", [CLIP_UP] = "ffn_up",
        [CLIP_DOWN] = "ffn_down",
    };
    static const char *const ends[] = { "input_min", "input_max", "output_min", "output_max" };
    const struct vision_clip *clip = e->model->vision.clip;
    for (int i = 0; clip && i < CLIP_COUNT; i++) {
        const struct vision_clip *c = &clip[block * CLIP_COUNT + i];
        const float limit[] = { c->in_low, c->in_high, c->out_low, c->out_high };
        for (int k = 0; k < 4; k++) {
            float *number = xcalloc(1, sizeof *number);
            *number = limit[k];
            gguf_tensors_add(&e->tensors, xasprintf("%s%s.%s", start, names[i], ends[k]), DTYPE_F32,
                             1, (int64_t[]){ 1 })
                ->numbers = number;
        }
    }
}

static void add_block(struct export *e, const struct vision_layer *l, int number)
{
    char *start = xasprintf("v.blk.%d.", number);
    add_norm(e, start, "ln1", &l->norm1);
    add_qkv(e, start, l);
    add_norm(e, start, "attn_q_norm", &l->q_norm);
    add_norm(e, start, "attn_k_norm", &l->k_norm);
    add_linear(e, start, "attn_out", &l->out);
    add(e, start, "ls1", ".weight", &l->scale1);
    add_norm(e, start, "attn_post_norm", &l->after1);
    add_norm(e, start, "ln2", &l->norm2);
    add_linear(e, start, "ffn_gate", &l->gate);
    add_linear(e, start, "ffn_up", l->up.weight.data ? &l->up : &l->fc1);
    add_linear(e, start, "ffn_down", l->down.weight.data ? &l->down : &l->fc2);
    add(e, start, "ls2", ".weight", &l->scale2);
    add_norm(e, start, "ffn_post_norm", &l->after2);
    add_clips(e, start, number);
    free(start);
}

// Adds the layers that join windows of patches (MiniCPM-V). Like llama.cpp's converter, omits them
// if the folder's mode does not use them.
static void add_window(struct export *e)
{
    static const char start[] = "v.vit_merger.";
    const struct vision_layer *w = &e->model->vision.window;
    if (e->model->picture.mode == 4) return;
    add_norm(e, start, "ln1", &w->norm1);
    add_linear(e, start, "attn_q", &w->q);
    add_linear(e, start, "attn_k", &w->k);
    add_linear(e, start, "attn_v", &w->v);
    add_linear(e, start, "attn_out", &w->out);
    add_norm(e, start, "ds_ln", &w->norm2);
    add_linear(e, start, "ds_ffn_up", &w->fc1);
    add_linear(e, start, "ds_ffn_down", &w->fc2);
}

// Reorders a vector over the pixels of a patch, so that the channels become 3 planes.
static void put_planes(struct gguf_tensor *t)
{
    const int64_t area = t->shape[0] / 3;
    float *from = t->numbers, *to = xreallocarray(NULL, (size_t)t->shape[0] + 1, sizeof *to);
    for (int64_t i = 0; i < 3 * area; i++) to[i % 3 * area + i / 3] = from[i];
    t->numbers = to;
    free(from);
}

// Adds the layers before the positions of an encoder without blocks.
static void add_pixels(struct export *e)
{
    const struct vision *v = &e->model->vision;
    add_linear(e, "", "v.patch_embd", &v->patch);
    struct gguf_tensor *patches = gguf_tensors_last(&e->tensors, "v.patch_embd.weight");
    patches->columns.groups = v->config.patch * v->config.patch;
    patches->columns.each = 3, patches->columns.width = 1;
    add_vector(e, "v.patch_norm.1", ".weight", &v->pixel_norm.gain);
    put_planes(gguf_tensors_last(&e->tensors, "v.patch_norm.1.weight"));
    add_vector(e, "v.patch_norm.1", ".bias", &v->pixel_norm.bias);
    put_planes(gguf_tensors_last(&e->tensors, "v.patch_norm.1.bias"));
    add_norm(e, "", "v.patch_norm.2", &v->patch_norm);
}

// Adds the positions of columns, then those of rows, which alternate in the model.
static void add_alternating(struct export *e, const struct tensor *table)
{
    const struct weight *w = weight_of(e, table);
    const int64_t n = table->shape[0] / 2, shape[] = { 2, n, table->shape[1] };
    struct gguf_tensor *t =
        gguf_tensors_add(&e->tensors, xstrdup("v.position_embd.weight"), DTYPE_F32, 3, shape);
    for (int64_t axis = 0; axis < 2; axis++)
        for (int64_t i = 0; i < n; i++) gguf_tensor_rows(t, w, 2 * i + axis, 1);
}

static void add_encoder(struct export *e)
{
    const struct vision *v = &e->model->vision;
    const enum dtype dtype = e->dtype;
    if (e->encoder->planes) {
        add_pixels(e);
        add_alternating(e, &v->position);
        add_norm(e, "", e->encoder->pre, &v->pre);
        return;
    }
    add_squares(e, "v.patch_embd", &v->patch);
    add(e, "", "v.class_embd", "", &v->class_token);
    e->dtype = DTYPE_F32;
    add(e, "", "v.position_embd", ".weight", &v->position);
    if (e->encoder->axes) {
        struct gguf_tensor *table = gguf_tensors_last(&e->tensors, "v.position_embd.weight");
        const int64_t rows = table->shape[0] / 2, width = table->shape[1];
        table->rank = 3;
        table->shape[0] = 2, table->shape[1] = rows, table->shape[2] = width;
    }
    e->dtype = dtype;
    add_norm(e, "", e->encoder->pre, v->pre.gain.data ? &v->pre : &v->patch_norm);
    for (int i = 0; i < vision_depth(&v->config); i++) add_block(e, &v->layer[i], i);
    add_norm(e, "", e->encoder->post, &v->post);
    add_window(e);
    add_vector(e, "v.std_bias", "", &v->std_bias);
    add_vector(e, "v.std_scale", "", &v->std_scale);
}

// Adds a DeepStack merger under the number of the block whose features it merges.
static void add_merger(struct export *e, const struct projector *p, int block)
{
    char *start = xasprintf("v.deepstack.%d.", block);
    add_norm(e, start, "norm", &p->norm);
    add_linear(e, start, "fc1", &p->linear_1);
    add_linear(e, start, "fc2", &p->linear_2);
    free(start);
}

// Adds the embedding of a token, which llama.cpp writes between visual tokens.
static void add_word(struct export *e)
{
    const struct model *m = e->model;
    const int32_t id = e->encoder->word ? tokenizer_id(m->tokenizer, e->encoder->word) : -1;
    const struct weight *w = id >= 0 ? weight_of(e, &m->decoder.embed) : NULL;
    if (!w || id >= w->tensor->shape[0]) return;
    const int64_t width = tensor_row(w->tensor);
    gguf_tensor_rows(
        gguf_tensors_add(&e->tensors, xstrdup(e->encoder->word_row), DTYPE_F32, 1, &width), w, id,
        1);
}

static void add_projector(struct export *e)
{
    const struct projector *p = &e->model->projector;
    if (e->model->vision.merge.weight.data)
        add_squares(e, "mm.patch_merger", &e->model->vision.merge);
    add_word(e);
    const enum dtype dtype = e->dtype;
    // llama.cpp's converter stores the patch merger, as convolutions, in f16 or f32.
    if (dtype != DTYPE_F16) e->dtype = DTYPE_F32;
    add_linear(e, "", "mm.patch_merger", &p->merger);
    e->dtype = dtype;
    if (e->encoder->columns && dtype != DTYPE_F16) e->dtype = DTYPE_F32;
    if (e->encoder->columns)
        add_vector(e, e->encoder->norm, ".weight", &p->norm.gain); // 1 + w; the model stores w
    else
        add_norm(e, "", e->encoder->norm, &p->norm);
    add_linear(e, "", e->encoder->linear[0], &p->linear_1);
    e->dtype = dtype;
    add_linear(e, "", e->encoder->linear[1], &p->linear_2);
    add_linear(e, "", "mm.gate", &p->gate);
    add_linear(e, "", "mm.up", &p->up);
    add_linear(e, "", "mm.down", &p->down);
    add(e, "", "v.image_newline", "", &e->model->newline);
    for (int i = 0; i < e->model->vision.config.deep_count; i++)
        add_merger(e, &e->model->vision.deep[i], e->model->vision.config.deep[i]);
}

// --- the file ------------------------------------------------------------------------------------

char *model_mmproj_path(const char *model)
{
    const char *name = text_file_name(model);
    return xasprintf("%.*smmproj-%s", (int)(name - model), model, name);
}

int model_mmproj_type(const char *type, struct err *err)
{
    const struct gguf_kind *kind = gguf_kind_find(type);
    if (kind && kind->matrix != DTYPE_Q4_K) return 0;
    return err_set(err, "unknown type '%s' of the encoder; types: q8_0, f16, bf16", type);
}

int model_mmproj_check(const struct model *m, struct err *err)
{
    const struct family_mmproj *encoder = find(m);
    if (!encoder)
        return err_set(err,
                       "GGUF has no format for the picture encoder of the family %s, so the file "
                       "is text-only; for pictures, load the folder",
                       m->family->name);
    return encoder->check ? encoder->check(m, err) : 0;
}

int model_write_mmproj(const struct model *m, const char *type, const char *model, const char *path,
                       const struct load_progress *progress, struct gguf_summary *summary,
                       struct whole_file **file, struct err *err)
{
    struct export e = { .model = m,
                        .encoder = find(m),
                        .dtype = gguf_kind_find(type ? type : model)->matrix };
    if (model_mmproj_check(m, err) < 0) return -1;
    if (!type && dtype_in_blocks(e.dtype))
        e.dtype = m->vision.patch.weight.dtype == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F16;
    model_pass(m, true);
    e.out = gguf_writer_new(path);
    gguf_writer_prefix(e.out, "clip.vision");
    put_sizes(&e);
    add_encoder(&e);
    add_projector(&e);
    gguf_tensors_sum(&e.tensors, NULL, summary);
    int status = gguf_tensors_write(&e.tensors, m, e.out, progress, err);
    if (status == 0)
        status = gguf_writer_seal(e.out, file, err);
    else
        gguf_writer_abandon(e.out);
    gguf_tensors_release(&e.tensors);
    return status;
}
