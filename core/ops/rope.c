// core/ops/rope.c -- rotary positions on queries or keys, in place.
#include "core/ops/check.h"

struct tensor *op_rope(struct graph *g, struct tensor *x, struct tensor *cos, struct tensor *sin)
{
    if (!x || !cos || !sin || !graph_ok(g)) return NULL;
    char left[96], right[96];
    if (!op_want_f32(g, "rope", "x", x) || !op_want_f32(g, "rope", "cos", cos) ||
        !op_want_same(g, "rope", cos, sin))
        return NULL;
    if (x->rank != 3 || cos->rank != 2 || cos->shape[0] != x->shape[0] ||
        cos->shape[1] * 2 != x->shape[2])
        return graph_fail(g, "rope: angles %s do not fit x %s", op_shape(cos, left),
                          op_shape(x, right));
    return op_done(g, "rope", g->backend->rope(x, cos, sin), x);
}
