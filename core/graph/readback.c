// core/graph/readback.c -- queues readbacks until their copies arrive.
#include "core/graph/readback.h"

#include <stdlib.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/graph/graph.h"

struct pending_readback {
    readback_fn take;
    void *self;
    const struct site *site;
    struct site_args args;
    struct tensor x;
};

static int take_readback(struct graph *g, struct pending_readback *a, const void *stored)
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

// Takes the oldest copy. After a failure nothing reads it, but the device's queue must still be
// emptied in order.
static void take_oldest(struct graph *g)
{
    struct pending_readback *a = &g->readbacks->list[g->readbacks->next++];
    const void *stored = g->backend->copies->take();
    if (graph_stop(g)) return;
    if (stored)
        take_readback(g, a, stored);
    else
        graph_fail(g, "%s", g->backend->failure());
}

// Queues a readback. False: its copy does not fit even into an empty queue.
static bool queue_readback(struct graph *g, const struct pending_readback *a)
{
    struct readbacks *l = g->readbacks;
    while (!g->backend->copies->download(a->x.data, tensor_bytes(&a->x))) {
        if (l->next == l->count) return false;
        take_oldest(g);
    }
    l->list = xgrow(l->list, &l->capacity, l->count, sizeof *l->list);
    l->list[l->count++] = *a;
    return true;
}

int readback(struct graph *g, const struct tensor *x, const struct site *site,
             const struct site_args *args, readback_fn take, void *self)
{
    if (!x || !graph_ok(g)) return -1;
    struct pending_readback a = {
        .take = take, .self = self, .site = site, .args = *args, .x = *x
    };
    if (!g->backend->own_memory) return take_readback(g, &a, x->data);
    if (g->readbacks && tensor_bytes(x) && queue_readback(g, &a)) return graph_ok(g) ? 0 : -1;
    readbacks_take(g); // earlier readbacks complete first
    void *host = graph_ok(g) ? calloc(tensor_bytes(x) + 1, 1) : NULL;
    if (!host) {
        graph_fail(g, "out of memory: no room to copy %.1f MB to the host",
                   (double)tensor_bytes(x) / 1e6);
        return -1;
    }
    g->backend->download(host, x->data, tensor_bytes(x));
    const int status = take_readback(g, &a, host);
    free(host);
    return status;
}

void readbacks_begin(struct graph *g, struct readbacks *readbacks)
{
    *readbacks = (struct readbacks){ 0 };
    g->readbacks = readbacks;
}

void readbacks_take(struct graph *g)
{
    while (g->readbacks && g->readbacks->next < g->readbacks->count) take_oldest(g);
}

void readbacks_end(struct graph *g)
{
    readbacks_take(g);
    free(g->readbacks->list);
    g->readbacks = NULL;
}
