// commands/plot.c -- /plot: metrics of jobs as curves; columns of a CSV file are plotted by
// commands/plot_table.c.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/figure.h"
#include "commands/jobs.h"
#include "commands/plot.h"
#include "core/base/csv.h"
#include "core/base/file_out.h"
#include "core/base/names.h"
#include "core/probes/taps.h"
#include "sessions/jobs.h"

struct plot {
    const struct plot_options *o;
    struct named {
        int64_t id;
        char *label; // the job's number, or the last component of a path among its arguments
    } * jobs;
    size_t job_count, label_count;
    const char *series[PLOT_WORDS]; // names or patterns
    size_t series_count;
    struct drawn {
        const char *label;
        char *series;
        struct curve curve;
    } * drawn;
    size_t drawn_count;
};

// --- arguments -----------------------------------------------------------------------------------

static int take_by(void *self, const char *value, struct err *err)
{
    struct plot_options *o = self;
    if (o->by) return err_set(err, "--by is given twice: --by %s,%s means both", o->by, value);
    o->by = value;
    return 0;
}

static int take_log(void *self, const char *value, struct err *err)
{
    struct plot_options *o = self;
    o->log_x = strchr(value, 'x') != NULL;
    o->log_y = strchr(value, 'y') != NULL;
    return value[strspn(value, "xy")] ? err_set(err, "--log must be x, y or xy, not '%s'", value)
                                      : 0;
}

static int take_where(void *self, const char *value, struct err *err)
{
    struct plot_options *o = self;
    if (!strchr(value, '=')) return err_set(err, "--where needs COLUMN=VALUE, not '%s'", value);
    if (o->where_count == PLOT_WORDS) return err_set(err, "too many --where options");
    o->where[o->where_count++] = value;
    return 0;
}

static int take_word(void *self, const char *value, struct err *err)
{
    struct plot_options *o = self;
    if (o->word_count == PLOT_WORDS)
        return err_set(err, "/plot takes at most %d jobs and series", PLOT_WORDS);
    o->words[o->word_count++] = value;
    return 0;
}

#define AT(field) .at = offsetof(struct plot_options, field)
static const struct option_row options[] = {
    { "JOB", NULL, NULL, .take = take_word, .optional = true, .many = true },
    { "--figure", "FILE",
      "writes a PNG, SVG or PDF, by extension; plot.theme, plot.font and plot.scale set its style",
      OPTION_TEXT, AT(figure), .check = figure_check },
    { "--png", "FILE", NULL, OPTION_TEXT, AT(figure), .check = figure_check, .former = true },
    { "--title", "TEXT", "title of the figure", OPTION_TEXT, AT(title) },
    { "--y", "TEXT", "label of the y axis", OPTION_TEXT, AT(y) },
    { "--smooth", "N", "smooths with a moving average over N points", OPTION_INT, AT(smooth), 1,
      1000000 },
    { "--mean", NULL,
      "draws means with 95% intervals (Student's t): for jobs, over the runs of a sweep "
      "(/sweep train.seed 1,2,3); for a CSV file, over a line's rows with equal X",
      OPTION_FLAG, AT(mean) },
    { "--log", "x|y|xy", "draws logarithmic axes", .take = take_log },
    { "--points", NULL, "draws points without lines", OPTION_FLAG, AT(points) },
    { "--csv", "FILE",
      "writes the series of jobs as a table; with --mean, the means and their intervals",
      OPTION_TEXT, AT(csv), .check = file_out_check },
    { "--by", "COLUMN[,COLUMN]",
      "draws a line or bar for each combination of values in these CSV columns", .take = take_by,
      .many = true },
    { "--where", "COLUMN=VALUE[|VALUE]", "only the rows with one of these values; may be repeated",
      .take = take_where, .many = true },
    { "--interval", "LOW,HIGH",
      "columns with the bounds of an interval around each value, such as the 95% intervals of "
      "/eval and /compare",
      OPTION_TEXT, AT(interval) },
    { 0 },
};
#undef AT

