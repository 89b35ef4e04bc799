// sessions/jobs.c -- adds and reads the database rows of jobs, and sends requests to jobs.
//
// A job's row has the last state that the job's process wrote; the job's lock (job_process.c) shows
// whether the process is alive. A "running" job without a process is read as "interrupted".
#include "sessions/jobs.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/json.h"
#include "sessions/job_channel.h"
#include "sessions/job_internal.h"
#include "sessions/job_queue.h"
#include "sessions/job_reports.h"

// A started process that has not taken the lock after this many seconds never will.
enum { BEGIN_S = 20 };

static const char *const state_names[] = {
    [STATE_WAITING] = "waiting",         [STATE_RUNNING] = "running",
    [STATE_PAUSED] = "paused",           [STATE_DONE] = "done",
    [STATE_FAILED] = "failed",           [STATE_CANCELLED] = "cancelled",
    [STATE_INTERRUPTED] = "interrupted",
};

const char *job_state_name(enum job_state state)
{
    return state_names[state];
}

bool job_state_ended(enum job_state state)
{
    return state != STATE_WAITING && state != STATE_RUNNING;
}

// --- rows ----------------------------------------------------------------------------------------

char *job_arguments_write(int argc, char *const *argv)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < argc; i++) cJSON_AddItemToArray(list, cJSON_CreateString(argv[i]));
    char *text = json_print(list);
    cJSON_Delete(list);
    return text;
}

char *job_settings_write(const struct settings *s)
{
    cJSON *object = cJSON_CreateObject();
    const struct setting *row;
    for (int i = 0; s && (row = settings_row(i)); i++)
        if (settings_changed(s, row->key))
            cJSON_AddStringToObject(object, row->key, settings_text(s, row->key));
    char *text = json_print(object);
    cJSON_Delete(object);
    return text;
}

// Adds a row. `id` NULL: the next free number.
static int insert(struct store *s, const struct job_spec *spec, const char *id, struct err *err)
{
    char *folder = getcwd(NULL, 0);
    if (!folder) return err_set(err, "the current folder no longer exists: %s", strerror(errno));
    char *arguments = job_arguments_write(spec->argc, spec->argv);
    char *settings = job_settings_write(spec->settings);
    char *model = spec->model ? realpath(spec->model, NULL) : NULL;
    const int status =
        store_run(s, err,
                  "INSERT INTO jobs(id, kind, arguments, settings, folder, model, fingerprint, "
                  "device, state, runs, asked, created) "
                  "VALUES(?, ?, ?, ?, ?, ?, ?, ?, 'waiting', 0, ?, ?)",
                  "ttttttttii", id, spec->kind, arguments, settings, folder,
                  model         ? model
                  : spec->model ? spec->model
                                : "",
                  spec->fingerprint ? spec->fingerprint : "", spec->device ? spec->device : "cpu",
                  (int64_t)time(NULL), (int64_t)time(NULL));
    free(model);
    free(settings);
    free(arguments);
    free(folder);
    return status;
}

int store_job_add(struct store *s, const struct job_spec *spec, int64_t *id, struct err *err)
{
    if (store_lock(s, err) < 0) return -1;
    int status = insert(s, spec, NULL, err);
    *id = sqlite3_last_insert_rowid(s->db);
    if (status == 0) status = job_folder_clear(s, *id, err);
    return store_unlock(s, status, err);
}

void job_arguments_read(struct job_row *row, const char *text)
{
    cJSON *list = cJSON_Parse(text), *item;
    row->argv = xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *row->argv);
    cJSON_ArrayForEach(item, list) if (cJSON_IsString(item)) row->argv[row->argc++] =
        xstrdup(item->valuestring);
    cJSON_Delete(list);
}

// Skips settings that this version lacks.
void job_settings_read(struct job_row *row, const char *text)
{
    cJSON *object = cJSON_Parse(text), *item;
    row->settings = settings_new();
    cJSON_ArrayForEach(item, object) if (cJSON_IsString(item) && item->string)
        settings_set(row->settings, item->string, item->valuestring, NULL);
    cJSON_Delete(object);
}

bool job_state_find(const char *name, enum job_state *state)
{
    for (int i = 0; i < STATE_INTERRUPTED; i++) {
        *state = (enum job_state)i;
        if (!strcmp(state_names[i], name)) return true;
    }
    return false;
}

enum job_stop job_request_parse(const char *text)
{
    return !strncmp(text, "pause", 5)    ? JOB_PAUSE
           : !strncmp(text, "cancel", 6) ? JOB_CANCEL
                                         : JOB_GO;
}

