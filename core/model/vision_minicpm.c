// core/model/vision_minicpm.c -- MiniCPM-V 4.6's encoder: SigLIP for pictures of any size, which
// may join windows of patches between two blocks.
//
//   patches [S', 3*p*p], tile by tile, row by row -> linear -> + positions of their places
//   -> blocks; after block config.join, for pictures with 16 patches per visual token:
//     h = windows of 2 x 2 patches; h += out(attention(norm1 h)) within each window
//     h = mean of the window + fc2(gelu(fc1(norm2(the window as one row))))
//   -> LayerNorm -> windows of 2 x 2 rows joined, [S, 4*Dv], for the projector
//
// Easy to get wrong: the top level of config.json, not vision_config, has the block's number; the
// GELU here is the tanh form, the projector's is not.
#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/vision.h"
#include "core/ops/ops.h"

// --- config --------------------------------------------------------------------------------------

static int minicpm_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const struct vision_sizes usual = {
        .layers = 12, .hidden = 768, .ffn = 3072, .heads = 12, .patch = 16
    };
    int64_t side;
    v->patch_bias = true;
    v->merge = 2;
    v->times = 1;
    if (vision_sizes_read(v, &usual, json, err) < 0 ||
        json_int(json, "image_size", v->patch, 10000, 224, &side, err) < 0 ||
        gelu_form_read(&v->act, json, "hidden_act", "gelu_pytorch_tanh", err) < 0 ||
        vision_eps_read(v, json, "layer_norm_eps", 1e-6, err) < 0)
        return -1;
    v->table_rows = v->table_cols = side / v->patch;
    return vision_check_square(json, "window_kernel_size", v->merge, err);
}

// --- weights -------------------------------------------------------------------------------------

static void minicpm_bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    const int64_t Dv = c->hidden, size = c->merge * c->merge;
    struct vision_layer *w = &v->window;
    vision_bind_siglip(v, b);
    if (c->join < 0) return;
    bind_norm(b, &w->norm1, Dv, true, "vit_merger.layer_norm1");
    bind_linear(b, &w->q, Dv, Dv, true, "vit_merger.self_attn.q_proj");
    bind_linear(b, &w->k, Dv, Dv, true, "vit_merger.self_attn.k_proj");
    bind_linear(b, &w->v, Dv, Dv, true, "vit_merger.self_attn.v_proj");
    bind_linear(b, &w->out, Dv, Dv, true, "vit_merger.self_attn.out_proj");
    bind_norm(b, &w->norm2, size * Dv, true, "vit_merger.pre_norm");
    bind_linear(b, &w->fc1, size * c->ffn, size * Dv, true, "vit_merger.linear_1");
    bind_linear(b, &w->fc2, Dv, size * c->ffn, true, "vit_merger.linear_2");
}

// --- the pass ------------------------------------------------------------------------------------

// Computes one row [n, Dv] of each window of `size` rows of h.
static struct tensor *join_rows(struct graph *g, const struct vision *v, struct tensor *h,
                                int64_t size)
{
    const struct vision_config *c = &v->config;
    const struct vision_layer *w = &v->window;
    if (!h || !graph_ok(g)) return NULL;
    const int64_t rows = h->shape[0], n = rows / size, d = c->hidden / c->heads;
    int32_t *first = xreallocarray(NULL, (size_t)rows + 1, sizeof *first);
    int32_t *end = xreallocarray(NULL, (size_t)rows + 1, sizeof *end);
    int32_t *index = xreallocarray(NULL, (size_t)rows + 1, sizeof *index);
    float *share = xreallocarray(NULL, (size_t)rows + 1, sizeof *share);
    for (int64_t i = 0; i < rows; i++) {
        first[i] = (int32_t)(i / size * size);
        end[i] = (int32_t)(first[i] + size);
        index[i] = (int32_t)i;
        share[i] = 1 / (float)size;
    }
    struct tensor *x = norm_forward(g, h, &w->norm1, c->eps); // [S', Dv]
    const struct linear *const of[] = { &w->q, &w->k, &w->v };
    struct tensor *part[3];
    for (int i = 0; i < 3; i++) {
        part[i] = linear_forward(g, x, of[i]);
        if (part[i]) part[i] = graph_view3(g, part[i], rows, c->heads, d);
    }
    x = op_attention(g, part[0], part[1], part[2], graph_upload(g, DTYPE_I32, 1, &rows, first),
                     graph_upload(g, DTYPE_I32, 1, &rows, end), 1 / sqrtf((float)d), NULL);
    if (x) x = graph_view(g, x, 2, (int64_t[]){ rows, c->hidden });
    h = op_add(g, h, linear_forward(g, x, &w->out));

    x = h ? graph_view(g, h, 2, (int64_t[]){ n, size * c->hidden }) : NULL;
    x = linear_gelu(g, norm_forward(g, x, &w->norm2, c->eps), &w->fc1, GELU_TANH); // [n, 4*ffn]
    x = linear_forward(g, x, &w->fc2);                                             // [n, Dv]
    h = op_add(g, op_blend_rows(g, h, index, share, n, size), x);
    free(first);
    free(end);
    free(index);
    free(share);
    return h;
}

// Joins windows in blocks, so that thousands of patches take little memory. A tape keeps everything
// anyway.
static struct tensor *minicpm_join(struct graph *g, const struct vision_batch *b, struct tensor *h)
{
    enum { WINDOWS = 1024 };
    const struct vision_config *c = &b->vision->config;
    const int64_t size = c->merge * c->merge, n = b->rows / size;
    for (size_t i = 0; i < b->count; i++)
        if (b->picture[i].joins != b->picture[0].joins)
            BUG("pictures of one pass differ in whether their windows are joined");
    if (!b->count || !b->picture[0].joins || !h || !graph_ok(g)) return h;
    if (g->tape) return join_rows(g, b->vision, vision_gather_cells(g, b, h), size);
    struct tensor *all = graph_new2(g, DTYPE_F32, n, c->hidden);
    struct arena_mark scratch = graph_scratch_begin(g);
    h = vision_gather_cells(g, b, h); // [n*size, Dv]
    for (int64_t i = 0, m; i < n && graph_ok(g); i += m) {
        m = n - i < WINDOWS ? n - i : WINDOWS;
        struct arena_mark rows = graph_scratch_begin(g);
        op_copy_rows_into(g, all, i,
                          join_rows(g, b->vision, graph_rows(g, h, i * size, m * size), size));
        graph_scratch_end(g, rows);
    }
    graph_scratch_end(g, scratch);
    return all;
}

static int64_t minicpm_rows(const struct vision_config *c, const struct vision_picture *p)
{
    const struct vision_picture joined = vision_joined(c, p);
    return vision_cells(c, &joined);
}

const struct vision_kind vision_minicpm = {
    .model_types = (const char *const[]){ "minicpmv4_6_vision", NULL },
    .read = minicpm_read,
    .patch_weight = "embeddings.patch_embedding.weight",
    .bind = minicpm_bind,
    .row_by_row = true,
    .buckets = true,
    .join = minicpm_join,
    .post_norm = true,
    .features = vision_join_cells,
    .feature_rows = minicpm_rows,
    .feature_width = vision_cell_width,
};