// --- the jobs ------------------------------------------------------------------------------------

static void add_job(struct plot *p, int64_t id, const char *label)
{
    p->jobs = xreallocarray(p->jobs, p->job_count + 1, sizeof *p->jobs);
    p->jobs[p->job_count++] = (struct named){ id, xstrdup(label) };
}

// Reads a job number, a folder or file of jobs, or the name of a series.
static int read_word(struct plot *p, struct shell *shell, const char *word, struct err *err)
{
    int64_t id, *ids;
    size_t count;
    if (word[strspn(word, "0123456789")] == 0) {
        if (job_number(word, &id, err) < 0) return -1;
        p->label_count++;
        add_job(p, id, word);
        return 0;
    }
    if (jobs_about(shell, word, &ids, &count, err) < 0) return -1;
    const char *slash = strrchr(word, '/');
    for (size_t i = 0; i < count; i++) add_job(p, ids[i], slash && slash[1] ? slash + 1 : word);
    free(ids);
    p->label_count += count > 0;
    if (!count) p->series[p->series_count++] = word;
    return 0;
}

// --- the curves ----------------------------------------------------------------------------------

// Appends the values of a job that resumed a run. Discards the earlier job's values from the first
// step of the new ones on.
static void continue_curve(struct curve *c, const struct curve *more)
{
    if (!more->count) return;
    while (c->count && c->steps[c->count - 1] >= more->steps[0]) c->count--;
    const size_t both = c->count + more->count;
    c->steps = xreallocarray(c->steps, both, sizeof *c->steps);
    c->values = xreallocarray(c->values, both, sizeof *c->values);
    memcpy(c->steps + c->count, more->steps, more->count * sizeof *c->steps);
    memcpy(c->values + c->count, more->values, more->count * sizeof *c->values);
    c->count = both;
}

// Appends a curve to the curve with the same label and series, or adds it as a new one; takes
// ownership of c.
static void add_curve(struct plot *p, const char *label, const char *series, struct curve *c)
{
    for (size_t i = 0; i < p->drawn_count; i++) {
        struct drawn *d = &p->drawn[i];
        if (strcmp(d->label, label) != 0 || strcmp(d->series, series) != 0) continue;
        continue_curve(&d->curve, c);
        curve_release(c);
        return;
    }
    p->drawn = xreallocarray(p->drawn, p->drawn_count + 1, sizeof *p->drawn);
    p->drawn[p->drawn_count++] = (struct drawn){ label, xstrdup(series), *c };
}

static bool is_named(const struct plot *p, const char *series)
{
    for (size_t i = 0; i < p->series_count; i++)
        if (tap_match(p->series[i], series)) return true;
    return false;
}

// Adds the named series of a job to the curves; with a table, lists all the job's series there
// instead.
static int read_job(const struct shell *shell, struct plot *p, const struct named *job,
                    struct table_builder *t, struct err *err)
{
    struct job_row row;
    struct names names = { 0 };
    if (store_job_read(shell->store, job->id, &row, err) < 0) return -1;
    job_row_release(&row);
    int status = store_series(shell->store, job->id, &names, err);
    for (size_t i = 0; i < names.count && status == 0; i++) {
        const char *name = names.list[i];
        struct curve c;
        if (!t && !is_named(p, name)) continue;
        if ((status = store_curve(shell->store, job->id, name, &c, err)) < 0) break;
        if (!t) {
            add_curve(p, job->label, name, &c);
            continue;
        }
        table_row(t, "%" PRId64 "|%s|%zu|%" PRId64 "|%.6g", job->id, name, c.count,
                  c.count ? c.steps[c.count - 1] : 0, c.count ? c.values[c.count - 1] : NAN);
        curve_release(&c);
    }
    names_release(&names);
    return status;
}

// --- output --------------------------------------------------------------------------------------

