// core/train/lanes.c -- concurrent passes of a small model, each computed by one thread.
#include "core/train/lanes.h"

#include <stdlib.h>

enum { SMALL_HIDDEN = 512, SUMS_MOST = 512 << 20 }; // elements of a row; bytes of all lanes' sums

bool lanes_wanted(const struct params *p)
{
    return p->model->decoder.config.hidden <= SMALL_HIDDEN &&
           (uint64_t)p->counted[MODEL_PARTS].trained * sizeof(float) * LANES <= SUMS_MOST;
}

int lanes_open(struct lanes *l, struct params *p, const struct backend *b, const struct tape *tape,
               struct err *err)
{
    *l = (struct lanes){ .params = p, .backend = b };
    for (int k = 0; k < LANES; k++) {
        l->list[k].arena.backend = b;
        l->list[k].tape = (struct tape){ .backend = b,
                                         .recompute = tape->recompute,
                                         .keep = tape->keep / LANES,
                                         .offloads = { .on = tape->offloads.on },
                                         .norms = tape->norms,
                                         .lane = k + 1 };
    }
    for (size_t i = 0; i < p->count; i++)
        if (grad_lanes(p->list[i].where, p->list[i].grad, LANES) < 0) {
            lanes_release(l);
            return err_set(err,
                           "out of memory for the gradients of %d passes; train fewer weights "
                           "(train.method) or use a larger machine",
                           LANES);
        }
    return 0;
}

void lanes_release(struct lanes *l)
{
    if (!l->params) return;
    for (int k = 0; k < LANES; k++) {
        tape_release(&l->list[k].tape);
        arena_release(&l->list[k].arena);
    }
    *l = (struct lanes){ 0 }; // the gradients own the sums
}

// Returns the first sample of lane k.
static size_t first_of(size_t count, int k)
{
    return count * (size_t)k / LANES;
}

// Adds the sums of the lanes to the gradients, in order, and clears the sums. One thread adds all
// sums of a parameter: most are so small that synchronising threads would take longer. The thread
// that failed reads the reason, because a device may report failures per thread.
static void gather(const struct lanes *l, struct graph *g, size_t count, bool beside)
{
    bool failed = false;
#pragma omp parallel for schedule(dynamic, 1) firstprivate(failed) if (beside)
    for (size_t i = 0; i < l->params->count; i++)
        for (int k = 0; k < LANES && !failed; k++) {
            if (first_of(count, k) == first_of(count, k + 1)) continue;
            const struct param *one = &l->params->list[i];
            failed = grad_gather(one->where, one->grad, k + 1) < 0;
            if (!failed) continue;
#pragma omp critical(lanes_gather)
            graph_fail(g, "add: %s", one->where->failure());
        }
}

int lanes_run(struct lanes *l, struct graph *g, const struct model *m,
              const struct loss_item *items, size_t count, double share, double *losses)
{
    struct graph graphs[LANES];
    const bool beside = l->backend == backend_cpu(); // other devices order their work themselves
#pragma omp parallel for schedule(dynamic, 1) if (beside)
    for (int k = 0; k < LANES; k++) {
        const size_t from = first_of(count, k), n = first_of(count, k + 1) - from;
        graphs[k] = *g;
        graphs[k].arena = &l->list[k].arena;
        if (g->tape) graphs[k].tape = &l->list[k].tape;
        if (n) loss_batch(&graphs[k], m, items + from, n, share, losses + from);
    }
    for (int k = 0; k < LANES; k++) {
        g->cancelled |= graphs[k].cancelled;
        if (graphs[k].failed) graph_fail(g, "%s", graphs[k].err.text);
    }
    if (!graph_ok(g)) return -1;
    if (g->tape) gather(l, g, count, beside);
    return graph_ok(g) ? 0 : -1;
}
