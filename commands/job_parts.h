// commands/job_parts.h -- shared by job.c and job_start.c.
#ifndef COMMANDS_JOB_PARTS_H
#define COMMANDS_JOB_PARTS_H

#include "commands/command.h"
#include "sessions/jobs.h"

// The jobs whose end this shell still has to tell: one more, one less.
void job_remember(struct shell *shell, int64_t id);
void job_forget(struct shell *shell, int64_t id);
// Emits the job as fields, for programs: as in the row, or as it is stored now. `change`:
// "started".
void job_tell(const struct shell *shell, const struct job_row *row, const char *change);
void job_tell_now(const struct shell *shell, int64_t id, const char *change);
// Can a job of that kind run in job.ranks processes? `queued`: they are started on other machines.
int job_check_ranks(const struct job_kind *k, const struct settings *s, bool queued,
                    struct err *err);
// Hands the job's script to Slurm, and says so.
int job_submit(struct shell *shell, int64_t id, struct err *err);

// "job 3 (train) is done", "job 3 (train) failed: the disk is full"; with sinks its tables as well.
char *job_text_end(const struct shell *shell, const struct job_row *row, struct sinks *sinks);

#endif
