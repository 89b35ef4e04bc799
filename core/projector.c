// core/projector.c -- features [S,Dv] to visual tokens [S,D]: one linear layer, or two with GELU.
#include "core/projector.h"

#include "core/bind.h"
#include "core/ops.h"

int projector_bind(struct projector *p, const struct checkpoint *c, const char *prefix, int64_t in,
                   int64_t out, struct arena *arena, struct err *err)
{
    struct binder b = { .checkpoint = c, .prefix = prefix, .arena = arena, .err = err };
    // One layer is called "linear" in some files and "linear_1" in others.
    const char *first = bind_has(c, prefix, "linear_1.weight") ? "linear_1" : "linear";
    p->layers = bind_has(c, prefix, "linear_2.weight") ? 2 : 1;
    bind_matrix(&b, &p->w1, out, in, "%s.weight", first);
    if (p->bias) bind_vector(&b, &p->b1, out, "%s.bias", first);
    if (p->layers == 2) {
        bind_matrix(&b, &p->w2, out, out, "linear_2.weight");
        if (p->bias) bind_vector(&b, &p->b2, out, "linear_2.bias");
    }
    return b.failed ? -1 : 0;
}

struct tensor *projector_forward(struct graph *g, const struct projector *p, struct tensor *x)
{
    x = op_matmul(g, x, graph_weight(&p->w1), graph_weight(&p->b1)); // [S, D]
    if (p->layers == 1) return x;
    x = op_gelu(g, x, p->act);
    return op_matmul(g, x, graph_weight(&p->w2), graph_weight(&p->b2)); // [S, D]
}