static int list_series(const struct shell *shell, struct plot *p, struct err *err)
{
    struct table_builder t;
    int status = 0;
    table_begin(&t, "series", "job#|series|points#|last step#|last#");
    for (size_t i = 0; i < p->job_count && status == 0; i++)
        status = read_job(shell, p, &p->jobs[i], &t, err);
    if (!t.count && status == 0 && p->jobs) {
        const int64_t id = p->jobs[p->job_count - 1].id;
        struct job_row row;
        if (store_job_read(shell->store, id, &row, err) < 0) return -1;
        status =
            err_set(err, "job %" PRId64 " (%s) has recorded no metrics: it is %s%s%s", id, row.kind,
                    job_state_name(row.state), *row.message ? ": " : "", row.message);
        job_row_release(&row);
    }
    if (t.count) table_emit(&t, shell->sinks);
    return status;
}

static int write_csv(const struct plot *p, struct err *err)
{
    FILE *f = file_out_open(p->o->csv, err);
    if (!f) return -1;
    fputs("job,series,step,value\n", f);
    for (size_t i = 0; i < p->drawn_count; i++) {
        const struct drawn *d = &p->drawn[i];
        for (size_t k = 0; k < d->curve.count; k++) {
            if (d->label[strspn(d->label, "0123456789")])
                csv_text(f, d->label, ',');
            else
                fprintf(f, "%s,", d->label);
            csv_text(f, d->series, ',');
            fprintf(f, "%" PRId64 ",", d->curve.steps[k]);
            if (isfinite(d->curve.values[k])) fprintf(f, "%.9g", d->curve.values[k]);
            fputc('\n', f);
        }
    }
    return file_out_close(f, p->o->csv, err);
}

// Rejects an empty plot; reports points that a logarithmic axis omits.
static int check_points(const struct shell *shell, const struct plot_axes *axes,
                        const struct plot_line *lines, size_t count, struct err *err)
{
    size_t lost;
    const size_t shown = plot_count(axes, lines, count, &lost);
    if (!shown && lost)
        return err_set(err, "nothing to draw: a logarithmic axis shows only values above 0, and "
                            "all are 0 or below; plot without --log");
    if (!shown) return err_set(err, "nothing to draw: no point has finite numbers");
    if (lost)
        sinks_notice(shell->sinks,
                     "%zu point%s left out: a logarithmic axis shows only values above 0", lost,
                     lost == 1 ? "" : "s");
    return 0;
}

int plot_show(struct shell *shell, const struct plot_options *o, const struct plot_axes *axes,
              const struct plot_line *lines, size_t count, const char *otherwise, struct err *err)
{
    if (count > PLOT_LINES)
        return err_set(err, "too many lines for one plot: %zu, at most %d; choose fewer, or use %s",
                       count, PLOT_LINES, otherwise);
    if (check_points(shell, axes, lines, count, err) < 0) return -1;
    if (o->figure) {
        const struct figure_look look = figure_look(engine_settings(shell->engine));
        if (plot_figure(o->figure, &look, axes, lines, count, err) < 0) return -1;
        figure_written(shell, "plot", o->figure);
        return 0;
    }
    struct buf b = { 0 };
    plot_text(&b, axes, lines, count, shell_columns(shell), PLOT_HEIGHT);
    sinks_drawing(shell->sinks, b.data);
    buf_release(&b);
    return 0;
}

static bool one_series(const struct plot *p)
{
    for (size_t i = 1; i < p->drawn_count; i++)
        if (strcmp(p->drawn[i].series, p->drawn[0].series) != 0) return false;
    return true;
}

// Folder names suffice if all lines show the same series. With --mean, the curves of all values
// of a sweep ("loss@train.seed=1") get the same name.
static char *line_name(const struct plot *p, const struct drawn *d)
{
    const char *value = p->o->mean ? strrchr(d->series, '@') : NULL;
    const int length = (int)(value ? (size_t)(value - d->series) : strlen(d->series));
    if (p->label_count < 2) return xasprintf("%.*s", length, d->series);
    if (one_series(p) && d->label[strspn(d->label, "0123456789")]) return xstrdup(d->label);
    return xasprintf("%s: %.*s", d->label, length, d->series);
}

