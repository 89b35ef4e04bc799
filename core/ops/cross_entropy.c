// core/ops/cross_entropy.c -- the next-token loss of rows, and its gradient from the same logits.
//
// Computes head and softmax for a few rows at a time: with a vocabulary of 128k, the logits of a
// thousand answer tokens would take 0.5 GB, and their gradient as much again.
#include "core/ops/check.h"

enum { CHUNK_NUMBERS = 1 << 23, CHUNK_ROWS = 256, CHUNK_LEAST = 16 }; // 32 MB of logits

// Computes the losses of rows from their logits [m,V] or, with a cap, from their capped logits. If
// `differentiate`, the logits become their gradient; else they are overwritten.
static int losses_of(struct graph *g, struct tensor *losses, struct tensor *logits, float cap,
                     const struct tensor *next, const struct tensor *weights, bool differentiate)
{
    const struct backend *b = g->backend;
    if (cap > 0 && !differentiate && b->softcap(logits, logits, cap) < 0) return -1;
    if (!(cap > 0) || !differentiate) return b->cross_entropy(losses, logits, next, weights);
    struct tensor *capped = graph_new2(g, DTYPE_F32, logits->shape[0], logits->shape[1]);
    struct tensor *back = graph_new2(g, DTYPE_F32, logits->shape[0], logits->shape[1]);
    if (!capped || !back || b->softcap(capped, logits, cap) < 0 || b->widen(back, capped) < 0 ||
        b->cross_entropy(losses, back, next, weights) < 0 || b->fill(logits, 0) < 0)
        return -1;
    return b->softcap_backward(logits, back, capped, cap);
}

int op_cross_entropy(struct graph *g, struct tensor *x, struct tensor *w, float cap,
                     const int32_t *target, const float *weight, float *loss)
{
    if (!x || !w || !graph_ok(g)) return -1;
    char left[96], right[96];
    const struct backend *b = g->backend;
    if (!op_want_f32(g, "cross entropy", "x", x)) return -1;
    if (!op_is_weight(w) || w->rank != 2 || x->rank != 2 || x->shape[1] != w->shape[1]) {
        graph_fail(g, "cross entropy: x %s does not fit w %s", op_shape(x, left),
                   op_shape(w, right));
        return -1;
    }
    if (!op_want_indices(g, "cross entropy", target, x->shape[0], w->shape[0])) return -1;
    struct tensor dx, dw;
    bool want_x = tape_on(g) && tape_grad(g, x, &dx), want_w = tape_on(g) && tape_grad(g, w, &dw);
    int64_t rows = CHUNK_NUMBERS / (w->shape[0] + 1);
    rows = rows > CHUNK_ROWS ? CHUNK_ROWS : rows < CHUNK_LEAST ? CHUNK_LEAST : rows;
    for (int64_t i = 0; i < x->shape[0] && !graph_stop(g); i += rows) {
        int64_t m = x->shape[0] - i < rows ? x->shape[0] - i : rows;
        struct arena_mark mark = arena_mark(g->arena);
        struct tensor *rows_x = graph_rows(g, x, i, m), *to_x = NULL;
        struct tensor *next = graph_upload(g, DTYPE_I32, 1, &m, target + i);
        struct tensor *weights = graph_upload(g, DTYPE_F32, 1, &m, weight + i);
        struct tensor *logits = graph_new2(g, DTYPE_F32, m, w->shape[0]); // [m, V]
        struct tensor *losses = graph_new1(g, DTYPE_F32, m);
        if (want_x) to_x = graph_rows(g, &dx, i, m);
        if (!graph_ok(g)) return -1;
        if (b->matmul(logits, rows_x, w, NULL, g->matmul) < 0 ||
            losses_of(g, losses, logits, cap, next, weights, want_x || want_w) < 0 ||
            (to_x && b->matmul_dx(to_x, logits, w, true, g->matmul) < 0) ||
            (want_w && b->matmul_dw(&dw, NULL, logits, rows_x, g->matmul) < 0))
            return op_back(g, "cross entropy", -1);
        b->download(loss + i, losses->data, (size_t)m * sizeof *loss);
        arena_reset(g->arena, mark);
    }
    return graph_ok(g) ? 0 : -1;
}
