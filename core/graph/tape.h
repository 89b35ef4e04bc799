// core/graph/tape.h -- reverse-mode differentiation: records the ops to compute gradients.
//
//   struct tape tape = { .backend = backend_cpu(), .recompute = true };
//   struct grad *d = grad_new(backend, n);    // gradient of a trained weight: f32, zeros
//   weight->grad = d;
//   struct graph g = { .backend = ..., .arena = &step, .tape = &tape };
//   ... forward, ending with op_cross_entropy ...
//   tape_backward(&g);                        // d->data += the gradient
//   arena_reset(&step, mark);                 // frees what the forward pass saved
//
// A tensor has a gradient if tensor->grad is set: the caller sets it on the trained weights,
// results of ops inherit it from their inputs, and views share their part of the whole tensor's.
// Ops without such an input record nothing. Every backward function adds to the gradients of the
// inputs. A weight's gradient stays until its owner clears it (grad_keep: passes accumulate), or
// its owner returns it to the tape's pool after each pass (grad_of_pass, tape_give). A result's
// gradient comes from the tape's pool at the first addition. After the op that made the result has
// used this gradient, its buffer returns to the pool; but a sum, which passes gradients on
// unchanged, may give the buffer to its input instead.
//
// With the tape on, graph_scratch_end frees nothing, and ops overwrite an input only where ops.h
// says so (op_scatter_rows). To save less, blocks of the pass run through graph_block
// (core/graph/graph.h): with `recompute` only a block's input is saved, and the backward pass
// recomputes the block. `keep` limits recomputation: the first blocks are saved whole until the
// step arena holds that many bytes. With `offloads.on` the inputs are offloaded to the host
// (core/graph/offload.h). The gradients are bit-identical in every case.
#ifndef CORE_GRAPH_TAPE_H
#define CORE_GRAPH_TAPE_H

#include "core/graph/graph.h"
#include "core/graph/offload.h"

// Gradient of a tensor: f32, with as many elements as the tensor.
struct grad {
    float *data;        // NULL: nothing added yet
    int64_t count;      // elements
    struct grad *whole; // for a view: the gradient it is part of, from element `offset` on
    int64_t offset;
    int64_t capacity; // of its buffer, in elements
    int gpu;          // GPU that holds it
    bool of_weight;   // for a weight: the tape neither allocates nor frees it (grad_keep)
    float **lanes;    // [lane_count] for a weight: sums of concurrent passes
    int lane_count;
    atomic_bool *reached; // for a table: which rows have ever been added to; NULL: not tracked
};

enum { TAPE_INPUTS = 6 };

struct tape_step;
// Propagates the gradient of s->out to the gradients of s->in. 0, or -1 after graph_fail.
typedef int (*tape_backward_fn)(struct graph *g, const struct tape_step *s);

// One recorded op. Tensors are in the step arena or belong to the model.
struct tape_step {
    tape_backward_fn backward;
    struct tensor *in[TAPE_INPUTS]; // inputs that may have a gradient or that backward reads
    struct tensor *out;
    float real;           // parameter of the op: eps, scale
    float other_real;     // second parameter of the op: the upper end of a range
    int64_t integer;      // parameter of the op: form, patch, first row
    struct grad *made;    // gradient of `out` if this step was the first to write it; else NULL
    graph_block_fn block; // the block to recompute
    void *self;
    struct offload_step offload; // offloading of a block's input and result
    int gpu;                     // GPU that computed it
};

// The gradients of one norm y = gain f(x): dx is what reaches x through this norm alone.
struct norm_gradients {
    const struct tensor *x, *gain, *dx, *dy;
    bool centred; // LayerNorm, else RMSNorm
    int lane;     // the tape's
};

// Told about each norm of a backward pass whose input has a gradient; lanes call it concurrently.
struct norm_watch {
    void (*seen)(struct norm_watch *w, struct graph *g, const struct norm_gradients *n);
};

struct spare_grad; // a buffer of the pool