// Makes the lines: one for each curve, or, with --mean, the mean of curves that differ only in a
// sweep's value. The caller frees them (lines_free).
static struct plot_line *make_lines(const struct plot *p, size_t *lines_count)
{
    size_t count = 0;
    struct plot_line *lines = xcalloc(p->drawn_count, sizeof *lines);
    for (size_t i = 0; i < p->drawn_count; i++) {
        const struct drawn *d = &p->drawn[i];
        char *name = line_name(p, d);
        size_t at = 0;
        while (at < count && (!p->o->mean || strcmp(lines[at].name, name) != 0)) at++;
        struct plot_line *l = &lines[at];
        if (at == count)
            lines[count++] = (struct plot_line){ .name = name, .points = p->o->points };
        else
            free(name);
        l->x = xreallocarray(l->x, l->count + d->curve.count + 1, sizeof *l->x);
        l->y = xreallocarray(l->y, l->count + d->curve.count + 1, sizeof *l->y);
        for (size_t k = 0; k < d->curve.count; k++, l->count++) {
            l->x[l->count] = (double)d->curve.steps[k];
            l->y[l->count] = d->curve.values[k];
        }
    }
    for (size_t i = 0; i < count && p->o->mean; i++) plot_mean(&lines[i]);
    *lines_count = count;
    return lines;
}

static void lines_free(struct plot_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((char *)lines[i].name);
        free(lines[i].x);
        free(lines[i].y);
        free(lines[i].low);
        free(lines[i].high);
    }
    free(lines);
}

static int draw(struct shell *shell, const struct plot *p, struct err *err)
{
    size_t count;
    struct plot_line *lines = make_lines(p, &count);
    const struct plot_axes axes = { .title = p->o->title,
                                    .x = "step",
                                    .y = p->o->y         ? p->o->y
                                         : one_series(p) ? p->drawn[0].series
                                                         : NULL,
                                    .log_x = p->o->log_x,
                                    .log_y = p->o->log_y };
    const int status =
        plot_show(shell, p->o, &axes, lines, count, "--csv FILE for all of them", err);
    lines_free(lines, count);
    return status;
}

// Writes the means of --mean with the bounds of their intervals.
static int write_means(const struct plot *p, struct err *err)
{
    size_t count;
    struct csv t = { 0 };
    struct plot_line *lines = make_lines(p, &count);
    static const char *const columns[] = { "series", "step", "mean", "low", "high" };
    for (int c = 0; c < 5; c++) csv_need_column(&t, columns[c]);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < lines[i].count; k++) {
            const double of[] = { lines[i].x[k], lines[i].y[k], lines[i].low[k], lines[i].high[k] };
            const size_t row = csv_add_row(&t);
            csv_set(&t, row, 0, lines[i].name);
            for (int c = 0; c < 4; c++) {
                char *text = isfinite(of[c]) ? xasprintf("%.9g", of[c]) : xstrdup("");
                csv_set(&t, row, c + 1, text);
                free(text);
            }
        }
    const int status = csv_write(&t, p->o->csv, err);
    csv_release(&t);
    lines_free(lines, count);
    return status;
}

// Selects the series if none is named: all for a CSV file without a figure, otherwise the loss.
// Fails if no job has recorded a loss.
static int choose_series(const struct shell *shell, struct plot *p, struct err *err)
{
    if (p->o->csv && !p->o->figure) {
        p->series[p->series_count++] = "*";
        return 0;
    }
    for (size_t i = 0; i < p->job_count; i++) {
        struct curve c;
        if (store_curve(shell->store, p->jobs[i].id, "loss", &c, err) < 0) return -1;
        const bool any = c.count > 0;
        curve_release(&c);
        if (!any) continue;
        p->series[p->series_count++] = "loss";
        return 0;
    }
    return err_set(err, "name the series to plot: /plot %s lists them", p->o->words[0]);
}

