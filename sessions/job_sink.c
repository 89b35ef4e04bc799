// sessions/job_sink.c -- the sink that stores a job's reports.
//
//   event -> pending rows -> one transaction with each EVENT_STEP
//
// Progress, log lines, results and scores are also written with the next step, or at once if none
// comes soon. Rows that cannot be written (disk full, another program's lock) stay pending, in
// order, and are retried; the runner decides for how long (job_sink_failing).
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "sessions/job_internal.h"

enum told_kind { TOLD_METRIC, TOLD_LINE, TOLD_RESULT, TOLD_SCORE, TOLD_REWIND, TOLD_MEASURED };

struct told {
    enum told_kind kind;
    int64_t number; // step, or index of a score
    int64_t time;
    double real;
    char *text[5]; // METRIC: series; LINE: text; RESULT: key, value; SCORE: see write_score;
                   // MEASURED: name, JSON
};

struct series {
    char *name;
    int64_t id; // 0: not in the database yet
};

struct job_sink {
    struct store *store;
    int64_t job;
    struct told *pending;
    size_t count, capacity;
    struct series *series;
    size_t series_count;
    sqlite3_stmt *insert; // of a metric: hundreds come with a step
    bool moved;           // the progress below is not written yet
    struct event_progress progress;
    double written, failing; // times: of the last write, of the first that failed; 0 = none
    struct err why;
};

struct job_sink *job_sink_new(struct store *s, int64_t id)
{
    struct job_sink *k = xcalloc(1, sizeof *k);
    k->store = s;
    k->job = id;
    return k;
}

static void forget(struct job_sink *k)
{
    for (size_t i = 0; i < k->count; i++)
        for (size_t t = 0; t < sizeof k->pending[i].text / sizeof *k->pending[i].text; t++)
            free(k->pending[i].text[t]);
    k->count = 0;
    k->moved = false;
}

void job_sink_free(struct job_sink *k)
{
    if (!k) return;
    job_sink_flush(k, NULL);
    forget(k);
    free(k->pending);
    for (size_t i = 0; i < k->series_count; i++) free(k->series[i].name);
    free(k->series);
    sqlite3_finalize(k->insert);
    free(k);
}

// --- writing -------------------------------------------------------------------------------------

// The number of a series, which this makes when it is new. Numbers made in a transaction that is
// rolled back are forgotten with it (series_forget).
static int series_id(struct job_sink *k, const char *name, int64_t *id, struct err *err)
{
    size_t i = 0;
    while (i < k->series_count && strcmp(k->series[i].name, name) != 0) i++;
    if (i == k->series_count) {
        k->series = xreallocarray(k->series, i + 1, sizeof *k->series);
        k->series[k->series_count++] = (struct series){ .name = xstrdup(name) };
    }
    if (!k->series[i].id) {
        if (store_run(k->store, err, "INSERT OR IGNORE INTO job_series(job, name) VALUES(?, ?)",
                      "it", k->job, name) < 0 ||
            store_number(k->store, err, 0, &k->series[i].id,
                         "SELECT id FROM job_series WHERE job = ? AND name = ?", "it", k->job,
                         name) < 0)
            return -1;
    }
    *id = k->series[i].id;
    return 0;
}

static void series_forget(struct job_sink *k)
{
    for (size_t i = 0; i < k->series_count; i++) k->series[i].id = 0;
}

static int write_metric(struct job_sink *k, const struct told *t, struct err *err)
{
    int64_t id;
    if (series_id(k, t->text[0], &id, err) < 0) return -1;
    if (!k->insert)
        k->insert = store_query(k->store, err,
                                "INSERT OR REPLACE INTO metrics(series, step, value) "
                                "VALUES(?, ?, ?)",
                                "");
    if (!k->insert) return -1;
    sqlite3_bind_int64(k->insert, 1, id);
    sqlite3_bind_int64(k->insert, 2, t->number);
    sqlite3_bind_double(k->insert, 3, t->real); // NaN becomes NULL
    const int status = store_step(k->store, k->insert, err);
    sqlite3_reset(k->insert);
    return status < 0 ? -1 : 0;
}

int job_write_result(struct store *s, int64_t job, const char *key, const char *value,
                     struct err *err)
{
    return store_run(s, err,
                     "INSERT INTO job_results(job, key, value) VALUES(?, ?, ?) "
                     "ON CONFLICT(job, key) DO UPDATE SET value = excluded.value",
                     "itt", job, key, value);
}

int job_write_score(struct store *s, int64_t job, const struct event_score *score, struct err *err)
{
    return store_run(s, err,
                     "INSERT OR REPLACE INTO job_scores(job, place, sample, prompt, answer, "
                     "reference, part, score) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                     "iitttttd", job, score->index, score->id, score->prompt, score->answer,
                     score->reference, score->group, score->score);
}

static int write_score(struct job_sink *k, const struct told *t, struct err *err)
{
    const struct event_score score = { .index = t->number,
                                       .id = t->text[0],
                                       .prompt = t->text[1],
                                       .answer = t->text[2],
                                       .reference = t->text[3],
                                       .group = t->text[4],
                                       .score = t->real };
    return job_write_score(k->store, k->job, &score, err);
}

