// core/model/fused.c -- computes parts of a decoder layer in one call each, if the device has fused
// kernels.
//
// LoRA adds to single products, and trained matrices need their inputs saved: parts with either
// use the ops instead. With a tape, a part is one step with a fused backward pass. The step saves
// only its input, the FFN's products (bf16), and products that a norm follows.
//
// Easy to get wrong: the first computation of a block and its recorded recomputation must be
// bit-identical. So whether a tape is paused only decides where results go (over h, or into new
// memory), never what is computed.
#include "core/model/fused.h"

#include <string.h>

#include "core/graph/tape.h"
#include "core/model/attend.h"
#include "core/ops/check.h"

static bool trained(const struct linear *w)
{
    return w->weight.grad || w->bias.grad;
}

// Few rows and f16 weights have no fused backward pass, so a tape rules them out.
static bool usable_ordered(const struct graph *g, const struct tensor *h, const struct linear *w,
                           int count)
{
    if (!g->backend->fused || !graph_ok(g) || !h) return false;
    if (g->tape && h->shape[0] <= backend_few_rows(g->backend)) return false;
    for (int i = 0; i < count; i++)
        if (w[i].lora || (g->tape && (trained(&w[i]) || w[i].weight.dtype == DTYPE_F16)))
            return false;
    return true;
}

static bool usable(const struct graph *g, const struct tensor *h, const struct linear *w, int count)
{
    for (int i = 0; i < count; i++)
        if (w[i].weight.order.head) return false;
    return usable_ordered(g, h, w, count);
}

bool fused_is_plain(const struct linear *w, int count)
{
    for (int i = 0; i < count; i++)
        if (w[i].lora || w[i].weight.order.head) return false;
    return true;
}

struct fused_linear fused_whole(const struct linear *w)
{
    return (struct fused_linear){ .w = &w->weight, .bias = graph_weight(&w->bias) };
}

// False if the device cannot compute the part; true if it has, or has failed (recorded in the
// graph).
static bool done(struct graph *g, const char *what, int status)
{
    if (status < 0) graph_fail(g, "%s: %s", what, g->backend->failure());
    return status != FUSED_NOT;
}

// Returns the result tensor of a part that adds to h.
static struct tensor *sum_of(struct graph *g, struct tensor *h)
{
    return tape_on(g) ? graph_new(g, h->dtype, h->rank, h->shape) : h;
}

// Casts away const: a form's tensors belong to the graph and may have gradients.
static struct tensor *own(const struct tensor *t)
{
    return (struct tensor *)t;
}

// Copies a form for the tape; NULL: no tape records, or out of memory.
static void *kept(struct graph *g, const void *form, size_t size)
{
    void *copy = tape_on(g) ? arena_alloc_host(g->arena, size) : NULL;
    if (copy) return memcpy(copy, form, size);
    return tape_on(g) ? graph_fail(g, "out of memory on %s", g->backend->name) : NULL;
}

// --- queries, keys and values --------------------------------------------------------------------

// Makes the kernel rotate adjacent elements if a GGUF file stores both rows of a rotated pair side
// by side. False: any other row order. Biases and gains are never reordered.
static bool take_order(struct fused_qkv *p)
{
    const struct head_order q = p->wq.w->order, k = p->wk.w->order;
    const int64_t dim = 2 * p->cos->shape[1];
    if (!q.head && !k.head) return true;
    if (q.rotary != dim || k.rotary != dim || q.head != dim || k.head != dim) return false;
    if (p->adjacent || p->q_gain || p->wq.bias || p->wk.bias) return false;
    p->adjacent = dim / 2;
    return true;
}

static bool qkv(struct graph *g, struct fused_qkv p)
{
    p.mode = (int)g->matmul;
    return done(g, "queries, keys and values", g->backend->fused->qkv(&p));
}

bool fused_qkv(struct graph *g, const struct linear *w, int count, const struct fused_qkv *p)
{
    if (g->tape || !usable_ordered(g, p->h, w, count)) return false;
    if (!p->cos || !p->sin || !p->q || !p->k || !p->v) return false;
    struct fused_qkv form = *p;
    return take_order(&form) && qkv(g, form);
}

// Sets `part` to the three consecutive parts of `all` [n (H + 2 Hkv), d].
static void split(const struct tensor *all, const int64_t heads[3], int64_t n,
                  struct tensor part[3])
{
    const int64_t dim = all->shape[1];
    float *at = all->data;
    for (int i = 0; i < 3; i++) {
        part[i] = (struct tensor){ .data = at, .rank = 3, .shape = { n, heads[i], dim } };
        at += tensor_count(&part[i]);
    }
}

