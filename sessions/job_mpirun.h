// sessions/job_mpirun.h -- reads what mpirun writes: which rank ended first, and how.
//
//   struct mpirun_said said = MPIRUN_SAID_NOTHING;
//   mpirun_read(&said, text, size, pass_on, self);   // as it comes, in pieces of any size
//   ... said.rank, said.signal, said.status, said.message.data ...
//   mpirun_said_release(&said);
//  Open MPI 2 to 4 (mpirun, orterun) and 5 (prterun) word it differently, and break lines in
// different places. Their messages lie between lines of dashes; lines outside come from the ranks.
#ifndef SESSIONS_JOB_MPIRUN_H
#define SESSIONS_JOB_MPIRUN_H

#include <stdbool.h>

#include "core/base/mem.h"

struct mpirun_said {
    int rank, signal, status; // the rank that ended first; by a signal, or with a status; -1, 0:
                              // not known
    int aborted;              // the rank that ended the others, if one has; -1: not known
    struct buf message;       // the first message in one line; empty: none
    struct buf line, block;   // being read
    bool inside;              // a message
};

#define MPIRUN_SAID_NOTHING ((struct mpirun_said){ .rank = -1, .aborted = -1 })

// Calls other() with each line that is not of a message.
void mpirun_read(struct mpirun_said *said, const char *text, size_t size,
                 void (*other)(void *self, const char *line), void *self);
void mpirun_said_release(struct mpirun_said *said);

#endif
