// commands/job.c -- /jobs lists the background jobs; /job shows one or its log, pauses, resumes,
// cancels, deletes or submits it; /wait waits until jobs end.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands/jobs.h"
#include "commands/parse.h"
#include "core/base/pace.h"
#include "core/draw/plot.h"
#include "sessions/job_queue.h"
#include "sessions/job_ranks.h"

// The following functions return the text of a table cell, "" if unknown; the caller frees it.
static char *text_real(double value, const char *format)
{
    if (isnan(value)) return xstrdup("");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return xasprintf(format, value);
#pragma GCC diagnostic pop
}

static char *text_left(const struct job_row *row)
{
    char text[PACE_TEXT];
    return xstrdup(row->state == STATE_RUNNING ? pace_text(text, row->eta_s) : "");
}

static char *text_steps(const struct job_row *row)
{
    if (isnan(row->step) || !(row->steps > 0)) return xstrdup("");
    return xasprintf("%.0f/%.0f", row->step, row->steps);
}

static char *text_moment(int64_t when)
{
    char text[64] = "";
    const time_t t = (time_t)when;
    struct tm local;
    if (when && localtime_r(&t, &local)) strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    return xstrdup(text);
}

// Returns the description of a finished job's outcome by its kind; NULL: none. The caller frees the
// text. With sinks, also shows the job's tables.
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

char *job_text_end(const struct shell *shell, const struct job_row *row, struct sinks *sinks)
{
    const bool resumable = row->state == STATE_PAUSED || row->state == STATE_INTERRUPTED;
    if (row->state == STATE_FAILED)
        return xasprintf("job %" PRId64 " (%s) failed: %s", row->id, row->kind, row->message);
    if (resumable)
        return xasprintf("job %" PRId64 " (%s) is %s%s%s (/job %" PRId64 " resume continues it)",
                         row->id, row->kind, job_state_name(row->state), *row->message ? ": " : "",
                         row->message, row->id);
    char *result = row->state == STATE_DONE ? outcome(shell, row, sinks) : NULL;
    char *text = xasprintf("job %" PRId64 " (%s) is %s%s%s", row->id, row->kind,
                           job_state_name(row->state), result ? ": " : "", result ? result : "");
    free(result);
    return text;
}

// --- /jobs ---------------------------------------------------------------------------------------

static int jobs_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct job_row *rows;
    size_t count;
    struct table_builder t;
    if (store_jobs_read(shell->store, &rows, &count, err) < 0) return -1;
    table_begin(&t, "jobs", "job#|kind|state|steps|loss#|left|created|arguments");
    for (size_t i = 0; i < count; i++) {
        const struct job_row *row = &rows[i];
        table_row(&t, "%" PRId64 "|%s|%s", row->id, row->kind, job_state_name(row->state));
        table_take(&t, text_steps(row));
        table_take(&t, text_real(row->loss, "%.4f"));
        table_take(&t, text_left(row));
        table_take(&t, text_moment(row->created));
        table_take(&t, words_join(row->argc, row->argv));
    }
    table_emit(&t, shell->sinks);
    for (size_t i = 0; i < count; i++) job_emit(shell, &rows[i], "listed");
    job_rows_free(rows, count);
    return 0;
}

const struct command command_jobs = {
    .name = "jobs",
    .also = "tasks progress queue",
    .usage = "/jobs",
    .help = "Lists jobs with state, step, loss and time left.",
    .details =
        "Jobs run in separate processes: they continue when the shell exits, and every "
        "shell with the same database sees them. \"interrupted\" means that a job's process is "
        "gone (kill -9, power failure, a model file truncated while in use; /job N shows the "
        "reason if it is "
        "known); /job N resume continues it.",
    .needs = NEEDS_STORE,
    .run = jobs_run,
};

// --- /job ----------------------------------------------------------------------------------------

