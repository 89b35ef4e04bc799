// core/ranks/ranks.h -- the processes (ranks) that share the work of a job, over MPI.
//
//   struct ranks *r = ranks_open(&err);              // in a process that mpirun started
//   ranks_sum_floats(r, gradients, count, -1);       // every rank gets the sum
//   ranks_share(r, &stop, sizeof stop, 0);           // every rank has rank 0's bytes
//   ranks_close(r);                                  // waits for all
//
// NULL means a job of one process, with nothing to sum or share. All ranks must call the same sums
// and broadcasts in the same order with the same sizes, whatever their data; otherwise one would
// wait forever. A rank that fails ends all of them (ranks_abort).
//
// ranks_open loads Open MPI's library at run time. It needs no headers: ranks.c declares the part
// of the binary interface that it uses, which is the same in versions 2 to 5 (libmpi.so.40). Before
// each sum or broadcast the ranks wait until the last one arrives, asleep after at most a
// millisecond, because Open MPI itself would spin. This frees the processor for other programs, and
// the time counts as lost (waited_us).
//
// Room core/ranks/: sums and messages between the processes of a job. Uses base.
#ifndef CORE_RANKS_RANKS_H
#define CORE_RANKS_RANKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct ranks {
    int number, count;     // of this rank, from 0; of all ranks
    int beside, local;     // number of ranks on this machine; this rank's index among them
    struct ranks_gpu *gpu; // NCCL, if the ranks have GPUs (ranks_gpu_open); NULL: none
    void *comm;            // MPI's handle of the group
    // The group that this one is a part of (ranks_part), or this one; it holds the counters below.
    struct ranks *whole;
    // For the display: other threads may read these at any time.
    atomic_bool waiting;       // for other ranks
    _Atomic int64_t done;      // samples computed by this rank
    _Atomic int64_t waited_us; // microseconds lost by waiting
    // `bytes`: bytes summed and broadcast, counted once for any number of ranks; `moved_us`:
    // microseconds that this took after all ranks had arrived, except between GPUs.
    _Atomic int64_t bytes, moved_us;
    // Threads that take turns (ranks_flights).
    pthread_mutex_t turn;
    int flights, waiters; // `waiters` wait for other ranks; if all flights do, the rank loses time
    double idle;          // clock_seconds() when the last flight began to wait
};

// Opens this process's rank. NULL with a message if mpirun did not start this process, or if Open
// MPI is missing, lacks a function, or was built without threads.
struct ranks *ranks_open(struct err *err);
// Waits for all ranks, then leaves MPI.
void ranks_close(struct ranks *r);
// Groups the ranks that pass the same `part`, and renumbers them from 0 in the same order. All
// ranks must call it, and ranks_part_close. In between, they may also use the whole group. *why is
// set if the part's sums use host memory because NCCL failed (ranks_gpu_open).
struct ranks *ranks_part(struct ranks *whole, int part, struct err *why);
void ranks_part_close(struct ranks *r);
// Ends all ranks, including this one.
_Noreturn void ranks_abort(const struct ranks *r, int status);

int ranks_number(const struct ranks *r);               // 0 for NULL
int ranks_count(const struct ranks *r);                // 1 for NULL
void ranks_add_done(struct ranks *r, int64_t samples); // adds to whole->done
// Assigns items to `ranks` ranks, the most expensive first, each to the rank with the least total
// cost so far: owner[count]. Equal inputs give equal assignments, so every rank gets the same one.
// Returns the rank with the highest total.
int ranks_assign(const int64_t *cost, size_t count, int ranks, int *owner);

// Sums x over the ranks. Only rank `to` gets the sum, and the others keep their numbers; -1: all
// get it.
void ranks_sum_floats(struct ranks *r, float *x, size_t count, int to);
void ranks_sum_doubles(struct ranks *r, double *x, size_t count); // all get it
// Broadcasts the bytes of rank `from` to all ranks.
void ranks_share(struct ranks *r, void *data, size_t size, int from);
// True if these bytes equal rank 0's; always true on rank 0 and in a single process. All ranks call
// it.
bool ranks_same(struct ranks *r, const void *data, size_t size);
// Makes the outcome of a step the same on all ranks, which all call it: if the step has failed (-1)
// on some, it fails on all, with the message of the first of these; otherwise the largest status
// counts. So an error that only one rank finds does not leave the others waiting for it.
int ranks_agree(struct ranks *r, int status, struct err *err);
// Waits for all ranks.
void ranks_meet(struct ranks *r);

// --- messages between two ranks ------------------------------------------------------------------

// Messages with the same tag arrive in the order in which they were sent. ranks_send returns once
// `data` may be overwritten, ranks_receive once the message has arrived; the sizes must be equal.
void ranks_send(struct ranks *r, int to, int tag, const void *data, size_t size);
void ranks_receive(struct ranks *r, int from, int tag, void *data, size_t size);

// Lets `count` threads of this rank, its flights, take turns: one at a time computes or calls the
// functions above, and gives up its turn while it waits for another rank. So shared data needs no
// lock, and threads never compete for a processor. 1 is the normal state, which sums and
// ranks_share require.
void ranks_flights(struct ranks *r, int count);
// A flight begins with ranks_turn_take and ends with ranks_turn_pass.
void ranks_turn_take(struct ranks *r);
void ranks_turn_pass(struct ranks *r);

// --- between GPUs --------------------------------------------------------------------------------

// Opens NCCL (libnccl.so.2) for ranks with one GPU each. `stream` returns the GPU's current stream:
// sums follow the ops issued before them. All ranks call it. If it fails on one, all return -1
// with the reason, and sums use host memory.
int ranks_gpu_open(struct ranks *r, void *(*stream)(void), struct err *err);
// Opens NCCL among the ranks of a part, if the whole group has it; called by ranks_part.
// Sets *why as ranks_gpu_open does.
void ranks_gpu_open_part(struct ranks *r, struct err *why);
bool ranks_between_gpus(const struct ranks *r);
// Like the functions above, for data in GPU memory; -1 with NCCL's reason. NCCL groups the calls
// between begin and end.
int ranks_gpu_begin(struct ranks *r, struct err *err);
int ranks_gpu_sum_floats(struct ranks *r, float *x, size_t count, int to, struct err *err);
int ranks_gpu_share(struct ranks *r, void *data, size_t size, int from, struct err *err);
int ranks_gpu_end(struct ranks *r, struct err *err);
void ranks_gpu_close(struct ranks *r); // called by ranks_close and ranks_part_close

#endif
