// commands/jobs.c -- /jobs, /job and /wait: background jobs.
#include "commands/jobs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/pace.h"
#include "core/draw/plot.h"
#include "sessions/job_queue.h"
#include "sessions/job_ranks.h"
#include "sessions/jobs.h"

// --- starting, and the end ----------------------------------------------------------------------

struct job_order shell_job_order(const struct shell *shell, const char *kind, int argc, char **argv)
{
    const struct model *m = engine_model(shell->engine);
    return (struct job_order){
        .kind = kind,
        .argc = argc,
        .argv = argv,
        .settings = engine_settings(shell->engine),
        .model = m ? m->checkpoint->name : NULL,
        .fingerprint = m ? m->checkpoint->fingerprint : NULL,
        .device = engine_backend(shell->engine)->name,
    };
}

int shell_take_where(const struct job_kind *k, int *argc, char **argv, struct job_where *where,
                     struct err *err)
{
    int kept = 0;
    *where = (struct job_where){ 0 };
    for (int i = 0; i < *argc; i++) {
        const bool ranks = !strcmp(argv[i], "--ranks"), script = !strcmp(argv[i], "--sbatch");
        const bool file = k && k->submits && i + 1 < *argc && strncmp(argv[i + 1], "--", 2) != 0;
        if (!strcmp(argv[i], "--submit") && !file) {
            where->submit = true;
        } else if (!ranks && !script) {
            argv[kept++] = argv[i];
        } else if (++i == *argc) {
            return err_set(err, ranks ? "--ranks needs a number of processes: --ranks 2"
                                      : "--sbatch needs a file for the script: --sbatch job.sh");
        } else {
            *(ranks ? &where->ranks : &where->script) = argv[i];
        }
    }
    *argc = kept;
    return 0;
}

// `queued`: they are started on other machines.
static int check_ranks(const struct job_kind *k, const struct settings *s, bool queued,
                       struct err *err)
{
    if (settings_integer(s, "job.ranks") == 1) return 0;
    if (k->in_ranks && job_splits_layers(s) && !k->in_layers)
        return err_set(
            err, "the ranks of a job of kind '%s' share its samples: /set job.split data", k->name);
    if (k->in_ranks) return queued ? 0 : job_ranks_check(err);
    return err_set(err, "a job of kind '%s' runs in one process: /set job.ranks 1", k->name);
}

static int add_job(struct shell *shell, const struct job_kind *k, int argc, char **argv,
                   const struct job_where *where, int64_t *id, struct err *err)
{
    const struct model *m = engine_model(shell->engine);
    struct settings *settings = settings_copy(engine_settings(shell->engine));
    struct job_order order = shell_job_order(shell, k->name, argc, argv);
    order.settings = settings;
    const bool queued = where->script || where->submit;
    int status = where->ranks ? settings_set(settings, "job.ranks", where->ranks, err) : 0;
    if (k->settle) k->settle(settings, m);
    // The machine with the shell may have none.
    if (queued && settings_integer(settings, "job.gpus")) order.device = "cuda";
    if (status == 0) status = check_ranks(k, settings, queued, err);
    if (status == 0 && k->check) status = k->check(argc, argv, settings, m, err);
    if (status == 0) status = store_job_add(shell->store, &order, id, err);
    settings_free(settings);
    return status;
}

static void remember(struct shell *shell, int64_t id)
{
    shell->jobs = xreallocarray(shell->jobs, shell->job_count + 1, sizeof *shell->jobs);
    shell->jobs[shell->job_count++] = id;
}

// The job as fields, for programs.
static void tell(const struct shell *shell, const struct job_row *row, const char *change)
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

// The same of a job as it is stored now.
static void tell_now(const struct shell *shell, int64_t id, const char *change)
{
    struct job_row row;
    if (store_job_read(shell->store, id, &row, NULL) < 0) return;
    tell(shell, &row, change);
    job_row_release(&row);
}

// "job 3: train was submitted as Slurm job 12"
static int submit(struct shell *shell, int64_t id, struct err *err)
{
    struct job_row row;
    if (store_job_submit(shell->store, id, err) < 0) return -1;
    if (store_job_read(shell->store, id, &row, err) < 0) return -1;
    remember(shell, id);
    tell(shell, &row, "submitted");
    sinks_notice(shell->sinks,
                 "job %" PRId64 ": %s was submitted as Slurm job %s (/job %" PRId64
                 ", /wait %" PRId64 ")",
                 id, row.kind, row.queue, id, id);
    job_row_release(&row);
    return 0;
}

