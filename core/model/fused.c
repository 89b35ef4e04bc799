// core/model/fused.c -- parts of a decoder layer in one call each, if the device has such forms.
//
// With LoRA, which adds to single products, and with trained matrices, whose inputs must be saved,
// the ops are used instead. With a tape a part is one step with a fused backward form, which saves
// only its input and the results of the FFN's products, in bf16.
//
// Easy to get wrong: the first computation of a block and its recorded recomputation must be
// bit-identical. So with a tape, whether it is paused only decides where results go (over h, or
// into new memory), never what is computed.
#include "core/model/fused.h"

#include "core/graph/tape.h"
#include "core/model/attend.h"
#include "core/ops/check.h"

static bool trained(const struct linear *w)
{
    return w->weight.grad || w->bias.grad;
}

// For one row and for f16 weights there are no backward forms, so with a tape they are not used.
static bool usable(const struct graph *g, const struct tensor *h, const struct linear *w, int count)
{
    if (!g->backend->fused || !graph_ok(g) || !h || (g->tape && h->shape[0] == 1)) return false;
    for (int i = 0; i < count; i++)
        if (w[i].lora || (g->tape && (trained(&w[i]) || w[i].weight.dtype == DTYPE_F16)))
            return false;
    return true;
}

static struct fused_linear plain(const struct linear *w)
{
    return (struct fused_linear){ &w->weight, graph_weight(&w->bias) };
}

// Was it computed, or did it fail?
static bool done(struct graph *g, const char *what, int status)
{
    if (status < 0) graph_fail(g, "%s: %s", what, g->backend->failure());
    return status != FUSED_NOT;
}

// The result tensor of a part that adds to h.
static struct tensor *sum_of(struct graph *g, struct tensor *h)
{
    return tape_on(g) ? graph_new(g, h->dtype, h->rank, h->shape) : h;
}

// --- queries, keys and values --------------------------------------------------------------------

static bool qkv(struct graph *g, const struct sublayer *w, float eps, const struct tensor *h,
                const struct tensor *cos, const struct tensor *sin, const struct tensor *places,
                int64_t first, struct tensor *q, struct tensor *k, struct tensor *v)
{
    const struct fused_qkv p = { .h = h,
                                 .gain = &w->before,
                                 .eps = eps,
                                 .wq = plain(&w->weight[ATTENTION_Q]),
                                 .wk = plain(&w->weight[ATTENTION_K]),
                                 .wv = plain(&w->weight[ATTENTION_V]),
                                 .cos = cos,
                                 .sin = sin,
                                 .places = places,
                                 .first = first,
                                 .q = q,
                                 .k = k,
                                 .v = v,
                                 .mode = (int)g->matmul };
    return done(g, "queries, keys and values", g->backend->fused->qkv(&p));
}

bool fused_qkv(struct graph *g, const struct sublayer *w, float eps, struct tensor *h,
               struct tensor *cos, struct tensor *sin, struct tensor *places, int64_t first,
               struct tensor *q, struct tensor *k, struct tensor *v)
{
    if (g->tape || !usable(g, h, w->weight, 3) || !cos || !sin || !places || !q || !k || !v)
        return false;
    return qkv(g, w, eps, h, cos, sin, places, first, q, k, v);
}

// The parts of all [n (H + 2 Hkv), d], which lie behind one another.
static void split(const struct tensor *all, const struct sublayer *w, int64_t n,
                  struct tensor part[3])
{
    const int64_t dim = all->shape[1];
    float *at = all->data;
    for (int i = 0; i < 3; i++) {
        part[i] = (struct tensor){ .data = at,
                                   .rank = 3,
                                   .shape = { n, w->weight[i].weight.shape[0] / dim, dim } };
        at += tensor_count(&part[i]);
    }
}

// in: h, gain, cos, sin; self: the sublayer.
static int qkv_backward(struct graph *g, const struct tape_step *s)
{
    const struct sublayer *w = s->self;
    struct tensor dh, dgain, all, d[3];
    const bool want_h = tape_grad(g, s->in[0], &dh), want_gain = tape_grad(g, s->in[1], &dgain);
    if (!tape_grad(g, s->out, &all)) return -1;
    split(&all, w, s->in[0]->shape[0], d);
    const struct fused_qkv_back p = { .dh = want_h ? &dh : NULL,
                                      .dgain = want_gain ? &dgain : NULL,
                                      .dq = &d[0],
                                      .dk = &d[1],
                                      .dv = &d[2],
                                      .h = s->in[0],
                                      .gain = s->in[1],
                                      .eps = s->real,
                                      .wq = &w->weight[ATTENTION_Q].weight,
                                      .wk = &w->weight[ATTENTION_K].weight,
                                      .wv = &w->weight[ATTENTION_V].weight,
                                      .cos = s->in[2],
                                      .sin = s->in[3] };
    return op_back(g, "queries, keys and values", g->backend->fused->qkv_back(&p));
}

