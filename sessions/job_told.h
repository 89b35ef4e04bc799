// sessions/job_told.h -- what a job reports, as rows: collected by its sink (job_sink.c), written
// to the database here, or to a file that another process reads into it (job_reports.h).
//
//   struct told_list list = { 0 };
//   told_add(&list, TOLD_LINE, 0, NAN, 1, &text);
//   struct told_writer w = told_to_store(s, id);
//   if (w.write(&w, &list, &err) < 0) ...          // all rows or none
//   told_clear(&list);
//   told_writer_release(&w);
#ifndef SESSIONS_JOB_TOLD_H
#define SESSIONS_JOB_TOLD_H

#include "sessions/internal.h"
#include "sessions/jobs.h"

enum told_kind {
    TOLD_METRIC,   // number: step; real[0]; text[0]: series
    TOLD_LINE,     // text[0]: a line of the log
    TOLD_RESULT,   // text: key, value
    TOLD_SCORE,    // number: index; real[0]: score; text: sample, prompt, answer, reference, part
    TOLD_REWIND,   // number: step; text[0]: end of the series' names, NULL: all
    TOLD_MEASURED, // text: name, JSON
    TOLD_PROGRESS, // real: step, steps, loss, eta
    TOLD_STATE,    // text: name of the state, message, number in the queue
    TOLD_KINDS
};

enum { TOLD_TEXTS = 5, TOLD_REALS = 4 };

struct told {
    enum told_kind kind;
    int64_t number;
    int64_t time;
    double real[TOLD_REALS];
    char *text[TOLD_TEXTS];
};

struct told_list {
    struct told *list;
    size_t count, capacity;
};

// Of now; the texts are copied, NULL stays NULL. Returns the row.
struct told *told_add(struct told_list *l, enum told_kind kind, int64_t number, double real,
                      int texts, const char *const *text);
void told_clear(struct told_list *l);
void told_release(struct told_list *l);

// Writes all rows, in order, or none.
struct told_writer {
    int (*write)(struct told_writer *w, const struct told_list *l, struct err *err);
    int64_t job;
    struct store *store; // of told_to_store
    struct told_series {
        char *name;
        int64_t id; // 0: not in the database yet
    } * series;
    size_t series_count;
    sqlite3_stmt *insert; // of a metric: hundreds come with a step
    char *path;           // of told_to_file
};

struct told_writer told_to_store(struct store *s, int64_t job);
void told_writer_release(struct told_writer *w);
// The rows, in the transaction that is open.
int told_write_rows(struct told_writer *w, const struct told_list *l, struct err *err);

#endif
