// commands/job_start.c -- starts and finds jobs, and reports when a job of this shell ends.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/jobs.h"
#include "core/adapter/adapter.h"
#include "core/adapter/adapters.h"
#include "core/base/file_out.h"
#include "core/base/names.h"
#include "core/engine/device.h"
#include "core/files/checkpoint.h"
#include "sessions/job_queue.h"
#include "sessions/job_ranks.h"
#include "sessions/jobs.h"

struct job_spec shell_job_spec(const struct shell *shell, const char *kind, int argc, char **argv)
{
    const struct checkpoint *c = engine_checkpoint(shell->engine);
    return (struct job_spec){
        .kind = kind,
        .argc = argc,
        .argv = argv,
        .settings = engine_settings(shell->engine),
        .model = c ? c->name : NULL,
        .fingerprint = c ? c->identity : NULL,
        .device = device_name(engine_backend(shell->engine)),
    };
}

int shell_take_where(const struct job_kind *k, int *argc, char **argv, struct job_where *where,
                     struct err *err)
{
    int kept = 0;
    *where = (struct job_where){ 0 };
    for (int i = 0; i < *argc; i++) {
        const bool ranks = !strcmp(argv[i], "--ranks"), script = !strcmp(argv[i], "--sbatch");
        // A kind with its own option --submit FILE reads that option itself.
        const bool file = k && k->submits && i + 1 < *argc && strncmp(argv[i + 1], "--", 2) != 0;
        if (!strcmp(argv[i], "--submit") && !file) {
            where->submit = true;
        } else if (!ranks && !script) {
            argv[kept++] = argv[i];
        } else if (++i == *argc) {
            return err_set(err, ranks ? "--ranks needs a number of processes: --ranks 2"
                                      : "--sbatch needs a file for the script: --sbatch job.sh");
        } else if (*(ranks ? &where->ranks : &where->script)) {
            return err_set(err, "%s is given twice: it takes one value", argv[i - 1]);
        } else {
            *(ranks ? &where->ranks : &where->script) = argv[i];
        }
    }
    *argc = kept;
    return 0;
}

int job_check_ranks(const struct job_kind *k, const struct settings *s, bool queued,
                    struct err *err)
{
    if (settings_integer(s, "job.ranks") == 1) return 0;
    if (k->in_ranks && job_splits_layers(s) && !k->in_layers)
        return err_set(err,
                       "a job of kind '%s' can only divide its samples among ranks, not the "
                       "model's layers: /set job.split data",
                       k->name);
    if (k->in_ranks) return queued ? 0 : job_ranks_check(err);
    return err_set(err, "a job of kind '%s' runs in one process: /set job.ranks 1", k->name);
}

static int add_job(struct shell *shell, const struct job_kind *k, int argc, char **argv,
                   const struct job_where *where, int64_t *id, struct err *err)
{
    const struct model *m = engine_model(shell->engine);
    if (engine_identify(shell->engine, err) < 0) return -1;
    struct settings *settings = settings_copy(engine_settings(shell->engine));
    struct job_spec spec = shell_job_spec(shell, k->name, argc, argv);
    spec.settings = settings;
    const bool queued = where->script || where->submit;
    int status = 0;
    for (int i = 0; i < argc && status == 0; i++)
        if (!*argv[i]) // usually an empty shell variable
            status = err_set(err, "argument %d of /%s is empty: it must be a file, folder or value",
                             i + 1, k->name);
    if (status == 0 && where->ranks)
        status = settings_set(settings, "job.ranks", where->ranks, err);
    if (k->settle) k->settle(settings, m);
    // The job uses GPUs even if the shell's machine has none.
    if (queued && settings_integer(settings, "job.gpus")) spec.device = "cuda";
    if (status == 0) status = job_check_ranks(k, settings, queued, err);
    if (status == 0 && k->check) status = k->check(argc, argv, settings, m, err);
    if (status == 0) status = store_job_add(shell->store, &spec, id, err);
    settings_free(settings);
    return status;
}

