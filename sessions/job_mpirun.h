// sessions/job_mpirun.h -- parses mpirun's output: the rank that ended first, and how it ended.
//
//   struct mpirun_output output = MPIRUN_NO_OUTPUT;
//   mpirun_read(&output, text, size, pass_on, self);   // in pieces of any size
//   ... output.rank, output.signal, output.status, output.message.data ...
//   mpirun_output_release(&output);
//
// Open MPI 2 to 4 (mpirun, orterun) and 5 (prterun) differ in wording and line breaks. Both
// enclose their messages in lines of dashes; other lines come from the ranks.
#ifndef SESSIONS_JOB_MPIRUN_H
#define SESSIONS_JOB_MPIRUN_H

#include <stdbool.h>

#include "core/base/mem.h"

struct mpirun_output {
    int rank;               // first rank to end; -1: unknown
    int signal, status;     // how that rank ended; 0: unknown
    int aborted;            // rank that called MPI_Abort; -1: none
    struct buf message;     // first message, joined into one line; empty: none
    struct buf line, block; // the line and the message being read
    bool inside;            // inside a message
};

#define MPIRUN_NO_OUTPUT ((struct mpirun_output){ .rank = -1, .aborted = -1 })

// Calls other() with each line outside mpirun's messages.
void mpirun_read(struct mpirun_output *output, const char *text, size_t size,
                 void (*other)(void *self, const char *line), void *self);
void mpirun_output_release(struct mpirun_output *output);

#endif
