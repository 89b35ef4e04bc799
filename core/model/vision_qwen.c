// core/model/vision_qwen.c -- the encoder of Qwen2.5-VL (arXiv 2502.13923, section 2.1): pictures
// of any size; most blocks attend within windows.
//
//   patches [S', 3*times*p*p] -> linear -> reordered by windows
//   -> blocks: RMSNorm, 2-D rotary positions, attention within windows (whole pictures in some
//      blocks), gated FFN
//
// Easy to get wrong: the merge x merge patches of a visual token (a cell) stay together. Windows
// tile the picture's grid of cells row by row, with partial windows at the right and bottom; within
// a window, cells go row by row. The projector works in that order; vision_in_sequence restores the
// sequence order of its rows.
#include "core/model/vision.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

// --- config --------------------------------------------------------------------------------------

static int read_windows(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const int usual[] = { 7, 15, 23, 31 };
    const cJSON *list = json_get(json, "fullatt_block_indexes"), *item;
    int64_t pixels;
    if (json_int(json, "window_size", 1, 100000, 112, &pixels, err) < 0) return -1;
    v->window = pixels / v->merge / v->patch;
    if (v->window < 1)
        return err_set(err, "\"window_size\" %lld is less than a visual token", (long long)pixels);
    if (list && !cJSON_IsArray(list))
        return err_set(err, "\"fullatt_block_indexes\" must be a list of blocks");
    for (size_t i = 0; !list && i < sizeof usual / sizeof *usual; i++)
        v->whole[usual[i] / 64] |= UINT64_C(1) << usual[i] % 64;
    cJSON_ArrayForEach(item, list)
    {
        const int64_t block = json_whole(item, -1);
        if (block < 0 || block >= VISION_BLOCKS_MOST)
            return err_set(err, "\"fullatt_block_indexes\" must be a list of blocks");
        v->whole[block / 64] |= UINT64_C(1) << block % 64;
    }
    return 0;
}

static int qwen_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const struct vision_sizes usual = {
        .short_keys = true, .layers = 32, .hidden = 3584, .ffn = 3420, .heads = 16, .patch = 14
    };
    const char *act;
    v->eps = 1e-6; // no config gives it
    if (vision_sizes_read(v, &usual, json, err) < 0 ||
        json_int(json, "spatial_merge_size", 1, 16, 2, &v->merge, err) < 0 ||
        json_int(json, "temporal_patch_size", 1, 16, 2, &v->times, err) < 0 ||
        json_int(json, "out_hidden_size", 1, 1000000, 3584, &v->out, err) < 0 ||
        read_windows(v, json, err) < 0 || json_text(json, "hidden_act", "silu", &act, err) < 0)
        return -1;
    if (strcmp(act, "silu") != 0)
        return err_set(err, "\"hidden_act\" \"%s\" is not supported (known: silu)", act);
    return 0;
}

// --- weights -------------------------------------------------------------------------------------

static void qwen_bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    bind_folded(b, &v->patch.weight, c->hidden, 5,
                (const int64_t[]){ c->hidden, 3, c->times, c->patch, c->patch },
                "patch_embed.proj.weight");
    for (int l = 0; l < c->layers; l++) vision_bind_gated(b, &v->layer[l], c, l, true);
}

// --- windows -------------------------------------------------------------------------------------

// Lists the cells of a picture window by window: cell[i] is a cell's index in the grid, row by row.
// With `ends`, also sets begins[i] and ends[i], the range of i that covers the window of cell[i].
static void window_cells(const struct vision_config *c, const struct vision_picture *p,
                         int32_t *cell, int32_t *begins, int32_t *ends)
{
    const int64_t rows = p->rows / c->merge, cols = p->cols / c->merge, side = c->window;
    int64_t n = 0;
    for (int64_t top = 0; top < rows; top += side)
        for (int64_t left = 0; left < cols; left += side) {
            const int64_t begin = n;
            for (int64_t row = top; row < rows && row < top + side; row++)
                for (int64_t col = left; col < cols && col < left + side; col++)
                    cell[n++] = (int32_t)(row * cols + col);
            for (int64_t i = begin; ends && i < n; i++) {
                begins[i] = (int32_t)begin;
                ends[i] = (int32_t)n;
            }
        }
}

static void qwen_order(const struct vision_config *c, const struct vision_picture *p,
                       int32_t *token)
{
    window_cells(c, p, token, NULL, NULL);
}

static bool qwen_windowed(const struct vision_config *c, int block)
{
    return !(c->whole[block / 64] >> block % 64 & 1);
}

static void qwen_windows(const struct vision_batch *b, int32_t *first, int32_t *end)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t size = c->merge * c->merge;
    int32_t *list = xreallocarray(NULL, (size_t)b->rows, 3 * sizeof *list);
    for (size_t k = 0; k < b->count; k++) {
        const int64_t at = b->at[k], n = b->at[k + 1] - at, cells = n / size;
        int32_t *begins = list + cells, *ends = begins + cells;
        window_cells(c, &b->picture[k], list, begins, ends);
        for (int64_t i = 0; i < n; i++) {
            first[at + i] = (int32_t)(at + begins[i / size] * size);
            end[at + i] = (int32_t)(at + ends[i / size] * size);
        }
    }
    free(list);
}

const struct vision_kind vision_qwen = {
    .model_types = (const char *const[]){ "qwen2_5_vl", "qwen2_5_vl_vision", NULL },
    .read = qwen_read,
    .patch_weight = "patch_embed.proj.weight",
    .bind = qwen_bind,
    .angles = vision_plane_angles,
    .windowed = qwen_windowed,
    .windows = qwen_windows,
    .order = qwen_order,
};
