// core/model/linear_rows.c -- rows that only linear layers read, packed if the device supports it.
#include "core/model/linear_rows.h"

#include "core/ops/check.h"
#include "core/ops/ops.h"

// True if these layers can read packed rows: not with a tape, LoRA, reordered rows or
// block-quantised weights.
static bool packs(const struct graph *g, int64_t rows, const struct linear *const *read_by)
{
    const struct packed_ops *d = g->backend->products;
    if (!d || g->tape || !d->takes(rows, (int)g->matmul)) return false;
    for (; *read_by; read_by++) {
        const struct tensor *w = &(*read_by)->weight;
        if (w->data && ((*read_by)->lora || w->order.head || dtype_in_blocks(w->dtype)))
            return false;
    }
    return true;
}

// Allocates packed rows [n,k]; data NULL after a failure.
static struct packed_rows packed_new(struct graph *g, int64_t n, int64_t k)
{
    const size_t bytes = g->backend->products->bytes(n, k);
    struct tensor *memory = graph_new1(g, DTYPE_U8, (int64_t)bytes);
    return (struct packed_rows){ memory ? memory->data : NULL, n, k };
}

static void check(struct graph *g, int status)
{
    if (status < 0) graph_fail(g, "product: %s", g->backend->failure());
}

static bool has_weight(struct graph *g, const struct tensor *w)
{
    if (!w) graph_fail(g, "product: its weight is missing");
    return w != NULL;
}

// Checks the shapes, like the ops, because devices rely on them.
static bool fits(struct graph *g, const struct packed_product *p, const struct tensor *w,
                 const struct tensor *bias)
{
    const int64_t out = p->y ? op_columns(p->y) : p->packed.k;
    char shape[96];
    if (!has_weight(g, w)) return false;
    if (w->rank >= 2 && op_columns(w) == p->x.k && w->shape[0] == out)
        return !bias || op_want_vector(g, "product", "bias", bias, out);
    graph_fail(g, "product: x with %lld columns and y with %lld do not fit w %s", (long long)p->x.k,
               (long long)out, op_shape(w, shape));
    return false;
}

static void multiply(struct graph *g, const struct packed_product *p)
{
    if (fits(g, p, p->w, p->bias) && (!p->up || fits(g, p, p->up, p->up_bias)))
        check(g, g->backend->products->run(p));
}

struct linear_rows linear_rows_norm(struct graph *g, struct tensor *x, const struct norm *norm,
                                    double eps, const struct linear *const *read_by)
{
    if (!x || !graph_ok(g)) return (struct linear_rows){ 0 };
    if (!packs(g, x->shape[0], read_by))
        return (struct linear_rows){ norm_forward(g, x, norm, eps), { 0 } };
    const struct row_packing p = { .to = packed_new(g, x->shape[0], tensor_row(x)),
                                   .x = x,
                                   .gain = graph_weight(&norm->gain),
                                   .bias = graph_weight(&norm->bias),
                                   .eps = (float)eps };
    if (p.to.data) check(g, g->backend->products->pack(&p));
    return (struct linear_rows){ NULL, p.to };
}

static struct packed_product product_of(const struct linear_rows *x, const struct linear *w,
                                        enum product_epilogue epilogue)
{
    return (struct packed_product){ .epilogue = epilogue,
                                    .x = x->packed,
                                    .w = graph_weight(&w->weight),
                                    .bias = graph_weight(&w->bias) };
}

struct tensor *linear_rows_times(struct graph *g, const struct linear_rows *x,
                                 const struct linear *w, enum dtype dtype)
{
    if (!x->packed.data) return linear_forward(g, x->plain, w);
    struct packed_product p = product_of(x, w, PRODUCT_STORED);
    p.y = graph_new2(g, dtype, x->packed.rows, w->weight.shape[0]);
    if (p.y) multiply(g, &p);
    return graph_ok(g) ? p.y : NULL;
}

void linear_rows_apart(struct graph *g, const struct linear_rows *x, const struct linear *w,
                       int parts, const enum dtype *dtype, struct tensor **part)
{
    const int64_t each = w->weight.shape[0] / parts;
    if (!x->packed.data) {
        linear_apart(g, x->plain, w, parts, part);
        return;
    }
    for (int i = 0; i < parts; i++) {
        const struct tensor *weight = graph_rows(g, graph_weight(&w->weight), i * each, each);
        const struct tensor *bias = graph_rows(g, graph_weight(&w->bias), i * each, each);
        const struct linear one = { .weight = weight ? *weight : (struct tensor){ 0 },
                                    .bias = bias ? *bias : (struct tensor){ 0 } };
        part[i] = graph_ok(g) ? linear_rows_times(g, x, &one, dtype[i]) : NULL;
    }
}

