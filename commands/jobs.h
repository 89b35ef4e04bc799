// commands/jobs.h -- starting jobs from commands, and hearing of their end.
//
//   static int train_run(struct shell *shell, int argc, char **argv, struct err *err)
//   {
//       return shell_start_job(shell, "train", argc, argv, err);   // needs NEEDS_STORE
//   }
#ifndef COMMANDS_JOBS_H
#define COMMANDS_JOBS_H

#include "commands/command.h"

// Checks the arguments as the kind wants it, notes the job with the shell's model and settings,
// starts its process and tells its number. Returns at once.
int shell_start_job(struct shell *shell, const char *kind, int argc, char **argv, struct err *err);
// A job of that kind under the shell's model and settings; it borrows all of it.
struct job_order;
struct job_order shell_job_order(const struct shell *shell, const char *kind, int argc,
                                 char **argv);
// Tells which of the jobs that this shell started have ended since the last call.
void shell_job_news(struct shell *shell);
void shell_jobs_release(struct shell *shell);

// A job's number as typed.
int job_number(const char *text, int64_t *id, struct err *err);
// Jobs that have this path, a folder they write into or a file they read, among their arguments;
// the oldest first, *ids belongs to the caller. None is no error.
int jobs_about(const struct shell *shell, const char *path, int64_t **ids, size_t *count,
               struct err *err);
// A job's number, or a path: the newest job about it that told something.
int job_named(const struct shell *shell, const char *text, int64_t *id, struct err *err);

#endif
