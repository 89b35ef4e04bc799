// sessions/job_sink.c -- the sink that stores a job's reports.
//
//   event -> pending rows -> all written together with each EVENT_STEP
//
// Log lines, tables and results are written at once; progress and scores are written if the last
// write was more than half a second ago, otherwise with the next write. Rows that cannot be written
// (disk full, another program's lock) stay pending, in order, and are retried; the runner decides
// for how long (job_sink_failing).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "sessions/job_internal.h"

struct job_sink {
    struct report_writer *to;
    struct report_list pending;
    bool moved; // the progress below is not written yet
    struct event_progress progress;
    double written, failing; // times of the last write and of the first failed one; 0: none
    struct err why;
};

struct job_sink *job_sink_new(struct report_writer *to)
{
    struct job_sink *k = xcalloc(1, sizeof *k);
    k->to = to;
    return k;
}

void job_sink_free(struct job_sink *k)
{
    if (!k) return;
    job_sink_flush(k, NULL);
    reports_release(&k->pending);
    free(k);
}

// --- writing -------------------------------------------------------------------------------------

int job_sink_flush(struct job_sink *k, struct err *err)
{
    struct err reason = { 0 };
    if (!k->pending.count && !k->moved) return 0;
    // Adds only the latest progress, after the other reports.
    if (k->moved) {
        const struct event_progress *p = &k->progress;
        struct report *t = report_add(&k->pending, REPORT_PROGRESS, 0, p->step, 0, NULL);
        t->real[1] = p->steps;
        t->real[2] = p->loss;
        t->real[3] = p->eta_s;
    }
    const int status = report_write(k->to, &k->pending, &reason);
    k->written = clock_seconds();
    if (status == 0) {
        reports_clear(&k->pending);
        k->moved = false;
        k->failing = 0;
        return 0;
    }
    // Drops the progress, which owns no texts; the next flush adds it again.
    if (k->moved) k->pending.count--;
    if (!k->failing) k->failing = k->written;
    k->why = reason;
    return err_set(err, "%s", reason.text);
}

double job_sink_failing(const struct job_sink *k, struct err *why)
{
    if (!k->failing) return 0;
    if (why) *why = k->why;
    const double since = clock_seconds() - k->failing;
    return since > 0 ? since : 1e-9;
}

// --- events --------------------------------------------------------------------------------------

// Writes a table as lines of the log.
static void add_table(struct job_sink *k, const struct event_table *t)
{
    for (int r = -1; r < t->row_count; r++) {
        struct buf b = { 0 };
        for (int c = 0; c < t->column_count; c++)
            buf_printf(&b, "%s%s", c ? "  " : "",
                       r < 0 ? t->columns[c] : t->cells[r * t->column_count + c]);
        report_add(&k->pending, REPORT_LINE, 0, 0, 1, (const char *const[]){ b.data });
        buf_release(&b);
    }
}

// Returns true if the reports are to be written at once.
static bool take_event(struct job_sink *k, const struct event *e)
{
    struct report_list *to = &k->pending;
    const char *const pair[] = { e->key, e->value ? e->value : "" }, *text = e->text;
    const struct event_score *s = e->score;
    const double since = clock_seconds() - k->written;
    switch (e->kind) {
    case EVENT_MEASURED:
        report_add(to, REPORT_MEASURED, 0, 0, 2, (const char *const[]){ e->key, text });
        return true;
    case EVENT_METRIC: report_add(to, REPORT_METRIC, e->count, e->real, 1, pair); return false;
    case EVENT_STEP: return true;
    case EVENT_REWIND: report_add(to, REPORT_REWIND, e->count, 0, 1, &e->key); return true;
    case EVENT_RESULT: report_add(to, REPORT_RESULT, 0, 0, 2, pair); return true;
    case EVENT_SCORE:
        report_add(to, REPORT_SCORE, s->index, s->score, 5,
                   (const char *const[]){ s->id, s->prompt, s->answer, s->reference, s->group });
        return since > 0.5;
    case EVENT_TABLE: add_table(k, e->table); return true;
    case EVENT_NOTICE:
    case EVENT_TEXT:
        report_add(to, REPORT_LINE, 0, 0, 1, (const char *const[]){ text ? text : "" });
        return true;
    case EVENT_PROGRESS:
        if (e->progress->job != k->to->job) return false; // progress of loading the model
        k->progress = *e->progress;
        k->moved = true;
        return since > 0.5;
    default: return false;
    }
}

static void job_sink_emit(void *self, const struct event *e)
{
    struct job_sink *k = self;
    if (!take_event(k, e)) return;
    // After a failed write, tries at most once a second, since each attempt may wait for a lock.
    if (k->failing && clock_seconds() - k->written < 1) return;
    job_sink_flush(k, NULL);
}

struct sink job_sink(struct job_sink *k)
{
    return (struct sink){ .emit = job_sink_emit, .self = k };
}
