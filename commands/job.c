// commands/job.c -- /job: shows a background job, pauses it, goes on with it, ends it.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/job_parts.h"
#include "commands/jobs.h"
#include "core/draw/plot.h"
#include "sessions/job_ranks.h"

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
    struct job_rank *ranks;
    struct table_builder t;
    const size_t count = store_job_ranks(shell->store, row->id, &ranks);
    table_begin(&t, "ranks", "rank#|host|state|samples#|samples/s#|waited %#");
    for (size_t k = 0; k < count; k++) {
        const struct job_rank *r = &ranks[k];
        const double seconds = r->seconds > 0 ? r->seconds : 1;
        table_row(&t, "%zu|%s|%s|%" PRId64 "|%.3g|%.1f", k, r->host,
                  row->state != STATE_RUNNING ? job_state_name(row->state)
                  : r->waiting                ? "waits"
                                              : "works",
                  r->done, (double)r->done / seconds, 100 * r->waited / seconds);
    }
    if (count) table_emit(&t, shell->sinks);
    free(ranks);
}

// The job of argv[0].
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
    table_begin(&t, "job", "what|value");
    pair(&t, "job", xasprintf("%" PRId64, row->id));
    pair(&t, "kind", xstrdup(row->kind));
    pair(&t, "state", xstrdup(job_state_name(row->state)));
    pair(&t, "why", xstrdup(row->message));
    pair(&t, "arguments", job_text_arguments(row));
    pair(&t, "folder", xstrdup(row->folder));
    pair(&t, "model", xstrdup(row->model));
    pair(&t, "settings", settings_changes(row->settings));
    pair(&t, "steps", job_text_steps(row));
    pair(&t, "loss", job_text_real(row->loss, "%.5g"));
    pair(&t, "left", job_text_left(row));
    pair(&t, "created", job_text_moment(row->created));
    pair(&t, "started", job_text_moment(row->started));
    pair(&t, "ended", job_text_moment(row->ended));
    pair(&t, "script", xstrdup(row->script));
    pair(&t, "in the queue",
         *row->queue ? xasprintf("Slurm job %s: %s", row->queue, row->queued) : xstrdup(""));
    if (row->pid) pair(&t, "process", xasprintf("%ld", (long)row->pid));
    int status = show_results(shell, row->id, &t, err);
    table_emit(&t, shell->sinks);
    job_tell(shell, row, "shown");
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

// The process ends once it has handled the request; a job without a process is cancelled at once.
static int ask(struct shell *shell, char **argv, enum job_stop what, struct err *err)
{
    struct job_row row;
    if (read_job(shell, argv, &row, err) < 0) return -1;
    const int status = store_job_ask(shell->store, row.id, what, err);
    if (status == 0)
        job_tell_now(shell, row.id, what == JOB_PAUSE ? "asked to pause" : "asked to end");
    if (status == 0 && !job_state_ended(row.state))
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

// Can its kind run in so many?
static int check_new_ranks(const struct job_row *row, const char *ranks, struct err *err)
{
    const struct job_kind *kind = job_kind_find(row->kind);
    struct settings *s = settings_copy(row->settings);
    int status = settings_set(s, "job.ranks", ranks, err);
    if (status == 0 && kind) status = job_check_ranks(kind, s, *row->script, err);
    settings_free(s);
    return status;
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
    int status = where.ranks ? check_new_ranks(&row, where.ranks, err) : 0;
    job_row_release(&row);
    if (status == 0) status = store_job_start_ranks(shell->store, id, where.ranks, err);
    if (status < 0) return -1;
    job_forget(shell, id);
    job_remember(shell, id);
    job_tell_now(shell, id, "continued");
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
        job_tell(shell, &row, "deleted");
        sinks_notice(shell->sinks, "deleted job %" PRId64, row.id);
    }
    job_row_release(&row);
    return status;
}

static const struct command_action actions[] = {
    { "show", NULL, "kind, state, progress, results and loss; shown if no action is given", 1, 1,
      .run = show },
    { "log", "[LINES]", "the log (default: its last 20 lines)", 1, 2, .run = show_log },
    { "pause", NULL, "writes a checkpoint and ends the process", 1, 1, .run = pause_job },
    { "resume", "[--ranks M]",
      "continues a paused, interrupted, failed or cancelled job; --ranks M: in so many processes "
      "(job.ranks)",
      1, 3, .run = resume_job },
    { "cancel", NULL, "ends it; the last checkpoint stays", 1, 1, .run = cancel_job },
    { "delete", NULL, "deletes the job and its curves; files in OUT stay", 1, 1,
      .run = delete_job },
    { "submit", NULL,
      "hands the script of a job that has one (--sbatch) to Slurm. Such a job is followed, paused, "
      "resumed and cancelled there like any other",
      1, 1, .run = submit_job },
    { 0 },
};

const struct command command_job = {
    .name = "job",
    .also = "cancel pause resume log",
    .usage = "/job N|OUT [show|log [LINES]|pause|resume [--ranks M]|cancel|delete|submit]",
    .help = "Shows a job or its log; pauses, resumes, cancels or deletes it.",
    .details =
        "In scripts, the output folder OUT (or another path of the job's arguments) can replace\n"
        "N.",
    .min = 1,
    .max = 4,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_JOB,
    .actions = actions,
    .action_at = 2,
    .run = show,
};
