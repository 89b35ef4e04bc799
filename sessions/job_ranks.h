// sessions/job_ranks.h -- heartbeats and counts of a job's ranks, as files in the job's folder:
// written by the ranks, read by the process that started them (sessions/job_group.c) and by shells.
//
//   struct job_heartbeat *b = job_heartbeat_start(folder);   // in a rank
//   job_heartbeat_join(b, ranks);                            // once it has joined the others
//   job_heartbeat_stop(b);
//
//   struct job_rank *list;                                   // in a shell
//   size_t count = store_job_ranks(store, id, &list);
//   ... list[k].done / list[k].seconds ...
//   free(list);
//
// FOLDER/rank-K has one line, written every second: if it stops changing, the rank is suspended or
// its machine is gone.
#ifndef SESSIONS_JOB_RANKS_H
#define SESSIONS_JOB_RANKS_H

#include "core/ranks/ranks.h"
#include "sessions/store.h"

struct job_rank {
    int64_t beat;   // grows with every line
    double seconds; // since the rank began
    double waited;  // how many of these seconds the rank waited for other ranks
    int64_t done;   // samples
    bool waiting;   // for other ranks, now
    bool joining;   // has not found the others yet
    char host[64];
};

// Checks that mpirun is installed; the shell calls this before it creates a job.
int job_ranks_check(struct err *err);

struct job_heartbeat;
// Starts writing this rank's line; NULL: mpirun did not start this process.
struct job_heartbeat *job_heartbeat_start(const char *folder);
void job_heartbeat_join(struct job_heartbeat *b, const struct ranks *r);
void job_heartbeat_now(struct job_heartbeat *b);  // writes a line at once
void job_heartbeat_stop(struct job_heartbeat *b); // writes the last line; NULL is allowed

// Reads the line of a rank; false: none yet.
bool job_rank_read(const char *folder, int number, struct job_rank *rank);
// Reads the lines of ranks 0, 1 ... of the last run, up to the first without a line; the caller
// frees *list.
size_t job_ranks_read(const char *folder, struct job_rank **list);
size_t store_job_ranks(const struct store *s, int64_t id, struct job_rank **list);

#endif
