// core/ops/cross_entropy.c -- the loss of rows whose next tokens are known, and its gradient while
// the logits are there.
//
// Rows go through head and softmax a few at a time: for a vocabulary of 128k and a thousand answer
// tokens the logits alone would be 0.5 GB, their gradient as much again.
#include "core/ops/check.h"

enum { CHUNK_NUMBERS = 1 << 23, CHUNK_ROWS = 256, CHUNK_LEAST = 16 }; // 32 MB of logits

// One chunk: rows of x, their next tokens and weights, and where the gradients go (NULL: not
// wanted).
struct chunk {
    struct tensor *x, *w, *target, *weight;
    struct tensor *dx, *dw;
};

static int chunk_loss(struct graph *g, const struct chunk *c, float *loss)
{
    int64_t n = c->x->shape[0];
    struct tensor *logits = graph_new2(g, DTYPE_F32, n, c->w->shape[0]); // [n, V]
    struct tensor *losses = graph_new1(g, DTYPE_F32, n);
    if (!logits || !losses) return -1;
    const struct backend *b = g->backend;
    if (b->matmul(logits, c->x, c->w, NULL, g->matmul) < 0 ||
        b->cross_entropy(losses, logits, c->target, c->weight) < 0 ||
        (c->dx && b->matmul_dx(c->dx, logits, c->w, true, g->matmul) < 0) ||
        (c->dw && b->matmul_dw(c->dw, NULL, logits, c->x, g->matmul) < 0))
        return op_back(g, "cross entropy", -1);
    b->download(loss, losses->data, (size_t)n * sizeof *loss);
    return 0;
}

static bool want_head(struct graph *g, const struct tensor *x, const struct tensor *w)
{
    char left[96], right[96];
    if (!op_want_f32(g, "cross entropy", "x", x)) return false;
    if (op_is_weight(w) && w->rank == 2 && x->rank == 2 && x->shape[1] == w->shape[1]) return true;
    graph_fail(g, "cross entropy: x %s does not fit w %s", op_shape(x, left), op_shape(w, right));
    return false;
}

int op_cross_entropy(struct graph *g, struct tensor *x, struct tensor *w, const int32_t *target,
                     const float *weight, float *loss)
{
    if (!x || !w || !graph_ok(g)) return -1;
    if (!want_head(g, x, w) ||
        !op_want_indices(g, "cross entropy", target, x->shape[0], w->shape[0]))
        return -1;
    struct tensor dx, dw;
    bool want_x = tape_on(g) && tape_grad(g, x, &dx), want_w = tape_on(g) && tape_grad(g, w, &dw);
    int64_t rows = CHUNK_NUMBERS / (w->shape[0] + 1);
    rows = rows > CHUNK_ROWS ? CHUNK_ROWS : rows < CHUNK_LEAST ? CHUNK_LEAST : rows;
    for (int64_t i = 0; i < x->shape[0] && !graph_stop(g); i += rows) {
        int64_t m = x->shape[0] - i < rows ? x->shape[0] - i : rows;
        struct arena_mark mark = arena_mark(g->arena);
        struct chunk c = { .x = graph_rows(g, x, i, m),
                           .w = w,
                           .target = graph_upload(g, DTYPE_I32, 1, &m, target + i),
                           .weight = graph_upload(g, DTYPE_F32, 1, &m, weight + i),
                           .dx = want_x ? graph_rows(g, &dx, i, m) : NULL,
                           .dw = want_w ? &dw : NULL };
        if (!graph_ok(g) || chunk_loss(g, &c, loss + i) < 0) return -1;
        arena_reset(g->arena, mark);
    }
    return graph_ok(g) ? 0 : -1;
}