static void pair(struct table_builder *t, const char *key, char *value)
{
    if (*value) {
        table_row(t, "%s|%s", key, value);
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

// Draws the loss, if more than one value was recorded.
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

// Shows the current or last state of each rank.
static void show_ranks(const struct shell *shell, const struct job_row *row)
{
    struct job_rank *ranks;
    struct table_builder t;
    const size_t count = store_job_ranks(shell->store, row->id, &ranks);
    table_begin(&t, "ranks", "rank#|host|state|samples#|samples/s#|waited %#");
    for (size_t k = 0; k < count; k++) {
        const struct job_rank *r = &ranks[k];
        const double seconds = r->seconds > 0 ? r->seconds : 1;
        table_row(&t, "%zu|%s|%s|%" PRId64 "|%.3g|%.1f", k, r->host,
                  row->state != STATE_RUNNING ? job_state_name(row->state)
                  : r->waiting                ? "waiting"
                                              : "running",
                  r->done, (double)r->done / seconds, 100 * r->waited / seconds);
    }
    if (count) table_emit(&t, shell->sinks);
    free(ranks);
}

// Reads the job that argv[0] names.
static int read_job(const struct shell *shell, char **argv, struct job_row *row, struct err *err)
{
    int64_t id;
    return job_named(shell, argv[0], &id, err) < 0 ? -1
                                                   : store_job_read(shell->store, id, row, err);
}

static int show(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct job_row job, *row = &job;
    if (read_job(shell, argv, row, err) < 0) return -1;
    struct table_builder t;
    table_begin(&t, "job", "field|value");
    pair(&t, "job", xasprintf("%" PRId64, row->id));
    pair(&t, "kind", xstrdup(row->kind));
    pair(&t, "state", xstrdup(job_state_name(row->state)));
    pair(&t, "why", xstrdup(row->message));
    pair(&t, "arguments", words_join(row->argc, row->argv));
    pair(&t, "folder", xstrdup(row->folder));
    pair(&t, "model", xstrdup(row->model));
    pair(&t, "settings", settings_changes(row->settings));
    pair(&t, "steps", text_steps(row));
    pair(&t, "loss", text_real(row->loss, "%.5g"));
    pair(&t, "left", text_left(row));
    pair(&t, "created", text_moment(row->created));
    pair(&t, "started", text_moment(row->started));
    pair(&t, "ended", text_moment(row->ended));
    pair(&t, "script", xstrdup(row->script));
    pair(&t, "in the queue",
         *row->queue ? xasprintf("Slurm job %s: %s", row->queue, row->queued) : xstrdup(""));
    if (row->pid) pair(&t, "process", xasprintf("%ld", (long)row->pid));
    struct job_result *results;
    size_t count;
    int status = store_job_results(shell->store, row->id, &results, &count, err);
    for (size_t i = 0; status == 0 && i < count; i++)
        pair(&t, results[i].key, xstrdup(results[i].value));
    if (status == 0) job_results_free(results, count);
    table_emit(&t, shell->sinks);
    job_emit(shell, row, "shown");
    show_ranks(shell, row);
    if (status == 0) status = show_loss(shell, row->id, err);
    job_row_release(row);
    return status;
}

static int show_log(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct buf b = { 0 };
    struct job_row row;
    int64_t lines = 20;
    if (argc > 1 && option_integer(argv[1], 1, INT32_MAX, &lines, "LINES", err) < 0) return -1;
    if (read_job(shell, argv, &row, err) < 0) return -1;
    const int status = store_job_log(shell->store, row.id, lines, &b, err);
    if (status == 0) sinks_text(shell->sinks, "%s", b.length ? b.data : "the log is empty");
    buf_release(&b);
    job_row_release(&row);
    return status;
}

// Requests that a job pause or end. The job's process exits once it has handled the request. If the
// job has no process, a request to end cancels it at once.
static int ask(struct shell *shell, char **argv, enum job_stop what, struct err *err)
{
    struct job_row row;
    if (read_job(shell, argv, &row, err) < 0) return -1;
    const int status = store_job_ask(shell->store, row.id, what, err);
    if (status == 0)
        job_emit_now(shell, row.id, what == JOB_PAUSE ? "asked to pause" : "asked to end");
    if (status == 0 && job_state_ended(row.state))
        sinks_notice(shell->sinks, "job %" PRId64 " is cancelled", row.id);
    else if (status == 0)
        sinks_notice(shell->sinks, "job %" PRId64 " was asked to %s", row.id,
                     what == JOB_PAUSE ? "pause" : "end");
    job_row_release(&row);
    return status;
}

static int pause_job(struct shell *shell, int argc, char **argv, struct err *err)
{
    return ask(shell, argv, JOB_PAUSE, err);
}

static int cancel_job(struct shell *shell, int argc, char **argv, struct err *err)
{
    return ask(shell, argv, JOB_CANCEL, err);
}

static int resume_job(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct job_where where;
    struct job_row row;
    if (shell_take_where(NULL, &argc, argv, &where, err) < 0) return -1;
    if (argc > 1 || where.script || where.submit)
        return err_set(err, "unexpected '%s': /job N resume [--ranks M]",
                       argc > 1 ? argv[1] : "--sbatch");
    if (read_job(shell, argv, &row, err) < 0) return -1;
    const int64_t id = row.id;
    int status = 0;
    if (where.ranks) { // checks that the job's kind can run in that many processes
        const struct job_kind *kind = job_kind_find(row.kind);
        struct settings *s = settings_copy(row.settings);
        status = settings_set(s, "job.ranks", where.ranks, err);
        if (status == 0 && kind) status = job_check_ranks(kind, s, *row.script, err);
        settings_free(s);
        if (status == 0 && *row.script && job_script_edited(row.script))
            status = err_set(err,
                             "'%s' has changed since vlmsh wrote it, so --ranks cannot replace its "
                             "--ntasks: remove the file, and vlmsh writes it again",
                             row.script);
    }
    job_row_release(&row);
    if (status == 0) status = store_job_start(shell->store, id, where.ranks, err);
    if (status < 0) return -1;
    job_forget(shell, id);
    job_remember(shell, id);
    job_emit_now(shell, id, "continued");
    sinks_notice(shell->sinks, "job %" PRId64 " continues", id);
    return 0;
}

static int submit_job(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct job_row row;
    if (read_job(shell, argv, &row, err) < 0) return -1;
    const int status =
        *row.script
            ? job_submit(shell, row.id, err)
            : err_set(err, "job %" PRId64 " has no script for a queue: start it with --sbatch FILE",
                      row.id);
    job_row_release(&row);
    return status;
}

static int delete_job(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct job_row row;
    if (read_job(shell, argv, &row, err) < 0) return -1;
    const int status = store_job_delete(shell->store, row.id, err);
    if (status == 0) {
        job_forget(shell, row.id);
        job_emit(shell, &row, "deleted");
        sinks_notice(shell->sinks, "deleted job %" PRId64, row.id);
    }
    job_row_release(&row);
    return status;
}

static const struct command_action actions[] = {
    { "show", NULL, "shows kind, state, progress, results and loss; the default action", 1, 1,
      .run = show },
    { "log", "[LINES]", "shows the log (default: its last 20 lines)", 1, 2, .run = show_log },
    { "pause", NULL, "saves the state of the job and ends its process", 1, 1, .run = pause_job },
    { "resume", "[--ranks M]",
      "continues a paused, interrupted, failed or cancelled job; --ranks M: in M processes "
      "(job.ranks)",
      1, 3, .run = resume_job },
    { "cancel", NULL, "ends the job; its last checkpoint stays", 1, 1, .run = cancel_job },
    { "delete", NULL, "deletes the job and its curves; files in OUT stay", 1, 1,
      .run = delete_job },
    { "submit", NULL,
      "submits the job's script (--sbatch) to Slurm; afterwards /job treats it like other jobs", 1,
      1, .run = submit_job },
    { 0 },
};

const struct command command_job = {
    .name = "job",
    .also = "cancel pause resume log",
    .usage = "/job N|OUT [show|log [LINES]|pause|resume [--ranks M]|cancel|delete|submit]",
    .help = "Shows a job or its log; pauses, resumes, cancels, deletes or submits it.",
    .details = "Scripts can name a job by its output folder OUT, or by another path among its "
               "arguments, instead of its number N.",
    .min = 1,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_JOB,
    .actions = actions,
    .action_at = 2,
    .run = show,
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
    char *text = job_text_end(shell, row, shell->sinks);
    job_emit(shell, row, "ended");
    job_forget(shell, row->id);
    if (row->state == STATE_DONE)
        sinks_notice(shell->sinks, "%s", text);
    else
        err_set(err, "%s", text);
    free(text);
    return row->state == STATE_DONE ? 0 : -1;
}

// Waits until the job ends. Returns 0 if the job is done, 1 if the user stopped the wait, else -1.
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
        nanosleep(&moment, NULL); // a signal ends the sleep early
    }
}

// Without a number, waits for the jobs of this shell whose end has not been reported yet, one after
// the other, and stops at the first that fails; if this shell has none, waits for the newest job.
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
    .help = "Waits for job N, or for the jobs that this shell started; fails if one failed.",
    .details =
        "Prints the job's outcome: the score of an evaluation with its 95% interval, the loss of "
        "a training run and the path of its result, or the scores of a sweep. Without N, waits for "
        "one job after the other, in the order in which they were started, and stops at the first "
        "that fails; if this shell has none, waits for the newest job. Ctrl-C stops waiting, not "
        "the job. /wait also fails if a job was paused, cancelled or interrupted.",
    .max = 1,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_JOB,
    .run = wait_run,
};
