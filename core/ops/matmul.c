// core/ops/matmul.c -- x[N,K] w[M,K]^T + bias[M] -> [N,M].
#include "core/ops/check.h"

struct tensor *op_matmul(struct graph *g, struct tensor *x, struct tensor *w, struct tensor *bias)
{
    if (!x || !w || !graph_ok(g)) return NULL;
    char left[96], right[96];
    if (!op_want_f32(g, "matmul", "x", x)) return NULL;
    if (!op_is_float(w) || w->rank < 2 || op_columns(x) != op_columns(w))
        return graph_fail(g, "matmul: x %s does not fit w %s", op_shape(x, left),
                          op_shape(w, right));
    if (bias && !op_want_vector(g, "matmul", "bias", bias, w->shape[0])) return NULL;
    struct tensor *y = graph_new2(g, DTYPE_F32, x->shape[0], w->shape[0]);
    if (!y) return NULL;
    return op_done(g, "matmul", g->backend->matmul(y, x, w, bias, g->matmul), y);
}
