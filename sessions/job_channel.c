// sessions/job_channel.c -- specifications and requests, in the database or in files.
#include "sessions/job_channel.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/unfinished.h"
#include "sessions/job_internal.h"

static const size_t order_limit = (size_t)16 << 20;

// --- the database --------------------------------------------------------------------------------

void job_channel_of_store(struct job_channel *d, struct store *s, int64_t id)
{
    *d = (struct job_channel){ .id = id,
                               .folder = job_path(s, id, NULL),
                               .answer_lock = answer_lock_path(s),
                               .store = s,
                               .to = reports_to_store(s, id) };
}

// --- files ---------------------------------------------------------------------------------------

static int write_whole(const char *folder, const char *name, const char *text, struct err *err)
{
    char *path = xasprintf("%s/%s", folder, name);
    const int status = unfinished_write(path, text, err);
    free(path);
    return status;
}

int job_spec_write(const char *folder, const struct job_row *row, const char *answer_lock,
                   struct err *err)
{
    cJSON *o = cJSON_CreateObject();
    char *arguments = job_arguments_write(row->argc, row->argv);
    char *settings = job_settings_write(row->settings);
    cJSON_AddNumberToObject(o, "id", (double)row->id);
    cJSON_AddStringToObject(o, "arguments", arguments);
    cJSON_AddStringToObject(o, "settings", settings);
    for (const struct job_column *c = job_columns; c->name; c++) {
        const void *cell = job_cell((struct job_row *)(uintptr_t)row, c);
        if (c->in_spec && c->type == 't') cJSON_AddStringToObject(o, c->name, *(char *const *)cell);
        if (c->in_spec && c->type == 'i')
            cJSON_AddNumberToObject(o, c->name, (double)*(const int64_t *)cell);
    }
    if (answer_lock) cJSON_AddStringToObject(o, "answering", answer_lock);
    char *text = cJSON_Print(o);
    cJSON_Delete(o);
    free(arguments);
    free(settings);
    if (!text) fatal("out of memory while writing a job's specification");
    const int status = write_whole(folder, "order.json", text, err);
    cJSON_free(text);
    return status;
}

static cJSON *read_order(const char *folder, struct err *err)
{
    char *path = xasprintf("%s/order.json", folder);
    size_t size = 0;
    char *text = file_read(path, order_limit, &size, err);
    cJSON *o = text ? json_parse(text, size, path, err) : NULL;
    free(text);
    free(path);
    return o;
}

static char *text_of(const cJSON *o, const char *key)
{
    const char *text = cJSON_GetStringValue(json_get(o, key));
    return xstrdup(text ? text : "");
}

// Counts an earlier run in row->runs if the folder has reports: a queue may have restarted the job.
int job_channel_read(struct job_channel *d, struct job_row *row, struct err *err)
{
    if (d->store) return job_read_own(d->store, d->id, row, err);
    *row = (struct job_row){ .id = d->id };
    cJSON *o = read_order(d->folder, err);
    if (!o) return -1;
    char *arguments = text_of(o, "arguments"), *settings = text_of(o, "settings");
    for (const struct job_column *c = job_columns; c->name; c++) {
        const cJSON *value = c->in_spec ? json_get(o, c->name) : NULL;
        if (c->type == 't') *(char **)job_cell(row, c) = text_of(o, c->in_spec ? c->name : "");
        if (c->type == 'i') *(int64_t *)job_cell(row, c) = json_whole(value, 0);
        if (c->type == 'd') *(double *)job_cell(row, c) = NAN;
    }
    char *message = NULL;
    if (job_reports_state(d->folder, &row->state, &message)) row->runs++;
    if (message) {
        free(row->message);
        row->message = message;
    }
    job_arguments_read(row, arguments);
    job_settings_read(row, settings);
    free(arguments);
    free(settings);
    cJSON_Delete(o);
    return 0;
}

int job_channel_request(struct job_channel *d, enum job_stop *request, struct err *err)
{
    if (d->store) return job_read_request(d->store, d->id, request, err);
    *request = job_request_read(d->folder);
    return 0;
}

int job_channel_of_folder(struct job_channel *d, const char *folder, int64_t id, struct err *err)
{
    *d = (struct job_channel){ 0 };
    cJSON *o = read_order(folder, err);
    if (!o) return -1;
    const char *answer_lock = cJSON_GetStringValue(json_get(o, "answering"));
    *d = (struct job_channel){ .id = id,
                               .folder = xstrdup(folder),
                               .answer_lock = answer_lock ? xstrdup(answer_lock) : NULL,
                               .to = reports_to_file(folder, id, 0) };
    cJSON_Delete(o);
    return 0;
}

// --- requests ------------------------------------------------------------------------------------

int job_request_write(const char *folder, enum job_stop what, struct err *err)
{
    if (what != JOB_GO)
        return write_whole(folder, "asked", what == JOB_CANCEL ? "cancel\n" : "pause\n", err);
    char *path = xasprintf("%s/asked", folder);
    const bool gone = unlink(path) == 0 || errno == ENOENT;
    const int status = gone ? 0 : err_set(err, "cannot remove '%s': %s", path, strerror(errno));
    free(path);
    return status;
}

enum job_stop job_request_read(const char *folder)
{
    char *path = xasprintf("%s/asked", folder), *text = file_read(path, 64, NULL, NULL);
    const enum job_stop what = text ? job_request_parse(text) : JOB_GO;
    free(text);
    free(path);
    return what;
}

// --- both ----------------------------------------------------------------------------------------

int job_channel_state(struct job_channel *d, enum job_state state, const char *message,
                      struct err *err)
{
    const char *const texts[] = { job_state_name(state), message, getenv("SLURM_JOB_ID") };
    struct report_list l = { 0 };
    report_add(&l, REPORT_STATE, 0, NAN, d->store ? 2 : 3, texts);
    const int status = report_write(&d->to, &l, err);
    reports_release(&l);
    return status;
}

void job_channel_release(struct job_channel *d)
{
    report_writer_release(&d->to);
    free(d->folder);
    free(d->answer_lock);
    *d = (struct job_channel){ 0 };
}