// State that the tape keeps for the backward pass.
struct qkv_kept {
    struct fused_qkv form;
    int64_t heads[3];
};

// Replaces d, the gradient of rotated heads, with the gradient before the heads' norm.
static bool heads_back(struct graph *g, const struct tape_step *s, const struct tensor *saved,
                       const struct tensor *gain, struct tensor *d)
{
    const struct backend *b = g->backend;
    const struct qkv_kept *w = s->self;
    struct tensor dgain, *const to_gain = tape_wanted(g, gain, &dgain);
    struct tensor *y = graph_new(g, DTYPE_F32, d->rank, d->shape); // rotated back
    struct tensor *x = graph_new(g, DTYPE_F32, d->rank, d->shape);
    if (!y || !x) return false;
    const bool failed = b->fill(y, 0) < 0 || b->fill(x, 0) < 0 ||
                        b->rope_backward(y, d, s->in[2], s->in[3]) < 0 ||
                        b->rmsnorm_backward(x, to_gain, y, saved, gain, w->form.eps) < 0;
    *d = *x;
    return op_back(g, "norms of heads", failed ? -1 : 0) == 0;
}

// s->in: h, gain, cos, sin, the gains of queries and keys.
static int qkv_backward(struct graph *g, const struct tape_step *s)
{
    const struct qkv_kept *w = s->self;
    const bool normed = w->form.q_gain;
    struct tensor dh, dgain, all, d[3];
    struct tensor *const to_h = tape_wanted(g, s->in[0], &dh);
    struct tensor *const to_gain = tape_wanted(g, s->in[1], &dgain);
    if (!tape_grad(g, s->out, &all)) return -1;
    split(&all, w->heads, s->in[0]->shape[0], d);
    const struct arena_mark mark = arena_mark(g->arena);
    if (normed && (!heads_back(g, s, w->form.saved_q, s->in[4], &d[0]) ||
                   !heads_back(g, s, w->form.saved_k, s->in[5], &d[1])))
        return -1;
    const struct fused_qkv_back p = { .dh = to_h,
                                      .dgain = to_gain,
                                      .dq = &d[0],
                                      .dk = &d[1],
                                      .dv = &d[2],
                                      .h = s->in[0],
                                      .gain = s->in[1],
                                      .eps = w->form.eps,
                                      .wq = w->form.wq,
                                      .wk = w->form.wk,
                                      .wv = w->form.wv,
                                      .adjacent = w->form.adjacent,
                                      .cos = normed ? NULL : s->in[2],
                                      .sin = normed ? NULL : s->in[3] };
    const int status = g->backend->fused->qkv_back(&p);
    arena_reset(g->arena, mark);
    return op_back(g, "queries, keys and values", status);
}

bool fused_qkv_taped(struct graph *g, const struct linear *w, int count, const struct fused_qkv *p,
                     int64_t heads, int64_t kv_heads, struct tensor *to[3])
{
    if (!usable_ordered(g, p->h, w, count) || !p->cos || !p->sin || !p->cache_rows) return false;
    struct qkv_kept keep = { *p, { heads, kv_heads, kv_heads } };
    if (!take_order(&keep.form)) return false;
    const int64_t n = p->h->shape[0], dim = 2 * p->cos->shape[1];
    const struct arena_mark mark = arena_mark(g->arena);
    struct tensor *all = graph_new2(g, DTYPE_F32, n * (heads + 2 * kv_heads), dim), part[3];
    if (!all) return false;
    split(all, keep.heads, n, part);
    keep.form.q = &part[0], keep.form.k = &part[1], keep.form.v = &part[2];
    if (p->q_gain && tape_on(g)) { // the backward pass needs the products of normed heads
        keep.form.saved_q = graph_new(g, DTYPE_F32, part[0].rank, part[0].shape);
        keep.form.saved_k = graph_new(g, DTYPE_F32, part[1].rank, part[1].shape);
        if (!keep.form.saved_q || !keep.form.saved_k) return false;
    }
    if (!qkv(g, keep.form)) {
        arena_reset(g->arena, mark);
        return false;
    }
    all = tape_record(g, all,
                      &(struct tape_step){ .backward = qkv_backward,
                                           .in = { own(p->h), own(p->gain), own(p->cos),
                                                   own(p->sin), own(p->q_gain), own(p->k_gain) },
                                           .self = kept(g, &keep, sizeof keep) });
    for (int64_t i = 0, from = 0, rows; i < 3; i++, from += rows) {
        rows = n * keep.heads[i];
        to[i] = graph_view(g, graph_rows(g, all, from, rows), 3, part[i].shape);
    }
    return true;
}

// --- attention -----------------------------------------------------------------------------------

