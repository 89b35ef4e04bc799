// sessions/job_group.h -- a job of several ranks: starts them through mpirun and watches them.
//
//   if (job_run_any(store, id, &setup, &state, &err) < 0) ... // as job_run
//
// `vlmsh job run ID` of a job with job.ranks N starts `mpirun -n N vlmsh job rank ID --folder F`.
// Ranks know the job's folder (job_desk.h), not the database, which may be out of their reach. Rank
// 0 is the job: it alone holds the job's lock, reports, and writes the output. This process waits,
// reads the reports into the database, passes a pause on, and if the ranks end without a word from
// rank 0, it records why: which rank was killed, failed or no longer answers.
//
// `vlmsh job batch ID --folder F` is the same in a queue, on machines without the database.
#ifndef SESSIONS_JOB_GROUP_H
#define SESSIONS_JOB_GROUP_H

#include "sessions/job_run.h"

// Runs the job in this process, or in as many ranks as its settings ask for.
int job_run_any(struct store *s, int64_t id, const struct job_setup *setup, enum job_state *state,
                struct err *err);
// The same for a job that a queue has started.
int job_run_queued(const char *folder, int64_t id, const struct job_setup *setup,
                   enum job_state *state, struct err *err);
// Runs the job as one of its ranks.
int job_run_rank(const char *folder, int64_t id, const struct job_setup *setup,
                 enum job_state *state, struct err *err);

#endif
