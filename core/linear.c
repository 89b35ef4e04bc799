// core/linear.c -- a linear layer: weight, bias, and what LoRA adds to it.
#include "core/linear.h"

#include "core/ops.h"

struct tensor *linear_forward(struct graph *g, struct tensor *x, const struct linear *w)
{
    struct tensor *y = op_matmul(g, x, graph_weight(&w->weight), graph_weight(&w->bias));
    if (!w->lora) return y;
    struct tensor *low = op_matmul(g, x, &w->lora->a, NULL); // [N, r]
    low = op_scale(g, low, w->lora->scale);
    return op_add(g, y, op_matmul(g, low, &w->lora->b, NULL)); // [N, out]
}
