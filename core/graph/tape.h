// core/graph/tape.h -- reverse mode: what the ops did, recorded so that gradients can be computed
// from it.
//
//   struct tape tape = { .backend = backend_cpu(), .recompute = true };
//   struct grad *d = grad_new(backend, n);    // of a weight that is trained (f32), zero
//   weight->grad = d;
//   struct graph g = { .backend = ..., .arena = &step, .tape = &tape };
//   ... forward, ending with op_cross_entropy ...
//   tape_backward(&g);                        // d->data += the gradient
//   arena_reset(&step, mark);                 // what the forward pass saved is gone
//
// A tensor has a gradient where tensor->grad is set: the caller sets it on the weights it trains,
// results of ops inherit it from their inputs, views share that of the whole. Ops of which no input
// has one record nothing. Every backward function adds to the gradients of the inputs; a weight's
// stays until its owner clears it (several passes add up), one of a result is taken from the tape's
// pool when the first is added and given back when the op that made the result has used it, or
// becomes that of the op's input, which a sum hands on as it is.
//
// With the tape on, graph_scratch_end keeps what it would free, and no op writes over an input. To
// save little, blocks of the pass are run through graph_block (core/graph/graph.h): with
// `recompute` only the block's input is saved, and the block is computed again when its gradients
// are due. `keep` says how much memory may be used to avoid that: the first blocks are saved until
// the step arena holds so much. With `offloads.on` the inputs are offloaded to the host
// (core/graph/offload.h). The gradients are the same to the bit in every case.
#ifndef CORE_GRAPH_TAPE_H
#define CORE_GRAPH_TAPE_H

#include "core/graph/graph.h"
#include "core/graph/offload.h"

// The gradient of a tensor: f32, as many numbers as the tensor has.
struct grad {
    float *data;        // NULL: nothing was added yet
    int64_t count;      // numbers
    struct grad *whole; // a view's: the gradient it is part of, from number `offset` on
    int64_t offset;
    int64_t room;   // numbers its buffer has room for
    int gpu;        // that it lies on
    bool of_weight; // a weight's: the tape neither makes nor frees it
    float **lanes;  // [lane_count] a weight's: sums of passes that run beside one another
    int lane_count;
    atomic_bool *reached; // a table's: which of its rows anything was ever added to; NULL: not told
};

enum { TAPE_INPUTS = 6 };

struct tape_step;
// Adds to the gradients of s->in what s->out's gradient says. 0, or -1 after graph_fail.
typedef int (*tape_backward_fn)(struct graph *g, const struct tape_step *s);

// One op as it was computed. Tensors lie in the step arena or belong to the model.
struct tape_step {
    tape_backward_fn backward;
    struct tensor *in[TAPE_INPUTS]; // those that may have a gradient, and what backward reads
    struct tensor *out;
    float real;           // eps, scale
    int64_t integer;      // form, patch, first row
    struct grad *made;    // the gradient of a result first written here
    graph_block_fn block; // that is computed again
    void *self;
    struct offload_step offload; // of its input and its result
    int gpu;                     // that computed it
};

struct tape_room; // a buffer of the pool

struct tape {
    const struct backend *backend;
    bool recompute;           // save only the inputs of blocks,
    size_t keep;              // of those that begin when the step arena holds as many bytes already
    struct offloads offloads; // `on`: those inputs are offloaded; a device with memory of its own
    int lane; // from 1: weights' gradients are added to this lane's sums; 0: to themselves

    // The tape's own.
    struct tape_step *steps;
    size_t count, capacity;
    int paused;              // inside a block that will be computed again: nothing is recorded
    bool touched;            // ... but it was noted that some op there has a gradient
    bool recomputing;        // listeners of hooks may look: they hear a block a second time
    struct tape_room *spare; // buffers for gradients of results, to be used again
    size_t spare_count;
    uint64_t bytes, peak; // of these buffers
    size_t held;          // most that the step arena held when going back began
};

// Frees what the tape holds; zeroed, it can be used again.
void tape_release(struct tape *t);

// Forgets the steps of a pass that failed; buffers go back to the pool.
void tape_clear(struct tape *t);

// A weight's gradient of `count` zeros; NULL when memory is short. Freed by grad_free (backend's).
struct grad *grad_new(const struct backend *b, int64_t count);
void grad_free(const struct backend *b, struct grad *d);
// Sums for `count` lanes beside the gradient; they are freed with it. -1 when memory is short.
int grad_lanes(const struct backend *b, struct grad *d, int count);
// Adds the sum of a lane (from 1) to the gradient; the sum is zero again. -1 as the backend's ops.
int grad_gather(const struct backend *b, struct grad *d, int lane);

// From the last step to the first; the tape is empty afterwards, also on failure. 0 or -1 (g->err).
int tape_backward(struct graph *g);

// Going back begins at t too: adds w, of t's size, to its gradient. Nothing where none is wanted or
// the pass is not being recorded. 0 or -1.
int tape_seed(struct graph *g, const struct tensor *t, const struct tensor *w);

// --- for ops ------------------------------------------------------------------------------------

// Records how y was made if one of step->in has a gradient, and gives y one. Returns y; NULL in,
// NULL out. `step->out` is set here.
struct tensor *tape_record(struct graph *g, struct tensor *y, const struct tape_step *step);

// The gradient of t as a tensor of t's shape, zeros when it is the first use; false when none is
// wanted (t NULL too) or memory is short (g failed).
bool tape_grad(struct graph *g, const struct tensor *t, struct tensor *d);
// The same for who writes all of it at the first use: *add is false then, and d holds anything.
bool tape_grad_first(struct graph *g, const struct tensor *t, struct tensor *d, bool *add);
// tape_grad of t, to which the gradient of s->out has been added: s has no more use for that of its
// own and t's may go on in the same memory.
bool tape_grad_pass(struct graph *g, const struct tape_step *s, const struct tensor *t,
                    struct tensor *d);
// Has anything been added to the gradient of t? What leads to no loss has none.
bool tape_has_grad(const struct tensor *t);

// Is the pass being recorded?
static inline bool tape_on(const struct graph *g)
{
    return g->tape && !g->tape->paused;
}

#endif
