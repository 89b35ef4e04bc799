// core/ops/elementwise.c -- SwiGLU, GEGLU, GELU, soft caps, clipping, addition, scaling, softmax,
// widening.
#include "core/ops/check.h"

// s->integer: 1 for GELU (GEGLU), 0 for SiLU (SwiGLU).
static int gated_backward(struct graph *g, const struct tape_step *s)
{
    const struct backend *b = g->backend;
    struct tensor *gate = s->in[0], *up = s->in[1], dgate, dup, dy;
    struct tensor *const to_gate = tape_wanted(g, gate, &dgate), *const to_up =
                                                                     tape_wanted(g, up, &dup);
    if (!tape_grad(g, s->out, &dy)) return -1;
    if (s->integer) return op_back(g, "geglu", b->geglu_backward(to_gate, to_up, &dy, gate, up));
    return op_back(g, "swiglu", b->swiglu_backward(to_gate, to_up, &dy, gate, up));
}

static struct tensor *gated(struct graph *g, struct tensor *gate, struct tensor *up, bool gelu)
{
    const char *name = gelu ? "geglu" : "swiglu";
    if (!gate || !up || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, name, "gate", gate) || !op_want_same(g, name, gate, up)) return NULL;
    struct tensor *y = tape_on(g) ? graph_new(g, DTYPE_F32, gate->rank, gate->shape) : gate;
    if (!y) return NULL;
    const int status = gelu ? g->backend->geglu(y, gate, up) : g->backend->swiglu(y, gate, up);
    return op_record(
        g, name, status, y,
        &(struct tape_step){ .backward = gated_backward, .in = { gate, up }, .integer = gelu });
}

struct tensor *op_swiglu(struct graph *g, struct tensor *gate, struct tensor *up)
{
    return gated(g, gate, up, false);
}

struct tensor *op_geglu(struct graph *g, struct tensor *gate, struct tensor *up)
{
    return gated(g, gate, up, true);
}

static int gelu_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dy;
    if (!tape_grad(g, s->in[0], &dx) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "gelu",
                   g->backend->gelu_backward(&dx, &dy, s->in[0], (enum gelu_form)s->integer));
}

struct tensor *op_gelu(struct graph *g, struct tensor *x, enum gelu_form form)
{
    struct tensor *y = op_new_like(g, "gelu", "x", x);
    if (!y) return NULL;
    return op_record(
        g, "gelu", g->backend->gelu(y, x, form), y,
        &(struct tape_step){ .backward = gelu_backward, .in = { x }, .integer = form });
}

static int softcap_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dy;
    if (!tape_grad(g, s->in[0], &dx) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "softcap", g->backend->softcap_backward(&dx, &dy, s->out, s->real));
}

struct tensor *op_softcap(struct graph *g, struct tensor *x, float cap)
{
    struct tensor *y = tape_on(g) ? op_new_like(g, "softcap", "x", x) : x;
    if (!y || !graph_ok(g) || !op_want_f32(g, "softcap", "x", y)) return NULL;
    return op_record(g, "softcap", g->backend->softcap(y, x, cap), y,
                     &(struct tape_step){ .backward = softcap_backward, .in = { x }, .real = cap });
}

static int clip_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dy;
    if (!tape_grad(g, s->in[0], &dx) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "clip",
                   g->backend->clip_backward(&dx, &dy, s->in[0], s->real, s->other_real));
}

struct tensor *op_clip(struct graph *g, struct tensor *x, float low, float high)
{
    struct tensor *y = op_new_like(g, "clip", "x", x);
    if (!y) return NULL;
    return op_record(g, "clip", g->backend->clip(y, x, low, high), y,
                     &(struct tape_step){
                         .backward = clip_backward, .in = { x }, .real = low, .other_real = high });
}

// s->in: a, b; s->integer: the row of a to which row 0 of b is added.
static int add_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *a = s->in[0], *b = s->in[1], da, db, dy, rows = *b;
    bool add, want_b = tape_grad_first(g, b, &db, &add);
    if (!tape_grad(g, s->out, &dy)) return -1;
    rows.data = (float *)dy.data + s->integer * tensor_row(a);
    if (want_b && (add ? g->backend->add(&db, &db, &rows) : g->backend->widen(&db, &rows)) < 0)
        return op_back(g, "add", -1);
    tape_grad_pass(g, s, a, &da);
    return op_back(g, "add", 0);
}

