// core/model/vision_cells.c -- features of merge x merge neighbouring patches joined to one row, so
// that a picture gives fewer visual tokens.
//
// Joining is what the references call pixel shuffle. The step easy to get wrong is its order: cells
// row by row; in a cell of 2 x 2 (2r, 2c), (2r, 2c+1), (2r+1, 2c), (2r+1, 2c+1).
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/vision.h"
#include "core/ops/ops.h"

// The rows of the stream that one tile from row `at` on gives, cell by cell; returns their number.
static int64_t cell_rows(const struct vision_config *c, const struct vision_picture *p, int64_t at,
                         int32_t *row)
{
    const int64_t k = c->merge;
    int64_t n = 0;
    for (int64_t cell = 0; cell < (p->rows / k) * (p->cols / k); cell++)
        for (int64_t i = 0; i < k * k; i++) {
            const int64_t r = cell / (p->cols / k) * k + i / k,
                          s = cell % (p->cols / k) * k + i % k;
            row[n++] = (int32_t)(at + c->class_token + r * p->cols + s);
        }
    return n;
}

struct tensor *vision_join_cells(struct graph *g, const struct vision_batch *b, struct tensor *h)
{
    const struct vision_config *c = &b->vision->config;
    int32_t *row = xreallocarray(NULL, (size_t)b->rows, sizeof *row);
    int64_t n = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct vision_picture *p = &b->picture[i];
        for (int64_t t = 0; t < p->tiles; t++)
            n += cell_rows(c, p, b->at[i] + t * vision_tile_rows(c, p), row + n);
    }
    h = op_gather_rows(g, h, row, n); // [S*merge*merge, Dv]
    free(row);
    return h ? graph_view(g, h, 2, (int64_t[]){ n / c->merge / c->merge, vision_cell_width(c) })
             : NULL;
}

int64_t vision_cells(const struct vision_config *c, const struct vision_picture *p)
{
    return p->tiles * (p->rows / c->merge) * (p->cols / c->merge);
}

int64_t vision_cell_width(const struct vision_config *c)
{
    return c->merge * c->merge * c->hidden;
}