static int show_curves(struct shell *shell, struct plot *p, struct err *err)
{
    for (size_t i = 0; i < p->job_count; i++)
        if (read_job(shell, p, &p->jobs[i], NULL, err) < 0) return -1;
    if (!p->drawn_count)
        return err_set(err, "no series '%s': /plot %s lists them", p->series[0], p->o->words[0]);
    for (size_t i = 0; i < p->drawn_count && p->o->smooth > 1; i++)
        plot_smooth(p->drawn[i].curve.values, p->drawn[i].curve.count, (size_t)p->o->smooth);
    if (p->o->csv && (p->o->mean ? write_means : write_csv)(p, err) < 0) return -1;
    if (p->o->csv) {
        char *what = xasprintf("%zu series", p->drawn_count);
        sinks_written(shell->sinks, "csv", p->o->csv, what);
        free(what);
    }
    return p->o->csv && !p->o->figure ? 0 : draw(shell, p, err);
}

static int plot_jobs(struct shell *shell, const struct plot_options *o, struct err *err)
{
    struct plot p = { .o = o };
    int status = command_check_needs(shell, NEEDS_STORE, err);
    if (status == 0 && (o->by || o->where_count || o->interval))
        status = err_set(err, "--by, --where and --interval need a CSV file");
    for (size_t i = 0; i < o->word_count && status == 0; i++)
        status = read_word(&p, shell, o->words[i], err);
    if (status == 0 && !p.job_count)
        status =
            err_set(err, "/plot needs a job number (/jobs), a job's output folder, or a CSV file");
    // With an option, draws or writes instead of listing.
    const bool drawn = o->figure || o->csv || o->smooth > 1 || o->title || o->y || o->log_x ||
                       o->log_y || o->points || o->mean;
    if (status == 0 && !p.series_count && drawn) status = choose_series(shell, &p, err);
    if (status == 0)
        status = p.series_count ? show_curves(shell, &p, err) : list_series(shell, &p, err);
    for (size_t i = 0; i < p.drawn_count; i++) {
        free(p.drawn[i].series);
        curve_release(&p.drawn[i].curve);
    }
    for (size_t i = 0; i < p.job_count; i++) free(p.jobs[i].label);
    free(p.drawn);
    free(p.jobs);
    return status;
}

static int plot_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct plot_options o = { 0 };
    if (options_parse(options, &o, argc, argv, err) < 0) return -1;
    const char *first = o.word_count ? o.words[0] : "";
    const size_t n = strlen(first);
    const bool table = n > 4 && !strcmp(first + n - 4, ".csv");
    return table ? plot_table(shell, &o, err) : plot_jobs(shell, &o, err);
}

const struct command command_plot = {
    .name = "plot",
    .also = "graph chart curve figure diagram",
    .usage = "/plot (JOB... [SERIES...] [--csv FILE] | FILE.csv X Y... [--by COLUMN] "
             "[--where COLUMN=VALUE]... [--interval LOW,HIGH]) [--smooth N] [--mean] "
             "[--figure FILE] [--title TEXT] [--y TEXT] [--log x|y|xy] [--points]",
    .help = "Plots job metrics, or columns of a CSV file.",
    .details = "/plot 3               lists the series of job 3\n"
               "/plot 3 --figure loss.png   writes a figure; default series: loss\n"
               "/plot 3 loss lr       plots two series\n"
               "/plot 3 4 loss        compares two jobs\n"
               "/plot runs/ln loss    plots all jobs that name this folder, joined in order\n"
               "/plot 3 norm.*.mean --csv FILE   writes all matching series as a table\n"
               "/plot keep.csv keep score --by method    draws one line per method\n"
               "If column X of a CSV file holds text, draws a bar chart.",
    .options = options,
    .writes = true,
    .min = 1,
    .complete = COMPLETE_JOB,
    .run = plot_run,
};
