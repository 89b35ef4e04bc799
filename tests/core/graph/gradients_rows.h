// tests/core/graph/gradients_rows.h -- plain implementations of ops that select, place and blend
// rows: tables, pictures, experts.
#ifndef TESTS_CORE_GRAPH_GRADIENTS_ROWS_H
#define TESTS_CORE_GRAPH_GRADIENTS_ROWS_H

#include "tests/core/graph/gradients.h"

static const int32_t places[] = { 4, 0, 2 }, ids[] = { 1, 3, 1, 0, 1 };

static void plain_embedding(const struct check *c, double *const *in, double *out)
{
    int64_t d = c->in[0][1];
    for (int64_t i = 0; i < 5 * d; i++) out[i] = in[0][ids[i / d] * d + i % d];
}

static struct tensor *run_embedding(const struct check *c, struct graph *g,
                                    struct tensor *const *in)
{
    return op_embedding(g, in[0], ids, 5);
}

static struct tensor *run_gather(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_gather_rows(g, in[0], ids, 5);
}

static struct tensor *run_gather_floats(const struct check *c, struct graph *g,
                                        struct tensor *const *in)
{
    return op_gather_floats(g, in[0], ids, 5);
}

// Two rows for each of five results, two of which blend the same row twice.
static const int32_t blended[] = { 1, 3, 0, 0, 5, 2, 1, 4, 3, 3 };
static const float shares[] = { 0.25f, 0.75f, 1, -0.5f, 2, 0.125f, 0, 1, 0.3f, 0.6f };

static void plain_blend(const struct check *c, double *const *in, double *out)
{
    const int64_t d = c->in[0][1];
    for (int64_t i = 0; i < 5 * d; i++) {
        out[i] = 0;
        for (int64_t k = i / d * 2; k < i / d * 2 + 2; k++)
            out[i] += (double)shares[k] * in[0][blended[k] * d + i % d];
    }
}

static struct tensor *run_blend(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_blend_rows(g, in[0], blended, shares, 5, 2);
}

// Places in[1] at rows places[] of a copy of in[0] (variant 1: at rows 1.. of the copy).
static void plain_scatter(const struct check *c, double *const *in, double *out)
{
    int64_t d = c->in[0][1];
    memcpy(out, in[0], (size_t)c->out * sizeof *out);
    for (int64_t i = 0; i < 3 * d; i++)
        out[(c->variant ? 1 + i / d : places[i / d]) * d + i % d] = in[1][i];
}

static struct tensor *copy(struct graph *g, struct tensor *x)
{
    struct tensor *nothing = graph_new(g, DTYPE_F32, x->rank, x->shape);
    g->backend->fill(nothing, 0);
    return op_add(g, x, nothing);
}

static struct tensor *run_scatter(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_scatter_rows(g, copy(g, in[0]), in[1], places);
}

static struct tensor *run_put(const struct check *c, struct graph *g, struct tensor *const *in)
{
    const int64_t n = sizeof places / sizeof *places;
    return op_put_rows(g, copy(g, in[0]), in[1], graph_upload(g, DTYPE_I32, 1, &n, places));
}

static struct tensor *run_copy(const struct check *c, struct graph *g, struct tensor *const *in)
{
    struct tensor *into = copy(g, in[0]);
    return op_copy_rows_into(g, into, 1, in[1]) < 0 ? NULL : into;
}

// Columns 0..1 of in[0] [6,5], then every second column of in[1] [2,4] from 1 on; each row of in[1]
// serves three rows of in[0].
static void plain_columns(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < 6; i++) {
        out[i * 4] = in[0][i * 5], out[i * 4 + 1] = in[0][i * 5 + 1];
        out[i * 4 + 2] = in[1][i / 3 * 4 + 1], out[i * 4 + 3] = in[1][i / 3 * 4 + 3];
    }
}

static struct tensor *run_columns(const struct check *c, struct graph *g, struct tensor *const *in)
{
    const struct column_part parts[] = { { in[0], { 0, 1, 2 } }, { in[1], { 1, 2, 2 } } };
    return op_columns_of(g, 6, parts, 2);
}

static const int32_t chosen[] = { 4, 0, 2, 3, 1, 4 };

// Chooses two of five experts in each of three rows; variant 1: divides their weights by the sum.
static void plain_expert_weights(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < 6; i++) out[i] = 1 / (1 + exp(-in[0][i / 2 * 5 + chosen[i]]));
    for (int64_t i = 0; i < 6; i += 2) {
        const double by = c->variant ? out[i] + out[i + 1] : 1;
        out[i] *= 1.5 / by, out[i + 1] *= 1.5 / by;
    }
}

static struct tensor *run_expert_weights(const struct check *c, struct graph *g,
                                         struct tensor *const *in)
{
    return op_expert_weights(g, in[0], chosen, 2, c->variant != 0, 1.5F);
}

// Adds in[1] times in[2] to rows places[] of a copy of in[0], twice.
static void plain_add_weighted(const struct check *c, double *const *in, double *out)
{
    int64_t d = c->in[0][1];
    memcpy(out, in[0], (size_t)c->out * sizeof *out);
    for (int64_t i = 0; i < 3 * d; i++)
        out[places[i / d] * d + i % d] += 2 * in[2][i / d] * in[1][i];
}

static struct tensor *run_add_weighted(const struct check *c, struct graph *g,
                                       struct tensor *const *in)
{
    struct tensor *y = op_add_weighted_rows(g, copy(g, in[0]), in[1], places, in[2]);
    return op_add_weighted_rows(g, y, in[1], places, in[2]);
}

// Patches of 2 x 2 in pictures of 5 x 7: the last row and column belong to no patch.
static void plain_patches(const struct check *c, double *const *in, double *out)
{
    for (int64_t s = 0; s < 6; s++)
        for (int64_t i = 0; i < 12; i++)
            out[s * 12 + i] = in[0][(i / 4 * 5 + s / 3 * 2 + i / 2 % 2) * 7 + s % 3 * 2 + i % 2];
}

static struct tensor *run_patches(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_patches(g, in[0], 2);
}

static void plain_widen(const struct check *c, double *const *in, double *out)
{
    memcpy(out, in[0], (size_t)c->out * sizeof *out);
}

static struct tensor *run_widen(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_widen(g, in[0]);
}

// Overlapping views: rows 0 and 1 of x plus rows 1 and 2 of x, each pair seen as one row.
static void plain_views(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = in[0][i] + in[0][c->in[0][1] + i];
}

static struct tensor *run_views(const struct check *c, struct graph *g, struct tensor *const *in)
{
    struct tensor *x = op_widen(g, in[0]);
    const int64_t row[2] = { 1, c->out };
    return op_add(g, graph_view(g, graph_rows(g, x, 0, 2), 2, row),
                  graph_view(g, graph_rows(g, x, 1, 2), 2, row));
}

#endif
