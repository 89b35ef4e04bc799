// core/ops/norm.c -- RMSNorm and LayerNorm over the last dimension.
#include "core/ops/check.h"

static int rmsnorm_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *x = s->in[0], *gain = s->in[1], dx, dgain, dy;
    struct tensor *const to_x = tape_wanted(g, x, &dx), *const to_gain =
                                                            tape_wanted(g, gain, &dgain);
    if (!tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "rmsnorm",
                   g->backend->rmsnorm_backward(to_x, to_gain, &dy, x, gain, s->real));
}

static int layernorm_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *x = s->in[0], *gain = s->in[1], dx, dgain, dbias, dy;
    struct tensor *const to_x = tape_wanted(g, x, &dx), *const to_gain =
                                                            tape_wanted(g, gain, &dgain);
    struct tensor *const to_bias = tape_wanted(g, s->in[2], &dbias);
    if (!tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "layernorm",
                   g->backend->layernorm_backward(to_x, to_gain, to_bias, &dy, x, gain, s->real));
}

struct tensor *op_rmsnorm(struct graph *g, struct tensor *x, struct tensor *gain, float eps)
{
    struct tensor *y = gain ? op_new_like(g, "rmsnorm", "x", x) : NULL;
    if (!y || !op_want_vector(g, "rmsnorm", "gain", gain, x->shape[x->rank - 1])) return NULL;
    return op_record(
        g, "rmsnorm", g->backend->rmsnorm(y, x, gain, eps), y,
        &(struct tape_step){ .backward = rmsnorm_backward, .in = { x, gain }, .real = eps });
}

struct tensor *op_rmsnorm_plain(struct graph *g, struct tensor *x, float eps)
{
    struct tensor *ones = x ? graph_new1(g, DTYPE_F32, x->shape[x->rank - 1]) : NULL;
    if (!ones || !op_done(g, "rmsnorm", g->backend->fill(ones, 1), ones)) return NULL;
    return op_rmsnorm(g, x, ones, eps);
}

struct tensor *op_layernorm(struct graph *g, struct tensor *x, struct tensor *gain,
                            struct tensor *bias, float eps)
{
    struct tensor *y = gain && bias ? op_new_like(g, "layernorm", "x", x) : NULL;
    if (!y || !op_want_vector(g, "layernorm", "gain", gain, x->shape[x->rank - 1]) ||
        !op_want_vector(g, "layernorm", "bias", bias, x->shape[x->rank - 1]))
        return NULL;
    return op_record(g, "layernorm", g->backend->layernorm(y, x, gain, bias, eps), y,
                     &(struct tape_step){
                         .backward = layernorm_backward, .in = { x, gain, bias }, .real = eps });
}
