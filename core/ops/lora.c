// core/ops/lora.c -- adds LoRA to a product (Hu et al. 2021, arXiv 2106.09685, equation 3):
//
//   low = scale x a^T [N,r];  y += low b^T [N,M]
//
// Separate matmul, scale and add ops would keep two tensors as large as y for the backward pass and
// stream each through memory. This op keeps only `low` and adds to y in place. The gradient of the
// sum is also the gradient of the product in y, so the backward steps of both share it.
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/ops/check.h"

// in: x, a, b, low. With dlow = scale dy b: da += dlow^T x, dx += dlow a; db += dy^T low.
static int lora_backward(struct graph *g, const struct tape_step *s)
{
    const struct backend *k = g->backend;
    struct tensor *x = s->in[0], *a = s->in[1], *b = s->in[2], *low = s->in[3], dx, da, db, dy;
    bool add;
    const bool want_x = tape_grad_first(g, x, &dx, &add), want_a = tape_grad(g, a, &da);
    const bool want_b = tape_grad(g, b, &db);
    if (!tape_grad(g, s->out, &dy)) return -1;
    if (want_b && k->matmul_dw(&db, NULL, &dy, low, g->matmul) < 0) return op_back(g, "LoRA", -1);
    if (!want_x && !want_a) return op_back(g, "LoRA", 0);
    struct arena_mark mark = arena_mark(g->arena);
    struct tensor *dlow = graph_new2(g, DTYPE_F32, low->shape[0], low->shape[1]);
    if (!dlow) return -1;
    int status = k->matmul_dx(dlow, &dy, b, false, g->matmul);
    if (status == 0) status = k->scale(dlow, dlow, s->real);
    if (status == 0 && want_a) status = k->matmul_dw(&da, NULL, dlow, x, g->matmul);
    if (status == 0 && want_x) status = k->matmul_dx(&dx, dlow, a, add, g->matmul);
    arena_reset(g->arena, mark);
    return op_back(g, "LoRA", status);
}

// Computes y += low b^T. For many rows, first transposes b (a product with the identity): only
// matmul_dx, which reads the transpose, can add in place. That pays only if the rank is below the
// number of rows.
static int add_product(struct graph *g, struct tensor *y, struct tensor *low, struct tensor *b)
{
    const struct backend *k = g->backend;
    const int64_t n = y->shape[0], m = y->shape[1], r = low->shape[1];
    if (n <= backend_few_rows(k) || n <= r) {
        struct tensor *more = graph_new2(g, DTYPE_F32, n, m);
        if (!more || k->matmul(more, low, b, NULL, g->matmul) < 0) return -1;
        return k->add(y, y, more);
    }
    float *ones = xcalloc((size_t)(r * r), sizeof *ones);
    for (int64_t i = 0; i < r; i++) ones[i * r + i] = 1;
    struct tensor *identity = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ r, r }, ones);
    struct tensor *transposed = graph_new2(g, DTYPE_F32, r, m);
    free(ones);
    if (!identity || !transposed || k->matmul(transposed, identity, b, NULL, g->matmul) < 0)
        return -1;
    return k->matmul_dx(y, low, transposed, true, g->matmul);
}

struct tensor *op_lora(struct graph *g, struct tensor *y, struct tensor *x,
                       const struct lora_sides *w, bool read)
{
    char left[96], right[96];
    if (!y || !x || !graph_ok(g)) return NULL;
    if (!op_want_f32(g, "LoRA", "y", y) || !op_want_f32(g, "LoRA", "x", x)) return NULL;
    if (op_columns(x) != op_columns(w->a) || w->a->shape[0] != op_columns(w->b) ||
        y->shape[0] != x->shape[0] || op_columns(y) != w->b->shape[0])
        return graph_fail(g, "LoRA: a %s and b %s do not fit", op_shape(w->a, left),
                          op_shape(w->b, right));
    const struct backend *k = g->backend;
    struct tensor *low = graph_new2(g, DTYPE_F32, x->shape[0], w->a->shape[0]); // scale x a^T
    int status = low ? k->matmul(low, x, w->a, NULL, g->matmul) : -1;
    if (status == 0) status = k->scale(low, low, w->scale);
    if (status == 0 && read) {
        struct arena_mark mark = arena_mark(g->arena); // not needed by the backward pass
        status = add_product(g, y, low, w->b);
        arena_reset(g->arena, mark);
    }
    return tape_record(g, op_done(g, "LoRA", status, y),
                       &(struct tape_step){ .backward = lora_backward,
                                            .in = { x, w->a, w->b, low },
                                            .real = w->scale });
}
