// core/model/projector.c -- features [S,Dv] to visual tokens [S,D]: one linear layer, or two with
// GELU.
#include "core/model/projector.h"

#include "core/ops/ops.h"

int projector_bind(struct projector *p, struct binder *b, int64_t in, int64_t out)
{
    // One layer is called "linear" in some files and "linear_1" in others.
    const struct checkpoint *c = b->checkpoint;
    const char *first = bind_has(c, b->prefix, "linear_1.weight") ? "linear_1" : "linear";
    p->layers = bind_has(c, b->prefix, "linear_2.weight") ? 2 : 1;
    bind_linear(b, &p->linear_1, out, in, p->bias, "%s", first);
    if (p->layers == 2) bind_linear(b, &p->linear_2, out, out, p->bias, "linear_2");
    return b->failed ? -1 : 0;
}

struct tensor *projector_forward(struct graph *g, const struct projector *p, struct tensor *x)
{
    if (p->layers == 1) return linear_forward(g, x, &p->linear_1); // [S, D]
    x = linear_gelu(g, x, &p->linear_1, p->act);                   // [S, D]
    return linear_forward(g, x, &p->linear_2);                     // [S, D]
}