const struct job_column job_columns[] = {
    { "kind", 't', offsetof(struct job_row, kind), true },
    { "folder", 't', offsetof(struct job_row, folder), true },
    { "model", 't', offsetof(struct job_row, model), true },
    { "fingerprint", 't', offsetof(struct job_row, fingerprint), true },
    { "device", 't', offsetof(struct job_row, device), true },
    { "runs", 'i', offsetof(struct job_row, runs), true },
    { "message", 't', offsetof(struct job_row, message), false },
    { "script", 't', offsetof(struct job_row, script), false },
    { "queue", 't', offsetof(struct job_row, queue), false },
    { "queued", 't', offsetof(struct job_row, queued), false },
    { "created", 'i', offsetof(struct job_row, created), false },
    { "started", 'i', offsetof(struct job_row, started), false },
    { "ended", 'i', offsetof(struct job_row, ended), false },
    { "step", 'd', offsetof(struct job_row, step), false },
    { "steps", 'd', offsetof(struct job_row, steps), false },
    { "loss", 'd', offsetof(struct job_row, loss), false },
    { "eta", 'd', offsetof(struct job_row, eta_s), false },
    { 0 },
};

void *job_cell(struct job_row *row, const struct job_column *c)
{
    return (char *)row + c->at;
}

int store_version_seen(struct store *s, int64_t *version, struct err *err)
{
    return store_number(s, err, 0, version, "PRAGMA data_version", "");
}

void job_row_release(struct job_row *row)
{
    for (int i = 0; i < row->argc; i++) free(row->argv[i]);
    free(row->argv);
    settings_free(row->settings);
    for (const struct job_column *c = job_columns; c->name; c++)
        if (c->type == 't') free(*(char **)job_cell(row, c));
    *row = (struct job_row){ 0 };
}

void job_rows_free(struct job_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) job_row_release(&rows[i]);
    free(rows);
}

static void set_message(struct job_row *row, char *text)
{
    free(row->message);
    row->message = text;
}

// Reads the row as stored. *asked becomes the time at which starting a process for the job was last
// requested.
static int read_plain(struct store *s, int64_t id, struct job_row *row, int64_t *asked,
                      struct err *err)
{
    struct buf sql = { 0 };
    int column = 0;
    *row = (struct job_row){ .id = id };
    *asked = 0;
    buf_puts(&sql, "SELECT arguments, settings, state, coalesce(request, ''), asked");
    for (const struct job_column *c = job_columns; c->name; c++) buf_printf(&sql, ", %s", c->name);
    buf_puts(&sql, " FROM jobs WHERE id = ?");
    sqlite3_stmt *q = store_query(s, err, sql.data, "i", id);
    buf_release(&sql);
    if (!q) return -1;
    const int found = store_step(s, q, err);
    if (found > 0) {
        char *texts[4];
        for (int i = 0; i < 4; i++) texts[i] = column_text(q, column++);
        *asked = sqlite3_column_int64(q, column++);
        for (const struct job_column *c = job_columns; c->name; c++, column++) {
            if (c->type == 't') *(char **)job_cell(row, c) = column_text(q, column);
            if (c->type == 'i') *(int64_t *)job_cell(row, c) = sqlite3_column_int64(q, column);
            if (c->type == 'd') *(double *)job_cell(row, c) = column_real(q, column);
        }
        job_arguments_read(row, texts[0]);
        job_settings_read(row, texts[1]);
        // A newer version wrote this state: assumes that the job runs, because the lock shows
        // whether it really does.
        if (!job_state_find(texts[2], &row->state)) {
            row->state = STATE_RUNNING;
            set_message(row, xasprintf("its state in the database, '%s', is unknown to this vlmsh",
                                       texts[2]));
        }
        row->request = job_request_parse(texts[3]);
        for (int i = 0; i < 4; i++) free(texts[i]);
    }
    sqlite3_finalize(q);
    if (found == 0) return err_set(err, "no job %lld (/jobs lists them)", (long long)id);
    return found < 0 ? -1 : 0;
}

int job_read_own(struct store *s, int64_t id, struct job_row *row, struct err *err)
{
    int64_t asked;
    return read_plain(s, id, row, &asked, err);
}

