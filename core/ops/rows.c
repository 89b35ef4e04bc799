// core/ops/rows.c -- gathers, blends, scatters and copies rows.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/ops/check.h"

static int gather_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dy;
    if (!tape_grad(g, s->in[0], &dx) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "gather", g->backend->gather_rows_backward(&dx, &dy, s->in[1]));
}

struct tensor *op_gather_rows(struct graph *g, struct tensor *x, const int32_t *index, int64_t n)
{
    if (!x || !graph_ok(g)) return NULL;
    if (x->rank < 1) return graph_fail(g, "gather: x has no rows");
    if (!op_want_indices(g, "gather", index, n, x->shape[0])) return NULL;
    int64_t shape[TENSOR_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[0] = n;
    struct tensor *y = graph_new(g, x->dtype, x->rank, shape);
    struct tensor *there = graph_upload(g, DTYPE_I32, 1, &n, index);
    if (!y || !there) return NULL;
    return op_record(g, "gather", g->backend->gather_rows(y, x, there), y,
                     &(struct tape_step){ .backward = gather_backward, .in = { x, there } });
}

struct tensor *op_gather_floats(struct graph *g, struct tensor *x, const int32_t *index, int64_t n)
{
    x = op_gather_rows(g, x, index, n);
    return x && x->dtype != DTYPE_F32 ? op_widen(g, x) : x;
}

// in: x, the indices, the weights.
static int blend_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dy;
    if (!tape_grad(g, s->in[0], &dx) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "blend", g->backend->blend_rows_backward(&dx, &dy, s->in[1], s->in[2]));
}

struct tensor *op_blend_rows(struct graph *g, struct tensor *x, const int32_t *index,
                             const float *weight, int64_t n, int64_t most)
{
    if (!x || !graph_ok(g)) return NULL;
    if (x->rank != 2 || x->dtype != DTYPE_F32) return graph_fail(g, "blend: x is not [N,D] of f32");
    if (!op_want_indices(g, "blend", index, n * most, x->shape[0])) return NULL;
    const int64_t shape[] = { n, most };
    struct tensor *y = graph_new2(g, DTYPE_F32, n, x->shape[1]);
    struct tensor *rows = graph_upload(g, DTYPE_I32, 2, shape, index);
    struct tensor *shares = graph_upload(g, DTYPE_F32, 2, shape, weight);
    if (!y || !rows || !shares) return NULL;
    return op_record(g, "blend", g->backend->blend_rows(y, x, rows, shares), y,
                     &(struct tape_step){ .backward = blend_backward, .in = { x, rows, shares } });
}

// Checks that the rows of x fit `into` in size, and in dtype (equal, or rounded on writing).
static bool want_rows(struct graph *g, const char *op, const struct tensor *into,
                      const struct tensor *x)
{
    char left[96], right[96];
    const bool rounded = into->dtype == DTYPE_BF16 && x->dtype == DTYPE_F32 && !tape_on(g);
    if (into->rank > 0 && x->rank > 0 && (into->dtype == x->dtype || rounded) &&
        !dtype_in_blocks(into->dtype) && op_columns(into) == op_columns(x))
        return true;
    graph_fail(g, "%s: rows of %s do not fit into %s", op, op_shape(x, left),
               op_shape(into, right));
    return false;
}

// in: x, the indices, into.
static int scatter_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dinto;
    struct tensor *const to_x = tape_wanted(g, s->in[0], &dx);
    if (!tape_grad(g, s->out, &dinto)) return -1;
    return op_back(g, "scatter", g->backend->scatter_rows_backward(to_x, &dinto, s->in[1]));
}

struct tensor *op_put_rows(struct graph *g, struct tensor *into, struct tensor *x,
                           struct tensor *index)
{
    if (!into || !x || !index || !graph_ok(g) || !want_rows(g, "scatter", into, x)) return NULL;
    if (index->dtype != DTYPE_I32 || tensor_count(index) != x->shape[0])
        return graph_fail(g, "scatter: no index for each row");
    return op_record(g, "scatter", g->backend->scatter_rows(into, x, index), into,
                     &(struct tape_step){ .backward = scatter_backward, .in = { x, index, into } });
}

struct tensor *op_scatter_rows(struct graph *g, struct tensor *into, struct tensor *x,
                               const int32_t *index)
{
    if (!into || !x || !graph_ok(g)) return NULL;
    if (!want_rows(g, "scatter", into, x) ||
        !op_want_indices(g, "scatter", index, x->shape[0], into->shape[0]))
        return NULL;
    return op_put_rows(g, into, x, graph_upload(g, DTYPE_I32, 1, &x->shape[0], index));
}

int op_copy_rows_into(struct graph *g, struct tensor *into, int64_t from, struct tensor *x)
{
    if (!into || !x || !graph_ok(g)) return -1;
    if (!want_rows(g, "copy rows", into, x)) return -1;
    int64_t n = x->shape[0];
    if (from < 0 || from > into->shape[0] - n) {
        graph_fail(g, "copy rows: rows %lld..%lld do not fit into %lld", (long long)from,
                   (long long)(from + n), (long long)into->shape[0]);
        return -1;
    }
    if (into->dtype == DTYPE_F32 && !g->tape) {
        struct tensor *rows = graph_rows(g, into, from, n);
        // Widening f32 to f32 is a copy on the device.
        return rows && op_done(g, "copy rows", g->backend->widen(rows, x), rows) ? 0 : -1;
    }
    int32_t *index = xreallocarray(NULL, (size_t)n + 1, sizeof *index);
    for (int64_t i = 0; i < n; i++) index[i] = (int32_t)(from + i);
    struct tensor *done = op_scatter_rows(g, into, x, index);
    free(index);
    return done ? 0 : -1;
}
