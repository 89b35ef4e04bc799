// core/graph/look.h -- numbers that the host only looks at: the pass does not wait for them.
//
//   look(g, args->x, site, args, take, self);      // at a site: asks for the numbers of x
//   static int take(void *self, enum site site, const struct site_args *args, struct err *err)
//   {
//       const float *h = args->x->data;            // later: they are in the host's memory
//
// On a GPU the copy is asked for and the pass goes on, with the numbers as they are now. They are
// taken in the order in which they were asked for: when further ones need the room, else where the
// pass through the decoder ends. On the CPU, and outside of the decoder (at a picture's sites),
// they are taken at once. What decides what is computed next has to wait: backend->download.
//
// A pass that fails or is cancelled takes nothing more.
#ifndef CORE_GRAPH_LOOK_H
#define CORE_GRAPH_LOOK_H

#include "core/graph/hooks.h"

// `args` are those of the site, but that x is what was asked for, floats in f32 whatever they were,
// on the host until take returns, and that q, k and v are NULL. 0 or -1 with a message.
typedef int (*look_fn)(void *self, enum site site, const struct site_args *args, struct err *err);

// 0, or -1 after graph_fail. What `args` points to lasts until the pass ends, or looks_take.
int look(struct graph *g, const struct tensor *x, enum site site, const struct site_args *args,
         look_fn take, void *self);

// What was asked for and not yet taken.
struct looks {
    struct asked *list;
    size_t next, count, capacity;
};

// Between the two looks need not wait; the second waits for them and takes all.
void looks_begin(struct graph *g, struct looks *looks);
void looks_end(struct graph *g);
// Takes what was asked for so far.
void looks_take(struct graph *g);

#endif