void job_remember(struct shell *shell, int64_t id)
{
    shell->jobs = xreallocarray(shell->jobs, shell->job_count + 1, sizeof *shell->jobs);
    shell->jobs[shell->job_count++] = id;
}

void job_emit(const struct shell *shell, const struct job_row *row, const char *change)
{
    const bool runs = row->state == STATE_RUNNING;
    const struct event_job job = { .job = row->id,
                                   .change = change,
                                   .kind = row->kind,
                                   .state = job_state_name(row->state),
                                   .message = row->message,
                                   .folder = row->folder,
                                   .model = row->model,
                                   .arguments = row->argv,
                                   .argument_count = row->argc,
                                   .step = row->step,
                                   .steps = row->steps,
                                   .loss = row->loss,
                                   .eta_s = runs ? row->eta_s : NAN,
                                   .created = row->created,
                                   .started = row->started,
                                   .ended = row->ended };
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_JOB, .job = &job });
}

void job_emit_now(const struct shell *shell, int64_t id, const char *change)
{
    struct job_row row;
    if (store_job_read(shell->store, id, &row, NULL) < 0) return;
    job_emit(shell, &row, change);
    job_row_release(&row);
}

// Reports "job 3: train was submitted as Slurm job 12".
int job_submit(struct shell *shell, int64_t id, struct err *err)
{
    struct job_row row;
    if (store_job_submit(shell->store, id, err) < 0) return -1;
    if (store_job_read(shell->store, id, &row, err) < 0) return -1;
    job_remember(shell, id);
    job_emit(shell, &row, "submitted");
    sinks_notice(shell->sinks,
                 "job %" PRId64 ": %s was submitted as Slurm job %s (/job %" PRId64
                 ", /wait %" PRId64 ")",
                 id, row.kind, row.queue, id, id);
    job_row_release(&row);
    return 0;
}

// Writes the job's script and, with --submit, submits it. If this fails, deletes the job. Its
// number is not used again: an sbatch that timed out may still have submitted the job.
static int queue_job(struct shell *shell, int64_t id, const struct job_where *where,
                     struct err *err)
{
    struct err why;
    int status = store_job_script(shell->store, id, where->script, err);
    if (status == 0 && where->submit)
        status = job_submit(shell, id, err);
    else if (status == 0) {
        job_emit_now(shell, id, "prepared");
        sinks_notice(shell->sinks,
                     "job %" PRId64 ": wrote '%s'; submit it with /job %" PRId64 " submit", id,
                     where->script, id);
    }
    if (status < 0) store_job_delete(shell->store, id, &why);
    return status;
}

int shell_start_job(struct shell *shell, const char *kind, int argc, char **argv, struct err *err)
{
    const struct job_kind *k = job_kind_find(kind);
    struct job_where where;
    int64_t id = 0;
    if (!k) BUG("no job kind '%s'", kind);
    if (k->needs_model && command_check_needs(shell, NEEDS_MODEL, err) < 0) return -1;
    char **words = xcalloc((size_t)argc + 1, sizeof *words);
    for (int i = 0; i < argc; i++) words[i] = argv[i];
    int status = shell_take_where(k, &argc, words, &where, err);
    if (status == 0 && where.script) status = file_out_check(where.script, err);
    if (status == 0) status = add_job(shell, k, argc, words, &where, &id, err);
    free(words);
    if (status < 0) return -1;
    const struct adapters *adapters = engine_adapters(shell->engine);
    if (k->needs_model && adapters && adapters->active && adapter_files_changed(adapters->active))
        sinks_notice(shell->sinks,
                     "the files of adapter '%s' have changed since they were read: the job uses "
                     "the new ones; to chat with them, /adapter load %s",
                     adapters->active->name, adapters->active->folder);
    if (where.script || where.submit) return queue_job(shell, id, &where, err);
    if (store_job_start(shell->store, id, NULL, err) < 0) return -1;
    job_remember(shell, id);
    job_emit_now(shell, id, "started");
    sinks_notice(shell->sinks, "job %" PRId64 ": %s started (/job %" PRId64 ", /wait %" PRId64 ")",
                 id, kind, id, id);
    return 0;
}

