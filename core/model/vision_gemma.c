// core/model/vision_gemma.c -- Gemma 4's encoder: pictures of any size, enlarged or reduced to a
// budget of visual tokens.
//
//   patches [S', p*p*3], row by row, 0..1 -> 2x - 1 -> linear -> + positions of column and row
//   -> blocks: h += norm(attention(norm h)), h += norm(ffn(norm h)); FFN gated with GELU
//   -> mean of each merge x merge patches, times sqrt(Dv) -> ((x - bias) * scale)
//
// Heads of queries, keys and values are normed, and scores are not scaled. Half of a head rotates
// by the column, half by the row. Each linear layer may limit its inputs and outputs.
//
// Easy to get wrong: pair j of the first half of a head is (j, j + d/4), that of the second half
// (d/2 + j, d/2 + d/4 + j); the channels of a patch are its last axis.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/model/vision.h"
#include "core/ops/ops.h"

// --- config --------------------------------------------------------------------------------------

static int gemma_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    int64_t layers, kv_heads;
    const char *act;
    bool bias;
    if (json_int(json, "num_hidden_layers", 1, VISION_BLOCKS_MOST, 16, &layers, err) < 0 ||
        json_int(json, "hidden_size", 1, 100000, 768, &v->hidden, err) < 0 ||
        json_int(json, "intermediate_size", 1, 1000000, 3072, &v->ffn, err) < 0 ||
        json_int(json, "num_attention_heads", 1, 10000, 12, &v->heads, err) < 0 ||
        json_int(json, "num_key_value_heads", 1, 10000, 12, &kv_heads, err) < 0 ||
        json_int(json, "head_dim", 1, 10000, 64, &v->head_dim, err) < 0 ||
        json_int(json, "patch_size", 1, 1000, 16, &v->patch, err) < 0 ||
        json_int(json, "pooling_kernel_size", 1, 64, 3, &v->merge, err) < 0 ||
        json_int(json, "position_embedding_size", 1, 1000000, 10240, &v->table_cols, err) < 0 ||
        json_bool(json, "standardize", false, &v->standardize, err) < 0 ||
        json_bool(json, "use_clipped_linears", false, &v->clipped, err) < 0 ||
        json_bool(json, "attention_bias", false, &bias, err) < 0 ||
        json_text(json, "hidden_activation", "gelu_pytorch_tanh", &act, err) < 0 ||
        vision_eps_read(v, json, "rms_norm_eps", 1e-6, err) < 0 ||
        vision_theta_read(v, json, 100, err) < 0)
        return -1;
    v->layers = (int)layers;
    v->times = 1;
    v->act = GELU_TANH;
    v->unscaled = true;
    if (strcmp(act, "gelu_pytorch_tanh") != 0)
        return err_set(
            err, "\"hidden_activation\" \"%s\" is not supported (known: gelu_pytorch_tanh)", act);
    if (bias) return err_set(err, "\"attention_bias\" true is not supported");
    if (kv_heads != v->heads)
        return err_set(err,
                       "\"num_key_value_heads\" %lld differs from \"num_attention_heads\" %lld; "
                       "this is not supported",
                       (long long)kv_heads, (long long)v->heads);
    if (v->head_dim % 4 == 0) return 0;
    return err_set(err,
                   "heads of width %lld cannot be rotated by rows and columns: the width must be a "
                   "multiple of 4",
                   (long long)v->head_dim);
}

// --- weights -------------------------------------------------------------------------------------

// Binds a linear layer and, if the config asks for them, its limits.
static void bind_clipped(struct binder *b, struct linear *w, struct vision_clip *clip, int64_t out,
                         int64_t in, const char *layer, const char *name)
{
    bind_linear(b, w, out, in, false, "%s.%s.linear", layer, name);
    if (!clip) return;
    bind_number(b, &clip->in_low, "%s.%s.input_min", layer, name);
    bind_number(b, &clip->in_high, "%s.%s.input_max", layer, name);
    bind_number(b, &clip->out_low, "%s.%s.output_min", layer, name);
    bind_number(b, &clip->out_high, "%s.%s.output_max", layer, name);
}