bool fused_qkv_taped(struct graph *g, const struct sublayer *w, float eps, struct tensor *h,
                     struct tensor *cos, struct tensor *sin, struct tensor *places,
                     struct tensor *to[3])
{
    if (!usable(g, h, w->weight, 3) || !cos || !sin || !places) return false;
    const int64_t n = h->shape[0], dim = 2 * cos->shape[1];
    const int64_t rows =
        n * (w->weight[ATTENTION_Q].weight.shape[0] + 2 * w->weight[ATTENTION_K].weight.shape[0]) /
        dim;
    const struct arena_mark mark = arena_mark(g->arena);
    struct tensor *all = graph_new2(g, DTYPE_F32, rows, dim), part[3];
    if (!all) return false;
    split(all, w, n, part);
    if (!qkv(g, w, eps, h, cos, sin, places, 0, &part[0], &part[1], &part[2])) {
        arena_reset(g->arena, mark);
        return false;
    }
    all = tape_record(g, all,
                      &(struct tape_step){ .backward = qkv_backward,
                                           .in = { h, graph_weight(&w->before), cos, sin },
                                           .real = eps,
                                           .self = (void *)w });
    for (int64_t i = 0, from = 0, count; i < 3; i++, from += count) {
        count = n * part[i].shape[1];
        to[i] = graph_view(g, graph_rows(g, all, from, count), 3, part[i].shape);
    }
    return true;
}

// --- attention -----------------------------------------------------------------------------------

bool fused_attend(struct graph *g, struct tensor *h, struct tensor *q, struct tensor *k,
                  struct tensor *v, struct tensor *first, struct tensor *last,
                  const struct linear *w)
{
    if (g->tape || !usable(g, h, w, 1) || !q || !k || !v) return false;
    const struct fused_attend p = { .h = h,
                                    .q = q,
                                    .k = k,
                                    .v = v,
                                    .first = first,
                                    .last = last,
                                    .scale = attend_scale(q),
                                    .w = plain(w),
                                    .mode = (int)g->matmul };
    return done(g, "attention", g->backend->fused->attend(&p));
}

// in: h, x, weight.
static int add_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor dh, dx, dy;
    bool add, want_x = tape_grad_first(g, s->in[1], &dx, &add);
    if (!tape_grad(g, s->out, &dy)) return -1;
    if (want_x && g->backend->matmul_dx(&dx, &dy, s->in[2], add, g->matmul) < 0)
        return op_back(g, "attention output", -1);
    tape_grad_pass(g, s, s->in[0], &dh);
    return op_back(g, "attention output", 0);
}

struct tensor *fused_add(struct graph *g, struct tensor *h, struct tensor *x,
                         const struct linear *w)
{
    if (!usable(g, h, w, 1) || !x) return NULL;
    const struct arena_mark mark = arena_mark(g->arena);
    struct tensor *y = sum_of(g, h);
    if (!y) return NULL;
    const struct fused_add p = { .y = y, .h = h, .x = x, .w = plain(w), .mode = (int)g->matmul };
    if (!done(g, "attention output", g->backend->fused->add(&p))) {
        arena_reset(g->arena, mark);
        return NULL;
    }
    return tape_record(
        g, y,
        &(struct tape_step){ .backward = add_backward, .in = { h, x, graph_weight(&w->weight) } });
}

// --- FFN -----------------------------------------------------------------------------------------

// in: h, gain, gate, up; self: the sublayer.
static int ffn_backward(struct graph *g, const struct tape_step *s)
{
    const struct sublayer *w = s->self;
    struct tensor dh, dgain, dy;
    if (!tape_grad(g, s->out, &dy)) return -1;
    const bool want_h = tape_grad_pass(g, s, s->in[0], &dh); // dh may be dy from here on
    const bool want_gain = tape_grad(g, s->in[1], &dgain);
    if (!graph_ok(g)) return -1;
    const struct fused_ffn_back p = { .dh = want_h ? &dh : NULL,
                                      .dgain = want_gain ? &dgain : NULL,
                                      .dy = &dy,
                                      .h = s->in[0],
                                      .gain = s->in[1],
                                      .eps = s->real,
                                      .gate = &w->weight[FFN_GATE].weight,
                                      .up = &w->weight[FFN_UP].weight,
                                      .down = &w->weight[FFN_DOWN].weight,
                                      .saved_gate = s->in[2],
                                      .saved_up = s->in[3] };
    return op_back(g, "FFN", g->backend->fused->ffn_back(&p));
}

// A result that only carries gradients back; its unread content is that of h.
static struct tensor *stand_in(struct graph *g, struct tensor *h)
{
    struct tensor *y = graph_view(g, h, h->rank, h->shape);
    if (y) y->grad = NULL;
    return y;
}

struct tensor *fused_ffn(struct graph *g, const struct sublayer *w, float eps, struct tensor *h,
                         bool unread)
{
    if (!usable(g, h, w->weight, 3)) return NULL;
    const struct arena_mark mark = arena_mark(g->arena);
    const int64_t n = h->shape[0], inner = w->weight[FFN_GATE].weight.shape[0];
    const bool recorded = tape_on(g), stands = recorded && unread;
    struct tensor *y = stands ? stand_in(g, h) : sum_of(g, h);
    struct tensor *gate = recorded ? graph_new2(g, DTYPE_BF16, n, inner) : NULL;
    struct tensor *up = recorded ? graph_new2(g, DTYPE_BF16, n, inner) : NULL;
    if (!graph_ok(g)) return NULL;
    const struct fused_ffn p = { .y = stands ? NULL : y,
                                 .h = h,
                                 .gain = &w->before,
                                 .eps = eps,
                                 .gate = plain(&w->weight[FFN_GATE]),
                                 .up = plain(&w->weight[FFN_UP]),
                                 .down = plain(&w->weight[FFN_DOWN]),
                                 .saved_gate = gate,
                                 .saved_up = up,
                                 .mode = (int)g->matmul };
    if (!done(g, "FFN", g->backend->fused->ffn(&p))) {
        arena_reset(g->arena, mark);
        return NULL;
    }
    return tape_record(g, y,
                       &(struct tape_step){ .backward = ffn_backward,
                                            .in = { h, graph_weight(&w->before), gate, up },
                                            .real = eps,
                                            .self = (void *)w });
}