void job_forget(struct shell *shell, int64_t id)
{
    size_t kept = 0;
    for (size_t i = 0; i < shell->job_count; i++)
        if (shell->jobs[i] != id) shell->jobs[kept++] = shell->jobs[i];
    shell->job_count = kept;
}

void shell_job_news(struct shell *shell)
{
    for (size_t i = shell->job_count; i-- > 0;) {
        struct job_row row;
        if (!shell->store || store_job_read(shell->store, shell->jobs[i], &row, NULL) < 0) continue;
        if (job_state_ended(row.state)) {
            char *text = job_text_end(shell, &row, NULL);
            job_emit(shell, &row, "ended");
            sinks_notice(shell->sinks, "%s", text);
            free(text);
            job_forget(shell, row.id);
        }
        job_row_release(&row);
    }
}

void shell_jobs_release(struct shell *shell)
{
    free(shell->jobs);
    shell->jobs = NULL;
    shell->job_count = 0;
}

// --- finding jobs --------------------------------------------------------------------------------

int job_number(const char *text, int64_t *id, struct err *err)
{
    char *end;
    *id = strtoll(text, &end, 10);
    if (end == text || *end || *id < 1 || *id > INT32_MAX)
        return err_set(err, "'%s' is not a job number (/jobs lists them)", text);
    return 0;
}

// Returns the absolute path without a trailing slash; the caller frees it.
static char *whole_path(const char *folder, const char *path)
{
    char *joined = *path == '/' ? xstrdup(path) : xasprintf("%s/%s", folder, path);
    char *real = realpath(joined, NULL);
    if (real) {
        free(joined);
        return real;
    }
    for (size_t n = strlen(joined); n > 1 && joined[n - 1] == '/';) joined[--n] = 0;
    return joined;
}

int jobs_about(const struct shell *shell, const char *path, int64_t **ids, size_t *count,
               struct err *err)
{
    struct job_row *rows;
    size_t row_count;
    *ids = NULL;
    *count = 0;
    if (store_jobs_read(shell->store, &rows, &row_count, err) < 0) return -1;
    char *here = getcwd(NULL, 0), *whole = whole_path(here ? here : ".", path);
    free(here);
    for (size_t i = row_count; i-- > 0;) {
        bool about = false;
        for (int k = 0; k < rows[i].argc && !about; k++) {
            char *argument = whole_path(rows[i].folder, rows[i].argv[k]);
            about = !strcmp(argument, whole);
            free(argument);
        }
        if (!about) continue;
        *ids = xreallocarray(*ids, *count + 1, sizeof **ids);
        (*ids)[(*count)++] = rows[i].id;
    }
    free(whole);
    job_rows_free(rows, row_count);
    return 0;
}

// Returns whether the job recorded results or metrics. A job that resumed an already finished run
// recorded none.
static bool has_results(const struct shell *shell, int64_t id)
{
    struct job_result *results = NULL;
    struct names series = { 0 };
    size_t result_count = 0;
    if (store_job_results(shell->store, id, &results, &result_count, NULL) == 0)
        job_results_free(results, result_count);
    store_series(shell->store, id, &series, NULL);
    const bool reported = result_count || series.count;
    names_release(&series);
    return reported;
}

int job_named(const struct shell *shell, const char *text, int64_t *id, struct err *err)
{
    int64_t *ids;
    size_t count;
    if (!text[strspn(text, "0123456789")]) return job_number(text, id, err);
    if (jobs_about(shell, text, &ids, &count, err) < 0) return -1;
    if (!count) {
        free(ids);
        return err_set(err, "'%s' is not a job number, and no job uses this path (/jobs)", text);
    }
    size_t newest = count;
    while (newest && !has_results(shell, ids[newest - 1])) newest--;
    *id = ids[newest ? newest - 1 : count - 1];
    free(ids);
    return 0;
}
