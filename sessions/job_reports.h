// sessions/job_reports.h -- the reports of a job. The process of a job writes them to the database,
// as rows; ranks and queued jobs append them as lines to reports.jsonl in the job's folder, from
// which the process that watches the ranks or a shell imports them. The database must be on a local
// disk: SQLite's write-ahead log needs shared memory, which no network file system offers. A file
// that one process appends to and others read needs no lock, so a job's folder may be shared by
// machines (job.folder) while the database is not. Parts of the ranks (ranks_part) write separate
// files, reports-1.jsonl and so on.
//
//   struct report_list l = { 0 };
//   report_add(&l, REPORT_LINE, 0, NAN, 1, &text);
//   struct report_writer w = reports_to_store(store, id);   // or reports_to_file(folder, id, 0)
//   if (report_write(&w, &l, &err) < 0) ... none was written ...
//   report_writer_release(&w);
//
//   job_import(store, id);                                  // before a shell reads the job
#ifndef SESSIONS_JOB_REPORTS_H
#define SESSIONS_JOB_REPORTS_H

#include "sessions/internal.h"
#include "sessions/jobs.h"

enum report_kind {
    REPORT_METRIC,   // number: step; real[0]; text[0]: series
    REPORT_LINE,     // text[0]: a line of the log
    REPORT_RESULT,   // text: key, value
    REPORT_SCORE,    // number: index; real[0]: score; text: sample, prompt, answer, reference, part
    REPORT_REWIND,   // deletes metrics from step `number` on; text[0]: suffix of series, NULL: all
    REPORT_MEASURED, // text: name, JSON
    REPORT_PROGRESS, // real: step, steps, loss, eta
    REPORT_STATE,    // text: name of the state, message, number in the queue
    REPORT_KINDS
};

enum { REPORT_TEXTS = 5, REPORT_REALS = 4 };

struct report {
    enum report_kind kind;
    int64_t number;
    int64_t time;
    double real[REPORT_REALS];
    char *text[REPORT_TEXTS];
};

struct report_list {
    struct report *list;
    size_t count, capacity;
};

// Appends a report with the current time; the texts are copied, NULL stays NULL.
struct report *report_add(struct report_list *l, enum report_kind kind, int64_t number, double real,
                          int texts, const char *const *text);
void reports_clear(struct report_list *l);
void reports_release(struct report_list *l);

struct report_writer {
    int64_t job;
    struct store *store; // NULL: writes to the file `path`
    char *path;
    struct names series;
    int64_t *series_ids;  // [series.count] 0: not in the database yet
    sqlite3_stmt *insert; // prepared once for metrics: a step reports hundreds
};

struct report_writer reports_to_store(struct store *s, int64_t job);
// A write first removes an incomplete last line, which a crash may have left.
struct report_writer reports_to_file(const char *folder, int64_t job, int part);
// Writes all reports, in order, or none.
int report_write(struct report_writer *w, const struct report_list *l, struct err *err);
void report_writer_release(struct report_writer *w);

// Imports new reports from the job's files into the database, each once, even if another process
// imports them too. Does nothing inside a transaction.
void job_import(struct store *s, int64_t id);
// Imports the rest of the reports and removes the files; for a job that is about to restart.
int job_import_all(struct store *s, int64_t id, struct err *err);

// Reads the last state in the file; false if it has none, because the job has not begun.
bool job_reports_state(const char *folder, enum job_state *state, char **message);

#endif
