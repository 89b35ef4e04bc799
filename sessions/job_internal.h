// sessions/job_internal.h -- shared by the files of jobs, and open_beside by drafts.c.
#ifndef SESSIONS_JOB_INTERNAL_H
#define SESSIONS_JOB_INTERNAL_H

#include "sessions/internal.h"
#include "sessions/job_reports.h"
#include "sessions/jobs.h"

// --- job_process.c -------------------------------------------------------------------------------

// Makes the job's folder beside the database. Unless `shared` is "none", makes it in the folder
// `shared`, which other machines see too, and a link to it beside the database.
int job_folder_make(const struct store *s, int64_t id, const char *shared, struct err *err);
void job_folder_remove(const struct store *s, int64_t id);
// For a new job: moves away the folder that a job of a removed database left under the same number.
// -1: that job still runs, or the folder cannot be moved.
int job_folder_clear(const struct store *s, int64_t id, struct err *err);
// Returns the job's folder with links resolved, the path that other machines know; NULL if the
// folder no longer exists.
char *job_folder_real(const struct store *s, int64_t id, struct err *err);
// Takes one of the job's locks, which closing the returned descriptor releases. -1: another process
// holds the lock, or its file cannot be opened. "lock" is held by the job's process, "group" by the
// process that watches its ranks.
int job_lock(const char *folder, int64_t id, const char *name, struct err *err);
// Returns true if the path still names the file that this process has locked.
bool job_lock_valid(const char *folder, const char *name, int lock);
// Returns true if a process holds a lock of the job. *pid is 0 if that process runs on another
// machine.
bool job_alive(const struct store *s, int64_t id, pid_t *pid);
// Starts a detached process of this program that runs the job.
int job_spawn(const struct store *s, const struct job_row *row, struct err *err);
// Reads the message with which fatal() ended the process of a rank; "": none.
char *job_fatal_message(const char *folder, int rank);
// Opens an empty file for the message of fatal() in this process.
int job_fatal_file_open(const char *folder, int rank);
// Reads why the job's last process could not start; "": unknown.
char *job_start_error(const char *folder);
void job_start_error_write(const char *folder, const struct err *err);
// Returns the path of the file that shells lock while they answer.
char *answer_lock_path(const struct store *s);
// Opens a file beside the database, in FILE.jobs/; -1: unavailable.
int open_beside(const struct store *s, const char *name);

// --- jobs.c --------------------------------------------------------------------------------------

// Reads a row in the job's own process, which must not test the lock that it holds.
int job_read_own(struct store *s, int64_t id, struct job_row *row, struct err *err);
int job_mark_ended(struct store *s, int64_t id, enum job_state state, const char *message,
                   struct err *err);
// Writes the row of a job that has ended.
int job_write_end(struct store *s, int64_t id, const char *state, const char *message, int64_t time,
                  struct err *err);
enum job_stop job_request_parse(const char *text); // begins with "pause" or "cancel"
int job_read_request(struct store *s, int64_t id, enum job_stop *request, struct err *err);
// Columns of the table jobs that map directly to fields of a row.
extern const struct job_column {
    const char *name;
    char type;    // 't': char *, 'i': int64_t, 'd': double
    size_t at;    // in struct job_row
    bool in_spec; // also in order.json
} job_columns[];
void *job_cell(struct job_row *row, const struct job_column *c);
// Convert arguments and settings to JSON, which the caller frees, and read them back into a row.
char *job_arguments_write(int argc, char *const *argv);
char *job_settings_write(const struct settings *s);
void job_arguments_read(struct job_row *row, const char *text);
void job_settings_read(struct job_row *row, const char *text);

// --- job_reports.c -------------------------------------------------------------------------------

int job_write_result(struct store *s, int64_t job, const char *key, const char *value,
                     struct err *err);
int job_write_score(struct store *s, int64_t job, const struct event_score *score, struct err *err);

// --- job_sink.c ----------------------------------------------------------------------------------

// Collects a job's reports and writes several together; retries failed writes.
struct job_sink;

struct job_sink *job_sink_new(struct report_writer *to);
void job_sink_free(struct job_sink *k); // tries once more to write
struct sink job_sink(struct job_sink *k);
int job_sink_flush(struct job_sink *k, struct err *err);
// Seconds since writes started to fail, 0 if they succeed; *why: the reason.
double job_sink_failing(const struct job_sink *k, struct err *why);

#endif