struct tensor *op_add_rows(struct graph *g, struct tensor *a, int64_t from, struct tensor *b)
{
    if (!a || !b || !graph_ok(g)) return NULL;
    char left[96], right[96];
    if (!op_want_f32(g, "add", "a", a) || !op_want_f32(g, "add", "b", b)) return NULL;
    if (op_columns(a) != op_columns(b) || from < 0 || from > a->shape[0] - b->shape[0])
        return graph_fail(g, "add: %s and %s at row %lld", op_shape(a, left), op_shape(b, right),
                          (long long)from);
    struct tensor *y = a, rows = *b, sum = *b;
    rows.data = (float *)a->data + from * op_columns(a);
    if (tape_on(g)) { // a must not change
        y = graph_new(g, DTYPE_F32, a->rank, a->shape);
        // widening f32 is a copy
        bool all = a->shape[0] == b->shape[0];
        if (!y || (!all && !op_done(g, "add", g->backend->widen(y, a), y))) return NULL;
    }
    sum.data = (float *)y->data + from * op_columns(a);
    return op_record(
        g, "add", g->backend->add(&sum, &rows, b), y,
        &(struct tape_step){ .backward = add_backward, .in = { a, b }, .integer = from });
}

struct tensor *op_add(struct graph *g, struct tensor *a, struct tensor *b)
{
    if (!a || !b || !graph_ok(g)) return NULL;
    return op_want_same(g, "add", a, b) ? op_add_rows(g, a, 0, b) : NULL;
}

static int scale_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dy;
    if (!tape_grad(g, s->in[0], &dx) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "scale", g->backend->scale_backward(&dx, &dy, s->real));
}

struct tensor *op_scale(struct graph *g, struct tensor *x, float value)
{
    struct tensor *y = op_new_like(g, "scale", "x", x);
    if (!y) return NULL;
    return op_record(g, "scale", g->backend->scale(y, x, value), y,
                     &(struct tape_step){ .backward = scale_backward, .in = { x }, .real = value });
}

static int scale_columns_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *x = s->in[0], *w = s->in[1], dx, dw, dy;
    struct tensor *const to_x = tape_wanted(g, x, &dx), *const to_w = tape_wanted(g, w, &dw);
    if (!tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "scale columns", g->backend->scale_columns_backward(to_x, to_w, &dy, x, w));
}

struct tensor *op_scale_columns(struct graph *g, struct tensor *x, struct tensor *w)
{
    struct tensor *y = w ? op_new_like(g, "scale columns", "x", x) : NULL;
    if (!y || !op_want_vector(g, "scale columns", "w", w, op_columns(x))) return NULL;
    return op_record(g, "scale columns", g->backend->scale_columns(y, x, w), y,
                     &(struct tape_step){ .backward = scale_columns_backward, .in = { x, w } });
}

static int softmax_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dy;
    if (!tape_grad(g, s->in[0], &dx) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "softmax", g->backend->softmax_backward(&dx, &dy, s->out, s->real));
}

struct tensor *op_softmax(struct graph *g, struct tensor *x, float scale)
{
    struct tensor *y = op_new_like(g, "softmax", "x", x);
    if (!y) return NULL;
    return op_record(
        g, "softmax", g->backend->softmax(y, x, scale), y,
        &(struct tape_step){ .backward = softmax_backward, .in = { x }, .real = scale });
}

static int widen_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dy;
    if (!tape_grad(g, s->in[0], &dx) || !tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "widen", g->backend->add(&dx, &dx, &dy));
}

struct tensor *op_widen(struct graph *g, struct tensor *x)
{
    if (!x || !graph_ok(g)) return NULL;
    char text[96];
    if (!op_is_weight(x)) return graph_fail(g, "widen: x is %s", op_shape(x, text));
    struct tensor *y = graph_new(g, DTYPE_F32, x->rank, x->shape);
    if (!y) return NULL;
    return op_record(g, "widen", g->backend->widen(y, x), y,
                     &(struct tape_step){ .backward = widen_backward, .in = { x } });
}