static void bind_block(struct binder *b, struct vision *v, int l)
{
    const struct vision_config *c = &v->config;
    struct vision_layer *w = &v->layer[l];
    struct vision_clip *clip = v->clip ? &v->clip[l * CLIP_COUNT] : NULL;
    const int64_t Dv = c->hidden, wide = c->heads * c->head_dim;
    const struct {
        struct linear *w;
        int64_t out, in;
        const char *name;
    } all[CLIP_COUNT] = {
        [CLIP_Q] = { &w->q, wide, Dv, "self_attn.q_proj" },
        [CLIP_K] = { &w->k, wide, Dv, "self_attn.k_proj" },
        [CLIP_V] = { &w->v, wide, Dv, "self_attn.v_proj" },
        [CLIP_OUT] = { &w->out, Dv, wide, "self_attn.o_proj" },
        [CLIP_GATE] = { &w->gate, c->ffn, Dv, "mlp.gate_proj" },
        [CLIP_UP] = { &w->up, c->ffn, Dv, "mlp.up_proj" },
        [CLIP_DOWN] = { &w->down, Dv, c->ffn, "mlp.down_proj" },
    };
    char at[64];
    snprintf(at, sizeof at, "encoder.layers.%d", l);
    bind_norm(b, &w->norm1, Dv, false, "%s.input_layernorm", at);
    bind_norm(b, &w->after1, Dv, false, "%s.post_attention_layernorm", at);
    bind_norm(b, &w->norm2, Dv, false, "%s.pre_feedforward_layernorm", at);
    bind_norm(b, &w->after2, Dv, false, "%s.post_feedforward_layernorm", at);
    bind_norm(b, &w->q_norm, c->head_dim, false, "%s.self_attn.q_norm", at);
    bind_norm(b, &w->k_norm, c->head_dim, false, "%s.self_attn.k_norm", at);
    for (int i = 0; i < CLIP_COUNT; i++)
        bind_clipped(b, all[i].w, clip ? &clip[i] : NULL, all[i].out, all[i].in, at, all[i].name);
}

static void gemma_bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    const int64_t Dv = c->hidden;
    if (c->clipped) v->clip = xcalloc((size_t)(c->layers * CLIP_COUNT), sizeof *v->clip);
    bind_matrix(b, &v->patch.weight, Dv, 3 * c->patch * c->patch,
                "patch_embedder.input_proj.weight");
    bind_folded(b, &v->position, 2 * c->table_cols, 3, (const int64_t[]){ 2, c->table_cols, Dv },
                "patch_embedder.position_embedding_table");
    for (int l = 0; l < c->layers; l++) bind_block(b, v, l);
    if (!c->standardize) return;
    bind_constant(b, &v->std_bias, Dv, "std_bias");
    bind_constant(b, &v->std_scale, Dv, "std_scale");
}

// --- the pass ------------------------------------------------------------------------------------

// Turns pixels x [S', p*p*3] from 0..1 to -1..1.
static struct tensor *gemma_pixels(struct graph *g, struct tensor *x)
{
    struct tensor *y = op_scale(g, x, 2);
    struct tensor *less = y ? graph_new2(g, DTYPE_F32, y->shape[0], y->shape[1]) : NULL;
    if (less && g->backend->fill(less, -1) < 0)
        return graph_fail(g, "fill: %s", g->backend->failure());
    return op_add(g, y, less);
}

// The positions of the rows follow those of the columns.
static struct tensor *gemma_positions(struct graph *g, const struct vision_batch *b,
                                      struct tensor *h)
{
    return vision_add_axes(g, b, h, 1, b->vision->config.table_cols);
}

// The first d/4 pairs rotate by the column, the others by the row.
static void gemma_angles(const struct vision_batch *b, float *cos_out, float *sin_out)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t half = c->head_dim / 2, quarter = half / 2;
    for (size_t k = 0; k < b->count; k++)
        for (int64_t i = b->at[k]; i < b->at[k + 1]; i++) {
            const int64_t patch = i - b->at[k], cols = b->picture[k].cols;
            const int64_t position[] = { patch % cols, patch / cols };
            for (int64_t j = 0; j < half; j++) {
                const double power = 2 * (double)(j % quarter) / (double)half;
                const float f = (float)(1 / pow(c->theta, power));
                const int64_t axis = j / quarter;
                const float angle = (float)position[axis] * f;
                cos_out[i * half + j] = (float)cos((double)angle);
                sin_out[i * half + j] = (float)sin((double)angle);
            }
        }
}

static struct tensor *limited(struct graph *g, struct tensor *x, float low, float high)
{
    return isinf(low) && isinf(high) ? x : op_clip(g, x, low, high);
}

// Applies linear layer `which` (CLIP_Q ...) of a block.
static struct tensor *clipped(struct graph *g, const struct vision_block *block, int which,
                              struct tensor *x, const struct linear *w)
{
    if (!block->clip) return linear_forward(g, x, w);
    const struct vision_clip *clip = &block->clip[which];
    x = linear_forward(g, limited(g, x, clip->in_low, clip->in_high), w);
    return limited(g, x, clip->out_low, clip->out_high);
}

