// core/model/vision_resample.c -- resamples learned positions to a grid of a different size.
//
// Patch i of n along an axis is at x = (i + 0.5) side / n - 0.5 of the learned grid. It gets the
// sum of its four neighbours there, weighted by the cubic of Keys (1981) with a = -0.75. Beyond the
// border, the border repeats. PyTorch's grid_sample and interpolate (bicubic, align_corners false)
// do the same. Over both axes this sums 16 rows of the table. Adding one neighbour at a time lets
// gradients flow back and needs no table per pair of sizes.
//
// With kind->aligned (Qwen3-VL), patch i is at x = i (side - 1) / (n - 1), and the sum is that of
// two neighbours, weighted by 1 - |distance|.
#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/vision.h"
#include "core/ops/check.h"
#include "core/ops/ops.h"

// Returns the weight of a neighbour at distance t.
static double cubic(double t)
{
    const double a = -0.75;
    t = fabs(t);
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
}

// Returns the index of neighbour k of 4 (aligned: of 2) along an axis, and sets its weight.
static int64_t neighbour(bool aligned, int64_t i, int64_t n, int64_t side, int k, double *weight)
{
    const double x = aligned ? (double)i * (double)(side - 1) / (double)(n > 1 ? n - 1 : 1)
                             : ((double)i + 0.5) * (double)side / (double)n - 0.5;
    const int64_t at = (int64_t)floor(x) - !aligned + k;
    *weight = aligned ? 1 - fabs(x - (double)at) : cubic(x - (double)at);
    return at < 0 ? 0 : at < side ? at : side - 1;
}

// Lists neighbour (k, l) of every patch: its row of the table, and its weight.
static void neighbours(const struct vision_batch *b, int k, int l, int32_t *row, float *weight)
{
    const struct vision_config *c = &b->vision->config;
    for (size_t p = 0; p < b->count; p++)
        for (int64_t i = b->at[p]; i < b->at[p + 1]; i++) {
            const struct vision_picture *picture = &b->picture[p];
            int64_t y, x;
            double by_row, by_col;
            vision_grid_position(c, picture, i - b->at[p], &y, &x);
            y = neighbour(c->kind->aligned, y, picture->rows, c->table_rows, k, &by_row);
            x = neighbour(c->kind->aligned, x, picture->cols, c->table_cols, l, &by_col);
            row[i] = (int32_t)(y * c->table_cols + x);
            weight[i] = (float)(by_row * by_col);
        }
}

struct tensor *vision_resampled(struct graph *g, const struct vision_batch *b)
{
    struct tensor *table = op_widen(g, graph_weight(&b->vision->position));
    const size_t n = (size_t)b->rows;
    const int taps = b->vision->config.kind->aligned ? 2 : 4;
    int32_t *row = xreallocarray(NULL, n, sizeof *row),
            *same = xreallocarray(NULL, n, sizeof *same);
    float *weight = xreallocarray(NULL, n, sizeof *weight);
    struct tensor *sum = graph_new2(g, DTYPE_F32, b->rows, b->vision->config.hidden);
    if (sum) op_done(g, "fill", g->backend->fill(sum, 0), sum);
    for (size_t i = 0; i < n; i++) same[i] = (int32_t)i;
    for (int i = 0; i < taps * taps && sum && graph_ok(g); i++) {
        struct arena_mark scratch = graph_scratch_begin(g);
        neighbours(b, i / taps, i % taps, row, weight);
        struct tensor *by = graph_upload(g, DTYPE_F32, 1, &b->rows, weight);
        sum = op_add_weighted_rows(g, sum, op_gather_rows(g, table, row, b->rows), same, by);
        graph_scratch_end(g, scratch);
    }
    free(row);
    free(same);
    free(weight);
    return sum;
}
