// sessions/jobs.h -- jobs as rows: what was asked for, how far it is, what it told.
//
//   struct job_order order = { .kind = "train", .argc = n, .argv = words, .settings = settings,
//                              .model = folder, .fingerprint = fp };
//   store_job_add(store, &order, &id, &err);
//   store_job_start(store, id, &err);               // a process of its own; returns at once
//   store_job_read(store, id, &row, &err); ... row.state, row.step ... job_row_release(&row);
//   store_job_ask(store, id, JOB_PAUSE, &err);
//
// A job's process holds a lock on a file beside the database as long as it lives, so a process that
// is gone without a word (kill -9) shows at once: the job is then "interrupted" and can be resumed.
// Beside the database FILE lie FILE.jobs/ID/lock, .../output (what the process wrote to standard
// output and error) and what the job itself puts there.
#ifndef SESSIONS_JOBS_H
#define SESSIONS_JOBS_H

#include <sys/types.h>

#include "core/train/job.h"
#include "sessions/store.h"

enum job_state {
    STATE_WAITING, // its process has not begun yet
    STATE_RUNNING,
    STATE_PAUSED,
    STATE_DONE,
    STATE_FAILED,
    STATE_CANCELLED,
    STATE_INTERRUPTED, // its process is gone without a word
};

// The number of the row for work that a shell did itself (store_job_keep); no job has it.
enum { JOB_HERE = 0 };

const char *job_state_name(enum job_state state); // "running"
bool job_state_ended(enum job_state state);       // no process works or will work on it

// What is asked for; everything is copied. Paths in argv begin at the current folder.
struct job_order {
    const char *kind;
    int argc;
    char *const *argv;
    const struct settings *settings;
    const char *model, *fingerprint; // NULL: none is loaded
    const char *device;              // "cpu"
};

struct job_row {
    int64_t id;
    char *kind;
    int argc;
    char **argv;
    struct settings *settings; // the changed ones; unknown keys are left out
    char *folder;              // where relative paths begin
    char *model, *fingerprint; // "" without one
    char *device;
    enum job_state state;
    enum job_stop request;           // not obeyed yet
    char *message;                   // why it failed or was interrupted, where that is known; or ""
    pid_t pid;                       // of its process; 0: none, or not of this machine
    int64_t runs;                    // processes that began with it
    double step, steps, loss, eta_s; // NaN: unknown
    int64_t created, started, ended; // times; 0: not yet
};

int store_job_add(struct store *s, const struct job_order *order, int64_t *id, struct err *err);
int store_job_read(struct store *s, int64_t id, struct job_row *row, struct err *err);
// The latest first.
int store_jobs_read(struct store *s, struct job_row **rows, size_t *count, struct err *err);
// A number that changes when another connection has written to the database.
int store_version_seen(struct store *s, int64_t *version, struct err *err);
void job_row_release(struct job_row *row);
void job_rows_free(struct job_row *rows, size_t count);
int store_job_last(struct store *s, int64_t *id, struct err *err); // 0: there is none
// The job of that kind that ended last, JOB_HERE among them; the newest where none has ended. -1:
// there is none.
int store_job_last_ended(struct store *s, const char *kind, int64_t *id, struct err *err);

// Keeps what a shell did itself as if a job had done it, under JOB_HERE, in the place of what was
// there. It is no job: neither listed nor the last one.
int store_job_keep(struct store *s, const struct job_order *order, enum job_state state,
                   const struct job_result *results, size_t result_count,
                   const struct event_score *scores, size_t score_count, struct err *err);

// Starts a process for a job that waits, was paused, interrupted or cancelled, or failed.
int store_job_start(struct store *s, int64_t id, struct err *err);
// Asks it to pause or to end. A job without a process is cancelled at once.
int store_job_ask(struct store *s, int64_t id, enum job_stop what, struct err *err);
// Forgets a job that no process works on, with all it told and its folder beside the database; what
// it wrote elsewhere (OUT) stays.
int store_job_delete(struct store *s, int64_t id, struct err *err);

// What it told. The last `lines` lines of the log (0: all), each with its time, into b.
int store_job_log(struct store *s, int64_t id, int64_t lines, struct buf *b, struct err *err);

int store_job_results(struct store *s, int64_t id, struct job_result **results, size_t *count,
                      struct err *err);
void job_results_free(struct job_result *results, size_t count);

// Scores one by one in the order of index; the texts are borrowed for the call. each() may return
// -1 to stop.
int store_job_scores(struct store *s, int64_t id,
                     int (*each)(void *self, const struct event_score *score, struct err *err),
                     void *self, struct err *err);

// --- metrics -------------------------------------------------------------------------------------

struct curve {
    int64_t *steps; // ascending
    double *values; // NaN where it was none
    size_t count;
};

// Names of a job's series in the order in which they were told first.
int store_series(struct store *s, int64_t job, char ***names, size_t *count, struct err *err);
void series_free(char **names, size_t count);
int store_curve(struct store *s, int64_t job, const char *series, struct curve *curve,
                struct err *err);
void curve_release(struct curve *c);

#endif
