// sessions/job_internal.h -- what the files of jobs share. Nobody else includes this.
#ifndef SESSIONS_JOB_INTERNAL_H
#define SESSIONS_JOB_INTERNAL_H

#include "sessions/internal.h"
#include "sessions/jobs.h"

// --- job_process.c -------------------------------------------------------------------------------

// FILE.jobs/ID/name beside the database (name NULL: the folder), absolute.
char *job_path(const struct store *s, int64_t id, const char *name);
int job_folder_make(const struct store *s, int64_t id, struct err *err);
void job_folder_remove(const struct store *s, int64_t id);
// Takes the job's lock for this process until it ends: a descriptor, or -1 when another holds it.
int job_lock(const struct store *s, int64_t id, struct err *err);
// Does a process hold it? *pid is 0 when it is not of this machine.
bool job_alive(const struct store *s, int64_t id, pid_t *pid);
// A process of this program that runs the job, detached from this one.
int job_spawn(const struct store *s, const struct job_row *row, struct err *err);
// What a process that ended in the middle of something said last, on one line; "": nothing.
char *job_last_words(const struct store *s, int64_t id);
// An empty file for those of this process, which fatal() writes.
int job_last_words_open(const struct store *s, int64_t id);
// The file that shells lock while they answer; -1 when it cannot be had.
int answering_open(const struct store *s);
// The file in which each shell locks a byte as long as it lives (drafts.h); -1: it cannot be had.
int shells_open(const struct store *s);

// --- jobs.c --------------------------------------------------------------------------------------

// For the job's own process, which must not look at its lock.
int job_read_own(struct store *s, int64_t id, struct job_row *row, struct err *err);
int job_mark_running(struct store *s, int64_t id, struct err *err);
int job_mark_ended(struct store *s, int64_t id, enum job_state state, const char *message,
                   struct err *err);
int job_read_request(struct store *s, int64_t id, enum job_stop *request, struct err *err);

// --- job_sink.c ----------------------------------------------------------------------------------

int job_write_result(struct store *s, int64_t job, const char *key, const char *value,
                     struct err *err);
int job_write_score(struct store *s, int64_t job, const struct event_score *score, struct err *err);

// Keeps what a job tells: all since the last one with each EVENT_STEP, in one transaction. What
// cannot be written waits for the next.
struct job_sink;

struct job_sink *job_sink_new(struct store *s, int64_t id);
void job_sink_free(struct job_sink *k); // tries once more
struct sink job_sink(struct job_sink *k);
int job_sink_flush(struct job_sink *k, struct err *err);
// Seconds since which nothing could be written, 0 when all is well; *why: the reason.
double job_sink_failing(const struct job_sink *k, struct err *why);

#endif
