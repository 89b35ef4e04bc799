// core/graph/tape.c -- records the steps of a pass and runs them backwards; a pool holds the
// gradients of results.
//
// Easy to get wrong: the gradient of a result may be returned to the pool only after every step
// that used the result has run. Steps run in reverse, so the step that first wrote the result runs
// last; its `made` is the gradient to return.
#include "core/graph/tape.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

struct spare_grad {
    float *data;
    int64_t count;
    int gpu;  // GPU that holds it
    int idle; // passes since it was used
};

enum { IDLE_PASSES = 2 }; // passes after which an unused buffer is freed

// --- gradients -----------------------------------------------------------------------------------

static int fill_zero(const struct backend *b, float *data, int64_t count)
{
    struct tensor all = { .data = data, .dtype = DTYPE_F32, .rank = 1, .shape = { count } };
    return b->fill(&all, 0);
}

struct grad *grad_of_pass(int64_t count)
{
    struct grad *d = xmalloc(sizeof *d);
    *d = (struct grad){ .count = count };
    return d;
}

int grad_keep(const struct backend *b, struct grad *d)
{
    float *data = b->alloc((size_t)d->count * sizeof *data);
    if (!data || fill_zero(b, data, d->count) < 0) {
        b->release(data);
        return -1;
    }
    d->data = data;
    d->of_weight = true;
    return 0;
}

struct grad *grad_new(const struct backend *b, int64_t count)
{
    struct grad *d = grad_of_pass(count);
    if (grad_keep(b, d) == 0) return d;
    grad_free(b, d);
    return NULL;
}

void grad_free(const struct backend *b, struct grad *d)
{
    if (!d) return;
    for (int k = 0; k < d->lane_count; k++) b->release(d->lanes[k]);
    free(d->lanes);
    free(d->reached);
    b->release(d->data);
    free(d);
}

int grad_lanes(const struct backend *b, struct grad *d, int count)
{
    d->lanes = xcalloc((size_t)count, sizeof *d->lanes);
    for (; d->lane_count < count; d->lane_count++) {
        float *sum = b->alloc((size_t)d->count * sizeof *sum);
        if (!sum) return -1;
        d->lanes[d->lane_count] = sum;
        if (fill_zero(b, sum, d->count) < 0) {
            d->lane_count++;
            return -1;
        }
    }
    return 0;
}

int grad_gather(const struct backend *b, struct grad *d, int lane)
{
    struct tensor to = { .dtype = DTYPE_F32, .rank = 1, .shape = { d->count }, .data = d->data };
    struct tensor from = to;
    from.data = d->lanes[lane - 1];
    return b->add(&to, &to, &from) < 0 ? -1 : fill_zero(b, from.data, d->count);
}

static void spare_free(struct tape *t, size_t i)
{
    t->backend->release(t->spare[i].data);
    t->bytes -= (uint64_t)t->spare[i].count * sizeof *t->spare[i].data;
    t->spare[i] = t->spare[--t->spare_count];
}

// Returns the smallest pool buffer that is large enough but at most about twice as large (passes
// differ in length); spare_count: none. *small: the largest buffer that is too small, but has at
// least half the size.
static size_t spare_find(const struct tape *t, const struct grad *d, size_t *small)
{
    const size_t none = t->spare_count;
    size_t best = none;
    *small = none;
    for (size_t i = 0; i < none; i++) {
        const struct spare_grad *r = &t->spare[i];
        if (r->gpu != d->gpu || r->count / 2 > d->count || d->count / 2 > r->count) continue;
        if (r->count >= d->count) {
            if (best == none || r->count < t->spare[best].count) best = i;
        } else if (*small == none || r->count > t->spare[*small].count) {
            *small = i;
        }
    }
    return best;
}

// Gives d a buffer of the pool, or a new one, which replaces a buffer that is too small
// (spare_find); otherwise the pool would grow by a buffer for every length.
static bool spare_take(struct tape *t, struct grad *d)
{
    size_t small;
    d->gpu = backend_enter(t->backend, -1);
    const size_t best = spare_find(t, d, &small);
    if (best < t->spare_count) {
        d->data = t->spare[best].data;
        d->capacity = t->spare[best].count;
        t->spare[best] = t->spare[--t->spare_count];
        return true;
    }
    if (small < t->spare_count) spare_free(t, small);
    d->data = t->backend->alloc((size_t)d->count * sizeof *d->data);
    if (!d->data) return false;
    d->capacity = d->count;
    t->bytes += (uint64_t)d->count * sizeof *d->data;
    if (t->bytes > t->peak) t->peak = t->bytes;
    return true;
}

void tape_give(struct tape *t, struct grad *d)
{
    if (!d || !d->data || d->of_weight) return;
    t->spare = xreallocarray(t->spare, t->spare_count + 1, sizeof *t->spare);
    t->spare[t->spare_count++] = (struct spare_grad){ d->data, d->capacity, d->gpu, 0 };
    d->data = NULL;
}

