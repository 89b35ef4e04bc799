// core/graph/look.h -- asynchronous reads: the host looks at numbers without making the pass wait.
//
//   look(g, args->x, site, args, take, self);      // at a site: requests the numbers of x
//   static int take(void *self, const struct site *site, const struct site_args *args, struct err
//   *err)
//   {
//       const float *h = args->x->data;            // later: they are in the host's memory
//
// On a GPU the copy is queued with the current numbers and the pass continues. Looks are taken in
// the order of the requests: when further ones need the memory, else when the pass through the
// decoder ends. On the CPU, and outside the decoder (at a picture's sites), they are taken at once.
// Code whose result decides the next step must wait: backend->download.
//
// A pass that fails or is cancelled takes no further looks.
#ifndef CORE_GRAPH_LOOK_H
#define CORE_GRAPH_LOOK_H

#include "core/graph/hooks.h"

// 0, or -1 after graph_fail. Pointers in `args` must last until the pass ends, or looks_take.
int look(struct graph *g, const struct tensor *x, const struct site *site,
         const struct site_args *args, look_fn take, void *self);

// Looks that are requested and not yet taken.
struct looks {
    struct pending_look *list;
    size_t next, count, capacity;
};

// Between the two, looks need not wait; the second waits for them and takes all.
void looks_begin(struct graph *g, struct looks *looks);
void looks_end(struct graph *g);
// Takes all requested looks.
void looks_take(struct graph *g);

#endif
