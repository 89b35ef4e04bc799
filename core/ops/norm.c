// core/ops/norm.c -- RMSNorm and LayerNorm over the last dimension.
#include "core/graph/tape.h"
#include "core/ops/check.h"

static int rmsnorm_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *x = s->in[0], *gain = s->in[1], dx, dgain, dy;
    bool want_x = tape_grad(g, x, &dx), want_gain = tape_grad(g, gain, &dgain);
    if (!tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "rmsnorm",
                   g->backend->rmsnorm_backward(want_x ? &dx : NULL, want_gain ? &dgain : NULL, &dy,
                                                x, gain, s->real));
}

static int layernorm_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *x = s->in[0], *gain = s->in[1], dx, dgain, dbias, dy;
    bool want_x = tape_grad(g, x, &dx), want_gain = tape_grad(g, gain, &dgain);
    bool want_bias = tape_grad(g, s->in[2], &dbias);
    if (!tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "layernorm",
                   g->backend->layernorm_backward(want_x ? &dx : NULL, want_gain ? &dgain : NULL,
                                                  want_bias ? &dbias : NULL, &dy, x, gain,
                                                  s->real));
}

struct tensor *op_rmsnorm(struct graph *g, struct tensor *x, struct tensor *gain, float eps)
{
    if (!x || !gain || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, "rmsnorm", "x", x)) return NULL;
    if (!op_want_vector(g, "rmsnorm", "gain", gain, x->shape[x->rank - 1])) return NULL;
    struct tensor *y = graph_new(g, DTYPE_F32, x->rank, x->shape);
    if (!y) return NULL;
    y = op_done(g, "rmsnorm", g->backend->rmsnorm(y, x, gain, eps), y);
    return tape_record(
        g, y, &(struct tape_step){ .backward = rmsnorm_backward, .in = { x, gain }, .real = eps });
}

struct tensor *op_layernorm(struct graph *g, struct tensor *x, struct tensor *gain,
                            struct tensor *bias, float eps)
{
    if (!x || !gain || !bias || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, "layernorm", "x", x)) return NULL;
    int64_t width = x->shape[x->rank - 1];
    if (!op_want_vector(g, "layernorm", "gain", gain, width) ||
        !op_want_vector(g, "layernorm", "bias", bias, width))
        return NULL;
    struct tensor *y = graph_new(g, DTYPE_F32, x->rank, x->shape);
    if (!y) return NULL;
    y = op_done(g, "layernorm", g->backend->layernorm(y, x, gain, bias, eps), y);
    return tape_record(g, y,
                       &(struct tape_step){
                           .backward = layernorm_backward, .in = { x, gain, bias }, .real = eps });
}