// Call after each pass: frees the buffers that the last `passes` passes did not use.
static void spares_age(struct tape *t, int passes)
{
    for (size_t i = t->spare_count; i-- > 0;) // backwards: spare_free moves the last one
        if (t->spare[i].idle++ >= passes) spare_free(t, i);
}

void tape_clear(struct tape *t)
{
    while (t->count) tape_give(t, t->steps[--t->count].made);
    t->touched = t->recomputing = false;
    t->paused = 0;
    offload_clear(t);
    spares_age(t, IDLE_PASSES);
}

void tape_release(struct tape *t)
{
    tape_clear(t);
    spares_age(t, 0);
    offload_release(t);
    free(t->spare);
    free(t->steps);
    *t = (struct tape){
        .backend = t->backend, .recompute = t->recompute, .keep = t->keep, .offloads = t->offloads
    };
}

// Returns the gradient that contains t's gradient, or t's own.
static struct grad *grad_whole(const struct tensor *t)
{
    return t->grad->whole ? t->grad->whole : t->grad;
}

bool tape_grad_first(struct graph *g, const struct tensor *t, struct tensor *d, bool *add)
{
    if (!t || !t->grad || !graph_ok(g)) return false;
    struct grad *whole = grad_whole(t);
    *add = whole->data || t->grad->count < whole->count;
    if (!whole->data) {
        if (!spare_take(g->tape, whole) ||
            (*add && fill_zero(g->backend, whole->data, whole->count) < 0)) {
            graph_fail(g, "out of memory for a gradient: %.1f MB more are needed on %s",
                       (double)whole->count * 4e-6, g->backend->name);
            return false;
        }
    }
    *d = *t;
    float *data = whole->of_weight && g->tape->lane ? whole->lanes[g->tape->lane - 1] : whole->data;
    d->data = data + t->grad->offset;
    d->dtype = DTYPE_F32;
    d->grad = NULL;
    return true;
}

bool tape_grad(struct graph *g, const struct tensor *t, struct tensor *d)
{
    bool add;
    if (!tape_grad_first(g, t, d, &add)) return false;
    if (!add && g->backend->fill(d, 0) < 0) graph_fail(g, "fill: %s", g->backend->failure());
    return graph_ok(g);
}

struct tensor *tape_wanted(struct graph *g, const struct tensor *t, struct tensor *d)
{
    return tape_grad(g, t, d) ? d : NULL;
}

bool tape_grad_pass(struct graph *g, const struct tape_step *s, const struct tensor *t,
                    struct tensor *d)
{
    struct tensor from;
    bool add;
    if (!t || !t->grad || !tape_grad(g, s->out, &from)) return false;
    struct grad *to = grad_whole(t), *made = s->made;
    // Does not reuse another GPU's memory, because access would be slow.
    if (made && !to->data && made->count == to->count &&
        made->gpu == backend_enter(g->backend, -1)) {
        to->data = made->data;
        to->capacity = made->capacity;
        to->gpu = made->gpu;
        made->data = NULL;
        return tape_grad(g, t, d);
    }
    if (!tape_grad_first(g, t, d, &add)) return false;
    if ((add ? g->backend->add(d, d, &from) : g->backend->widen(d, &from)) < 0)
        graph_fail(g, "add: %s", g->backend->failure());
    return graph_ok(g);
}

int tape_seed(struct graph *g, const struct tensor *t, const struct tensor *w)
{
    struct tensor d;
    if (!tape_on(g) || !tape_grad(g, t, &d)) return graph_ok(g) ? 0 : -1;
    if (g->backend->add(&d, &d, w) < 0) graph_fail(g, "add: %s", g->backend->failure());
    return graph_ok(g) ? 0 : -1;
}

// --- recording -----------------------------------------------------------------------------------

static struct tape_step *step_add(struct tape *t)
{
    t->steps = xgrow(t->steps, &t->capacity, t->count, sizeof *t->steps);
    return &t->steps[t->count++];
}

struct tensor *tape_record(struct graph *g, struct tensor *y, const struct tape_step *step)
{
    struct tape *t = g->tape;
    if (!t || !y || !graph_ok(g)) return y;
    bool wanted = false;
    for (int i = 0; i < TAPE_INPUTS; i++) wanted |= step->in[i] && step->in[i]->grad;
    if (!wanted) return y;
    t->touched = true;
    if (t->paused) return y;

    struct tape_step *s = step_add(t);
    *s = *step;
    s->out = y;
    s->gpu = backend_enter(g->backend, -1);
    if (!y->grad) { // set already if several ops write the result
        y->grad = arena_alloc_host(g->arena, sizeof *y->grad);
        if (!y->grad) return graph_fail(g, "out of memory on %s", g->backend->name);
        *y->grad = (struct grad){ .count = tensor_count(y) };
        s->made = y->grad;
    }
    return y;
}

// --- blocks --------------------------------------------------------------------------------------

