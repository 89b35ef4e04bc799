// sessions/job_internal.h -- shared by the files of jobs only.
#ifndef SESSIONS_JOB_INTERNAL_H
#define SESSIONS_JOB_INTERNAL_H

#include "sessions/internal.h"
#include "sessions/jobs.h"

// --- job_process.c -------------------------------------------------------------------------------

// FILE.jobs/ID/name beside the database (name NULL: the folder), absolute.
char *job_path(const struct store *s, int64_t id, const char *name);
int job_folder_make(const struct store *s, int64_t id, struct err *err);
void job_folder_remove(const struct store *s, int64_t id);
// Takes a lock of the job for this process until it ends: a descriptor, or -1 if another process
// holds it. "lock": of the process that is the job; "group": of the one that watches its ranks.
int job_lock(const struct store *s, int64_t id, const char *name, struct err *err);
// Does a process hold one? *pid is 0 if it runs on another machine.
bool job_alive(const struct store *s, int64_t id, pid_t *pid);
// Starts a detached process of this program that runs the job.
int job_spawn(const struct store *s, const struct job_row *row, struct err *err);
// The last line of a process that died, by rank; "": nothing.
char *job_last_words(const struct store *s, int64_t id, int rank);
// An empty file for the last words of this process, written by fatal().
int job_last_words_open(const struct store *s, int64_t id, int rank);
// The file that shells lock while they answer; -1 if unavailable.
int answering_open(const struct store *s);
// The file in which each shell locks a byte while it lives (drafts.h); -1: unavailable.
int shells_open(const struct store *s);

// --- jobs.c --------------------------------------------------------------------------------------

// For the job's own process, which must not test its lock.
int job_read_own(struct store *s, int64_t id, struct job_row *row, struct err *err);
int job_mark_running(struct store *s, int64_t id, struct err *err);
int job_mark_ended(struct store *s, int64_t id, enum job_state state, const char *message,
                   struct err *err);
int job_read_request(struct store *s, int64_t id, enum job_stop *request, struct err *err);

// --- job_sink.c ----------------------------------------------------------------------------------

int job_write_result(struct store *s, int64_t job, const char *key, const char *value,
                     struct err *err);
int job_write_score(struct store *s, int64_t job, const struct event_score *score, struct err *err);

// Stores a job's reports: all since the last EVENT_STEP in one transaction. A failed write is
// retried with the next.
struct job_sink;

struct job_sink *job_sink_new(struct store *s, int64_t id);
void job_sink_free(struct job_sink *k); // tries once more
struct sink job_sink(struct job_sink *k);
int job_sink_flush(struct job_sink *k, struct err *err);
// Seconds since writes started to fail, 0 when all is well; *why: the reason.
double job_sink_failing(const struct job_sink *k, struct err *why);

#endif