// Runs p and packs its results.
static struct linear_rows packed_result(struct graph *g, struct packed_product *p)
{
    if (!has_weight(g, p->w)) return (struct linear_rows){ 0 };
    p->packed = packed_new(g, p->x.rows, p->w->shape[0]);
    if (p->packed.data) multiply(g, p);
    return (struct linear_rows){ NULL, p->packed };
}

static bool stays_packed(const struct graph *g, const struct linear_rows *x,
                         const struct linear *next)
{
    return x->packed.data && packs(g, x->packed.rows, (const struct linear *const[]){ next, NULL });
}

struct linear_rows linear_rows_gelu(struct graph *g, const struct linear_rows *x,
                                    const struct linear *w, enum gelu_form form,
                                    const struct linear *next)
{
    if (!graph_ok(g)) return (struct linear_rows){ 0 };
    if (!x->packed.data) return (struct linear_rows){ linear_gelu(g, x->plain, w, form), { 0 } };
    if (!stays_packed(g, x, next))
        return (struct linear_rows){ op_gelu(g, linear_rows_times(g, x, w, DTYPE_F32), form),
                                     { 0 } };
    struct packed_product p = product_of(x, w, PRODUCT_GELU);
    p.form = (int)form;
    return packed_result(g, &p);
}

struct linear_rows linear_rows_gated(struct graph *g, const struct linear_rows *x,
                                     const struct linear *gate, const struct linear *up,
                                     const struct linear *next)
{
    if (!graph_ok(g)) return (struct linear_rows){ 0 };
    if (!stays_packed(g, x, next)) {
        struct tensor *a = linear_rows_times(g, x, gate, DTYPE_F32);
        struct tensor *b = linear_rows_times(g, x, up, DTYPE_F32);
        return (struct linear_rows){ op_swiglu(g, a, b), { 0 } };
    }
    struct packed_product p = product_of(x, gate, PRODUCT_GATED);
    p.up = graph_weight(&up->weight);
    p.up_bias = graph_weight(&up->bias);
    return packed_result(g, &p);
}

bool linear_rows_attends(const struct graph *g, int64_t rows, const struct linear *next)
{
    return packs(g, rows, (const struct linear *const[]){ next, NULL });
}

struct linear_rows linear_rows_attention(struct graph *g, const struct packed_attention *p)
{
    struct packed_attention all = *p;
    if (!p->q || !p->k || !p->v || !graph_ok(g)) return (struct linear_rows){ 0 };
    // Checks the shapes, like op_attention, because devices rely on them.
    const int64_t *q = p->q->shape, *k = p->k->shape, *v = p->v->shape;
    if (p->q->rank != 3 || p->k->rank != 3 || p->v->rank != 3 || q[0] != k[0] || q[0] != v[0] ||
        q[1] != k[1] || q[1] != v[1] || q[2] != k[2] ||
        (p->cos && (q[2] % 2 || p->k->dtype != DTYPE_F32))) {
        graph_fail(g, "attention: queries, keys and values do not fit each other");
        return (struct linear_rows){ 0 };
    }
    all.to = packed_new(g, p->q->shape[0], p->v->shape[1] * p->v->shape[2]);
    if (all.to.data) check(g, g->backend->products->attend(&all));
    return (struct linear_rows){ NULL, all.to };
}

struct tensor *linear_rows_add(struct graph *g, struct tensor *h, int64_t from,
                               const struct linear_rows *x, const struct linear *w,
                               const struct tensor *scale)
{
    if (!h || !graph_ok(g)) return NULL;
    if (!x->packed.data) {
        struct tensor *y = linear_forward(g, x->plain, w);
        return op_add_rows(g, h, from,
                           scale->data ? op_scale_columns(g, y, graph_weight(scale)) : y);
    }
    struct packed_product p = product_of(x, w, PRODUCT_ADDED);
    p.scale = graph_weight(scale);
    p.y = graph_rows(g, h, from, x->packed.rows);
    if (p.y) multiply(g, &p);
    return graph_ok(g) ? h : NULL;
}
