// sessions/job_told.c -- the reports of a job: lists of rows, and their statements.
#include "sessions/job_told.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "sessions/job_internal.h"

// --- lists ---------------------------------------------------------------------------------------

struct told *told_add(struct told_list *l, enum told_kind kind, int64_t number, double real,
                      int texts, const char *const *text)
{
    if (l->count == l->capacity) {
        l->capacity = l->capacity ? l->capacity * 2 : 64;
        l->list = xreallocarray(l->list, l->capacity, sizeof *l->list);
    }
    struct told *t = &l->list[l->count++];
    *t = (struct told){ .kind = kind, .number = number, .time = time(NULL), .real = { real } };
    for (int i = 0; i < texts; i++) t->text[i] = text[i] ? xstrdup(text[i]) : NULL;
    return t;
}

void told_clear(struct told_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        for (int t = 0; t < TOLD_TEXTS; t++) free(l->list[i].text[t]);
    l->count = 0;
}

void told_release(struct told_list *l)
{
    told_clear(l);
    free(l->list);
    *l = (struct told_list){ 0 };
}

// --- rows ----------------------------------------------------------------------------------------

// The number of a series, which this makes when it is new. Numbers made in a transaction that is
// rolled back are forgotten with it (series_forget).
static int series_id(struct told_writer *w, const char *name, int64_t *id, struct err *err)
{
    size_t i = 0;
    while (i < w->series_count && strcmp(w->series[i].name, name) != 0) i++;
    if (i == w->series_count) {
        w->series = xreallocarray(w->series, i + 1, sizeof *w->series);
        w->series[w->series_count++] = (struct told_series){ .name = xstrdup(name) };
    }
    if (!w->series[i].id) {
        if (store_run(w->store, err, "INSERT OR IGNORE INTO job_series(job, name) VALUES(?, ?)",
                      "it", w->job, name) < 0 ||
            store_number(w->store, err, 0, &w->series[i].id,
                         "SELECT id FROM job_series WHERE job = ? AND name = ?", "it", w->job,
                         name) < 0)
            return -1;
    }
    *id = w->series[i].id;
    return 0;
}

static void series_forget(struct told_writer *w)
{
    for (size_t i = 0; i < w->series_count; i++) w->series[i].id = 0;
}

static int write_metric(struct told_writer *w, const struct told *t, struct err *err)
{
    int64_t id;
    if (series_id(w, t->text[0], &id, err) < 0) return -1;
    if (!w->insert)
        w->insert = store_query(w->store, err,
                                "INSERT OR REPLACE INTO metrics(series, step, value) "
                                "VALUES(?, ?, ?)",
                                "");
    if (!w->insert) return -1;
    sqlite3_bind_int64(w->insert, 1, id);
    sqlite3_bind_int64(w->insert, 2, t->number);
    sqlite3_bind_double(w->insert, 3, t->real[0]); // NaN becomes NULL
    const int status = store_step(w->store, w->insert, err);
    sqlite3_reset(w->insert);
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

static int write_score(struct told_writer *w, const struct told *t, struct err *err)
{
    const struct event_score score = { .index = t->number,
                                       .id = t->text[0],
                                       .prompt = t->text[1],
                                       .answer = t->text[2],
                                       .reference = t->text[3],
                                       .group = t->text[4],
                                       .score = t->real[0] };
    return job_write_score(w->store, w->job, &score, err);
}

static int write_rewind(struct told_writer *w, const struct told *t, struct err *err)
{
    const char *end = t->text[0] ? t->text[0] : "";
    return store_run(w->store, err,
                     "DELETE FROM metrics WHERE step >= ? AND series IN "
                     "(SELECT id FROM job_series WHERE job = ? AND "
                     "(? = '' OR substr(name, -length(?)) = ?))",
                     "iittt", t->number, w->job, end, end, end);
}

static int write_progress(struct told_writer *w, const struct told *t, struct err *err)
{
    return store_run(w->store, err,
                     "UPDATE jobs SET step = ?, steps = ?, loss = ?, eta = ? WHERE id = ?", "ddddi",
                     t->real[0], t->real[1], t->real[2], t->real[3], w->job);
}

// A request that was never obeyed is none any more, unless it came while the process began.
static int write_running(struct told_writer *w, const struct told *t, struct err *err)
{
    return store_run(w->store, err,
                     "UPDATE jobs SET request = CASE state WHEN 'waiting' THEN request END, "
                     "state = 'running', runs = runs + 1, started = ?, ended = NULL, "
                     "message = '', eta = NULL, queue = coalesce(?, queue) WHERE id = ?",
                     "iti", t->time, t->text[2], w->job);
}

static int write_state(struct told_writer *w, const struct told *t, struct err *err)
{
    if (!strcmp(t->text[0], job_state_name(STATE_RUNNING))) return write_running(w, t, err);
    return store_run(w->store, err,
                     "UPDATE jobs SET state = ?, message = ?, ended = ?, request = NULL, "
                     "eta = NULL WHERE id = ?",
                     "ttii", t->text[0], t->text[1] ? t->text[1] : "", t->time, w->job);
}

static int write_row(struct told_writer *w, const struct told *t, struct err *err)
{
    struct store *s = w->store;
    switch (t->kind) {
    case TOLD_METRIC: return write_metric(w, t, err);
    case TOLD_LINE:
        return store_run(s, err, "INSERT INTO job_log(job, time, text) VALUES(?, ?, ?)", "iit",
                         w->job, t->time, t->text[0]);
    case TOLD_RESULT: return job_write_result(s, w->job, t->text[0], t->text[1], err);
    case TOLD_SCORE: return write_score(w, t, err);
    case TOLD_REWIND: return write_rewind(w, t, err);
    case TOLD_MEASURED: return store_result_keep(s, 0, t->time, t->text[0], t->text[1], err);
    case TOLD_PROGRESS: return write_progress(w, t, err);
    case TOLD_STATE: return write_state(w, t, err);
    case TOLD_KINDS: break;
    }
    BUG("a job reported a row of kind %d", (int)t->kind);
}

int told_write_rows(struct told_writer *w, const struct told_list *l, struct err *err)
{
    int status = 0;
    for (size_t i = 0; i < l->count && status == 0; i++) status = write_row(w, &l->list[i], err);
    return status;
}

// --- the writer ----------------------------------------------------------------------------------

static int write_all(struct told_writer *w, const struct told_list *l, struct err *err)
{
    int status = store_lock(w->store, err);
    if (status == 0) status = store_unlock(w->store, told_write_rows(w, l, err), err);
    if (status < 0) series_forget(w);
    return status;
}

struct told_writer told_to_store(struct store *s, int64_t job)
{
    return (struct told_writer){ .write = write_all, .job = job, .store = s };
}

void told_writer_release(struct told_writer *w)
{
    for (size_t i = 0; i < w->series_count; i++) free(w->series[i].name);
    free(w->series);
    free(w->path);
    sqlite3_finalize(w->insert);
    *w = (struct told_writer){ 0 };
}
