// core/model/vision_moon.c -- MoonViT, the encoder of Kimi-VL (arXiv 2504.07491, section 2.1),
// which the `llava` family accepts too: pictures of any size, learned positions resampled to the
// picture's grid, 2-D rotary positions.
//
//   patches [S', 3*p*p], row by row -> linear -> + positions
//   -> blocks: LayerNorm, attention over the whole picture, FFN with GELU
//   -> LayerNorm -> cell by cell of merge x merge, which the projector joins
//
// Easy to get wrong: pair (2j, 2j + 1) of a head rotates by the column for even j, by the row for
// odd j, with frequency number j / 2 of d/4.
#include <math.h>
#include <stdio.h>

#include "core/model/vision.h"

// --- config --------------------------------------------------------------------------------------

static int moon_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const struct vision_sizes usual = {
        .layers = 27, .hidden = 1152, .ffn = 4304, .heads = 16, .patch = 14
    };
    v->eps = 1e-5; // no config gives it
    v->times = 1;
    v->patch_bias = true;
    if (vision_sizes_read(v, &usual, json, err) < 0) return -1;
    const cJSON *list = json_get(json, "merge_kernel_size"); // [n, n]
    v->merge = list ? json_whole(cJSON_GetArrayItem(list, 0), 0) : 2;
    if (list && (!cJSON_IsArray(list) || json_whole(cJSON_GetArrayItem(list, 1), 0) != v->merge ||
                 v->merge < 1 || v->merge > 16))
        return err_set(err, "\"merge_kernel_size\" must be a pair of equal numbers from 1 to 16");
    // The size of the position table: Kimi-VL and Kimi-K2.5 have different keys.
    const bool newer = json_get(json, "pos_emb_height") != NULL;
    const char *const rows = newer ? "pos_emb_height" : "init_pos_emb_height";
    const char *const cols = newer ? "pos_emb_width" : "init_pos_emb_width";
    if (json_int(json, rows, 1, 10000, 64, &v->table_rows, err) < 0 ||
        json_int(json, cols, 1, 10000, 64, &v->table_cols, err) < 0)
        return -1;
    return gelu_form_read(&v->act, json, "hidden_act", "gelu_pytorch_tanh", err);
}

// --- pictures ------------------------------------------------------------------------------------

// Reads Kimi-K2.5's "size": {"max_height": patches, "max_width": patches}. Kimi-VL has no such
// limit, but its table of rotary positions has 512 rows and columns.
static int read_side(struct picture_config *p, const cJSON *json, struct err *err)
{
    const cJSON *size;
    int64_t height, width;
    p->limit_side = 512;
    if (json_object(json, "size", &size, err) < 0) return -1;
    if (!size) return 0;
    if (size->child && !(json_get(size, "max_height") && json_get(size, "max_width")))
        return err_set(err, "\"size\" must have max_height and max_width, in patches");
    if (json_int(size, "max_height", 1, 512, 512, &height, err) < 0 ||
        json_int(size, "max_width", 1, 512, 512, &width, err) < 0)
        return -1;
    if (height != width) return err_set(err, "\"max_height\" and \"max_width\" must be equal");
    p->most_side = height;
    p->limit_side = 0;
    return 0;
}

// Checks that the merge size equals that of the encoder's config.
static int check_merge(const struct vision_config *v, const cJSON *json, struct err *err)
{
    const cJSON *side;
    if (vision_check_equal(json, "merge_size", v->merge, err) < 0) return -1; // Kimi-K2.5's key
    cJSON_ArrayForEach(side, json_get(json, "merge_kernel_size"))
    {
        if (!cJSON_IsNumber(side) || side->valuedouble != (double)v->merge)
            return err_set(err, "\"merge_kernel_size\" differs from the encoder's %lld x %lld",
                           (long long)v->merge, (long long)v->merge);
    }
    return 0;
}

