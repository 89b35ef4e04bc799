// core/graph/offload.c -- tracks block inputs: two buffers on the device, the rest on the host.
#include "core/graph/offload.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/graph/tape.h"

// Offloads h if it is the last block's result. Returns the number of the offloaded input, or 0 if h
// stays on the device.
static size_t put(struct graph *g, const struct tensor *h)
{
    struct offloads *a = &g->tape->offloads;
    struct offload_buffer *from = &a->buffer[a->newest];
    const size_t bytes = tensor_bytes(h);
    if (from->data != h->data || from->bytes != bytes) return 0;
    const int64_t number = g->backend->offload->put(h->data, bytes);
    if (number < 0) return 0;
    a->inputs = xgrow(a->inputs, &a->capacity, a->count, sizeof *a->inputs);
    a->inputs[a->count++] = (struct offload_input){ .number = number, .data = h->data };
    a->bytes += bytes;
    if (a->bytes > a->peak) a->peak = a->bytes;
    return from->held = a->count;
}

struct tensor *offload_begin(struct graph *g, struct tensor *h, struct offload_step *step)
{
    struct offloads *a = &g->tape->offloads;
    *step = (struct offload_step){ 0 };
    if (!a->on || g->tape->recomputing) return graph_new(g, h->dtype, h->rank, h->shape);
    step->input = put(g, h);
    a->newest = !a->newest;
    struct offload_buffer *to = &a->buffer[a->newest];
    const int gpu = backend_enter(g->backend, -1);
    struct tensor *y;
    if (to->held && to->bytes == tensor_bytes(h) && to->gpu == gpu) {
        step->over = to->held;
        a->inputs[to->held - 1].overwritten = true;
        g->backend->offload->settle(a->inputs[to->held - 1].number);
        y = arena_alloc_host(g->arena, sizeof *y); // the result goes into that buffer
        if (!y) return graph_fail(g, "out of memory on %s", g->backend->name);
        *y = *h;
        y->data = to->data;
        y->grad = NULL;
    } else {
        y = graph_new(g, h->dtype, h->rank, h->shape);
    }
    *to = (struct offload_buffer){ y ? y->data : NULL, tensor_bytes(h), gpu, 0 };
    return y;
}

static void fetch(const struct backend *b, struct offload_input *input)
{
    if (!input->overwritten || input->fetched) return;
    b->offload->fetch(input->number, input->data);
    input->fetched = true;
}

void offload_back(struct graph *g, const struct offload_step *step)
{
    struct offloads *a = &g->tape->offloads;
    if (step->input) {
        struct offload_input *input = &a->inputs[step->input - 1];
        fetch(g->backend, input); // if the block that overwrote it was not recomputed
        if (input->fetched) g->backend->offload->settle(input->number);
    }
    if (step->over) fetch(g->backend, &a->inputs[step->over - 1]);
}

void offload_clear(struct tape *t)
{
    struct offloads *a = &t->offloads;
    if (a->count) t->backend->offload->drop(a->inputs[0].number);
    a->count = 0;
    a->bytes = 0;
    a->buffer[0] = a->buffer[1] = (struct offload_buffer){ 0 };
}

void offload_release(struct tape *t)
{
    offload_clear(t);
    if (t->offloads.on) t->backend->offload->release();
    free(t->offloads.inputs);
    t->offloads = (struct offloads){ .on = t->offloads.on };
}