// Adjusts the state of a queued job. The row has the last state that the ranks reported; only the
// queue knows whether the job still waits or has ended.
static void see_queued(struct job_row *row)
{
    const bool ended = job_state_ended(row->state);
    if (row->state == STATE_DONE || row->state == STATE_CANCELLED) return;
    if (!*row->queue && row->state == STATE_WAITING) {
        set_message(row, xasprintf("not submitted: /job %lld submit, or sbatch %s",
                                   (long long)row->id, row->script));
    } else if (queue_waits(row->queued)) {
        row->state = STATE_WAITING; // even if it has already run
        set_message(row, xasprintf("Slurm job %s: %s", row->queue, row->queued));
    } else if (*row->queue && queue_ended(row->queued) && !ended) {
        row->state = STATE_INTERRUPTED;
        set_message(row, xasprintf("Slurm ended its job %s: %s", row->queue, row->queued));
    }
}

// Marks a job as interrupted if it has no process, although its row says that it runs, or that it
// waits and was started more than BEGIN_S seconds ago.
static void see_process(struct store *s, struct job_row *row, int64_t asked)
{
    if (job_state_ended(row->state) || job_alive(s, row->id, &row->pid) ||
        (row->state != STATE_RUNNING && time(NULL) - asked <= BEGIN_S))
        return;
    // If the process never began, row->message and the fatal message belong to the previous
    // process.
    char *folder = job_path(s, row->id, NULL);
    char *why =
        row->state == STATE_RUNNING ? job_fatal_message(folder, 0) : job_start_error(folder);
    if (*why || row->state != STATE_RUNNING)
        set_message(row, why);
    else
        free(why);
    row->state = STATE_INTERRUPTED;
    free(folder);
}

static int read_once(struct store *s, int64_t id, struct job_row *row, struct err *err)
{
    int64_t asked = 0;
    job_import(s, id);
    if (read_plain(s, id, row, &asked, err) < 0) return -1;
    if (row->script && *row->script)
        see_queued(row);
    else
        see_process(s, row, asked);
    return 0;
}

// The process may end between the reading of the row and the test of the lock, so an interrupted
// job is read again: the second read sees the final state.
int store_job_read(struct store *s, int64_t id, struct job_row *row, struct err *err)
{
    queue_poll(s);
    if (read_once(s, id, row, err) < 0) return -1;
    if (row->state != STATE_INTERRUPTED) return 0;
    job_row_release(row);
    return read_once(s, id, row, err);
}

int store_jobs_read(struct store *s, struct job_row **rows, size_t *count, struct err *err)
{
    int64_t *ids = NULL;
    size_t id_count = 0;
    int found, status = 0;
    *rows = NULL;
    *count = 0;
    sqlite3_stmt *q = store_query(s, err, "SELECT id FROM jobs WHERE id <> ? ORDER BY id DESC", "i",
                                  (int64_t)JOB_HERE);
    if (!q) return -1;
    while ((found = store_step(s, q, err)) > 0) {
        ids = xreallocarray(ids, id_count + 1, sizeof *ids);
        ids[id_count++] = sqlite3_column_int64(q, 0);
    }
    sqlite3_finalize(q);
    if (found < 0) status = -1;
    *rows = xcalloc(id_count + 1, sizeof **rows);
    for (size_t i = 0; i < id_count && status == 0; i++) {
        status = store_job_read(s, ids[i], &(*rows)[*count], err);
        if (status == 0) ++*count;
    }
    free(ids);
    if (status == 0) return 0;
    job_rows_free(*rows, *count);
    *rows = NULL;
    *count = 0;
    return -1;
}

int store_job_last(struct store *s, int64_t *id, struct err *err)
{
    return store_number(s, err, 0, id, "SELECT max(id) FROM jobs", "");
}

// Times are whole seconds: of the jobs that ended in the same second, returns the one that reported
// a result last.
int store_job_last_ended(struct store *s, const char *kind, int64_t *id, struct err *err)
{
    return store_number(s, err, -1, id,
                        "SELECT id FROM jobs WHERE kind = ? "
                        "ORDER BY state IN ('done', 'failed', 'cancelled') DESC, ended DESC, "
                        "(SELECT max(id) FROM job_results WHERE job = jobs.id) DESC, id DESC",
                        "t", kind);
}

// --- written by the job's process ----------------------------------------------------------------

int job_write_end(struct store *s, int64_t id, const char *state, const char *message, int64_t time,
                  struct err *err)
{
    return store_run(s, err,
                     "UPDATE jobs SET state = ?, message = ?, ended = ?, request = NULL, "
                     "eta = NULL WHERE id = ?",
                     "ttii", state, message, time, id);
}

int job_mark_ended(struct store *s, int64_t id, enum job_state state, const char *message,
                   struct err *err)
{
    return job_write_end(s, id, job_state_name(state), message, time(NULL), err);
}

