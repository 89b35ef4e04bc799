// core/ops/norm.c -- RMSNorm and LayerNorm over the last dimension.
#include "core/ops/check.h"

struct tensor *op_rmsnorm(struct graph *g, struct tensor *x, struct tensor *gain, float eps)
{
    if (!x || !gain || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, "rmsnorm", "x", x)) return NULL;
    if (!op_want_vector(g, "rmsnorm", "gain", gain, x->shape[x->rank - 1])) return NULL;
    struct tensor *y = graph_new(g, DTYPE_F32, x->rank, x->shape);
    if (!y) return NULL;
    return op_done(g, "rmsnorm", g->backend->rmsnorm(y, x, gain, eps), y);
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
    return op_done(g, "layernorm", g->backend->layernorm(y, x, gain, bias, eps), y);
}
