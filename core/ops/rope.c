// core/ops/rope.c -- applies rotary positions to queries or keys; works in place if there is no
// tape.
#include "core/ops/check.h"

static int rope_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dy;
    if (!tape_grad(g, s->in[0], &dx) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "rope", g->backend->rope_backward(&dx, &dy, s->in[1], s->in[2]));
}

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
    struct tensor *y = x;
    if (tape_on(g)) { // leaves x unchanged: widening f32 copies it
        y = graph_new(g, DTYPE_F32, x->rank, x->shape);
        if (!y || !op_done(g, "rope", g->backend->widen(y, x), y)) return NULL;
    }
    return op_record(g, "rope", g->backend->rope(y, cos, sin), y,
                     &(struct tape_step){ .backward = rope_backward, .in = { x, cos, sin } });
}