static int write_rewind(struct job_sink *k, const struct told *t, struct err *err)
{
    const char *end = t->text[0] ? t->text[0] : "";
    return store_run(k->store, err,
                     "DELETE FROM metrics WHERE step >= ? AND series IN "
                     "(SELECT id FROM job_series WHERE job = ? AND "
                     "(? = '' OR substr(name, -length(?)) = ?))",
                     "iittt", t->number, k->job, end, end, end);
}

static int write_pending(struct job_sink *k, const struct told *t, struct err *err)
{
    switch (t->kind) {
    case TOLD_METRIC: return write_metric(k, t, err);
    case TOLD_LINE:
        return store_run(k->store, err, "INSERT INTO job_log(job, time, text) VALUES(?, ?, ?)",
                         "iit", k->job, t->time, t->text[0]);
    case TOLD_RESULT: return job_write_result(k->store, k->job, t->text[0], t->text[1], err);
    case TOLD_SCORE: return write_score(k, t, err);
    case TOLD_REWIND: return write_rewind(k, t, err);
    case TOLD_MEASURED: return store_result_keep(k->store, 0, t->time, t->text[0], t->text[1], err);
    }
    BUG("a job reported an event of kind %d", (int)t->kind);
}

static int write_progress(struct job_sink *k, struct err *err)
{
    const struct event_progress *p = &k->progress;
    return store_run(k->store, err,
                     "UPDATE jobs SET step = ?, steps = ?, loss = ?, eta = ? WHERE id = ?", "ddddi",
                     p->step, p->steps, p->loss, p->eta_s, k->job);
}

int job_sink_flush(struct job_sink *k, struct err *err)
{
    struct err reason = { 0 };
    if (!k->count && !k->moved) return 0;
    int status = store_lock(k->store, &reason);
    if (status == 0) {
        for (size_t i = 0; i < k->count && status == 0; i++)
            status = write_pending(k, &k->pending[i], &reason);
        if (status == 0 && k->moved) status = write_progress(k, &reason);
        status = store_unlock(k->store, status, &reason);
    }
    k->written = clock_seconds();
    if (status == 0) {
        forget(k);
        k->failing = 0;
        return 0;
    }
    series_forget(k);
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

// --- hearing -------------------------------------------------------------------------------------

// The text behind `texts` is copied; NULL stays NULL.
static void add(struct job_sink *k, enum told_kind kind, int64_t number, double real, int texts,
                const char *const *text)
{
    if (k->count == k->capacity) {
        k->capacity = k->capacity ? k->capacity * 2 : 64;
        k->pending = xreallocarray(k->pending, k->capacity, sizeof *k->pending);
    }
    struct told *t = &k->pending[k->count++];
    *t = (struct told){ .kind = kind, .number = number, .real = real, .time = time(NULL) };
    for (int i = 0; i < texts; i++) t->text[i] = text[i] ? xstrdup(text[i]) : NULL;
}

static void add_score(struct job_sink *k, const struct event_score *s)
{
    const char *const texts[] = { s->id, s->prompt, s->answer, s->reference, s->group };
    add(k, TOLD_SCORE, s->index, s->score, 5, texts);
}

// A table as lines of the log.
static void add_table(struct job_sink *k, const struct event_table *t)
{
    for (int r = -1; r < t->row_count; r++) {
        struct buf b = { 0 };
        for (int c = 0; c < t->column_count; c++)
            buf_printf(&b, "%s%s", c ? "  " : "",
                       r < 0 ? t->columns[c] : t->cells[r * t->column_count + c]);
        add(k, TOLD_LINE, 0, 0, 1, (const char *const[]){ b.data });
        buf_release(&b);
    }
}

// Whether it is written at once.
static bool take_event(struct job_sink *k, const struct event *e)
{
    const char *const pair[] = { e->key, e->value ? e->value : "" };
    const double since = clock_seconds() - k->written;
    switch (e->kind) {
    case EVENT_MEASURED:
        add(k, TOLD_MEASURED, 0, 0, 2, (const char *const[]){ e->key, e->text });
        return true;
    case EVENT_METRIC: add(k, TOLD_METRIC, e->count, e->real, 1, pair); return false;
    case EVENT_STEP: return true;
    case EVENT_REWIND: add(k, TOLD_REWIND, e->count, 0, 1, &e->key); return true;
    case EVENT_RESULT: add(k, TOLD_RESULT, 0, 0, 2, pair); return true;
    case EVENT_SCORE: add_score(k, e->score); return since > 0.5;
    case EVENT_TABLE: add_table(k, e->table); return true;
    case EVENT_NOTICE:
    case EVENT_TEXT:
        add(k, TOLD_LINE, 0, 0, 1, (const char *const[]){ e->text ? e->text : "" });
        return true;
    case EVENT_PROGRESS:
        if (e->progress->job != k->job) return false; // of the model's loading
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
    // A lock that was not had is not waited for at every step.
    if (k->failing && clock_seconds() - k->written < 1) return;
    job_sink_flush(k, NULL);
}

struct sink job_sink(struct job_sink *k)
{
    return (struct sink){ .emit = job_sink_emit, .self = k };
}
