// core/ops/experts.c -- a mixture of experts: the chosen experts' weights, and the weighted sum of
// their outputs.
#include "core/ops/check.h"

// in: logits, index; integer: normalise; real: scale.
static int weights_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dlogits, dw;
    if (!tape_grad(g, s->in[0], &dlogits) || !tape_grad(g, s->out, &dw)) return -1;
    return op_back(g, "expert weights",
                   g->backend->expert_weights_backward(&dlogits, &dw, s->in[0], s->in[1],
                                                       s->integer != 0, s->real));
}

struct tensor *op_expert_weights(struct graph *g, struct tensor *logits, const int32_t *index,
                                 int64_t count, bool normalise, float scale)
{
    if (!logits || !graph_ok(g) || !op_want_f32(g, "expert weights", "x", logits)) return NULL;
    const int64_t shape[] = { logits->shape[0], count };
    if (!op_want_indices(g, "expert weights", index, shape[0] * count, logits->shape[1]))
        return NULL;
    struct tensor *chosen = graph_upload(g, DTYPE_I32, 2, shape, index);
    struct tensor *w = graph_new2(g, DTYPE_F32, shape[0], count);
    if (!chosen || !w) return NULL;
    return op_record(g, "expert weights",
                     g->backend->expert_weights(w, logits, chosen, normalise, scale), w,
                     &(struct tape_step){ .backward = weights_backward,
                                          .in = { logits, chosen },
                                          .integer = normalise,
                                          .real = scale });
}

// in: x, weight, index, into. The gradient of the sum is also that of `into`.
static int add_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dx, dweight, dy;
    struct tensor *const to_x = tape_wanted(g, s->in[0], &dx);
    struct tensor *const to_weight = tape_wanted(g, s->in[1], &dweight);
    if (!tape_grad(g, s->out, &dy)) return -1;
    return op_back(
        g, "weighted rows",
        g->backend->add_weighted_rows_backward(to_x, to_weight, &dy, s->in[0], s->in[2], s->in[1]));
}

struct tensor *op_add_weighted_rows(struct graph *g, struct tensor *into, struct tensor *x,
                                    const int32_t *index, struct tensor *weight)
{
    if (!into || !x || !weight || !graph_ok(g)) return NULL;
    char left[96], right[96];
    if (!op_want_f32(g, "weighted rows", "x", x) || !op_want_f32(g, "weighted rows", "y", into) ||
        !op_want_vector(g, "weighted rows", "weight", weight, x->shape[0]) ||
        !op_want_indices(g, "weighted rows", index, x->shape[0], into->shape[0]))
        return NULL;
    if (op_columns(into) != op_columns(x))
        return graph_fail(g, "weighted rows: %s and %s differ", op_shape(into, left),
                          op_shape(x, right));
    struct tensor *there = graph_upload(g, DTYPE_I32, 1, x->shape, index);
    if (!there) return NULL;
    return op_record(
        g, "weighted rows", g->backend->add_weighted_rows(into, x, there, weight), into,
        &(struct tape_step){ .backward = add_backward, .in = { x, weight, there, into } });
}
