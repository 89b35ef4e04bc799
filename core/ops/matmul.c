// core/ops/matmul.c -- x[N,K] w[M,K]^T + bias[M] -> [N,M], and x[N,K] w[K,M] -> [N,M].
#include "core/ops/check.h"

static int matmul_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *x = s->in[0], *w = s->in[1], *bias = s->in[2], dx, dw, db, dy;
    bool add;
    const bool want_x = tape_grad_first(g, x, &dx, &add);
    struct tensor *const to_w = tape_wanted(g, w, &dw), *const to_bias = tape_wanted(g, bias, &db);
    if (!tape_grad(g, s->out, &dy)) return -1;
    if (want_x && g->backend->matmul_dx(&dx, &dy, w, add, g->matmul) < 0)
        return op_back(g, "matmul", -1);
    if (!to_w && !to_bias) return op_back(g, "matmul", 0);
    return op_back(g, "matmul", g->backend->matmul_dw(to_w, to_bias, &dy, x, g->matmul));
}

static struct tensor *matmul(struct graph *g, struct tensor *x, struct tensor *w,
                             struct tensor *bias, bool read)
{
    if (!x || !w || !graph_ok(g)) return NULL;
    char left[96], right[96];
    if (!op_want_f32(g, "matmul", "x", x)) return NULL;
    if (!op_is_weight(w) || w->rank < 2 || op_columns(x) != op_columns(w))
        return graph_fail(g, "matmul: x %s does not fit w %s", op_shape(x, left),
                          op_shape(w, right));
    if (bias && !op_want_vector(g, "matmul", "bias", bias, w->shape[0])) return NULL;
    struct tensor *y = graph_new2(g, DTYPE_F32, x->shape[0], w->shape[0]);
    if (!y) return NULL;
    const int status = read ? g->backend->matmul(y, x, w, bias, g->matmul) : g->backend->fill(y, 0);
    return op_record(g, "matmul", status, y,
                     &(struct tape_step){ .backward = matmul_backward, .in = { x, w, bias } });
}

struct tensor *op_matmul(struct graph *g, struct tensor *x, struct tensor *w, struct tensor *bias)
{
    return matmul(g, x, w, bias, true);
}

struct tensor *op_matmul_unread(struct graph *g, struct tensor *x, struct tensor *w,
                                struct tensor *bias)
{
    return matmul(g, x, w, bias, false);
}

// dx += dy w^T, dw += x^T dy.
static int columns_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *x = s->in[0], *w = s->in[1], dx, dw, dy;
    bool add = false;
    const bool want_x = tape_grad_first(g, x, &dx, &add);
    struct tensor *const to_w = tape_wanted(g, w, &dw);
    if (!tape_grad(g, s->out, &dy)) return -1;
    const struct arena_mark mark = arena_mark(g->arena);
    struct tensor *own = add ? graph_new(g, DTYPE_F32, x->rank, x->shape) : &dx;
    if (want_x && (!own || g->backend->matmul(own, &dy, w, NULL, g->matmul) < 0 ||
                   (add && g->backend->add(&dx, &dx, own) < 0)))
        return op_back(g, "matmul", -1);
    arena_reset(g->arena, mark);
    return op_back(g, "matmul", to_w ? g->backend->matmul_dw(to_w, NULL, x, &dy, g->matmul) : 0);
}

struct tensor *op_matmul_columns(struct graph *g, struct tensor *x, struct tensor *w)
{
    char left[96], right[96];
    if (!x || !w || !graph_ok(g) || !op_want_f32(g, "matmul", "x", x)) return NULL;
    if (!op_is_weight(w) || w->rank != 2 || op_columns(x) != w->shape[0])
        return graph_fail(g, "matmul: x %s does not fit the rows of w %s", op_shape(x, left),
                          op_shape(w, right));
    struct tensor *y = graph_new2(g, DTYPE_F32, x->shape[0], w->shape[1]);
    if (!y) return NULL;
    return op_record(g, "matmul", g->backend->matmul_dx(y, x, w, false, g->matmul), y,
                     &(struct tape_step){ .backward = columns_backward, .in = { x, w } });
}