int job_read_request(struct store *s, int64_t id, enum job_stop *request, struct err *err)
{
    // A shell that took the job for interrupted may have marked it as cancelled.
    sqlite3_stmt *q = store_query(s, err,
                                  "SELECT CASE state WHEN 'cancelled' THEN 'cancel' "
                                  "ELSE request END FROM jobs WHERE id = ?",
                                  "i", id);
    if (!q) return -1;
    const int found = store_step(s, q, err);
    char *text = found > 0 ? column_text(q, 0) : NULL;
    sqlite3_finalize(q);
    *request = text ? job_request_parse(text) : JOB_GO;
    free(text);
    if (found == 0) *request = JOB_CANCEL; // the job was deleted
    return found < 0 ? -1 : 0;
}

int store_job_keep(struct store *s, const struct job_spec *spec, enum job_state state,
                   const struct job_result *results, size_t result_count,
                   const struct event_score *scores, size_t score_count, struct err *err)
{
    if (store_lock(s, err) < 0) return -1;
    int status = store_run(s, err, "DELETE FROM jobs WHERE id = ?", "i", (int64_t)JOB_HERE);
    if (status == 0) status = insert(s, spec, "0", err);
    if (status == 0) status = job_mark_ended(s, JOB_HERE, state, "", err);
    for (size_t i = 0; i < score_count && status == 0; i++)
        status = job_write_score(s, JOB_HERE, &scores[i], err);
    for (size_t i = 0; i < result_count && status == 0; i++)
        status = job_write_result(s, JOB_HERE, results[i].key, results[i].value, err);
    return store_unlock(s, status, err);
}

// --- requests ------------------------------------------------------------------------------------

// Sets the job's state to waiting. *row becomes the row as it was before.
static int begin_waiting(struct store *s, int64_t id, const char *ranks, struct job_row *row,
                         struct err *err)
{
    if (store_job_read(s, id, row, err) < 0) return -1;
    if (row->state == STATE_RUNNING || (row->state == STATE_WAITING && row->pid)) {
        const bool pause = row->request == JOB_PAUSE;
        if (row->request == JOB_GO)
            return err_set(err, "job %lld is already running", (long long)id);
        // The request cannot be withdrawn, because the process may already have read it.
        return err_set(err,
                       "job %lld was asked to %s and is still running: resume it once it is %s",
                       (long long)id, pause ? "pause" : "end",
                       job_state_name(pause ? STATE_PAUSED : STATE_CANCELLED));
    }
    if (row->state == STATE_DONE)
        return err_set(err, "job %lld is done: nothing to resume", (long long)id);
    if (row->queue && *row->queue && !queue_ended(row->queued))
        return err_set(err, "Slurm has not released job %lld yet (its job %s is %s): wait a moment",
                       (long long)id, row->queue, row->queued);
    if (ranks && settings_set(row->settings, "job.ranks", ranks, err) < 0) return -1;
    char *settings = ranks ? job_settings_write(row->settings) : NULL;
    const int status = store_run(s, err,
                                 "UPDATE jobs SET state = 'waiting', request = NULL, asked = ?, "
                                 "message = '', settings = coalesce(?, settings) WHERE id = ?",
                                 "iti", (int64_t)time(NULL), settings, id);
    free(settings);
    return status;
}

// Changes state and number of ranks in one transaction, because another shell may start the job at
// the same time.
int store_job_start(struct store *s, int64_t id, const char *ranks, struct err *err)
{
    struct job_row row = { 0 };
    job_import(s, id);
    if (store_lock(s, err) < 0) return -1;
    int status = store_unlock(s, begin_waiting(s, id, ranks, &row, err), err);
    if (status == 0 && row.script && *row.script) {
        status = store_job_submit(s, id, err);
        job_row_release(&row);
        return status;
    }
    char *folder = job_path(s, id, NULL);
    if (status == 0) status = job_request_write(folder, JOB_GO, err);
    free(folder);
    if (status == 0 && job_spawn(s, &row, err) < 0) {
        job_mark_ended(s, id, STATE_FAILED, err->text, NULL);
        status = -1;
    }
    job_row_release(&row);
    return status;
}

// Removes a job from the queue, to cancel it or, if it has not started, to pause it.
static int withdraw(struct store *s, const struct job_row *row, enum job_stop what, struct err *err)
{
    if (row->state == STATE_DONE || row->state == STATE_CANCELLED)
        return err_set(err, "job %lld is not running: it is %s", (long long)row->id,
                       job_state_name(row->state));
    const int status = store_job_withdraw(s, row->id, err);
    return status < 0 || what == JOB_CANCEL ? status
                                            : job_mark_ended(s, row->id, STATE_PAUSED, "", err);
}

