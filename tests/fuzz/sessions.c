// tests/fuzz/sessions.c -- opens arbitrary bytes as a session database. The database is refused; or
// its sessions and jobs (the first of each), results, calibrations and presets can be listed and
// read, and its sessions exported and resumed, or are refused.
#include <stdio.h>
#include <stdlib.h>

#include "core/base/folder.h"
#include "core/base/names.h"
#include "kernels/backend.h"
#include "sessions/internal.h"
#include "sessions/jobs.h"
#include "sessions/records.h"
#include "tests/fuzz/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static int see(void *self, const struct event_score *score, struct err *err)
{
    return 0;
}

static void read_job(struct store *s, int64_t id)
{
    struct job_row row;
    struct job_result *results;
    struct buf log = { 0 };
    struct err err;
    struct names names = { 0 };
    size_t count;
    if (store_job_read(s, id, &row, &err) == 0) job_row_release(&row);
    (void)store_job_log(s, id, 0, &log, &err);
    if (store_job_results(s, id, &results, &count, &err) == 0) job_results_free(results, count);
    (void)store_job_scores(s, id, see, NULL, &err);
    (void)store_series(s, id, &names, &err);
    for (size_t i = 0; i < names.count; i++) {
        struct curve c;
        if (store_curve(s, id, names.list[i], &c, &err) == 0) curve_release(&c);
    }
    names_release(&names);
    buf_release(&log);
}

static void read_session(struct store *s, struct engine *e, const char *folder, const char *name)
{
    static const char *const ends[] = { "md", "vlmsh" };
    struct saved saved;
    struct err err;
    if (saved_read(s, name, &saved, &err) == 0) saved_release(&saved);
    for (int i = 0; i < 2; i++) {
        char *path = xasprintf("%s/out.%s", folder, ends[i]), *beside = xasprintf("%s.files", path);
        (void)store_export(s, name, path, &err);
        unlink(path);
        folder_remove(beside);
        free(path);
        free(beside);
    }
    if (store_resume(s, e, name, &err) == 0) {
        (void)engine_system(e, "go on", &err);
        (void)store_fork(s, NULL, &err);
    }
}

static void read_all(struct store *s, struct engine *e, const char *folder)
{
    struct session_row *sessions;
    struct calibration_row *calibrations;
    struct result_entry *results;
    struct job_row *jobs;
    struct names presets = { 0 };
    struct err err;
    size_t count;
    if (store_list(s, &sessions, &count, &err) == 0) {
        for (size_t i = 0; i < count && i < 8; i++) read_session(s, e, folder, sessions[i].name);
        store_list_free(sessions, count);
    }
    if (store_jobs_read(s, &jobs, &count, &err) == 0) {
        for (size_t i = 0; i < count && i < 8; i++) read_job(s, jobs[i].id);
        job_rows_free(jobs, count);
    }
    read_job(s, JOB_HERE);
    if (store_results(s, NULL, 0, &results, &count, &err) == 0) result_entries_free(results, count);
    if (store_calibrations(s, &calibrations, &count, &err) == 0)
        calibration_rows_free(calibrations, count);
    if (store_presets(s, &presets, &err) == 0)
        for (size_t i = 0; i < presets.count; i++) {
            struct preset_values v = { 0 };
            if (store_preset_read(s, presets.list[i], &v, &err) == 0) preset_values_release(&v);
        }
    names_release(&presets);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sinks sinks = { 0 };
    struct err err;
    char *folder = files_folder(), *path = xasprintf("%s/a.db", folder);
    files_put(folder, "a.db", bytes, size);
    struct store *s = store_open(path, &err);
    if (s) {
        struct engine *e = engine_new(backend_cpu(), &sinks);
        sinks_add(&sinks, store_sink(s, &sinks));
        read_all(s, e, folder);
        store_close(s);
        sinks = (struct sinks){ 0 };
        engine_free(e);
    }
    free(path);
    folder_remove(folder);
    free(folder);
    return 0;
}