// A job that cannot be handed over is none. No other one gets its number: an sbatch that ran out of
// time may have handed it over all the same.
static int queue_job(struct shell *shell, int64_t id, const struct job_where *where,
                     struct err *err)
{
    struct err why;
    int status = store_job_script(shell->store, id, where->script, err);
    if (status == 0 && where->submit)
        status = submit(shell, id, err);
    else if (status == 0) {
        tell_now(shell, id, "prepared");
        sinks_notice(shell->sinks,
                     "job %" PRId64 ": wrote '%s'; /job %" PRId64 " submit hands it to Slurm", id,
                     where->script, id);
    }
    if (status < 0) store_job_delete(shell->store, id, &why);
    return status;
}

static int begin_job(struct shell *shell, int64_t id, const char *kind,
                     const struct job_where *where, struct err *err)
{
    if (where->script || where->submit) return queue_job(shell, id, where, err);
    if (store_job_start(shell->store, id, err) < 0) return -1;
    remember(shell, id);
    tell_now(shell, id, "started");
    sinks_notice(shell->sinks, "job %" PRId64 ": %s started (/job %" PRId64 ", /wait %" PRId64 ")",
                 id, kind, id, id);
    return 0;
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
    if (status == 0) status = add_job(shell, k, argc, words, &where, &id, err);
    free(words);
    if (status == 0) status = begin_job(shell, id, kind, &where, err);
    return status;
}

static void forget(struct shell *shell, int64_t id)
{
    size_t kept = 0;
    for (size_t i = 0; i < shell->job_count; i++)
        if (shell->jobs[i] != id) shell->jobs[kept++] = shell->jobs[i];
    shell->job_count = kept;
}

// The outcome of a finished job, as its kind words it; the caller frees the text, which may be
// NULL. Shows the job's tables if there are sinks.
static char *outcome(const struct shell *shell, const struct job_row *row, struct sinks *sinks)
{
    const struct job_kind *kind = job_kind_find(row->kind);
    struct job_end end = { .steps = row->steps, .loss = row->loss };
    struct job_result *results;
    if (!kind || store_job_results(shell->store, row->id, &results, &end.count, NULL) < 0)
        return NULL;
    end.results = results;
    if (sinks && kind->show) kind->show(&end, sinks);
    char *text = kind->outcome ? kind->outcome(&end) : NULL;
    job_results_free(results, end.count);
    return text;
}

// "job 3 (train) is done", "job 3 (train) failed: the disk is full"; with sinks its tables as well.
static char *end_text(const struct shell *shell, const struct job_row *row, struct sinks *sinks)
{
    const bool rests = row->state == STATE_PAUSED || row->state == STATE_INTERRUPTED;
    if (row->state == STATE_FAILED)
        return xasprintf("job %" PRId64 " (%s) failed: %s", row->id, row->kind, row->message);
    if (rests)
        return xasprintf("job %" PRId64 " (%s) is %s%s%s (/job %" PRId64 " resume continues it)",
                         row->id, row->kind, job_state_name(row->state), *row->message ? ": " : "",
                         row->message, row->id);
    char *came = row->state == STATE_DONE ? outcome(shell, row, sinks) : NULL;
    char *text = xasprintf("job %" PRId64 " (%s) is %s%s%s", row->id, row->kind,
                           job_state_name(row->state), came ? ": " : "", came ? came : "");
    free(came);
    return text;
}

