// core/ranks/ranks.h -- the processes (ranks) that share the work of a job, over MPI.
//
//   struct ranks *r = ranks_open(&err);              // in a process that mpirun started
//   ranks_sum_floats(r, gradients, count, -1);       // every rank gets the sum
//   ranks_share(r, &stop, sizeof stop, 0);           // every rank has rank 0's bytes
//   ranks_close(r);                                  // when all have come so far
//
// NULL is a job of one process: there is nothing to sum, and nothing to share. All ranks call the
// same functions in the same order with the same sizes, whatever their data are like; so no rank
// waits for a call that another one does not make. A rank that fails ends all of them
// (ranks_abort).
//
// Open MPI's library is opened at run time, by ranks_open alone. Its headers are not needed: what
// is used of its binary interface, the same in versions 2 to 5 (libmpi.so.40), is declared in
// ranks.c. Before each sum the ranks wait for the last of them asleep, as Open MPI itself would
// wait spinning: other programs keep the processor, and the time is what a rank has lost
// (waited_us).
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
    int beside, local;     // of them on this machine; this one among those, from 0
    struct ranks_gpu *gpu; // NCCL, if the ranks have GPUs (ranks_gpu_open); NULL: none
    void *comm;            // MPI's handle of the group
    struct ranks *whole;   // of which it is a part (ranks_part), or itself: that one counts
    // For the display: what other threads may read at any time.
    atomic_bool waiting;       // for other ranks
    _Atomic int64_t done;      // samples computed by this rank
    _Atomic int64_t waited_us; // microseconds lost by waiting
    // What was summed and shared, each number once however many ranks there are; and how long that
    // took when all had come.
    _Atomic int64_t bytes, moved_us;
    // Threads that take turns (ranks_flights).
    pthread_mutex_t turn;
    int flights, waiters; // of them that wait for other ranks: all, and the rank loses time
    double idle;          // since when
};

// NULL with a message: there is no Open MPI, or mpirun did not start this process.
struct ranks *ranks_open(struct err *err);
// Waits for all ranks, then leaves MPI.
void ranks_close(struct ranks *r);
// The ranks that give the same number, as a group of their own, in which they are numbered from 0
// in the same order. All ranks call it. Until ranks_part_close, which all call too, the whole may
// be used as well, by all of its ranks.
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
// Are these bytes the same as rank 0's? All ranks ask; rank 0 and a single process always are.
bool ranks_same(struct ranks *r, const void *data, size_t size);
// Waits for all ranks.
void ranks_meet(struct ranks *r);

// --- from one to another -------------------------------------------------------------------------

// Messages with the same tag arrive in the order in which they were sent. Both return when the
// other one has come so far; the sizes must be the same.
void ranks_send(struct ranks *r, int to, int tag, const void *data, size_t size);
void ranks_receive(struct ranks *r, int from, int tag, void *data, size_t size);

// From here on `count` threads of this rank, its flights, work by turns: one at a time computes or
// calls the functions above, and passes its turn on while it waits for another rank. So nothing
// that they share needs a lock, and no processor is wanted twice. 1: the ordinary state. Sums and
// ranks_share are for that one.
void ranks_flights(struct ranks *r, int count);
// A flight begins and ends.
void ranks_turn_take(struct ranks *r);
void ranks_turn_pass(struct ranks *r);

// --- between GPUs --------------------------------------------------------------------------------

// Opens NCCL (libnccl.so.2) for ranks of which each has a GPU of its own. `stream` gives the GPU's
// stream at the time of a call: what is summed are the numbers that the ops issued before it leave.
// All ranks call it. -1 in all of them with a reason if one has no NCCL: sums then go through host
// memory.
int ranks_gpu_open(struct ranks *r, void *(*stream)(void), struct err *err);
// The same among the ranks of a part whose whole has NCCL (ranks_part does it).
void ranks_gpu_open_part(struct ranks *r);
bool ranks_between_gpus(const struct ranks *r);
// The same as the functions above, of numbers in GPU memory; -1 with NCCL's reason. Calls between
// begin and end go together.
int ranks_gpu_begin(struct ranks *r, struct err *err);
int ranks_gpu_sum_floats(struct ranks *r, float *x, size_t count, int to, struct err *err);
int ranks_gpu_share(struct ranks *r, void *data, size_t size, int from, struct err *err);
int ranks_gpu_end(struct ranks *r, struct err *err);
void ranks_gpu_close(struct ranks *r); // ranks_close does it

#endif
