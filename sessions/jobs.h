// sessions/jobs.h -- jobs as rows of the database: requests, progress, reports.
//
//   struct job_spec spec = { .kind = "train", .argc = n, .argv = words, .settings = settings,
//                            .model = folder, .fingerprint = fp };
//   store_job_add(store, &spec, &id, &err);
//   store_job_start(store, id, NULL, &err);         // in a separate process; returns at once
//   store_job_read(store, id, &row, &err); ... row.state, row.step ... job_row_release(&row);
//   store_job_ask(store, id, JOB_PAUSE, &err);
//
// A job's process locks a file beside the database while it lives, so a process that died silently
// (kill -9) is detected at once: the job is then "interrupted" and can be resumed. Beside the
// database FILE are FILE.jobs/ID/lock, .../output (the process's standard output and error) and the
// job's internal files.
#ifndef SESSIONS_JOBS_H
#define SESSIONS_JOBS_H

#include <sys/types.h>

#include "core/jobs/job.h"
#include "sessions/store.h"

struct buf;
struct names;

enum job_state {
    STATE_WAITING, // its process has not started yet
    STATE_RUNNING,
    STATE_PAUSED,
    STATE_DONE,
    STATE_FAILED,
    STATE_CANCELLED,
    STATE_INTERRUPTED, // its process died without a report
};

// Row number of work that a shell did itself (store_job_keep), which is not a job.
enum { JOB_HERE = 0 };

const char *job_state_name(enum job_state state); // "running"
// Finds all states but "interrupted", which no row stores.
bool job_state_find(const char *name, enum job_state *state);
bool job_state_ended(enum job_state state); // no process runs the job or is about to

// The specification of a new job; store_job_add copies it. Paths in argv are relative to the
// current folder.
struct job_spec {
    const char *kind;
    int argc;
    char *const *argv;
    const struct settings *settings;
    const char *model, *fingerprint; // folder, checkpoint.identity; NULL: none is loaded
    const char *device;              // "cpu"
};

struct job_row {
    int64_t id;
    char *kind;
    int argc;
    char **argv;
    struct settings *settings; // non-default settings; without keys unknown to this version
    char *folder;              // base folder of relative paths
    char *model, *fingerprint; // "" without a model
    char *device;
    enum job_state state;
    enum job_stop request;           // pending request
    char *message;                   // why it failed, was interrupted or waits, if known; or ""
    pid_t pid;                       // of the job's process; 0: none, or on another machine
    int64_t runs;                    // number of processes started for it
    double step, steps, loss, eta_s; // NaN: unknown
    int64_t created, started, ended; // times; 0: not yet
    // Only for a job in a queue (job_queue.h); otherwise "".
    char *script; // path of the script for sbatch
    char *queue;  // the job's number in the queue; "" until it is submitted
    char *queued; // last known state in the queue
};

int store_job_add(struct store *s, const struct job_spec *spec, int64_t *id, struct err *err);
int store_job_read(struct store *s, int64_t id, struct job_row *row, struct err *err);
// Reads all jobs, the latest first.
int store_jobs_read(struct store *s, struct job_row **rows, size_t *count, struct err *err);
// Reads a number that changes when another connection has written to the database.
int store_version_seen(struct store *s, int64_t *version, struct err *err);
void job_row_release(struct job_row *row);
// Returns the absolute path FILE.jobs/ID/name beside the database (name NULL: the folder); free()
// it.
char *job_path(const struct store *s, int64_t id, const char *name);
void job_rows_free(struct job_row *rows, size_t count);
int store_job_last(struct store *s, int64_t *id, struct err *err); // 0: no jobs
// Finds the job of the given kind that ended last, including JOB_HERE; if none has ended, the
// newest. *id: -1 if no such job exists.
int store_job_last_ended(struct store *s, const char *kind, int64_t *id, struct err *err);

// Stores results of work that a shell did itself, under JOB_HERE, and deletes the previous ones.
// JOB_HERE is not a job: store_jobs_read does not list it, and store_job_last ignores it.
int store_job_keep(struct store *s, const struct job_spec *spec, enum job_state state,
                   const struct job_result *results, size_t result_count,
                   const struct event_score *scores, size_t score_count, struct err *err);

// Starts a process for a job that is waiting, paused, interrupted, cancelled or failed. `ranks`:
// the new number of ranks (job.ranks); NULL: that in the job's settings. If the job cannot be set
// to waiting, its job.ranks is unchanged.
int store_job_start(struct store *s, int64_t id, const char *ranks, struct err *err);
// Requests that the job pause or end. A job without a process is cancelled at once.
int store_job_ask(struct store *s, int64_t id, enum job_stop what, struct err *err);
// Deletes a job without a process, with its reports and its folder beside the database; its output
// elsewhere (OUT) stays.
int store_job_delete(struct store *s, int64_t id, struct err *err);

// Appends the last `lines` lines of the job's log (0: all), each with its time, to b.
int store_job_log(struct store *s, int64_t id, int64_t lines, struct buf *b, struct err *err);

int store_job_results(struct store *s, int64_t id, struct job_result **results, size_t *count,
                      struct err *err);

// Calls each() with every score, ordered by index; each() borrows the texts and may return -1 to
// stop.
int store_job_scores(struct store *s, int64_t id,
                     int (*each)(void *self, const struct event_score *score, struct err *err),
                     void *self, struct err *err);

// --- metrics -------------------------------------------------------------------------------------

struct curve {
    int64_t *steps; // ascending
    double *values; // NaN: missing value
    size_t count;
};

// Adds the names of a job's series, in order of first appearance.
int store_series(struct store *s, int64_t job, struct names *names, struct err *err);
int store_curve(struct store *s, int64_t job, const char *series, struct curve *curve,
                struct err *err);
void curve_release(struct curve *c);

#endif
