// sessions/job_run.h -- running a job in this process (`vlmsh job run ID`).
//
//   struct job_control control = { 0 };            // signal handlers set it
//   enum job_state state;
//   if (job_run(&desk, &setup, &state, &err) < 0) ... failed: reported and stored ...
//
// Order: lock (a second process for the same job is refused), settings, model, run(), final state.
// The job's reports go to the desk (job_desk.h), through a separate sink, and to setup->sinks. The
// job's folder must exist.
#ifndef SESSIONS_JOB_RUN_H
#define SESSIONS_JOB_RUN_H

#include "sessions/job_desk.h"

// State that a signal handler may touch. Shells send no signals: they write requests into the row.
struct job_control {
    atomic_bool pause;
    struct job *_Atomic job; // while it runs
};

void job_control_pause(struct job_control *control);

struct job_setup {
    const struct job_kind *(*find)(const char *name); // job_kind_find
    const struct backend *(*device)(const char *name, struct err *err);
    struct sinks *sinks; // the process's sinks; one that keeps the reports is added
    struct job_control *control;
    double patience_s; // how long writes of reports may fail before the job does; 0: a minute
    bool rank;         // one of several, started by mpirun (sessions/job_group.h)
};

// *state: the final state (done, paused, cancelled). -1: it failed, or was refused and not started.
// The database could not be opened: leaves the reason where shells find it.
void job_run_lost(const char *db, int64_t id, const struct err *err);
int job_run(struct job_desk *desk, const struct job_setup *setup, enum job_state *state,
            struct err *err);

#endif