void shell_job_news(struct shell *shell)
{
    for (size_t i = shell->job_count; i-- > 0;) {
        struct job_row row;
        if (!shell->store || store_job_read(shell->store, shell->jobs[i], &row, NULL) < 0) continue;
        if (job_state_ended(row.state)) {
            char *text = end_text(shell, &row, NULL);
            tell(shell, &row, "ended");
            sinks_notice(shell->sinks, "%s", text);
            free(text);
            forget(shell, row.id);
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

int job_number(const char *text, int64_t *id, struct err *err)
{
    char *end;
    *id = strtoll(text, &end, 10);
    if (end == text || *end || *id < 1 || *id > INT32_MAX)
        return err_set(err, "'%s' is not a job number (/jobs lists them)", text);
    return 0;
}

// --- jobs by what they are about -----------------------------------------------------------------

// The path from the root on, without a slash at its end; belongs to the caller.
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

static bool is_about(const struct job_row *row, const char *path)
{
    bool found = false;
    for (int i = 0; i < row->argc && !found; i++) {
        char *argument = whole_path(row->folder, row->argv[i]);
        found = !strcmp(argument, path);
        free(argument);
    }
    return found;
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
        if (!is_about(&rows[i], whole)) continue;
        *ids = xreallocarray(*ids, *count + 1, sizeof **ids);
        (*ids)[(*count)++] = rows[i].id;
    }
    free(whole);
    job_rows_free(rows, row_count);
    return 0;
}

// A finished run that --resume only opens again reports nothing.
static bool was_reported(const struct shell *shell, int64_t id)
{
    struct job_result *results = NULL;
    char **names = NULL;
    size_t result_count = 0, name_count = 0;
    if (store_job_results(shell->store, id, &results, &result_count, NULL) == 0)
        job_results_free(results, result_count);
    if (store_series(shell->store, id, &names, &name_count, NULL) == 0)
        series_free(names, name_count);
    return result_count || name_count;
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
    while (newest && !was_reported(shell, ids[newest - 1])) newest--;
    *id = ids[newest ? newest - 1 : count - 1];
    free(ids);
    return 0;
}

// --- words for cells -----------------------------------------------------------------------------

static char *arguments_text(const struct job_row *row)
{
    struct buf b = { 0 };
    for (int i = 0; i < row->argc; i++) buf_printf(&b, "%s%s", i ? " " : "", row->argv[i]);
    return buf_take(&b);
}

static char *real_text(double value, const char *format)
{
    if (isnan(value)) return xstrdup("");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return xasprintf(format, value);
#pragma GCC diagnostic pop
}

static char *span_text(double seconds)
{
    char text[PACE_TEXT];
    return xstrdup(pace_text(text, seconds));
}

static char *steps_text(const struct job_row *row)
{
    if (isnan(row->step) || !(row->steps > 0)) return xstrdup("");
    return xasprintf("%.0f/%.0f", row->step, row->steps);
}

static char *moment_text(int64_t when)
{
    char text[64] = "";
    const time_t t = (time_t)when;
    struct tm local;
    if (when && localtime_r(&t, &local)) strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    return xstrdup(text);
}

// Takes the text.
static void cell(struct table_builder *t, char *text)
{
    table_add(t, "%s", text);
    free(text);
}

// --- /jobs ---------------------------------------------------------------------------------------

static int jobs_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    static const char *const columns[] = { "job",  "kind", "state",   "steps",
                                           "loss", "left", "created", "arguments" };
    static const bool numeric[] = { true, false, false, false, true, false, false, false };
    struct job_row *rows;
    size_t count;
    struct table_builder t;
    if (store_jobs_read(shell->store, &rows, &count, err) < 0) return -1;
    table_begin(&t, "jobs", 8, columns, numeric);
    for (size_t i = 0; i < count; i++) {
        const struct job_row *row = &rows[i];
        table_add(&t, "%" PRId64, row->id);
        table_add(&t, "%s", row->kind);
        table_add(&t, "%s", job_state_name(row->state));
        cell(&t, steps_text(row));
        cell(&t, real_text(row->loss, "%.4f"));
        cell(&t, row->state == STATE_RUNNING ? span_text(row->eta_s) : xstrdup(""));
        cell(&t, moment_text(row->created));
        cell(&t, arguments_text(row));
    }
    table_emit(&t, shell->sinks);
    for (size_t i = 0; i < count; i++) tell(shell, &rows[i], "listed");
    job_rows_free(rows, count);
    return 0;
}

const struct command command_jobs = {
    .name = "jobs",
    .also = "tasks progress queue",
    .usage = "/jobs",
    .help = "Lists jobs with state, step, loss and time left.",
    .details =
        "Jobs run in separate processes: they continue when the shell exits, and every\n"
        "shell with the same database sees them. \"interrupted\" means that a job's process is\n"
        "gone (kill -9, power failure, a truncated file; /job N shows the reason if it is\n"
        "known); /job N resume continues it.",
    .needs = NEEDS_STORE,
    .run = jobs_run,
};

// --- /job ----------------------------------------------------------------------------------------

static void pair(struct table_builder *t, const char *key, char *value)
{
    if (*value) {
        table_add(t, "%s", key);
        table_add(t, "%s", value);
    }
    free(value);
}

static char *settings_changes(const struct settings *s)
{
    struct buf b = { 0 };
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (settings_changed(s, row->key))
            buf_printf(&b, "%s%s=%s", b.length ? " " : "", row->key, settings_text(s, row->key));
    return buf_take(&b);
}

static int show_results(const struct shell *shell, int64_t id, struct table_builder *t,
                        struct err *err)
{
    struct job_result *results;
    size_t count;
    if (store_job_results(shell->store, id, &results, &count, err) < 0) return -1;
    for (size_t i = 0; i < count; i++) pair(t, results[i].key, xstrdup(results[i].value));
    job_results_free(results, count);
    return 0;
}

// The curve of the loss, if there is one.
static int show_loss(const struct shell *shell, int64_t id, struct err *err)
{
    struct curve c;
    if (store_curve(shell->store, id, "loss", &c, err) < 0) return -1;
    if (c.count > 1) {
        struct plot_line line = { .name = "loss", .count = c.count, .y = c.values };
        line.x = xreallocarray(NULL, c.count, sizeof *line.x);
        for (size_t i = 0; i < c.count; i++) line.x[i] = (double)c.steps[i];
        struct buf b = { 0 };
        plot_text(&b, NULL, &line, 1, shell_columns(shell), 12);
        sinks_drawing(shell->sinks, b.data);
        buf_release(&b);
        free(line.x);
    }
    curve_release(&c);
    return 0;
}

// What each rank does, or did last.
static void show_ranks(const struct shell *shell, const struct job_row *row)
{
    static const char *const columns[] = { "rank",    "host",      "state",
                                           "samples", "samples/s", "waited %" };
    static const bool numeric[] = { true, false, false, true, true, true };
    struct job_rank *ranks;
    struct table_builder t;
    const size_t count = store_job_ranks(shell->store, row->id, &ranks);
    table_begin(&t, "ranks", 6, columns, numeric);
    for (size_t k = 0; k < count; k++) {
        const struct job_rank *r = &ranks[k];
        const double seconds = r->seconds > 0 ? r->seconds : 1;
        table_add(&t, "%zu", k);
        table_add(&t, "%s", r->host);
        table_add(&t, "%s",
                  row->state != STATE_RUNNING ? job_state_name(row->state)
                  : r->waiting                ? "waits"
                                              : "works");
        table_add(&t, "%" PRId64, r->done);
        table_add(&t, "%.3g", (double)r->done / seconds);
        table_add(&t, "%.1f", 100 * r->waited / seconds);
    }
    if (count) table_emit(&t, shell->sinks);
    free(ranks);
}

static int show(struct shell *shell, const struct job_row *row, int argc, char **argv,
                struct err *err)
{
    static const char *const columns[] = { "what", "value" };
    static const bool numeric[] = { false, false };
    struct table_builder t;
    table_begin(&t, "job", 2, columns, numeric);
    pair(&t, "job", xasprintf("%" PRId64, row->id));
    pair(&t, "kind", xstrdup(row->kind));
    pair(&t, "state", xstrdup(job_state_name(row->state)));
    pair(&t, "why", xstrdup(row->message));
    pair(&t, "arguments", arguments_text(row));
    pair(&t, "folder", xstrdup(row->folder));
    pair(&t, "model", xstrdup(row->model));
    pair(&t, "settings", settings_changes(row->settings));
    pair(&t, "steps", steps_text(row));
    pair(&t, "loss", real_text(row->loss, "%.5g"));
    pair(&t, "left", row->state == STATE_RUNNING ? span_text(row->eta_s) : xstrdup(""));
    pair(&t, "created", moment_text(row->created));
    pair(&t, "started", moment_text(row->started));
    pair(&t, "ended", moment_text(row->ended));
    pair(&t, "script", xstrdup(row->script));
    pair(&t, "in the queue",
         *row->queue ? xasprintf("Slurm job %s: %s", row->queue, row->queued) : xstrdup(""));
    if (row->pid) pair(&t, "process", xasprintf("%ld", (long)row->pid));
    const int status = show_results(shell, row->id, &t, err);
    table_emit(&t, shell->sinks);
    tell(shell, row, "shown");
    show_ranks(shell, row);
    return status < 0 ? -1 : show_loss(shell, row->id, err);
}

static int show_log(struct shell *shell, const struct job_row *row, int argc, char **argv,
                    struct err *err)
{
    struct buf b = { 0 };
    char *end;
    const long lines = argc ? strtol(argv[0], &end, 10) : 20;
    if (argc && (*end || lines < 1)) return err_set(err, "'%s' is not a number of lines", argv[0]);
    if (store_job_log(shell->store, row->id, lines, &b, err) < 0) return -1;
    sinks_text(shell->sinks, "%s", b.length ? b.data : "the log is empty");
    buf_release(&b);
    return 0;
}

// The process ends once it has handled the request; a job without a process is cancelled at once.
static int ask(struct shell *shell, const struct job_row *row, enum job_stop what, struct err *err)
{
    if (store_job_ask(shell->store, row->id, what, err) < 0) return -1;
    tell_now(shell, row->id, what == JOB_PAUSE ? "asked to pause" : "asked to end");
    if (!job_state_ended(row->state))
        sinks_notice(shell->sinks, "job %" PRId64 " was asked to %s", row->id,
                     what == JOB_PAUSE ? "pause" : "end");
    return 0;
}

static int pause_job(struct shell *shell, const struct job_row *row, int argc, char **argv,
                     struct err *err)
{
    return ask(shell, row, JOB_PAUSE, err);
}

static int cancel_job(struct shell *shell, const struct job_row *row, int argc, char **argv,
                      struct err *err)
{
    return ask(shell, row, JOB_CANCEL, err);
}

// Can its kind run in so many?
static int check_new_ranks(const struct job_row *row, const char *ranks, struct err *err)
{
    const struct job_kind *kind = job_kind_find(row->kind);
    struct settings *s = settings_copy(row->settings);
    int status = settings_set(s, "job.ranks", ranks, err);
    if (status == 0 && kind) status = check_ranks(kind, s, *row->script, err);
    settings_free(s);
    return status;
}

static int resume_job(struct shell *shell, const struct job_row *row, int argc, char **argv,
                      struct err *err)
{
    struct job_where where;
    if (shell_take_where(NULL, &argc, argv, &where, err) < 0) return -1;
    const char *ranks = where.ranks;
    if (argc || where.script || where.submit)
        return err_set(err, "unexpected '%s': /job N resume [--ranks M]",
                       argc ? argv[0] : "--sbatch");
    if (ranks && check_new_ranks(row, ranks, err) < 0) return -1;
    if (store_job_start_ranks(shell->store, row->id, ranks, err) < 0) return -1;
    forget(shell, row->id);
    shell->jobs = xreallocarray(shell->jobs, shell->job_count + 1, sizeof *shell->jobs);
    shell->jobs[shell->job_count++] = row->id;
    tell_now(shell, row->id, "continued");
    sinks_notice(shell->sinks, "job %" PRId64 " continues", row->id);
    return 0;
}

static int submit_job(struct shell *shell, const struct job_row *row, int argc, char **argv,
                      struct err *err)
{
    if (!*row->script)
        return err_set(
            err, "job %" PRId64 " has no script for a queue: start it with --sbatch FILE", row->id);
    return submit(shell, row->id, err);
}

static int delete_job(struct shell *shell, const struct job_row *row, int argc, char **argv,
                      struct err *err)
{
    if (store_job_delete(shell->store, row->id, err) < 0) return -1;
    forget(shell, row->id);
    tell(shell, row, "deleted");
    sinks_notice(shell->sinks, "deleted job %" PRId64, row->id);
    return 0;
}

static const struct action {
    const char *name;
    int max; // arguments after the name
    int (*run)(struct shell *shell, const struct job_row *row, int argc, char **argv,
               struct err *err);
} actions[] = {
    { "show", 0, show },         { "log", 1, show_log },      { "pause", 0, pause_job },
    { "resume", 2, resume_job }, { "cancel", 0, cancel_job }, { "delete", 0, delete_job },
    { "submit", 0, submit_job },
};

static const char *const words[] = { "show",   "log",    "pause",  "resume",
                                     "cancel", "delete", "submit", NULL };

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(actions[i].name, name)) return &actions[i];
    return NULL;
}

