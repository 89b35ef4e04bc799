// core/ops/elementwise.c -- SwiGLU, GELU, sum, softmax, widening.
#include "core/ops/check.h"

struct tensor *op_swiglu(struct graph *g, struct tensor *gate, struct tensor *up)
{
    if (!gate || !up || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, "swiglu", "gate", gate) || !op_want_same(g, "swiglu", gate, up))
        return NULL;
    struct tensor *y = graph_new(g, DTYPE_F32, gate->rank, gate->shape);
    if (!y) return NULL;
    return op_done(g, "swiglu", g->backend->swiglu(y, gate, up), y);
}

struct tensor *op_gelu(struct graph *g, struct tensor *x, enum gelu_form form)
{
    if (!x || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, "gelu", "x", x)) return NULL;
    struct tensor *y = graph_new(g, DTYPE_F32, x->rank, x->shape);
    if (!y) return NULL;
    return op_done(g, "gelu", g->backend->gelu(y, x, form), y);
}

struct tensor *op_add(struct graph *g, struct tensor *a, struct tensor *b)
{
    if (!a || !b || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, "add", "a", a) || !op_want_same(g, "add", a, b)) return NULL;
    return op_done(g, "add", g->backend->add(a, a, b), a);
}

struct tensor *op_softmax(struct graph *g, struct tensor *x, float scale)
{
    if (!x || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, "softmax", "x", x)) return NULL;
    struct tensor *y = graph_new(g, DTYPE_F32, x->rank, x->shape);
    if (!y) return NULL;
    return op_done(g, "softmax", g->backend->softmax(y, x, scale), y);
}

struct tensor *op_widen(struct graph *g, struct tensor *x)
{
    if (!x || !graph_ok(g)) return NULL;
    char text[96];
    if (!op_is_float(x)) return graph_fail(g, "widen: x is %s", op_shape(x, text));
    struct tensor *y = graph_new(g, DTYPE_F32, x->rank, x->shape);
    if (!y) return NULL;
    return op_done(g, "widen", g->backend->widen(y, x), y);
}