int store_job_ask(struct store *s, int64_t id, enum job_stop what, struct err *err)
{
    struct job_row row;
    const char *name = what == JOB_CANCEL ? "cancel" : "pause";
    int status = -1;
    if (store_job_read(s, id, &row, err) < 0) return -1;
    if (*row.script && (what == JOB_CANCEL || row.state == STATE_WAITING)) {
        status = withdraw(s, &row, what, err);
    } else if (!job_state_ended(row.state)) {
        status = store_run(s, err, "UPDATE jobs SET request = ? WHERE id = ?", "ti", name, id);
        char *folder = job_path(s, id, NULL);
        if (status == 0 && access(folder, F_OK) == 0)
            status = job_request_write(folder, what, err); // ranks read this file
        free(folder);
    } else if (what == JOB_CANCEL && row.state != STATE_DONE && row.state != STATE_CANCELLED) {
        status = job_mark_ended(s, id, STATE_CANCELLED, "", err);
    } else {
        err_set(err, "job %lld is not running: it is %s", (long long)id, job_state_name(row.state));
    }
    job_row_release(&row);
    return status;
}

int store_job_delete(struct store *s, int64_t id, struct err *err)
{
    struct job_row row;
    if (store_job_read(s, id, &row, err) < 0) return -1;
    const bool ended = job_state_ended(row.state) || (*row.script && !*row.queue);
    job_row_release(&row);
    if (!ended)
        return err_set(err, "job %lld is running: /job %lld cancel first", (long long)id,
                       (long long)id);
    if (store_run(s, err, "DELETE FROM jobs WHERE id = ?", "i", id) < 0) return -1;
    job_folder_remove(s, id);
    return 0;
}

// --- reports of a job ----------------------------------------------------------------------------

int store_job_log(struct store *s, int64_t id, int64_t lines, struct buf *b, struct err *err)
{
    int found;
    sqlite3_stmt *q = store_query(s, err,
                                  "SELECT time, text FROM (SELECT id, time, text FROM job_log "
                                  "WHERE job = ? ORDER BY id DESC LIMIT ?) ORDER BY id",
                                  "ii", id, lines > 0 ? lines : (int64_t)-1);
    if (!q) return -1;
    while ((found = store_step(s, q, err)) > 0) {
        char *time = time_text(sqlite3_column_int64(q, 0), "%Y-%m-%d %H:%M:%S");
        char *text = column_text(q, 1);
        buf_printf(b, "%s  %s\n", time, text);
        free(text);
        free(time);
    }
    sqlite3_finalize(q);
    return found < 0 ? -1 : 0;
}

int store_job_results(struct store *s, int64_t id, struct job_result **results, size_t *count,
                      struct err *err)
{
    int found;
    *results = NULL;
    *count = 0;
    sqlite3_stmt *q = store_query(
        s, err, "SELECT key, value FROM job_results WHERE job = ? ORDER BY id", "i", id);
    if (!q) return -1;
    while ((found = store_step(s, q, err)) > 0) {
        *results = xreallocarray(*results, *count + 1, sizeof **results);
        (*results)[(*count)++] = (struct job_result){ column_text(q, 0), column_text(q, 1) };
    }
    sqlite3_finalize(q);
    if (found == 0) return 0;
    job_results_free(*results, *count);
    *results = NULL;
    *count = 0;
    return -1;
}

static const char *text_or_null(sqlite3_stmt *q, int column)
{
    return (const char *)sqlite3_column_text(q, column);
}

int store_job_scores(struct store *s, int64_t id,
                     int (*each)(void *self, const struct event_score *score, struct err *err),
                     void *self, struct err *err)
{
    int found, status = 0;
    sqlite3_stmt *q = store_query(s, err,
                                  "SELECT place, sample, prompt, answer, reference, part, score "
                                  "FROM job_scores WHERE job = ? ORDER BY place",
                                  "i", id);
    if (!q) return -1;
    while (status == 0 && (found = store_step(s, q, err)) > 0) {
        const struct event_score score = {
            .index = sqlite3_column_int64(q, 0),
            .id = text_or_null(q, 1),
            .prompt = text_or_null(q, 2),
            .answer = text_or_null(q, 3),
            .reference = text_or_null(q, 4),
            .group = text_or_null(q, 5),
            .score = column_real(q, 6),
        };
        status = each(self, &score, err);
    }
    sqlite3_finalize(q);
    return status < 0 || found < 0 ? -1 : 0;
}