static int job_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    int64_t id = 0;
    struct job_row row;
    const char *name = argc > 1 ? argv[1] : "show";
    const struct action *a = find_action(name);
    if (job_named(shell, argv[0], &id, err) < 0) return -1;
    if (!a)
        return err_set(
            err, "/job has no action '%s': use show, log, pause, resume, cancel, delete or submit",
            name);
    if (argc - 2 > a->max)
        return err_set(err, "too many arguments for '/job N %s': /help job", name);
    if (store_job_read(shell->store, id, &row, err) < 0) return -1;
    const int status = a->run(shell, &row, argc > 2 ? argc - 2 : 0, argv + 2, err);
    job_row_release(&row);
    return status;
}

const struct command command_job = {
    .name = "job",
    .also = "cancel pause resume log",
    .usage = "/job N|OUT [show|log [LINES]|pause|resume [--ranks M]|cancel|delete|submit]",
    .help = "Shows a job or its log; pauses, resumes, cancels or deletes it.",
    .details =
        "/job N              kind, state, progress, results and loss\n"
        "/job N log [LINES]  the log (default: its last 20 lines)\n"
        "/job N pause        writes a checkpoint and ends the process\n"
        "/job N resume       continues a paused, interrupted, failed or cancelled job; --ranks M:\n"
        "                    in so many processes (job.ranks)\n"
        "/job N cancel       ends it; the last checkpoint stays\n"
        "/job N delete       deletes the job and its curves; files in OUT stay\n"
        "/job N submit       hands the script of a job that has one (--sbatch) to Slurm. Such a "
        "job\n"
        "                    is followed, paused, resumed and cancelled there like any other\n"
        "In scripts, the output folder OUT (or another path of the job's arguments) can replace\n"
        "N.",
    .min = 1,
    .max = 4,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_JOB,
    .words = words,
    .run = job_run,
};

