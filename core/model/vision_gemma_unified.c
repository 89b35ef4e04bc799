// core/model/vision_gemma_unified.c -- how Gemma 4 12B ("unified") reads pictures: it has no
// encoder. Each patch becomes a visual token by one linear layer, and attends to others only in the
// decoder.
//
//   patches [S, p*p*3], row by row, 0..1 -> norm -> linear -> norm -> + positions of column and row
//   -> norm
//
// p is "patch_size" times "pooling_kernel_size". The norms are LayerNorms.
//
// Easy to get wrong: the table [P, 2, Dv] alternates positions of columns and of rows; the channels
// of a patch are its last axis.
#include "core/model/vision.h"

static int unified_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    int64_t patch, pool, out;
    if (json_int(json, "patch_size", 1, 1000, 16, &patch, err) < 0 ||
        json_int(json, "pooling_kernel_size", 1, 64, 3, &pool, err) < 0 ||
        json_int(json, "mm_embed_dim", 1, 100000, 3840, &v->hidden, err) < 0 ||
        json_int(json, "mm_posemb_size", 1, 1000000, 1120, &v->table_cols, err) < 0 ||
        json_int(json, "output_proj_dims", 1, 100000, 3840, &out, err) < 0 ||
        vision_eps_read(v, json, "rms_norm_eps", 1e-6, err) < 0)
        return -1;
    v->patch = patch * pool;
    v->patch_bias = v->norm_bias = true;
    v->heads = v->times = v->merge = 1;
    if (out != v->hidden)
        return err_set(err,
                       "\"output_proj_dims\" %lld differs from \"mm_embed_dim\" %lld; this is not "
                       "supported",
                       (long long)out, (long long)v->hidden);
    return vision_check_equal(json, "model_patch_size", v->patch, err);
}

static void unified_bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    const int64_t Dv = c->hidden, pixels = 3 * c->patch * c->patch;
    bind_norm(b, &v->pixel_norm, pixels, true, "patch_ln1");
    bind_linear(b, &v->patch, Dv, pixels, true, "patch_dense");
    bind_norm(b, &v->patch_norm, Dv, true, "patch_ln2");
    bind_folded(b, &v->position, 2 * c->table_cols, 3, (const int64_t[]){ c->table_cols, 2, Dv },
                "pos_embedding");
    bind_norm(b, &v->pre, Dv, true, "pos_norm");
}

static struct tensor *unified_positions(struct graph *g, const struct vision_batch *b,
                                        struct tensor *h)
{
    return vision_add_axes(g, b, h, 2, 1);
}

const struct vision_kind vision_gemma_unified = {
    .model_types = (const char *const[]){ "gemma4_unified_vision", NULL },
    .read = unified_read,
    .patch_weight = "patch_dense.weight",
    .bind = unified_bind,
    .row_by_row = true,
    .positions = unified_positions,
};
