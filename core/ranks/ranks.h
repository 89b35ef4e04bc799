// core/ranks/ranks.h -- the processes (ranks) that share the work of a job, over MPI.
//
//   struct ranks *r = ranks_open(&err);              // in a process that mpirun started
//   ranks_sum_floats(r, gradients, count, -1);       // every rank gets the sum
//   ranks_share(r, &stop, sizeof stop, 0);           // every rank has rank 0's bytes
//   ranks_close(r);                                  // waits for all
//
// NULL is a job of one process: nothing to sum or share. All ranks call the same functions in the
// same order with the same sizes, whatever their data: no rank waits for a call that another one
// does not make. A rank that fails ends all of them (ranks_abort).
//
// ranks_open loads Open MPI's library at run time. Its headers are not needed: ranks.c declares the
// used part of its binary interface, the same in versions 2 to 5 (libmpi.so.40). Before each sum
// the ranks sleep until the last of them arrives, because Open MPI itself would spin: other
// programs get the processor, and the time counts as lost (waited_us).
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
    int number, count;     // this one, from 0; of all
    int beside, local;     // ranks on this machine; the number of this one among them, from 0
    struct ranks_gpu *gpu; // NCCL, if the ranks have GPUs (ranks_gpu_open); NULL: none
    void *comm;            // MPI's handle of the group
    struct ranks *whole;   // the group that it is a part of (ranks_part), or itself: has the counts
    // For the display: other threads may read these at any time.
    atomic_bool waiting;       // for other ranks
    _Atomic int64_t done;      // samples computed by this rank
    _Atomic int64_t waited_us; // microseconds lost by waiting
    // Bytes summed and shared, each number once for any number of ranks; and the time that took
    // after all had arrived.
    _Atomic int64_t bytes, moved_us;
    // Threads that take turns (ranks_flights).
    pthread_mutex_t turn;
    int flights, waiters; // those that wait for other ranks; if all do, the rank loses time
    double idle;          // since then
};

// NULL with a message: Open MPI is missing, or mpirun did not start this process.
struct ranks *ranks_open(struct err *err);
// Waits for all ranks, then leaves MPI.
void ranks_close(struct ranks *r);
// A group of the ranks that pass the same number, numbered from 0 in the same order. All ranks call
// it. Until ranks_part_close, which all call too, all ranks may also use the whole group.
struct ranks *ranks_part(struct ranks *whole, int part);
void ranks_part_close(struct ranks *r);
// Ends all ranks, this one first.
_Noreturn void ranks_abort(const struct ranks *r, int status);

int ranks_number(const struct ranks *r); // 0 for NULL
int ranks_count(const struct ranks *r);  // 1 for NULL
void ranks_did(struct ranks *r, int64_t samples);

// Only rank `to` gets the sum, and the numbers of the others stay; -1: all get it.
void ranks_sum_floats(struct ranks *r, float *x, size_t count, int to);
void ranks_sum_doubles(struct ranks *r, double *x, size_t count); // all get it
// The bytes of rank `from`, in all ranks.
void ranks_share(struct ranks *r, void *data, size_t size, int from);
// Are these bytes the same as rank 0's? All ranks call it; true for rank 0 and a single process.
bool ranks_same(struct ranks *r, const void *data, size_t size);
// Waits for all ranks.
void ranks_meet(struct ranks *r);

// --- from one to another -------------------------------------------------------------------------

// Messages with the same tag arrive in the order in which they were sent. Both functions return
// once the message has been exchanged; the sizes must be the same.
void ranks_send(struct ranks *r, int to, int tag, const void *data, size_t size);
void ranks_receive(struct ranks *r, int from, int tag, void *data, size_t size);

// From now on `count` threads of this rank, its flights, take turns: one at a time computes or
// calls the functions above, and passes its turn on while it waits for another rank. So shared data
// needs no lock, and no two threads compete for a processor. 1: the ordinary state, which sums and
// ranks_share require.
void ranks_flights(struct ranks *r, int count);
// Begin and end a flight.
void ranks_turn_take(struct ranks *r);
void ranks_turn_pass(struct ranks *r);

// --- between GPUs --------------------------------------------------------------------------------

// Opens NCCL (libnccl.so.2) for ranks that each have a GPU of their own. `stream` returns the GPU's
// current stream: sums follow the ops issued before them. All ranks call it. -1 in all of them with
// a reason if one has no NCCL: sums then use host memory.
int ranks_gpu_open(struct ranks *r, void *(*stream)(void), struct err *err);
// The same among the ranks of a part, if the whole group has NCCL; called by ranks_part.
void ranks_gpu_open_part(struct ranks *r);
bool ranks_between_gpus(const struct ranks *r);
// The same as the functions above, of numbers in GPU memory; -1 with NCCL's reason. Calls between
// begin and end go together.
int ranks_gpu_begin(struct ranks *r, struct err *err);
int ranks_gpu_sum_floats(struct ranks *r, float *x, size_t count, int to, struct err *err);
int ranks_gpu_share(struct ranks *r, void *data, size_t size, int from, struct err *err);
int ranks_gpu_end(struct ranks *r, struct err *err);
void ranks_gpu_close(struct ranks *r); // called by ranks_close

#endif
