// core/graph/graph.h -- the context of one forward pass: device, memory, listeners.
//
// The ops (core/ops/ops.h) allocate their result in graph->arena, call the backend's kernel and
// return the result, or NULL once anything has failed: a NULL input gives a NULL output and the
// first message is kept in graph->err. So the forward pass reads straight down, with one check per
// stage:
//
//   struct tensor *x = op_rmsnorm(g, h, w->input_norm, eps);
//   struct tensor *q = op_matmul(g, x, w->q, NULL);
//   ...
//   return graph_ok(g) ? 0 : -1;
//
// With a tape (core/graph/tape.h) each op also records its backward step if an input has a
// gradient. Rules for forward code:
//  - graph_scratch_end frees what was allocated since graph_scratch_begin, unless a tape keeps it;
//  - the result of an op is its return value; without a tape the op may have overwritten its input;
//  - blocks that can be recomputed (a layer) run through graph_block.
//
// Room core/graph/: the context of a pass: devices, arenas, the gradient tape, recordings, and the
// sites where methods and probes listen. Uses base, settings, template (the sequence) and kernels/.
#ifndef CORE_GRAPH_GRAPH_H
#define CORE_GRAPH_GRAPH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/err.h"
#include "core/graph/arena.h"
#include "kernels/backend.h"

struct hooks;
struct readbacks;
struct settings;
struct tape;

// IRA's KL divergence of a sample: sum over layers of the mean over visual tokens and key/value
// heads.
struct graph_kl {
    double plain, weighted; // without and with the gate's weights; beta multiplies the latter
};

// Data on one sample of a training pass (core/eval/loss.h).
struct graph_sample {
    uint64_t number; // counts the samples drawn in training, from 0; seeds the sample's noise
    double penalty;  // loss terms added by methods
    struct graph_kl kl;
};

struct graph {
    const struct backend *backend;
    struct arena *arena;         // step arena: results of the ops
    struct tape *tape;           // records the pass for gradients (core/graph/tape.h); NULL = off
    const struct hooks *hooks;   // methods and probes (core/graph/hooks.h); NULL = none
    struct readbacks *readbacks; // pending readbacks (core/graph/readback.h); NULL: each readback
                                 // waits for its copy
    const struct settings *settings; // constant during a pass; NULL = defaults
    enum matmul_mode matmul;         // from compute.matmul
    const atomic_bool *cancel;       // set by another thread or a signal: stops at the next layer
    void (*yield)(void *self);    // called every few steps of the backward pass; NULL: not called
    void *yield_self;             // first argument of yield; any thread may call yield
    struct graph_sample *samples; // samples of a pass that computes a loss, in order; NULL: no loss
    double share;                 // weight of a sample's loss in the step's loss
    int conversation;             // index of the conversation, if several run in turn: 0, 1 ..
    // Visual tokens of each picture of the pass, set by splice (core/model/visual.h), for families
    // with DeepStack, which add parts of them after the first layers; NULL: none.
    struct tensor *const *visual;
    bool failed, cancelled;
    bool failed_elsewhere; // the failure comes from another process
    struct err err;        // the first failure
};

// Returns the effective precision of matrix products: compute.matmul if the device supports it,
// with `auto` resolved for a model whose matrices have that dtype (model->dtype). Without settings
// a pass computes in f32. Stored answers and measurements record this precision, never `auto`.
enum matmul_mode graph_matmul(const struct backend *b, const struct settings *s,
                              enum dtype weights);
enum matmul_mode graph_matmul_auto(const struct backend *b, enum dtype weights);
const char *graph_precision(enum matmul_mode mode); // "f32", "bf16"
// True while nothing has failed and nothing was cancelled.
bool graph_ok(const struct graph *g);
// Records a failure (the first one stays). Returns NULL for `return graph_fail(...)` in ops.
void *graph_fail(struct graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Checks the cancel flag; true when the pass must stop (graph_ok is false from then on).
bool graph_stop(struct graph *g);

// Allocates an uninitialised tensor in the step arena. NULL when memory is short (recorded as a
// failure).
struct tensor *graph_new(struct graph *g, enum dtype dtype, int rank, const int64_t *shape);
// Like graph_new, but allocates in host memory.
struct tensor *graph_new_host(struct graph *g, enum dtype dtype, int rank, const int64_t *shape);
struct tensor *graph_new1(struct graph *g, enum dtype dtype, int64_t n);
struct tensor *graph_new2(struct graph *g, enum dtype dtype, int64_t n, int64_t m);
struct tensor *graph_new3(struct graph *g, enum dtype dtype, int64_t n, int64_t m, int64_t k);
// Returns a view of the same memory under another shape with equally many elements.
struct tensor *graph_view(struct graph *g, struct tensor *t, int rank, const int64_t *shape);
struct tensor *graph_view3(struct graph *g, struct tensor *t, int64_t n, int64_t m, int64_t k);
// Returns a view of rows [from, from+count) of t.
struct tensor *graph_rows(struct graph *g, struct tensor *t, int64_t from, int64_t count);
// Copies host data to a new tensor in the step arena.
struct tensor *graph_upload(struct graph *g, enum dtype dtype, int rank, const int64_t *shape,
                            const void *host);

// Copies the elements of t to host memory as floats.
void graph_download(struct graph *g, float *to, const struct tensor *t);

// Begin marks the arena; end frees the memory allocated since, unless a tape needs it.
struct arena_mark graph_scratch_begin(const struct graph *g);
void graph_scratch_end(struct graph *g, struct arena_mark mark);

// A block of the pass: maps h to a result of the same shape; without a tape the result may be h
// itself.
typedef struct tensor *(*graph_block_fn)(struct graph *g, void *self, struct tensor *h);
// Runs a block. A tape that will recompute the block copies `self` (`size` bytes), whose pointers
// must stay valid as long as the tape's steps. With a tape, the result is valid until the second
// block after this one begins; without a tape, until the next block begins.
struct tensor *graph_block(struct graph *g, graph_block_fn run, const void *self, size_t size,
                           struct tensor *h);

// Allocates a tensor that one block writes (op_copy_rows_into) and later blocks read, outside their
// memory. With a tape, gradients flow back through the tensor to the block that wrote it.
struct tensor *graph_between_blocks(struct graph *g, int64_t n, int64_t m, int64_t k);

// Returns a weight as an op's input; NULL if the model lacks it (a bias).
static inline struct tensor *graph_weight(const struct tensor *w)
{
    return w->data ? (struct tensor *)w : NULL;
}

#endif
