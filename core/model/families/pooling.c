// core/model/families/pooling.c -- averages the grids of a picture's visual tokens.
//
// A picture's tokens belong to its tiles, or lie before, between or after them. A list describes
// each tile before and after pooling; everything else follows from it.
#include "core/model/families/pooling.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/ops/ops.h"
#include "core/template/message.h"

struct pooled {
    struct picture_tile was, now;
};

static void pooled_size(const struct picture_tile *t, double share, int64_t *rows, int64_t *cols)
{
    const int64_t most = llrint(share * (double)(t->rows * t->cols));
    *rows = (int64_t)floor((double)t->rows * sqrt(share) + 1e-9);
    if (*rows < 1) *rows = t->rows > 0;
    *cols = *rows ? most / *rows : 0;
    if (*cols > t->cols) *cols = t->cols;
    if (*cols < 1) *cols = t->cols > 0;
}

// Returns the number of tokens of a tile, including the newline tokens after its rows.
static int64_t tile_tokens(const struct picture_tile *t)
{
    return t->rows * t->pitch;
}

// Lists the tiles of a picture in token order; the caller frees the list. *tokens: the number of
// tokens that remain.
static struct pooled *pooled_list(const struct model *m, struct picture_shape shape, int *count,
                                  int64_t *tokens)
{
    const struct picture_kind *k = m->family->pictures;
    *count = k->tiles ? k->tiles(m, shape, NULL, 0) : 0;
    struct picture_tile *tiles = xcalloc((size_t)*count + 1, sizeof *tiles);
    struct pooled *list = xcalloc((size_t)*count + 1, sizeof *list);
    if (*count) k->tiles(m, shape, tiles, *count);
    int64_t fewer = 0;
    for (int i = 0; i < *count; i++) {
        struct pooled *p = &list[i];
        p->was = p->now = tiles[i];
        pooled_size(&p->was, shape.share, &p->now.rows, &p->now.cols);
        p->now.pitch = p->now.cols + p->was.pitch - p->was.cols;
        p->now.first = p->was.first - fewer;
        fewer += tile_tokens(&p->was) - tile_tokens(&p->now);
    }
    *tokens = k->tokens(m, shape) - fewer;
    free(tiles);
    return list;
}

void pooling_size(const struct model *m, struct picture *p)
{
    int count;
    const int64_t newline = p->newline;
    struct pooled *list = pooled_list(m, p->shape, &count, &p->tokens);
    if (p->part_tokens) p->part_tokens = tile_tokens(&list[0].now); // parts are tiles
    for (int i = 0; i < count && p->newline_step; i++) {
        const struct picture_tile *was = &list[i].was, *now = &list[i].now;
        if (was->pitch > was->cols && was->first + was->cols == newline) { // newlines end its rows
            p->newline = now->first + now->cols;
            p->newline_step = now->pitch;
            break;
        }
        if (was->first + tile_tokens(was) <= newline)
            p->newline -= tile_tokens(was) - tile_tokens(now);
    }
    free(list);
}

int pooling_tiles(const struct model *m, struct picture_shape shape, struct picture_tile *tiles,
                  int most)
{
    int count;
    int64_t tokens;
    if (!(shape.share > 0)) return m->family->pictures->tiles(m, shape, tiles, most);
    struct pooled *list = pooled_list(m, shape, &count, &tokens);
    for (int i = 0; i < count && i < most; i++) tiles[i] = list[i].now;
    free(list);
    return count;
}

// --- the weights ---------------------------------------------------------------------------------

// For each remaining token, the rows of x that it averages, and their weights.
struct blend {
    int64_t most; // sources per token
    int32_t *index;
    float *weight;
};

// Returns how much of cell i of a line, [i, i+1), lies inside [from, to).
static double inside(int64_t i, double from, double to)
{
    const double low = (double)i > from ? (double)i : from;
    const double high = (double)(i + 1) < to ? (double)(i + 1) : to;
    return high > low ? high - low : 0;
}

static void blend_one(const struct blend *b, int64_t to, int64_t from)
{
    for (int64_t k = 0; k < b->most; k++) {
        b->index[to * b->most + k] = (int32_t)from;
        b->weight[to * b->most + k] = k == 0;
    }
}

// Sets the sources of token (r, c) of the smaller grid.
static void blend_area(const struct blend *b, const struct pooled *p, int64_t r, int64_t c)
{
    const double down = (double)p->was.rows / (double)p->now.rows;
    const double across = (double)p->was.cols / (double)p->now.cols;
    const double top = (double)r * down, left = (double)c * across;
    const int64_t to = p->now.first + r * p->now.pitch + c;
    int64_t n = 0;
    blend_one(b, to, p->was.first + (int64_t)top * p->was.pitch + (int64_t)left);
    for (int64_t i = (int64_t)top; i < p->was.rows; i++) {
        const double height = inside(i, top, top + down);
        for (int64_t j = (int64_t)left; height > 0 && j < p->was.cols; j++) {
            const double part = height * inside(j, left, left + across) / (down * across);
            if (!(part > 0)) break;
            if (n == b->most) BUG("an area with more tokens than largest_area allows");
            b->index[to * b->most + n] = (int32_t)(p->was.first + i * p->was.pitch + j);
            b->weight[to * b->most + n++] = (float)part;
        }
    }
}

// Returns an upper bound on the number of tokens that an area of any tile touches.
static int64_t largest_area(const struct pooled *list, int count)
{
    int64_t most = 1;
    for (int i = 0; i < count; i++) {
        if (!list[i].now.rows || !list[i].now.cols) continue;
        const int64_t rows = list[i].was.rows / list[i].now.rows + 2;
        const int64_t cols = list[i].was.cols / list[i].now.cols + 2;
        if (rows * cols > most) most = rows * cols;
    }
    return most;
}

struct tensor *pooling_forward(struct graph *g, const struct model *m,
                               const struct picture *picture, struct tensor *x)
{
    int count;
    int64_t tokens, to = 0, from = 0;
    if (!x || !graph_ok(g)) return NULL;
    struct pooled *list = pooled_list(m, picture->shape, &count, &tokens);
    struct blend b = { .most = largest_area(list, count) };
    b.index = xcalloc((size_t)(tokens * b.most) + 1, sizeof *b.index);
    b.weight = xcalloc((size_t)(tokens * b.most) + 1, sizeof *b.weight);
    for (int i = 0; i <= count; i++) { // keep tokens before each tile and after the last one
        const int64_t end = i < count ? list[i].now.first : tokens;
        while (to < end) blend_one(&b, to++, from++);
        if (i == count) break;
        const struct pooled *p = &list[i];
        for (int64_t r = 0; r < p->now.rows; r++) {
            for (int64_t c = 0; c < p->now.cols; c++) blend_area(&b, p, r, c);
            for (int64_t c = p->now.cols; c < p->now.pitch; c++)
                blend_one(&b, p->now.first + r * p->now.pitch + c,
                          p->was.first + r * p->was.pitch + p->was.cols + c - p->now.cols);
        }
        to += tile_tokens(&p->now);
        from += tile_tokens(&p->was);
    }
    x = op_blend_rows(g, x, b.index, b.weight, tokens, b.most);
    free(b.index);
    free(b.weight);
    free(list);
    return x;
}
