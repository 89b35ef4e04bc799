// core/model/projector.c -- features [S,Dv] to visual tokens [S',D].
#include "core/model/projector.h"

#include "core/ops/ops.h"

// One layer is called "linear" in some files and "linear_1" in others.
static void linear_bind(struct projector *p, struct binder *b, int64_t in, int64_t out)
{
    const struct checkpoint *c = b->checkpoint;
    const char *first = bind_has(c, b->prefix, "linear_1.weight") ? "linear_1" : "linear";
    bind_linear(b, &p->linear_1, out, in, p->bias, "%s", first);
    if (bind_has(c, b->prefix, "linear_2.weight"))
        bind_linear(b, &p->linear_2, out, out, p->bias, "linear_2");
}

const struct projector_kind projector_linear = { .bind = linear_bind };

int projector_bind(struct projector *p, struct binder *b, int64_t in, int64_t out)
{
    const struct projector_kind *kind = p->kind;
    if (p->merge < 1) p->merge = 1;
    if (kind->bind) {
        kind->bind(p, b, in, out);
        return b->failed ? -1 : 0;
    }
    const int64_t joined = in * p->merge, inner = kind->wide ? joined : out;
    if (kind->norm) bind_norm(b, &p->norm, in, kind->norm_bias, "%s", kind->norm);
    bind_linear(b, &p->linear_1, inner, joined, p->bias, "%s", kind->linear_1);
    bind_linear(b, &p->linear_2, out, inner, p->bias, "%s", kind->linear_2);
    return b->failed ? -1 : 0;
}

struct tensor *projector_forward(struct graph *g, const struct projector *p, struct tensor *x)
{
    if (p->kind->forward) return p->kind->forward(g, p, x);
    x = norm_forward(g, x, &p->norm, p->kind->eps); // [S, Dv]
    if (x && p->merge > 1)
        x = graph_view(g, x, 2, (int64_t[]){ x->shape[0] / p->merge, p->merge * x->shape[1] });
    if (!p->linear_2.weight.data) return linear_forward(g, x, &p->linear_1); // [S', D]
    x = linear_gelu(g, x, &p->linear_1, p->act);                             // [S', inner]
    return linear_forward(g, x, &p->linear_2);                               // [S', D]
}