bool fused_attend(struct graph *g, const struct linear *w, const struct fused_attend *p)
{
    if (g->tape || !usable(g, p->h, w, 1) || !g->backend->fused->attend) return false;
    if (!p->q || !p->k || !p->v || p->k->shape[2] != p->v->shape[2]) return false;
    struct fused_attend all = *p;
    all.w = fused_whole(w);
    all.mode = (int)g->matmul;
    return done(g, "attention", g->backend->fused->attend(&all));
}

// --- a norm after the product that is added ------------------------------------------------------

// Allocates the product that the backward pass needs.
static bool keep_product(struct graph *g, struct fused_after *after, const struct tensor *h)
{
    if (!after->gain || !tape_on(g)) return true;
    after->saved = graph_new2(g, DTYPE_F32, h->shape[0], h->shape[1]);
    return after->saved != NULL;
}

// Computes d, the gradient of the product before the norm: dy itself without a norm.
static bool after_back(struct graph *g, const struct fused_after *after, const struct tensor *dy,
                       struct tensor *d)
{
    struct tensor dgain;
    if (!after->gain) {
        *d = *dy;
        return true;
    }
    struct tensor *const to_gain = tape_wanted(g, after->gain, &dgain);
    struct tensor *x = graph_new(g, DTYPE_F32, dy->rank, dy->shape);
    if (!x) return false;
    *d = *x;
    if (g->backend->fill(d, 0) == 0 &&
        g->backend->rmsnorm_backward(d, to_gain, dy, after->saved, after->gain, after->eps) == 0)
        return true;
    graph_fail(g, "a norm after a product: %s", g->backend->failure());
    return false;
}

// --- h + after(w(x)) -----------------------------------------------------------------------------

// s->in: h, x, weight, the norm's gain; s->self: the form.
static int add_backward(struct graph *g, const struct tape_step *s)
{
    const struct fused_add *form = s->self;
    struct tensor dh, dx, dy, d;
    bool add;
    if (!tape_grad(g, s->out, &dy)) return -1;
    const struct arena_mark mark = arena_mark(g->arena);
    if (!after_back(g, &form->after, &dy, &d)) return -1;
    if (tape_grad_first(g, s->in[1], &dx, &add) &&
        g->backend->matmul_dx(&dx, &d, s->in[2], add, g->matmul) < 0)
        return op_back(g, "attention output", -1);
    arena_reset(g->arena, mark);
    tape_grad_pass(g, s, s->in[0], &dh);
    return op_back(g, "attention output", 0);
}

struct tensor *fused_add(struct graph *g, struct tensor *h, struct tensor *x,
                         const struct linear *w, const struct fused_after *after)
{
    if (!usable(g, h, w, 1) || !x) return NULL;
    const struct arena_mark mark = arena_mark(g->arena);
    struct fused_add p = {
        .y = sum_of(g, h), .h = h, .x = x, .w = fused_whole(w), .after = *after
    };
    if (!p.y || !keep_product(g, &p.after, h)) return NULL;
    p.mode = (int)g->matmul;
    if (!done(g, "attention output", g->backend->fused->add(&p))) {
        arena_reset(g->arena, mark);
        return NULL;
    }
    return tape_record(
        g, p.y,
        &(struct tape_step){ .backward = add_backward,
                             .in = { h, x, graph_weight(&w->weight), own(after->gain) },
                             .self = kept(g, &p, sizeof p) });
}

// --- FFN -----------------------------------------------------------------------------------------

// s->in: h, gain, the saved gate and up products, the gain of the norm after; s->self: the form.
static int ffn_backward(struct graph *g, const struct tape_step *s)
{
    const struct fused_ffn *w = s->self;
    struct tensor dh, dgain, dy, d;
    if (!tape_grad(g, s->out, &dy)) return -1;
    const struct arena_mark mark = arena_mark(g->arena);
    if (!after_back(g, &w->after, &dy, &d)) return -1;
    const bool want_h = tape_grad_pass(g, s, s->in[0], &dh); // dh may alias dy from here on
    struct tensor *const to_gain = tape_wanted(g, s->in[1], &dgain);
    if (!graph_ok(g)) return -1;
    const struct fused_ffn_back p = { .dh = want_h ? &dh : NULL,
                                      .dgain = to_gain,
                                      .dy = &d,
                                      .h = s->in[0],
                                      .gain = s->in[1],
                                      .eps = w->eps,
                                      .gate = w->gate.w,
                                      .up = w->up.w,
                                      .down = w->down.w,
                                      .saved_gate = s->in[2],
                                      .saved_up = s->in[3] };
    const int status = g->backend->fused->ffn_back(&p);
    arena_reset(g->arena, mark);
    return op_back(g, "FFN", status);
}

