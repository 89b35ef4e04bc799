// core/graph/readback.h -- asynchronous readback: the host reads values while the pass continues.
//
//   readback(g, args->x, site, args, take, self);   // at a site: requests the values of x
//   static int take(void *self, const struct site *site, const struct site_args *args,
//                   struct err *err)
//   {
//       const float *h = args->x->data;             // called later, with the values in host memory
//
// On a GPU, readback() queues a copy of the current values, and the pass continues. Readbacks are
// completed in order: when later readbacks need their memory, or at the latest when the pass
// through the decoder ends. On the CPU, and outside the decoder (at a picture's sites), they
// complete at once. Code whose result decides the next step must use backend->download, which
// waits.
//
// A pass that fails or is cancelled completes no further readbacks.
#ifndef CORE_GRAPH_READBACK_H
#define CORE_GRAPH_READBACK_H

#include "core/graph/hooks.h"

// Requests the values of x. Returns 0, or -1 after graph_fail. Pointers in `args` must last until
// the pass ends, or until readbacks_take.
int readback(struct graph *g, const struct tensor *x, const struct site *site,
             const struct site_args *args, readback_fn take, void *self);

// Requested readbacks that are not yet complete.
struct readbacks {
    struct pending_readback *list;
    size_t next, count, capacity;
};

// Between begin and end, readbacks may stay pending; end waits for all of them and completes them.
void readbacks_begin(struct graph *g, struct readbacks *readbacks);
void readbacks_end(struct graph *g);
// Waits for the requested readbacks and completes them.
void readbacks_take(struct graph *g);

#endif