// Lets a job check whether to continue. Jobs also check at sites, but a backward pass that
// recomputes no layer runs no site.
static void yield(struct graph *g)
{
    enum { STEPS = 8 }; // a layer has about twenty
    if (g->yield && g->tape->count % STEPS == 0) g->yield(g->yield_self);
}

// True if anything was added to t's gradient; never for a tensor that does not reach the loss.
static bool has_grad(const struct tensor *t)
{
    const struct grad *d = t ? t->grad : NULL;
    if (d && d->whole) d = d->whole;
    return d && d->data;
}

// Runs the steps after `from`, last first. Copies each step first, because a recomputed block adds
// steps, which may move the list.
static int run_back(struct graph *g, size_t from)
{
    struct tape *t = g->tape;
    while (t->count > from) {
        yield(g);
        if (graph_stop(g)) break;
        struct tape_step s = t->steps[t->count - 1];
        t->count--;
        backend_enter(g->backend, s.gpu);
        if (has_grad(s.out) && s.backward(g, &s) < 0) break;
        tape_give(t, s.made);
    }
    return graph_ok(g) ? 0 : -1;
}

// Recomputes the block with every step recorded, and runs these steps backwards.
static int block_backward(struct graph *g, const struct tape_step *s)
{
    struct tape *t = g->tape;
    struct arena_mark mark = arena_mark(g->arena);
    bool nested = t->recomputing;
    size_t from = t->count;
    offload_back(g, &s->offload);
    t->recomputing = true;
    struct tensor *y = s->block(g, s->self, s->in[0]), d;
    t->recomputing = nested;
    tape_grad_pass(g, s, y, &d); // takes the gradient from the first computation's result
    run_back(g, from);
    arena_reset(g->arena, mark);
    return graph_ok(g) ? 0 : -1;
}

struct tensor *graph_block(struct graph *g, graph_block_fn run, const void *self, size_t size,
                           struct tensor *h)
{
    struct tape *t = g->tape;
    if (!h || !tape_on(g) || !t->recompute || g->arena->used < t->keep) {
        // No copy of `self` is needed: no step of the tape will run this block again.
        return h ? run(g, (void *)self, h) : NULL;
    }
    struct offload_step offload;
    struct tensor *y = offload_begin(g, h, &offload);
    void *copy = arena_alloc_host(g->arena, size);
    if (!y) return NULL;
    if (!copy) return graph_fail(g, "out of memory on %s", g->backend->name);
    memcpy(copy, self, size);

    // Runs the block as if without a tape, on a copy of h, then frees all memory but the result.
    struct arena_mark mark = arena_mark(g->arena);
    bool touched = t->touched;
    t->touched = false;
    t->paused++;
    struct tensor *out = g->backend->widen(y, h) < 0 ? NULL : run(g, copy, y);
    t->paused--;
    bool wanted = t->touched || h->grad;
    t->touched |= touched;
    if (!out) return graph_fail(g, "%s", g->backend->failure());
    if (out != y && tensor_count(out) != tensor_count(y))
        return graph_fail(g, "a recomputed block must keep its shape");
    if (out->data != y->data && g->backend->widen(y, out) < 0)
        return graph_fail(g, "converting to f32: %s", g->backend->failure());
    arena_reset(g->arena, mark);
    if (!wanted) return y;

    struct tape_step *s = step_add(t);
    y->grad = arena_alloc_host(g->arena, sizeof *y->grad);
    if (!y->grad) return graph_fail(g, "out of memory on %s", g->backend->name);
    *y->grad = (struct grad){ .count = tensor_count(y) };
    *s = (struct tape_step){ .backward = block_backward,
                             .in = { h },
                             .out = y,
                             .made = y->grad,
                             .block = run,
                             .self = copy,
                             .offload = offload,
                             .gpu = backend_enter(g->backend, -1) };
    return y;
}

// The tensor's gradient must exist before the first block that reads it, and end after the block
// that wrote it has run backwards: the step recorded here, before both, returns its buffer.
static int nothing_backward(struct graph *g, const struct tape_step *s)
{
    (void)g, (void)s;
    return 0;
}

struct tensor *graph_between_blocks(struct graph *g, int64_t n, int64_t m, int64_t k)
{
    struct tensor *y = graph_new3(g, DTYPE_F32, n, m, k);
    if (!y || !tape_on(g)) return y;
    y->grad = arena_alloc_host(g->arena, sizeof *y->grad);
    if (!y->grad) return graph_fail(g, "out of memory on %s", g->backend->name);
    *y->grad = (struct grad){ .count = tensor_count(y) };
    *step_add(g->tape) = (struct tape_step){ .backward = nothing_backward,
                                             .out = y,
                                             .made = y->grad,
                                             .gpu = backend_enter(g->backend, -1) };
    return y;
}

int tape_backward(struct graph *g)
{
    if (g->arena->used > g->tape->held) g->tape->held = g->arena->used;
    const int gpu = backend_enter(g->backend, -1);
    int status = run_back(g, 0);
    backend_enter(g->backend, gpu);
    tape_clear(g->tape); // steps remain after a failure or cancel
    return status;
}
