// commands/jobs.h -- starts jobs from commands and reports their end.
//
//   static int train_run(struct shell *shell, int argc, char **argv, struct err *err)
//   {
//       return shell_start_job(shell, "train", argc, argv, err);   // needs NEEDS_STORE
//   }
#ifndef COMMANDS_JOBS_H
#define COMMANDS_JOBS_H

#include <stdbool.h>

#include "commands/command.h"
#include "sessions/jobs.h"

// Options of every job, as typed; NULL: not given.
struct job_where {
    const char *ranks;  // --ranks N
    const char *script; // --sbatch FILE
    bool submit;        // --submit
};

struct job_kind;
// Reads --ranks, --sbatch and --submit and removes them from the arguments of a job of kind k
// (NULL: of any kind). Leaves --submit FILE, which is the option of some kinds.
int shell_take_where(const struct job_kind *k, int *argc, char **argv, struct job_where *where,
                     struct err *err);
// Checks the arguments with the job kind, records the job with the shell's model and settings,
// starts its process (or job.ranks processes) and reports its number. Returns at once.
// With --sbatch or --submit, writes a script for a queue instead; --submit also submits it.
int shell_start_job(struct shell *shell, const char *kind, int argc, char **argv, struct err *err);
// Returns a job's specification with the shell's model and settings, which it borrows.
struct job_spec;
struct job_spec shell_job_spec(const struct shell *shell, const char *kind, int argc, char **argv);
// Reports which jobs started by this shell have ended since the last call.
void shell_job_news(struct shell *shell);
void shell_jobs_release(struct shell *shell);

// Parses a job number.
int job_number(const char *text, int64_t *id, struct err *err);
// Finds the jobs whose arguments include this path (an output folder or an input file), oldest
// first; the caller owns *ids. No match is not an error.
int jobs_about(const struct shell *shell, const char *path, int64_t **ids, size_t *count,
               struct err *err);
// Finds a job by its number, or by a path: of the jobs with that path, the newest that recorded
// results or metrics, else the newest.
int job_named(const struct shell *shell, const char *text, int64_t *id, struct err *err);

// --- between job.c and job_start.c ---------------------------------------------------------------

// Adds a job to the jobs whose end this shell will report; job_forget removes it.
void job_remember(struct shell *shell, int64_t id);
void job_forget(struct shell *shell, int64_t id);
// Emits EVENT_JOB; job_emit_now reads the row from the database. `change`: "started", "ended" ...
void job_emit(const struct shell *shell, const struct job_row *row, const char *change);
void job_emit_now(const struct shell *shell, int64_t id, const char *change);
// Checks that a job of this kind can run in job.ranks processes. `queued`: a queue chooses the
// machines.
int job_check_ranks(const struct job_kind *k, const struct settings *s, bool queued,
                    struct err *err);
// Submits the job's script to Slurm and reports the Slurm job.
int job_submit(struct shell *shell, int64_t id, struct err *err);

// Returns "job 3 (train) is done" or "job 3 (train) failed: the disk is full"; with sinks, also
// shows the tables of a job that is done. The caller frees the text.
char *job_text_end(const struct shell *shell, const struct job_row *row, struct sinks *sinks);

#endif
