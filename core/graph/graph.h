// core/graph/graph.h -- the context of one forward pass: where it computes, in what memory, who
// listens.
//
// The ops (core/ops/ops.h) allocate their result in graph->arena, call the backend's kernel and
// return the result, or NULL once anything has failed: a NULL input gives a NULL output and the
// first message is kept in graph->err. So the forward pass reads straight down and is checked once
// per stage:
//
//   struct tensor *x = op_rmsnorm(g, h, w->input_norm, eps);
//   struct tensor *q = op_matmul(g, x, w->q, NULL);
//   ...
//   return graph_ok(g) ? 0 : -1;
//
// With a tape (core/graph/tape.h) each op also records how to go back when an input has a gradient.
// What the forward code has to know of it:
//  - scratch is given back between graph_scratch_begin and graph_scratch_end, which a tape keeps;
//  - the result of an op is what it returns, also where it writes over its input without a tape;
//  - blocks that can be computed again (a layer) are run through graph_block.
//
// Room core/graph/: what a pass computes in: devices, arenas, the tape of gradients, recordings,
// and the sites where methods and probes listen. It uses base, settings, text (the sequence) and
// kernels/.
#ifndef CORE_GRAPH_GRAPH_H
#define CORE_GRAPH_GRAPH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/err.h"
#include "core/graph/arena.h"
#include "kernels/backend.h"

struct hooks;
struct looks;
struct settings;
struct tape;

// What a training pass knows of each of its samples (core/train/loss.h).
struct graph_sample {
    uint64_t number; // of this draw in the training: seeds noise
    double penalty;  // what methods add to its loss
    double kl;       // the divergence that beta times is part of it
};

struct graph {
    const struct backend *backend;
    struct arena *arena;       // step arena: results of the ops
    struct tape *tape;         // records the pass for gradients (core/graph/tape.h); NULL = no
    const struct hooks *hooks; // who looks and who changes (core/graph/hooks.h); NULL = nobody
    struct looks *looks;       // not yet taken (core/graph/look.h); NULL = whoever looks waits
    const struct settings *settings; // they do not change during a pass; NULL = defaults
    enum matmul_mode matmul;         // from compute.matmul
    const atomic_bool *cancel;       // set by another thread or a signal: stop at the next layer
    void (*breathe)(void *self);     // called every few steps of the way back; NULL: nobody
    void *breather;                  // `self` of it; from any thread
    struct graph_sample *samples;    // of a pass that computes a loss, in order; NULL: no such pass
    double share;                    // of a sample's loss in that of the step
    bool failed, cancelled;
    struct err err; // the first failure
};

// How products are really computed: what compute.matmul says, as far as the device can, or what
// `auto` means there for a model whose matrices are of that dtype (model->dtype). A pass without
// settings is exact. What is stored of an answer or a measurement names this, never `auto`.
enum matmul_mode graph_matmul(const struct backend *b, const struct settings *s,
                              enum dtype weights);
enum matmul_mode graph_matmul_auto(const struct backend *b, enum dtype weights);
const char *graph_arithmetic(enum matmul_mode mode); // "f32", "bf16"
// True while nothing has failed and nobody cancelled.
bool graph_ok(const struct graph *g);
// Notes a failure (the first one stays). Returns NULL for `return graph_fail(...)` in ops.
void *graph_fail(struct graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Looks at the cancel flag; true when the pass must stop now (graph_ok is false from then on).
bool graph_stop(struct graph *g);

// A tensor in the step arena, data not initialised. NULL when memory is short (noted).
struct tensor *graph_new(struct graph *g, enum dtype dtype, int rank, const int64_t *shape);
// The same in the host's memory.
struct tensor *graph_new_host(struct graph *g, enum dtype dtype, int rank, const int64_t *shape);
struct tensor *graph_new1(struct graph *g, enum dtype dtype, int64_t n);
struct tensor *graph_new2(struct graph *g, enum dtype dtype, int64_t n, int64_t m);
struct tensor *graph_new3(struct graph *g, enum dtype dtype, int64_t n, int64_t m, int64_t k);
// The same memory under another shape of as many elements.
struct tensor *graph_view(struct graph *g, struct tensor *t, int rank, const int64_t *shape);
struct tensor *graph_view3(struct graph *g, struct tensor *t, int64_t n, int64_t m, int64_t k);
// Rows [from, from+count) of t, same memory.
struct tensor *graph_rows(struct graph *g, struct tensor *t, int64_t from, int64_t count);
// A tensor in the step arena with a copy of host data.
struct tensor *graph_upload(struct graph *g, enum dtype dtype, int rank, const int64_t *shape,
                            const void *host);

// The numbers of t as floats, to host memory.
void graph_download(struct graph *g, float *to, const struct tensor *t);

// Memory taken between the two is given back at the end, unless a tape needs what lies there.
struct arena_mark graph_scratch_begin(const struct graph *g);
void graph_scratch_end(struct graph *g, struct arena_mark mark);

// A block of the pass: h to a result of the same shape, which without a tape may be h itself.
// `self` (copied, `size` bytes) and what it points to last as long as the tape's steps. With a tape
// the result is there until the block after the next begins; without one, until the next begins.
typedef struct tensor *(*graph_block_fn)(struct graph *g, void *self, struct tensor *h);
struct tensor *graph_block(struct graph *g, graph_block_fn run, const void *self, size_t size,
                           struct tensor *h);

// A weight as an input of ops; NULL for one the model does not have (a bias).
static inline struct tensor *graph_weight(const struct tensor *w)
{
    return w->data ? (struct tensor *)w : NULL;
}

#endif
