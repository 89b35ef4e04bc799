// core/ops/recurrent.c -- the gated delta rule, the causal convolution before it, and the gate of
// attention outputs.
#include "core/ops/check.h"

// in: x, gate.
static int gate_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dgate, dy;
    struct tensor *const to_x = tape_wanted(g, s->in[0], &dx);
    struct tensor *const to_gate = tape_wanted(g, s->in[1], &dgate);
    if (!tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "sigmoid gate",
                   g->backend->sigmoid_gate_backward(to_x, to_gate, &dy, s->in[0], s->in[1]));
}

struct tensor *op_sigmoid_gate(struct graph *g, struct tensor *x, struct tensor *gate)
{
    if (!x || !gate || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, "sigmoid gate", "x", x) || !op_want_same(g, "sigmoid gate", x, gate))
        return NULL;
    struct tensor *y = tape_on(g) ? graph_new(g, DTYPE_F32, x->rank, x->shape) : x;
    if (!y) return NULL;
    return op_record(g, "sigmoid gate", g->backend->sigmoid_gate(y, x, gate), y,
                     &(struct tape_step){ .backward = gate_backward, .in = { x, gate } });
}

// in: x, w.
static int conv_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dw, dy;
    struct tensor *const to_x = tape_wanted(g, s->in[0], &dx);
    struct tensor *const to_w = tape_wanted(g, s->in[1], &dw);
    if (!tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "convolution",
                   g->backend->causal_conv_backward(to_x, to_w, &dy, s->in[0], s->in[1]));
}

struct tensor *op_causal_conv(struct graph *g, struct tensor *x, struct tensor *w,
                              const struct tensor *before, struct tensor *after)
{
    char left[96], right[96];
    if (!x || !w || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, "convolution", "x", x) || !op_want_f32(g, "convolution", "w", w))
        return NULL;
    if (w->rank != 2 || w->shape[0] != op_columns(x) || w->shape[1] < 1)
        return graph_fail(g, "convolution: %s over %s", op_shape(w, left), op_shape(x, right));
    if (tape_on(g) && (before || after)) BUG("a recorded convolution with earlier rows");
    struct tensor *y = graph_new2(g, DTYPE_F32, x->shape[0], w->shape[0]);
    if (!y) return NULL;
    return op_record(g, "convolution", g->backend->causal_conv(y, x, w, before, after), y,
                     &(struct tape_step){ .backward = conv_backward, .in = { x, w } });
}

// key_heads: negative if value heads alternate between them.
static struct delta_inputs inputs_of(struct tensor *const *in, int64_t key_heads)
{
    const bool alternate = key_heads < 0;
    return (struct delta_inputs){ in[0],    in[1], in[2],
                                  in[3],    in[4], alternate ? -key_heads : key_heads,
                                  alternate };
}

// in: x, a, b, log_a, bias; integer: key heads, as of inputs_of.
static int delta_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor d[5], dy;
    const struct delta_inputs p = inputs_of(s->in, s->integer);
    const struct delta_grads to = { tape_wanted(g, s->in[0], &d[0]),
                                    tape_wanted(g, s->in[1], &d[1]),
                                    tape_wanted(g, s->in[2], &d[2]),
                                    tape_wanted(g, s->in[3], &d[3]),
                                    tape_wanted(g, s->in[4], &d[4]) };
    if (!tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "delta rule", g->backend->delta_rule_backward(&to, &dy, &p));
}

struct tensor *op_delta_rule(struct graph *g, const struct delta_rule *p)
{
    struct tensor *const in[] = { p->x, p->a, p->b, p->log_a, p->bias };
    char text[96];
    if (!p->x || !p->a || !p->b || !graph_ok(g)) return NULL;
    const int64_t n = p->x->shape[0];
    const int64_t columns = 2 * p->key_heads * p->key_width + p->heads * p->width;
    if (!op_want_f32(g, "delta rule", "x", p->x) || !op_want_f32(g, "delta rule", "a", p->a) ||
        !op_want_f32(g, "delta rule", "b", p->b))
        return NULL;
    if (!op_want_vector(g, "delta rule", "log_a", p->log_a, p->heads) ||
        !op_want_vector(g, "delta rule", "bias", p->bias, p->heads))
        return NULL;
    if (p->x->rank != 2 || p->x->shape[1] != columns || p->heads % p->key_heads)
        return graph_fail(g, "delta rule: %s for %lld key and %lld value heads",
                          op_shape(p->x, text), (long long)p->key_heads, (long long)p->heads);
    for (int i = 1; i < 3; i++)
        if (in[i]->rank != 2 || in[i]->shape[0] != n || in[i]->shape[1] != p->heads)
            return graph_fail(g, "delta rule: %s for %lld rows and %lld heads",
                              op_shape(in[i], text), (long long)n, (long long)p->heads);
    if (tape_on(g) && (p->before || p->after)) BUG("a recorded delta rule with a state");
    struct tensor *y = graph_new3(g, DTYPE_F32, n, p->heads, p->width);
    if (!y) return NULL;
    const int64_t key_heads = p->alternate ? -p->key_heads : p->key_heads;
    const struct delta_inputs inputs = inputs_of(in, key_heads);
    return op_record(g, "delta rule", g->backend->delta_rule(y, &inputs, p->before, p->after), y,
                     &(struct tape_step){ .backward = delta_backward,
                                          .in = { in[0], in[1], in[2], in[3], in[4] },
                                          .integer = key_heads });
}
