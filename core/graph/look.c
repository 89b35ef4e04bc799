// core/graph/look.c -- keeps the looks that probes requested until the copies arrive.
#include "core/graph/look.h"

#include <stdlib.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/graph/graph.h"

struct pending_look {
    look_fn take;
    void *self;
    const struct site *site;
    struct site_args args;
    struct tensor x;
};

static int take_look(struct graph *g, struct pending_look *a, const void *stored)
{
    struct err err = { 0 };
    float *wide = NULL;
    a->x.data = (void *)(uintptr_t)stored;
    if (a->x.dtype == DTYPE_F16 || a->x.dtype == DTYPE_BF16 || dtype_in_blocks(a->x.dtype)) {
        wide = xreallocarray(NULL, (size_t)tensor_count(&a->x) + 1, sizeof *wide);
        floats_from(wide, stored, a->x.dtype, (size_t)tensor_count(&a->x));
        a->x.data = wide;
        a->x.dtype = DTYPE_F32;
    }
    a->args.x = &a->x;
    a->args.q = a->args.k = a->args.v = NULL;
    const int status = a->take(a->self, a->site, &a->args, &err);
    free(wide);
    if (status < 0) graph_fail(g, "%s", err.text);
    return status;
}

// Takes the oldest copy even if nothing reads it, because the queue is in order.
static void take_oldest(struct graph *g)
{
    struct pending_look *a = &g->looks->list[g->looks->next++];
    const void *stored = g->backend->copies->take();
    if (graph_stop(g)) return;
    if (stored)
        take_look(g, a, stored);
    else
        graph_fail(g, "%s", g->backend->failure());
}

// Queues a look. False: its copy does not fit even into an empty queue.
static bool queue_look(struct graph *g, const struct pending_look *a)
{
    struct looks *l = g->looks;
    while (!g->backend->copies->download(a->x.data, tensor_bytes(&a->x))) {
        if (l->next == l->count) return false;
        take_oldest(g);
    }
    l->list = xgrow(l->list, &l->capacity, l->count, sizeof *l->list);
    l->list[l->count++] = *a;
    return true;
}

int look(struct graph *g, const struct tensor *x, const struct site *site,
         const struct site_args *args, look_fn take, void *self)
{
    if (!x || !graph_ok(g)) return -1;
    struct pending_look a = { .take = take, .self = self, .site = site, .args = *args, .x = *x };
    if (!g->backend->own_memory) return take_look(g, &a, x->data);
    if (g->looks && tensor_bytes(x) && queue_look(g, &a)) return graph_ok(g) ? 0 : -1;
    looks_take(g); // in order
    void *host = graph_ok(g) ? calloc(tensor_bytes(x) + 1, 1) : NULL;
    if (!host) {
        graph_fail(g, "out of memory: no room to copy %.1f MB to the host",
                   (double)tensor_bytes(x) / 1e6);
        return -1;
    }
    g->backend->download(host, x->data, tensor_bytes(x));
    const int status = take_look(g, &a, host);
    free(host);
    return status;
}

void looks_begin(struct graph *g, struct looks *looks)
{
    *looks = (struct looks){ 0 };
    g->looks = looks;
}

void looks_take(struct graph *g)
{
    while (g->looks && g->looks->next < g->looks->count) take_oldest(g);
}

void looks_end(struct graph *g)
{
    looks_take(g);
    free(g->looks->list);
    g->looks = NULL;
}
