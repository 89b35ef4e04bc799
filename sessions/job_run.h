// sessions/job_run.h -- running a job in this process (`vlmsh job run ID`).
//
//   struct job_control control = { 0 };            // signal handlers set it
//   enum job_state state;
//   if (job_run(&channel, &setup, &state, &err) < 0) ... failed: reported and stored ...
//
// Order: lock (a second process for the same job is refused), settings, model, run(), final state.
// The job's reports go to the channel (job_channel.h), through a separate sink, and to
// setup->sinks. The job's folder must exist.
//
// `vlmsh job run ID` of a job with job.ranks N starts `mpirun -n N vlmsh job rank ID --folder F`.
// Ranks know the job's folder (job_channel.h), not the database, which they may be unable to reach.
// Rank 0 alone holds the job's lock, reports the job's state, and writes the output. The process
// that started mpirun waits, imports the reports into the database and passes on a pause. If rank 0
// reports no end, that process records which rank was killed, failed or no longer answers.
//
// `vlmsh job batch ID --folder F` does the same for a queued job, on machines without the database.
#ifndef SESSIONS_JOB_RUN_H
#define SESSIONS_JOB_RUN_H

#include "sessions/job_channel.h"

// State that a signal handler may touch. Shells send no signals: they write requests
// (job_channel.h).
struct job_control {
    atomic_bool pause;
    struct job *_Atomic job; // the running job; NULL: none
};

void job_control_pause(struct job_control *control);

struct job_setup {
    const struct job_kind *(*find)(const char *name); // job_kind_find
    const struct backend *(*device)(const char *name, struct err *err);
    struct sinks *sinks; // the process's sinks; job_run adds one that stores the reports
    struct job_control *control;
    double patience_s; // how long writes of reports may fail before the job fails; 0: 60 s, in a
                       // rank 15 s
    bool rank;         // one of several, started by mpirun (sessions/job_group.c)
};

// For a process that cannot open the database: stores the reason where shells find it.
void job_start_error_report(const char *db, int64_t id, const struct err *err);
// Runs the job. *state: the final state (done, paused, cancelled). -1: it failed, or was refused
// and not started.
int job_run(struct job_channel *channel, const struct job_setup *setup, enum job_state *state,
            struct err *err);

// job_group.c. Runs the job in this process, or in job.ranks processes.
int job_run_any(struct store *s, int64_t id, const struct job_setup *setup, enum job_state *state,
                struct err *err);
// Does the same for a job that a queue has started.
int job_run_queued(const char *folder, int64_t id, const struct job_setup *setup,
                   enum job_state *state, struct err *err);
// Runs the job as one of its ranks.
int job_run_rank(const char *folder, int64_t id, const struct job_setup *setup,
                 enum job_state *state, struct err *err);

#endif
