// commands/plot.c -- /plot: what jobs told, step by step, as curves.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/jobs.h"
#include "core/file_out.h"
#include "core/plot.h"
#include "core/probes/taps.h"
#include "sessions/jobs.h"

enum { JOBS_MAX = 16, WORDS_MAX = 32, HEIGHT = 18 };

struct plot {
    int64_t jobs[JOBS_MAX];
    const char *series[WORDS_MAX]; // names or patterns
    size_t job_count, series_count;
    const char *csv, *png;
    size_t smooth;
    struct drawn {
        int64_t job;
        char *series;
        struct curve curve;
    } * drawn;
    size_t drawn_count;
};

// --- arguments -----------------------------------------------------------------------------------

static int read_option(struct plot *p, const char *word, const char *value, struct err *err)
{
    if (strcmp(word, "--csv") != 0 && strcmp(word, "--png") != 0 && strcmp(word, "--smooth") != 0)
        return err_set(err, "'%s' is no option of /plot: --csv, --png, --smooth", word);
    if (!value) return err_set(err, "'%s' needs a value (see /help plot)", word);
    if (!strcmp(word, "--csv")) {
        p->csv = value;
    } else if (!strcmp(word, "--png")) {
        p->png = value;
    } else {
        char *end;
        const long long window = strtoll(value, &end, 10);
        if (end == value || *end || window < 1 || window > 1000000)
            return err_set(err, "--smooth takes a number of steps, not '%s'", value);
        p->smooth = (size_t)window;
    }
    return 0;
}

static int read_word(struct plot *p, const char *word, struct err *err)
{
    const bool number = word[strspn(word, "0123456789")] == 0;
    if (number && p->job_count == JOBS_MAX)
        return err_set(err, "/plot takes at most %d jobs", JOBS_MAX);
    if (number) return job_number(word, &p->jobs[p->job_count++], err);
    if (p->series_count == WORDS_MAX)
        return err_set(err, "/plot takes at most %d series", WORDS_MAX);
    p->series[p->series_count++] = word;
    return 0;
}

static int read_arguments(struct plot *p, int argc, char **argv, struct err *err)
{
    for (int i = 0; i < argc; i++) {
        const bool option = !strncmp(argv[i], "--", 2);
        if (option ? read_option(p, argv[i], i + 1 < argc ? argv[i + 1] : NULL, err) < 0
                   : read_word(p, argv[i], err) < 0)
            return -1;
        i += option;
    }
    return p->job_count ? 0 : err_set(err, "/plot needs the number of a job (/jobs lists them)");
}

// --- the curves ----------------------------------------------------------------------------------

static bool wanted(const struct plot *p, const char *name)
{
    for (size_t i = 0; i < p->series_count; i++)
        if (tap_match(p->series[i], name)) return true;
    return false;
}

static int add_curve(struct plot *p, struct store *s, int64_t job, const char *name,
                     struct err *err)
{
    p->drawn = xreallocarray(p->drawn, p->drawn_count + 1, sizeof *p->drawn);
    struct drawn *d = &p->drawn[p->drawn_count];
    *d = (struct drawn){ .job = job };
    if (store_curve(s, job, name, &d->curve, err) < 0) return -1;
    if (p->smooth > 1) plot_smooth(d->curve.values, d->curve.count, p->smooth);
    d->series = xstrdup(name);
    p->drawn_count++;
    return 0;
}

static int add_job(struct plot *p, struct store *s, int64_t job, struct err *err)
{
    struct job_row row;
    char **names;
    size_t count;
    int status = 0;
    if (store_job_read(s, job, &row, err) < 0) return -1;
    job_row_release(&row);
    if (store_series(s, job, &names, &count, err) < 0) return -1;
    for (size_t i = 0; i < count && status == 0; i++)
        if (wanted(p, names[i])) status = add_curve(p, s, job, names[i], err);
    series_free(names, count);
    return status;
}

static void plot_release(struct plot *p)
{
    for (size_t i = 0; i < p->drawn_count; i++) {
        free(p->drawn[i].series);
        curve_release(&p->drawn[i].curve);
    }
    free(p->drawn);
}

// --- what comes out ------------------------------------------------------------------------------

static int list_job(const struct shell *shell, int64_t job, struct table_builder *t,
                    struct err *err)
{
    struct job_row row;
    char **names;
    size_t count;
    if (store_job_read(shell->store, job, &row, err) < 0) return -1;
    job_row_release(&row);
    int status = store_series(shell->store, job, &names, &count, err);
    for (size_t i = 0; i < count && status == 0; i++) {
        struct curve c;
        status = store_curve(shell->store, job, names[i], &c, err);
        if (status < 0) break;
        table_add(t, "%" PRId64, job);
        table_add(t, "%s", names[i]);
        table_add(t, "%zu", c.count);
        table_add(t, "%" PRId64, c.count ? c.steps[c.count - 1] : 0);
        table_add(t, "%.6g", c.count ? c.values[c.count - 1] : NAN);
        curve_release(&c);
    }
    if (status == 0) series_free(names, count);
    return status;
}

