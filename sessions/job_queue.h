// sessions/job_queue.h -- jobs of a Slurm queue: scripts for sbatch, submission, state.
//
//   store_job_script(store, id, "train.sbatch", &err);  // writes the script; the job waits
//   store_job_submit(store, id, &err);                  // runs sbatch; stores Slurm's job number
//   queue_poll(store);                                  // called by store_job_read
//   store_job_withdraw(store, id, &err);                // runs scancel
//
// The script starts `vlmsh job batch ID --folder F`, the counterpart of `vlmsh job run ID` for the
// queue's machines, which cannot reach the database: job.folder must be a folder that all these
// machines share. A job that Slurm restarts (preemption, a lost node) continues from the last
// checkpoint. Uses Slurm through its commands only.
#ifndef SESSIONS_JOB_QUEUE_H
#define SESSIONS_JOB_QUEUE_H

#include "sessions/jobs.h"

// Writes a script for the job, with the options in the job's settings, to `path` (NULL: into the
// job's folder), as a file that the user named (core/base/file_out.h). The user may also submit the
// script with sbatch.
int store_job_script(struct store *s, int64_t id, const char *path, struct err *err);
// Returns whether the script exists and somebody has changed it since vlmsh wrote it.
bool job_script_edited(const char *path);
// Rewrites the job's script, unless somebody has edited it, and submits it.
int store_job_submit(struct store *s, int64_t id, struct err *err);
int store_job_withdraw(struct store *s, int64_t id, struct err *err);

// Asks Slurm for the state of this database's jobs, at most every two seconds, and stores it with
// the reason for waiting ("PENDING: Resources").
void queue_poll(struct store *s);
// Returns true for a job number of Slurm. Other texts come from a damaged database or file, and
// could be options of Slurm's commands.
bool queue_is_number(const char *queue);
// Returns true for a final state, and for "" (not submitted).
bool queue_ended(const char *queued);
bool queue_waits(const char *queued);

#endif
