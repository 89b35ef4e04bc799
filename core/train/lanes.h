// core/train/lanes.h -- data-parallel passes of a small model, each computed by one thread.
//
//   lanes_open(&lanes, &params, backend, &tape, &err);
//   lanes_run(&lanes, &graph, model, items, count, share, losses);   // as loss_batch
//   lanes_release(&lanes);                                           // before params_release
//
// Threads that share the ops of one pass synchronise after every op; with matrices of a few hundred
// rows and columns synchronising takes longer than the work, and other programs on the same cores
// make it far worse. So the samples of a pass are distributed over a fixed number of lanes, each
// with its own arena, tape and gradient sums. The number of lanes does not depend on the number of
// threads, and the sums are added in order: the results are bit-identical with any number of
// threads.
#ifndef CORE_TRAIN_LANES_H
#define CORE_TRAIN_LANES_H

#include "core/eval/loss.h"
#include "core/graph/tape.h"
#include "core/train/params.h"

enum { LANES = 8 };

struct lanes {
    struct params *params; // NULL: no lanes
    const struct backend *backend;
    struct lane {
        struct arena arena;
        struct tape tape;
    } list[LANES];
};

// Returns true if the model is small enough to benefit, and LANES copies of its gradients stay
// small.
bool lanes_wanted(const struct params *p);
// The lanes' tapes recompute and offload like `tape`, and divide its `keep` among them. Each
// parameter's gradient gets a sum for each lane (grad_lanes). On failure *l is empty.
int lanes_open(struct lanes *l, struct params *p, const struct backend *b, const struct tape *tape,
               struct err *err);
void lanes_release(struct lanes *l);
// Computes loss_batch on all lanes, with the listeners, settings and tape (recorded or not) of `g`;
// its listeners must be thread-safe. 0 or -1 (g->err, or cancelled).
int lanes_run(struct lanes *l, struct graph *g, const struct model *m,
              const struct loss_item *items, size_t count, double share, double *losses);

#endif