struct tape {
    const struct backend *backend;
    bool recompute; // saves only a block's input; the backward pass recomputes the block
    size_t keep; // recomputes only blocks that begin when the step arena holds at least this many
                 // bytes; 0: all
    struct offloads offloads; // `on`: offloads the saved inputs; only with separate device memory
    int lane; // from 1: adds weight gradients to this lane's sums; 0: to the gradients
    struct norm_watch *norms; // NULL: none

    // Private to tape.c.
    struct tape_step *steps;
    size_t count, capacity;
    int paused;               // inside a block that will be recomputed: nothing is recorded
    bool touched;             // an op of the paused block has an input with a gradient
    bool recomputing;         // a block runs a second time (tape_recomputing)
    struct spare_grad *spare; // reusable buffers for gradients of results
    size_t spare_count;
    uint64_t bytes, peak; // of the pool's buffers
    size_t held;          // maximum of the bytes in the step arena when a backward pass began
};

// Frees the tape's steps and buffers, and resets all members but backend, recompute, keep and
// offloads.on.
void tape_release(struct tape *t);

// Discards the steps of a failed pass; buffers return to the pool.
void tape_clear(struct tape *t);

// Allocates a weight's gradient of `count` zeros; NULL when memory is short. Free it with
// grad_free.
struct grad *grad_new(const struct backend *b, int64_t count);
// Makes a weight's gradient without memory: a pass takes it from the tape's pool, and tape_give
// returns it. grad_keep instead allocates zeros that stay; -1 when memory is short.
struct grad *grad_of_pass(int64_t count);
int grad_keep(const struct backend *b, struct grad *d);
void grad_free(const struct backend *b, struct grad *d);
// Allocates sums for `count` lanes, freed with the gradient. -1 when memory is short.
int grad_lanes(const struct backend *b, struct grad *d, int count);
// Adds a lane's sum (from 1) to the gradient and clears the sum. -1 if the backend's op fails.
int grad_gather(const struct backend *b, struct grad *d, int lane);

// Returns the memory of a gradient to the pool. Does nothing if it has none, or after grad_keep.
void tape_give(struct tape *t, struct grad *d);

// Runs the backward pass; the tape is empty afterwards, even on failure. 0, or -1 if g has failed
// or was cancelled.
int tape_backward(struct graph *g);

// Makes the backward pass start at t too: adds w, of t's size, to t's gradient. Does nothing
// without a gradient or a tape. 0 or -1.
int tape_seed(struct graph *g, const struct tensor *t, const struct tensor *w);

// --- for ops ------------------------------------------------------------------------------------

// Records the op that made y if one of step->in has a gradient, and gives y a gradient. Returns y,
// or NULL if y is NULL or memory is short. Sets the recorded step's `out`.
struct tensor *tape_record(struct graph *g, struct tensor *y, const struct tape_step *step);

// Sets d to t's gradient, of t's shape and zeros at first use; false if t is NULL or has no
// gradient, or if memory is short (g has failed).
bool tape_grad(struct graph *g, const struct tensor *t, struct tensor *d);
// Like tape_grad, but returns d, or NULL for false.
struct tensor *tape_wanted(struct graph *g, const struct tensor *t, struct tensor *d);
// Like tape_grad, for callers that overwrite all of d at first use: then *add is false and d is
// uninitialised.
bool tape_grad_first(struct graph *g, const struct tensor *t, struct tensor *d, bool *add);
// Like tape_grad, but adds the gradient of s->out first. s no longer needs that gradient, so t's
// may reuse its memory.
bool tape_grad_pass(struct graph *g, const struct tape_step *s, const struct tensor *t,
                    struct tensor *d);

// True if the pass is being recorded.
static inline bool tape_on(const struct graph *g)
{
    return g->tape && !g->tape->paused;
}

// True while the backward pass recomputes a block.
static inline bool tape_recomputing(const struct graph *g)
{
    return g->tape && g->tape->recomputing;
}

#endif