static int list_series(const struct shell *shell, const struct plot *p, struct err *err)
{
    static const char *const columns[] = { "job", "series", "points", "last step", "last" };
    static const bool numeric[] = { true, false, true, true, true };
    struct table_builder t;
    int status = 0;
    table_begin(&t, "series", 5, columns, numeric);
    for (size_t i = 0; i < p->job_count && status == 0; i++)
        status = list_job(shell, p->jobs[i], &t, err);
    table_emit(&t, shell->sinks);
    return status;
}

static int write_csv(const struct plot *p, struct err *err)
{
    FILE *f = file_out_open(p->csv, err);
    if (!f) return -1;
    fputs("job,series,step,value\n", f);
    for (size_t i = 0; i < p->drawn_count; i++) {
        const struct drawn *d = &p->drawn[i];
        for (size_t k = 0; k < d->curve.count; k++) {
            fprintf(f, "%" PRId64 ",\"%s\",%" PRId64 ",", d->job, d->series, d->curve.steps[k]);
            if (isfinite(d->curve.values[k])) fprintf(f, "%.9g", d->curve.values[k]);
            fputc('\n', f);
        }
    }
    return file_out_close(f, p->csv, err);
}

static int draw(const struct shell *shell, const struct plot *p, struct err *err)
{
    struct plot_line lines[PLOT_LINES] = { 0 };
    int status = 0;
    for (size_t i = 0; i < p->drawn_count; i++) {
        const struct drawn *d = &p->drawn[i];
        struct plot_line *l = &lines[i];
        l->name =
            p->job_count > 1 ? xasprintf("%" PRId64 ": %s", d->job, d->series) : xstrdup(d->series);
        l->count = d->curve.count;
        l->x = xreallocarray(NULL, l->count + 1, sizeof *l->x);
        l->y = d->curve.values;
        for (size_t k = 0; k < l->count; k++) l->x[k] = (double)d->curve.steps[k];
    }
    if (p->png) {
        status = plot_png(p->png, lines, p->drawn_count, err);
    } else {
        struct buf b = { 0 };
        plot_text(&b, lines, p->drawn_count, 0, HEIGHT);
        sinks_text(shell->sinks, "%s", b.data);
        buf_release(&b);
    }
    for (size_t i = 0; i < p->drawn_count; i++) {
        free((char *)lines[i].name);
        free(lines[i].x);
    }
    return status;
}

static int show_curves(const struct shell *shell, struct plot *p, struct err *err)
{
    for (size_t i = 0; i < p->job_count; i++)
        if (add_job(p, shell->store, p->jobs[i], err) < 0) return -1;
    if (!p->drawn_count)
        return err_set(err, "no series is called '%s' there: /plot %" PRId64 " lists what there is",
                       p->series[0], p->jobs[0]);
    if (p->csv && write_csv(p, err) < 0) return -1;
    if (p->csv) sinks_notice(shell->sinks, "%zu series written to '%s'", p->drawn_count, p->csv);
    if (p->csv && !p->png) return 0;
    if (p->drawn_count > PLOT_LINES)
        return err_set(err,
                       "%zu series are too many for one drawing (at most %d): name fewer, or "
                       "write them all with --csv FILE",
                       p->drawn_count, PLOT_LINES);
    if (draw(shell, p, err) < 0) return -1;
    if (p->png) sinks_notice(shell->sinks, "drawn to '%s'", p->png);
    return 0;
}

static int plot_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct plot p = { 0 };
    int status = read_arguments(&p, argc, argv, err);
    if (status == 0)
        status = p.series_count ? show_curves(shell, &p, err) : list_series(shell, &p, err);
    plot_release(&p);
    return status;
}

const struct command command_plot = {
    .name = "plot",
    .usage = "/plot JOB... [SERIES...] [--smooth N] [--csv FILE] [--png FILE]",
    .help = "Draws what jobs told step by step: loss, learning rate, norms of gradients.",
    .details = "/plot 3               which series job 3 has\n"
               "/plot 3 loss lr       two of them\n"
               "/plot 3 4 loss        the same of two jobs\n"
               "/plot 3 norm.*.mean --csv FILE   all that match, as a table\n"
               "--smooth N takes means over N steps; --png FILE draws a picture instead.",
    .min = 1,
    .max = -1,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_JOB,
    .run = plot_run,
};
