// core/model/vision_positions.c -- a learned table of positions, resampled to the grid of each
// picture.
//
// Every patch is the sum of 4 x 4 rows of the table, weighted by Keys' cubic kernel with a = -0.75
// (torch.nn.functional.interpolate, bicubic, align_corners false): one gather and one weighted sum
// for each of the 16, so that gradients reach the table. On a grid of the table's own size the
// weights are 0 and 1, and the rows are the table's.
#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/vision.h"
#include "core/ops/ops.h"

enum { TAPS = 4 };

// Rows or columns of the table that a row or column of the grid is made of.
struct taps {
    int64_t at[TAPS];
    double weight[TAPS];
};

static double cubic(double x)
{
    const double a = -0.75;
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

// Number i of n, on a table of `size`.
static struct taps taps_of(int64_t i, int64_t n, int64_t size)
{
    const double centre = ((double)i + 0.5) * (double)size / (double)n - 0.5;
    const double first = floor(centre) - 1;
    struct taps t;
    for (int k = 0; k < TAPS; k++) {
        const int64_t at = (int64_t)first + k;
        t.at[k] = at < 0 ? 0 : at >= size ? size - 1 : at;
        t.weight[k] = cubic(centre - first - k);
    }
    return t;
}

// Tap (y, x) of every patch of the batch.
static void tap_rows(const struct vision_batch *b, int y, int x, int32_t *row, float *weight)
{
    const struct vision_config *c = &b->vision->config;
    for (size_t k = 0; k < b->count; k++) {
        const struct vision_picture *p = &b->picture[k];
        for (int64_t i = 0; i < p->rows * p->cols; i++) {
            const struct taps down = taps_of(i / p->cols, p->rows, c->table_rows);
            const struct taps along = taps_of(i % p->cols, p->cols, c->table_cols);
            row[b->at[k] + i] = (int32_t)(down.at[y] * c->table_cols + along.at[x]);
            weight[b->at[k] + i] = (float)(down.weight[y] * along.weight[x]);
        }
    }
}

struct tensor *vision_resampled_positions(struct graph *g, const struct vision_batch *b)
{
    const int64_t n = b->rows;
    int32_t *row = xreallocarray(NULL, (size_t)n, 2 * sizeof *row), *each = row + n;
    float *weight = xreallocarray(NULL, (size_t)n, sizeof *weight);
    struct tensor *table = op_widen(g, graph_weight(&b->vision->position));
    struct tensor *sum = graph_new2(g, DTYPE_F32, n, b->vision->config.hidden);
    if (sum && g->backend->fill(sum, 0) < 0) graph_fail(g, "%s", g->backend->failure());
    for (int64_t i = 0; i < n; i++) each[i] = (int32_t)i;
    for (int tap = 0; tap < TAPS * TAPS && graph_ok(g); tap++) {
        struct arena_mark scratch = graph_scratch_begin(g);
        tap_rows(b, tap / TAPS, tap % TAPS, row, weight);
        struct tensor *w = graph_upload(g, DTYPE_F32, 1, &n, weight);
        sum = op_add_weighted_rows(g, sum, op_gather_rows(g, table, row, n), each, w);
        graph_scratch_end(g, scratch);
    }
    free(row);
    free(weight);
    return graph_ok(g) ? sum : NULL;
}