struct tensor *fused_ffn(struct graph *g, const struct linear *w, int count,
                         const struct fused_ffn *form, bool unread)
{
    struct fused_ffn p = *form;
    struct tensor *h = own(form->h);
    p.mode = (int)g->matmul;
    if (g->backend->ffn_rows) { // many rows on the CPU, without a tape; bit-identical to the ops
        if (g->tape || !graph_ok(g) || !h || !fused_is_plain(w, count)) return NULL;
        p.y = h;
        return done(g, "FFN", g->backend->ffn_rows(&p)) ? h : NULL;
    }
    if (!usable(g, h, w, count)) return NULL;
    if (g->tape && (form->gate.bias || form->up.bias)) return NULL; // no fused backward pass
    const struct arena_mark mark = arena_mark(g->arena);
    const int64_t n = h->shape[0], inner = tensor_row(p.down.w);
    const bool recorded = tape_on(g);
    struct tensor *y; // if unread, it only carries gradients back and keeps h's content
    if (recorded && unread) {
        y = graph_view(g, h, h->rank, h->shape);
        if (y) y->grad = NULL;
    } else {
        p.y = y = sum_of(g, h);
    }
    p.saved_gate = recorded ? graph_new2(g, DTYPE_BF16, n, inner) : NULL;
    p.saved_up = recorded ? graph_new2(g, DTYPE_BF16, n, inner) : NULL;
    if (!keep_product(g, &p.after, h) || !graph_ok(g)) return NULL;
    if (!done(g, "FFN", g->backend->fused->ffn(&p))) {
        arena_reset(g->arena, mark);
        return NULL;
    }
    return tape_record(
        g, y,
        &(struct tape_step){ .backward = ffn_backward,
                             .in = { h, own(p.gain), p.saved_gate, p.saved_up, own(p.after.gain) },
                             .self = kept(g, &p, sizeof p) });
}

// --- many rows on the CPU, bit-identical to the ops ----------------------------------------------

struct tensor *fused_gated(struct graph *g, const struct linear *w, struct tensor *x)
{
    if (!g->backend->ffn_rows || g->tape || !graph_ok(g) || !x || !fused_is_plain(w, 3))
        return NULL;
    const struct arena_mark mark = arena_mark(g->arena);
    struct fused_ffn p = { .h = x,
                           .gate = fused_whole(&w[FFN_GATE]),
                           .up = fused_whole(&w[FFN_UP]),
                           .down = fused_whole(&w[FFN_DOWN]),
                           .mode = (int)g->matmul };
    p.y = graph_new2(g, DTYPE_F32, x->shape[0], w[FFN_DOWN].weight.shape[0]);
    if (!p.y) return NULL;
    if (done(g, "FFN", g->backend->ffn_rows(&p))) return graph_ok(g) ? p.y : NULL;
    arena_reset(g->arena, mark);
    return NULL;
}

bool fused_products(struct graph *g, struct tensor *x, const struct norm_gain *norm,
                    const struct rows_product *product, int count)
{
    if (!g->backend->rows_products || g->tape || !graph_ok(g) || !x) return false;
    const struct rows_products p = { .x = x->data,
                                     .gain = norm->gain ? norm->gain->data : NULL,
                                     .eps = norm->eps,
                                     .rows = x->shape[0],
                                     .k = tensor_row(x),
                                     .product = product,
                                     .count = count,
                                     .mode = (int)g->matmul };
    return done(g, "products", g->backend->rows_products(&p));
}

bool fused_each(struct graph *g, struct tensor *x, const struct norm_gain *norm,
                const struct linear *const *w, int count, struct tensor *const *y)
{
    enum { MOST = 4 };
    struct rows_product product[MOST];
    if (count > MOST) return false;
    for (int i = 0; i < count; i++) {
        if (!y[i] || !fused_is_plain(w[i], 1)) return false;
        product[i] = (struct rows_product){ &w[i]->weight, graph_weight(&w[i]->bias), y[i]->data,
                                            w[i]->weight.shape[0] };
    }
    return fused_products(g, x, norm, product, count);
}

// --- few rows of a mixture of experts, and of latent attention -----------------------------------

bool fused_experts(struct graph *g, const struct linear *w, int count,
                   const struct fused_experts *p)
{
    if (g->tape || !usable(g, p->h, w, count) || !g->backend->fused->experts) return false;
    return done(g, "experts", g->backend->fused->experts(p));
}

bool fused_latent(struct graph *g, const struct linear *w, int count, const struct fused_latent *p)
{
    if (g->tape || !usable(g, p->h, w, count) || !g->backend->fused->latent) return false;
    return done(g, "latent attention", g->backend->fused->latent(p));
}