// --- /wait ---------------------------------------------------------------------------------------

static void report_progress(const struct shell *shell, const struct job_row *row)
{
    if (isnan(row->step)) return;
    const struct event_progress progress = { .job = row->id,
                                             .what = row->kind,
                                             .step = row->step,
                                             .steps = row->steps,
                                             .loss = row->loss,
                                             .eta_s = row->eta_s };
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_PROGRESS, .progress = &progress });
}

static int report_end(struct shell *shell, const struct job_row *row, struct err *err)
{
    char *text = end_text(shell, row, shell->sinks);
    tell(shell, row, "ended");
    forget(shell, row->id);
    if (row->state == STATE_DONE)
        sinks_notice(shell->sinks, "%s", text);
    else
        err_set(err, "%s", text);
    free(text);
    return row->state == STATE_DONE ? 0 : -1;
}

// 1: the user interrupted the wait.
static int wait_for(struct shell *shell, int64_t id, struct err *err)
{
    const struct timespec moment = { .tv_nsec = 100000000 };
    double shown = NAN;
    for (;;) {
        struct job_row row;
        if (store_job_read(shell->store, id, &row, err) < 0) return -1;
        if (row.step != shown) report_progress(shell, &row);
        shown = row.step;
        const bool ended = job_state_ended(row.state);
        const int status = ended ? report_end(shell, &row, err) : 0;
        job_row_release(&row);
        if (ended) return status;
        if (engine_cancelled(shell->engine)) {
            sinks_notice(shell->sinks, "job %" PRId64 " continues in the background", id);
            return 1;
        }
        nanosleep(&moment, NULL); // a signal ends it early
    }
}

// Without a number: the jobs that this shell started and has not heard of yet, else the newest.
static int wait_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    int64_t id;
    int status;
    if (argc) return job_number(argv[0], &id, err) < 0 || wait_for(shell, id, err) < 0 ? -1 : 0;
    if (!shell->job_count) {
        if (store_job_last(shell->store, &id, err) < 0) return -1;
        if (!id) return err_set(err, "no job to wait for");
        return wait_for(shell, id, err) < 0 ? -1 : 0;
    }
    do status = wait_for(shell, shell->jobs[0], err);
    while (status == 0 && shell->job_count);
    return status < 0 ? -1 : 0;
}

const struct command command_wait = {
    .name = "wait",
    .also = "finish join",
    .usage = "/wait [N]",
    .help = "Waits for a job, or without N for all started by this shell; fails if a job failed.",
    .details =
        "Prints the job's outcome: the score of an evaluation with its 95% interval, the loss\n"
        "of a training and the path of its result, or the scores of a sweep.\n"
        "Ctrl-C stops waiting, not the job. The line also fails if a job was paused, cancelled\n"
        "or interrupted.",
    .max = 1,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_JOB,
    .run = wait_run,
};
