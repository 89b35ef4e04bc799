// core/model/linear.c -- linear layers (weight, bias, LoRA) and norms.
#include "core/model/linear.h"

#include <math.h>

#include "core/ops/ops.h"

double lora_alpha(double scale, int64_t rank, bool stabilised)
{
    return scale * (stabilised ? sqrt((double)rank) : (double)rank);
}

typedef struct tensor *product_fn(struct graph *g, struct tensor *x, struct tensor *w,
                                  struct tensor *bias);

// Reorders the elements of each head: the first elements of all rotary pairs, then the second
// elements, then the elements without rotation.
static struct tensor *split_pairs(struct graph *g, struct tensor *y, int64_t heads,
                                  struct head_order o)
{
    const int64_t half = o.rotary / 2, rest = o.head - o.rotary;
    const struct column_part parts[] = { { y, { 0, 2, half } },
                                         { y, { 1, 2, half } },
                                         { y, { o.rotary, 1, rest } } };
    return op_columns_of(g, heads, parts, rest ? 3 : 2);
}

// The inverse of split_pairs: puts the two elements of each pair side by side.
static struct tensor *join_pairs(struct graph *g, struct tensor *y, int64_t heads,
                                 struct head_order o)
{
    const int64_t half = -o.rotary / 2, rest = o.head - 2 * half;
    struct tensor *part[2];
    for (int i = 0; i < 2; i++) {
        part[i] = op_columns_of(g, heads, &(struct column_part){ y, { i * half, 1, half } }, 1);
        if (!part[i]) return NULL;
        part[i] = graph_view(g, part[i], 2, (int64_t[]){ heads * half, 1 });
    }
    const struct column_part pair[] = { { part[0], { 0, 1, 1 } }, { part[1], { 0, 1, 1 } } };
    struct tensor *pairs = op_columns_of(g, heads * half, pair, 2); // [heads*half, 2]
    pairs = pairs ? graph_view(g, pairs, 2, (int64_t[]){ heads, 2 * half }) : NULL;
    if (!pairs || !rest) return pairs;
    const struct column_part all[] = { { pairs, { 0, 1, 2 * half } },
                                       { y, { 2 * half, 1, rest } } };
    return op_columns_of(g, heads, all, 2);
}

struct tensor *linear_add_bias(struct graph *g, struct tensor *y, const struct tensor *bias)
{
    // The product of a column of ones and the bias repeats the bias in every row.
    if (!bias->data || !y || !graph_ok(g)) return y;
    struct tensor *ones = graph_new2(g, DTYPE_F32, y->shape[0], 1);
    if (!ones) return NULL;
    if (g->backend->fill(ones, 1) < 0) return graph_fail(g, "fill: %s", g->backend->failure());
    struct tensor *column = graph_view(g, graph_weight(bias), 2, (int64_t[]){ y->shape[1], 1 });
    return op_add(g, y, op_matmul(g, ones, column, NULL));
}

static struct tensor *forward(struct graph *g, struct tensor *x, const struct linear *w,
                              product_fn *product)
{
    const struct head_order o = w->weight.order;
    struct tensor *bias = graph_weight(&w->bias);
    struct tensor *y = product(g, x, graph_weight(&w->weight), o.head ? NULL : bias);
    if (o.head && y) { // the weight's rows are reordered; the bias never is
        const int64_t n = y->shape[0], out = y->shape[1], heads = n * out / o.head;
        y = graph_view(g, y, 2, (int64_t[]){ heads, o.head });
        if (y) y = o.rotary > 0 ? split_pairs(g, y, heads, o) : join_pairs(g, y, heads, o);
        y = y ? linear_add_bias(g, graph_view(g, y, 2, (int64_t[]){ n, out }), &w->bias) : NULL;
    }
    if (!w->lora) return y;
    const struct lora_sides sides = { &w->lora->a, &w->lora->b, w->lora->scale };
    return op_lora(g, y, x, &sides, product == op_matmul);
}

struct tensor *linear_forward(struct graph *g, struct tensor *x, const struct linear *w)
{
    return forward(g, x, w, op_matmul);
}

struct tensor *linear_unread(struct graph *g, struct tensor *x, const struct linear *w)
{
    return forward(g, x, w, op_matmul_unread);
}

// Returns NULL if the device has no fused kernel for this layer, or if the kernel failed (recorded
// in the graph).
static struct tensor *fused_gelu(struct graph *g, struct tensor *x, const struct linear *w,
                                 enum gelu_form form)
{
    const struct fused *fused = g->backend->fused;
    if (!fused || !fused->gelu || g->tape || w->lora || !x || !graph_ok(g)) return NULL;
    if (dtype_in_blocks(w->weight.dtype) || w->weight.order.head) return NULL;
    struct arena_mark mark = arena_mark(g->arena);
    struct tensor *y = graph_new2(g, DTYPE_F32, x->shape[0], w->weight.shape[0]);
    if (!y) return NULL;
    const struct fused_gelu p = { .y = y,
                                  .x = x,
                                  .w = { &w->weight, graph_weight(&w->bias) },
                                  .form = (int)form,
                                  .mode = (int)g->matmul };
    const int status = fused->gelu(&p);
    if (status == 0) return y;
    if (status < 0) graph_fail(g, "GELU: %s", g->backend->failure());
    arena_reset(g->arena, mark);
    return NULL;
}

struct tensor *linear_gelu(struct graph *g, struct tensor *x, const struct linear *w,
                           enum gelu_form form)
{
    struct tensor *y = fused_gelu(g, x, w, form);
    return y ? y : op_gelu(g, linear_forward(g, x, w), form);
}

struct tensor *linear_part(struct graph *g, struct tensor *y, int part, int parts)
{
    if (!y || !graph_ok(g)) return NULL;
    const int64_t width = y->shape[1] / parts;
    return op_columns_of(g, y->shape[0], &(struct column_part){ y, { part * width, 1, width } }, 1);
}

void linear_apart(struct graph *g, struct tensor *x, const struct linear *w, int parts,
                  struct tensor **part)
{
    const int64_t rows = w->weight.shape[0] / parts;
    if (g->backend->own_memory || g->tape || w->lora || w->weight.order.head) {
        struct tensor *all = linear_forward(g, x, w);
        for (int i = 0; i < parts; i++) part[i] = linear_part(g, all, i, parts);
        return;
    }
    // Computes one product per part, with that part's rows of the weight, to avoid copying results.
    for (int i = 0; i < parts; i++)
        part[i] = op_matmul(g, x, graph_rows(g, graph_weight(&w->weight), i * rows, rows),
                            graph_rows(g, graph_weight(&w->bias), i * rows, rows));
}

struct tensor *norm_forward(struct graph *g, struct tensor *x, const struct norm *w, double eps)
{
    struct tensor *gain = graph_weight(&w->gain), *bias = graph_weight(&w->bias);
    if (!gain) return x;
    return bias ? op_layernorm(g, x, gain, bias, (float)eps) : op_rmsnorm(g, x, gain, (float)eps);
}
