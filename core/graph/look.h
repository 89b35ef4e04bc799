// core/graph/look.h -- asynchronous reads: the host reads values while the pass continues.
//
//   look(g, args->x, site, args, take, self);      // at a site: requests the values of x
//   static int take(void *self, const struct site *site, const struct site_args *args, struct err
//   *err)
//   {
//       const float *h = args->x->data;            // called later: the values are in host memory
//
// On a GPU, look() queues a copy of the current values and the pass continues. Looks are taken in
// order: when later ones need the memory, or else when the pass through the decoder ends. On the
// CPU, and outside the decoder (at a picture's sites), they are taken at once. Code whose result
// decides the next step must use backend->download, which waits.
//
// A pass that fails or is cancelled takes no further looks.
#ifndef CORE_GRAPH_LOOK_H
#define CORE_GRAPH_LOOK_H

#include "core/graph/hooks.h"

// 0, or -1 after graph_fail. Pointers in `args` must last until the pass ends, or looks_take.
int look(struct graph *g, const struct tensor *x, const struct site *site,
         const struct site_args *args, look_fn take, void *self);

// Requested looks that have not been taken yet.
struct looks {
    struct pending_look *list;
    size_t next, count, capacity;
};

// Between looks_begin and looks_end looks may stay pending; looks_end waits for them and takes all.
void looks_begin(struct graph *g, struct looks *looks);
void looks_end(struct graph *g);
// Takes all requested looks.
void looks_take(struct graph *g);

#endif
