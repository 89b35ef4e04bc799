// core/ops/columns.c -- puts columns of several matrices side by side: splits and joins heads.
#include <string.h>

#include "core/ops/check.h"

// self: struct column_part[integer]; in: the matrices of these parts.
static int columns_backward(struct graph *g, const struct tape_step *s)
{
    const struct column_part *part = s->self;
    struct tensor dx, dy;
    if (!tape_grad(g, s->out, &dy)) return -1;
    for (int64_t i = 0, to = 0; i < s->integer; to += part[i++].columns.count)
        if (tape_grad(g, s->in[i], &dx) &&
            g->backend->put_columns_backward(&dx, part[i].columns, &dy, to) < 0)
            return op_back(g, "columns", -1);
    return op_back(g, "columns", 0);
}

static bool want_part(struct graph *g, const struct column_part *p, int64_t rows)
{
    const struct columns c = p->columns;
    char text[96];
    if (!op_want_f32(g, "columns", "x", p->x)) return false;
    if (p->x->rank == 2 && p->x->shape[0] > 0 && rows % p->x->shape[0] == 0 && c.first >= 0 &&
        c.step > 0 && c.count > 0 && c.first + (c.count - 1) * c.step < p->x->shape[1])
        return true;
    graph_fail(g, "columns: %lld columns from %lld on do not fit %s and %lld rows",
               (long long)c.count, (long long)c.first, op_shape(p->x, text), (long long)rows);
    return false;
}

struct tensor *op_columns_of(struct graph *g, int64_t rows, const struct column_part *part,
                             int count)
{
    if (count > TAPE_INPUTS) BUG("columns of %d matrices", count);
    if (!graph_ok(g)) return NULL;
    struct tape_step step = { .backward = columns_backward, .integer = count };
    int64_t width = 0;
    for (int i = 0; i < count; width += part[i++].columns.count) {
        if (!part[i].x || !want_part(g, &part[i], rows)) return NULL;
        step.in[i] = part[i].x;
    }
    struct tensor *y = graph_new2(g, DTYPE_F32, rows, width);
    for (int64_t i = 0, to = 0; y && i < count; to += part[i++].columns.count)
        y = op_done(g, "columns", g->backend->put_columns(y, to, part[i].x, part[i].columns), y);
    if (!y || !tape_on(g)) return tape_record(g, y, &step);
    step.self = arena_alloc_host(g->arena, (size_t)count * sizeof *part);
    if (!step.self) return graph_fail(g, "out of memory on %s", g->backend->name);
    memcpy(step.self, part, (size_t)count * sizeof *part);
    return tape_record(g, y, &step);
}
