// core/ops/norm.c -- RMSNorm and LayerNorm over the last dimension.
#include "core/ops/check.h"

// Computes dx once more, without the gradients of other paths to x, for the tape's `norms`.
static int watch(struct graph *g, const struct tape_step *s, const struct tensor *dy, bool centred)
{
    struct tensor *x = s->in[0], *gain = s->in[1];
    if (!g->tape->norms || !x->grad) return 0;
    const struct arena_mark mark = arena_mark(g->arena);
    struct tensor *dx = graph_new(g, DTYPE_F32, x->rank, x->shape);
    const struct backend *b = g->backend;
    int status = dx ? op_back(g, "fill", b->fill(dx, 0)) : -1;
    if (status == 0)
        status = op_back(g, centred ? "layernorm" : "rmsnorm",
                         centred ? b->layernorm_backward(dx, NULL, NULL, dy, x, gain, s->real)
                                 : b->rmsnorm_backward(dx, NULL, dy, x, gain, s->real));
    if (status == 0)
        g->tape->norms->seen(g->tape->norms, g,
                             &(struct norm_gradients){ x, gain, dx, dy, centred, g->tape->lane });
    arena_reset(g->arena, mark);
    return status;
}

static int rmsnorm_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *x = s->in[0], *gain = s->in[1], dx, dgain, dy;
    struct tensor *const to_x = tape_wanted(g, x, &dx), *const to_gain =
                                                            tape_wanted(g, gain, &dgain);
    if (!tape_grad(g, s->out, &dy) || watch(g, s, &dy, false) < 0) return -1;
    return op_back(g, "rmsnorm",
                   g->backend->rmsnorm_backward(to_x, to_gain, &dy, x, gain, s->real));
}

static int layernorm_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *x = s->in[0], *gain = s->in[1], dx, dgain, dbias, dy;
    struct tensor *const to_x = tape_wanted(g, x, &dx), *const to_gain =
                                                            tape_wanted(g, gain, &dgain);
    struct tensor *const to_bias = tape_wanted(g, s->in[2], &dbias);
    if (!tape_grad(g, s->out, &dy) || watch(g, s, &dy, true) < 0) return -1;
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