// Puts the quarters of the heads of x [S', heads, d] in the order that op_rope needs, (0, 2, 1, 3),
// and rotates them. The order of queries and keys alike changes no score.
static struct tensor *rotated(struct graph *g, const struct vision_block *block, struct tensor *x)
{
    if (!x || !graph_ok(g)) return NULL;
    const int64_t n = x->shape[0], heads = x->shape[1], d = x->shape[2], quarter = d / 4;
    x = graph_view(g, x, 2, (int64_t[]){ n * heads, d });
    const struct column_part part[] = { { x, { 0, 1, quarter } },
                                        { x, { 2 * quarter, 1, quarter } },
                                        { x, { quarter, 1, quarter } },
                                        { x, { 3 * quarter, 1, quarter } } };
    x = op_columns_of(g, n * heads, part, 4);
    return x ? op_rope(g, graph_view3(g, x, n, heads, d), block->cos, block->sin) : NULL;
}

// Views the columns of x [S', heads*d] as heads.
static struct tensor *heads_of(struct graph *g, const struct vision_config *c, struct tensor *x)
{
    return x ? graph_view3(g, x, x->shape[0], c->heads, c->head_dim) : NULL;
}

static struct tensor *gemma_block(struct graph *g, const struct vision_block *block,
                                  struct tensor *h)
{
    const struct vision_config *c = block->config;
    const struct vision_layer *w = block->w;
    const float eps = (float)c->eps;

    // h += after1(out(attention(norm1 h)))
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *x = norm_forward(g, h, &w->norm1, c->eps); // [S', Dv]
    struct tensor *q = heads_of(g, c, clipped(g, block, CLIP_Q, x, &w->q));
    struct tensor *k = heads_of(g, c, clipped(g, block, CLIP_K, x, &w->k));
    struct tensor *v = heads_of(g, c, clipped(g, block, CLIP_V, x, &w->v)); // [S', heads, d]
    q = rotated(g, block, op_rmsnorm(g, q, graph_weight(&w->q_norm.gain), eps));
    k = rotated(g, block, op_rmsnorm(g, k, graph_weight(&w->k_norm.gain), eps));
    v = op_rmsnorm_plain(g, v, eps);
    if (block->focus) vision_focus_add(g, block->focus, q, k, block->seen.first, block->seen.end);
    x = op_attention(g, q, k, v, block->seen.first, block->seen.end, 1, NULL);
    if (x) x = graph_view(g, x, 2, (int64_t[]){ x->shape[0], c->heads * c->head_dim });
    x = clipped(g, block, CLIP_OUT, x, &w->out);
    h = op_add(g, h, norm_forward(g, x, &w->after1, c->eps));
    graph_scratch_end(g, scratch);

    // h += after2(down(gelu(gate(x)) * up(x))), x = norm2 h
    scratch = graph_scratch_begin(g);
    x = norm_forward(g, h, &w->norm2, c->eps);
    struct tensor *gate = clipped(g, block, CLIP_GATE, x, &w->gate); // [S', ffn]
    x = op_geglu(g, gate, clipped(g, block, CLIP_UP, x, &w->up));
    x = clipped(g, block, CLIP_DOWN, x, &w->down);
    h = op_add(g, h, norm_forward(g, x, &w->after2, c->eps));
    graph_scratch_end(g, scratch);
    return h;
}

// Turns cells of merge x merge patches into features [S, Dv].
static struct tensor *gemma_features(struct graph *g, const struct vision_batch *b,
                                     struct tensor *h)
{
    const struct vision *v = b->vision;
    const int64_t k = v->config.merge, size = k * k;
    const float share = sqrtf((float)v->config.hidden) / (float)size;
    int32_t *index = xreallocarray(NULL, (size_t)b->rows + 1, sizeof *index);
    float *weight = xreallocarray(NULL, (size_t)b->rows + 1, sizeof *weight);
    int64_t n = 0;
    for (size_t i = 0; i < b->count; i++) {
        const int64_t cols = b->picture[i].cols / k, cells = b->picture[i].rows / k * cols;
        for (int64_t cell = 0; cell < cells; cell++)
            for (int64_t in = 0; in < size; in++, n++) {
                const int64_t row = cell / cols * k + in / k, col = cell % cols * k + in % k;
                index[n] = (int32_t)(b->at[i] + row * b->picture[i].cols + col);
                weight[n] = share;
            }
    }
    h = op_blend_rows(g, h, index, weight, n / size, size);
    free(index);
    free(weight);
    if (!v->config.standardize) return h;
    struct tensor *less = op_scale(g, graph_weight(&v->std_bias), -1);
    if (less) h = linear_add_bias(g, h, less);
    return op_scale_columns(g, h, graph_weight(&v->std_scale));
}

const struct vision_kind vision_gemma = {
    .model_types = (const char *const[]){ "gemma4_vision", NULL },
    .read = gemma_read,
    .patch_weight = "patch_embedder.input_proj.weight",
    .bind = gemma_bind,
    .row_by_row = true,
    .pixels = gemma_pixels,
    .positions = gemma_positions,
    .angles = gemma_angles,
    .block = gemma_block,
    .features = gemma_features,
    .feature_rows = vision_cells,
};
