// commands/job_parts.h -- shared by job.c and job_start.c.
#ifndef COMMANDS_JOB_PARTS_H
#define COMMANDS_JOB_PARTS_H

#include "commands/command.h"
#include "sessions/jobs.h"

// Adds a job to those whose end this shell will report; removes it.
void job_remember(struct shell *shell, int64_t id);
void job_forget(struct shell *shell, int64_t id);
// Emits the job as fields, for programs: from the row, or as it is stored now. `change`: "started",
// "ended" ...
void job_emit(const struct shell *shell, const struct job_row *row, const char *change);
void job_emit_now(const struct shell *shell, int64_t id, const char *change);
// Can a job of that kind run in job.ranks processes? `queued`: on machines that a queue chooses.
int job_check_ranks(const struct job_kind *k, const struct settings *s, bool queued,
                    struct err *err);
// Submits the job's script to Slurm and reports it.
int job_submit(struct shell *shell, int64_t id, struct err *err);

// Returns "job 3 (train) is done" or "job 3 (train) failed: the disk is full"; with sinks, also
// shows the job's tables. The caller frees the text.
char *job_text_end(const struct shell *shell, const struct job_row *row, struct sinks *sinks);

#endif