static int moon_read_pictures(struct picture_config *p, const struct vision_config *v,
                              const cJSON *json, struct err *err)
{
    *p = vision_picture_defaults(v, FIT_PATCHES);
    p->patch = v->patch;
    p->multiple = v->patch * v->merge;
    const char *key = json_get(json, "max_patches") ? "max_patches" : "in_token_limit";
    bool pad;
    if (picture_config_read_shared(p, json, err) < 0 ||
        json_int(json, key, 1, 10000000, 4096, &p->most_patches, err) < 0 ||
        vision_check_equal(json, "patch_size", p->patch, err) < 0 ||
        json_bool(json, "pad_input", true, &pad, err) < 0 || read_side(p, json, err) < 0)
        return -1;
    if (!pad) return err_set(err, "\"pad_input\" false is not supported");
    if (check_merge(v, json, err) < 0) return -1;
    return p->resize ? 0 : err_set(err, "\"do_resize\" false is not supported");
}

// --- weights -------------------------------------------------------------------------------------

static void moon_bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    const int64_t Dv = c->hidden;
    bind_squares(b, &v->patch.weight, c->hidden, 3, c->patch, "patch_embed.proj.weight");
    bind_vector(b, &v->patch.bias, c->hidden, "patch_embed.proj.bias");
    bind_folded(b, &v->position, c->table_rows * c->table_cols, 3,
                (const int64_t[]){ c->table_rows, c->table_cols, c->hidden },
                "patch_embed.pos_emb.weight");
    for (int l = 0; l < c->layers; l++) {
        struct vision_layer *w = &v->layer[l];
        char block[64];
        snprintf(block, sizeof block, "encoder.blocks.%d", l);
        bind_norm(b, &w->norm1, Dv, true, "%s.norm0", block);
        vision_bind_qkv(b, w, Dv, true, block, "wqkv");
        bind_linear(b, &w->out, Dv, Dv, true, "%s.wo", block);
        bind_norm(b, &w->norm2, Dv, true, "%s.norm1", block);
        bind_linear(b, &w->fc1, c->ffn, Dv, true, "%s.mlp.fc0", block);
        bind_linear(b, &w->fc2, Dv, c->ffn, true, "%s.mlp.fc1", block);
    }
    bind_norm(b, &v->post, c->hidden, true, "encoder.final_layernorm");
}

// --- the pass ------------------------------------------------------------------------------------

static void moon_angles(const struct vision_batch *b, float *cos_out, float *sin_out)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t half = c->hidden / c->heads / 2;
    for (size_t k = 0; k < b->count; k++)
        for (int64_t i = b->at[k]; i < b->at[k + 1]; i++) {
            const int64_t patch = i - b->at[k], cols = b->picture[k].cols;
            const int64_t position[] = { patch % cols, patch / cols };
            for (int64_t j = 0; j < half; j++) {
                const int64_t number = j / 2;
                const float f = (float)(1 / pow(10000, 2 * (double)number / (double)half));
                const float angle = (float)position[j % 2] * f;
                cos_out[i * half + j] = (float)cos((double)angle);
                sin_out[i * half + j] = (float)sin((double)angle);
            }
        }
}

const struct vision_kind vision_moon = {
    .model_types = (const char *const[]){ "moonvit", "kimi_k25_vision", NULL },
    .read = moon_read,
    .read_pictures = moon_read_pictures,
    .picture_processors = (const char *const[]){ "Kimi", "MoonViT", NULL },
    .picture_keys =
        (const char *const[]){ PICTURE_SHARED_KEYS, "size", "in_token_limit", "max_patches",
                               "patch_size", "pad_input", "merge_kernel_size", "merge_size", NULL },
    .patch_weight = "patch_embed.proj.weight",
    .bind = moon_bind,
    .angles = moon_angles,
    .adjacent_pairs = true,
    .row_by_row = true,
    .post_norm = true,
    .features = vision_gather_cells,
};
