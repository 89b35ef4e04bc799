// commands/figure.c -- figures of measurements: maps, and tables as curves, bars or points.
#include "commands/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/names.h"
#include "core/base/text.h"
#include "core/draw/heatmap.h"
#include "core/draw/plot.h"

void figure_check_font(const struct shell *shell)
{
    static bool noticed;
    static char *asked; // the last font looked up
    const char *font = settings_text(engine_settings(shell->engine), "plot.font");
    if (!figure_has_fonts()) {
        if (!noticed)
            sinks_notice(shell->sinks,
                         "this machine has no fonts: letters of PNG and PDF figures are plain "
                         "strokes (Debian, Ubuntu: apt-get install fonts-dejavu-core)");
        noticed = true;
        return;
    }
    if (asked && !strcmp(asked, font)) return;
    free(asked);
    asked = xstrdup(font);
    char *instead = figure_font_instead(font);
    if (instead)
        sinks_notice(shell->sinks,
                     "no font named '%s' is installed: figures use '%s'; plot.font takes %s", font,
                     instead,
                     strchr(font, '/') ? "a name, not a file (fc-list : family shows them)"
                                       : "a name that fc-list : family shows");
    free(instead);
}

void figure_written(const struct shell *shell, const char *what, const char *path)
{
    sinks_written(shell->sinks, "figure", path, what);
    figure_check_font(shell);
}

// --- a table as curves or bars -------------------------------------------------------------------

// Returns the column with the deviations of a column: "X std" after "X", "std" after "mean"; 0:
// none.
static int deviation_of(const struct result_table *t, int column)
{
    if (column + 1 >= t->column_count) return 0;
    const char *next = t->columns[column + 1];
    const size_t n = strlen(t->columns[column]);
    const bool plain = !strcmp(t->columns[column], "mean") && !strcmp(next, "std");
    const bool named = !strncmp(next, t->columns[column], n) && !strcmp(next + n, " std");
    return plain || named ? column + 1 : 0;
}

static void line_free(struct plot_line *l)
{
    free((char *)(uintptr_t)l->name);
    free(l->x); // holds low and high too
}

// Returns the row with the condition and key of `of`, usually at `index`.
static const struct result_row *find_row(const struct result_table *t, const struct result_row *of,
                                         size_t index)
{
    for (size_t n = 0; n < t->row_count; n++) {
        const struct result_row *row = &t->rows[(index + n) % t->row_count];
        if (row->condition == of->condition && !strcmp(row->key, of->key)) return row;
    }
    return NULL;
}

// Names a line by its column, and by its condition if there are several: "off: visual".
static char *line_name(const struct results *r, int condition, const char *column)
{
    return r->condition_count
               ? xasprintf("%s%s%s", r->conditions[condition], *column ? ": " : "", column)
               : xstrdup(column);
}

static bool is_bars(const struct result_table *t)
{
    const struct result_kind *k = result_kind(t->name);
    return k && k->bars && !strcmp(k->name, t->name);
}

// Numbers the keys of a table that is drawn as bars; empty for curves.
static struct names bar_names(const struct result_table *t)
{
    struct names names = { 0 };
    for (size_t i = 0; i < t->row_count && is_bars(t); i++) names_add(&names, t->rows[i].key, NULL);
    return names;
}

// Returns a column of one condition as a line. `intervals`: the intervals of means over a data set,
// drawn instead of the deviations over tokens; NULL: none.
static struct plot_line line_of(const struct result_table *t, const struct result_table *intervals,
                                const struct names *names, int column, int condition)
{
    const size_t n = t->row_count;
    const int deviation = intervals ? 0 : deviation_of(t, column);
    struct plot_line l = { 0 };
    l.x = xreallocarray(NULL, 4 * n + 1, sizeof *l.x);
    l.y = l.x + n;
    if (deviation || intervals) l.low = l.x + 2 * n, l.high = l.x + 3 * n;
    for (size_t i = 0; i < n; i++) {
        const struct result_row *row = &t->rows[i];
        const size_t at = l.count;
        size_t bar;
        if (row->condition != condition) continue;
        l.x[at] = names_find(names, row->key, &bar) ? (double)bar : strtod(row->key, NULL);
        l.y[at] = row->value[column - 1];
        l.count++;
        if (intervals) {
            const struct result_row *bounds = find_row(intervals, row, i);
            l.low[at] = bounds ? bounds->value[2 * (column - 1)] : NAN;
            l.high[at] = bounds ? bounds->value[2 * (column - 1) + 1] : NAN;
        }
        if (!deviation) continue;
        const double std = row->value[deviation - 1];
        l.low[at] = l.y[at] - std;
        l.high[at] = l.y[at] + std;
    }
    return l;
}

static bool is_drawn(const struct result_table *t, int column)
{
    // Skips deviations, token numbers and columns with a different unit.
    return !text_ends(t->columns[column], " std") && !text_ends(t->columns[column], "at token") &&
           results_same_unit(t, column);
}

// Draws columns of a table as curves over its keys, or as bars at them, for each column and
// condition. `only`: the only column; 0: all.
static int draw_columns(const char *path, const struct figure_look *look, const struct results *r,
                        const struct result_table *t, int only, struct err *err)
{
    char *of = xasprintf("%s%s", t->name, RESULTS_INTERVAL);
    const struct result_table *intervals = results_find(r, of);
    free(of);
    struct names names = bar_names(t);
    struct plot_line lines[PLOT_LINES];
    size_t count = 0, columns = 0;
    const int conditions = r->condition_count ? (int)r->condition_count : 1;
    bool deviations = false;
    const char *first = NULL;
    for (int c = 1; c < t->column_count; c++) columns += is_drawn(t, c) && (!only || c == only);
    for (int c = 1; c < t->column_count; c++)
        for (int k = 0; k < conditions; k++) {
            if (!is_drawn(t, c) || (only && c != only) || count == PLOT_LINES) continue;
            struct plot_line line = line_of(t, intervals, &names, c, k);
            first = first ? first : t->columns[c];
            line.name = line_name(r, k, r->condition_count && columns == 1 ? "" : t->columns[c]);
            deviations |= line.low != NULL;
            if (line.count)
                lines[count++] = line;
            else
                line_free(&line);
        }
    const char *unit = results_unit(t->name);
    if (!unit && columns == 1) unit = first;
    const char *marks = !deviations ? "" : intervals ? ", mean, 95%" : ", mean \xC2\xB1 std";
    const char *of_what = text_ends(t->name, RESULTS_DIFFERENCE) ? "difference, " : "";
    char *y = unit ? xasprintf("%s%s%s", of_what, unit, marks) : NULL;
    char *title = only ? xasprintf("%s: %s", t->name, first) : xstrdup(t->name);
    const struct plot_axes axes = { .title = title,
                                    .x = t->columns[0],
                                    .y = y,
                                    .names = (const char *const *)names.list,
                                    .name_count = names.count,
                                    .log_y = t->log_y };
    const int status = plot_figure(path, look, &axes, lines, count, err);
    for (size_t i = 0; i < count; i++) line_free(&lines[i]);
    names_release(&names);
    free(y);
    free(title);
    return status;
}

// --- a table as points ---------------------------------------------------------------------------

enum { POINTS_ALL, POINTS_TEXT, POINTS_VISUAL };

// Returns points of column 2 against column 1 of a condition: all rows, or only those with (visual)
// or without (text) a number in the column `picture`.
static struct plot_line points_of(const struct result_table *t, int condition, int picture,
                                  int which)
{
    struct plot_line l = { .points = true };
    l.x = xreallocarray(NULL, 2 * t->row_count + 1, sizeof *l.x);
    l.y = l.x + t->row_count;
    for (size_t i = 0; i < t->row_count; i++) {
        const double *v = t->rows[i].value;
        if (t->rows[i].condition != condition || !isfinite(v[0]) || !isfinite(v[1])) continue;
        if (which && isnan(v[picture - 1]) != (which == POINTS_TEXT)) continue;
        l.x[l.count] = v[0];
        l.y[l.count++] = v[1];
    }
    return l;
}

static char *points_label(const struct result_table *t, int column)
{
    const char *unit = results_column_unit(t, column);
    return unit ? xasprintf("%s (%s)", t->columns[column], unit) : xstrdup(t->columns[column]);
}

// Returns whether at least two rows have numbers in both columns. Samples without reference
// answers, for example, have no score.
static bool has_points(const struct result_table *t)
{
    size_t count = 0;
    for (size_t i = 0; i < t->row_count; i++)
        count += isfinite(t->rows[i].value[0]) && isfinite(t->rows[i].value[1]);
    return count > 1;
}

// Returns the column `picture`, in which only visual tokens have a number; 0: none.
static int picture_column(const struct result_table *t)
{
    int c = t->column_count - 1;
    while (c > 2 && strcmp(t->columns[c], "picture") != 0) c--;
    return c > 2 ? c : 0;
}

// Draws column 2 against column 1. Each condition is a series of its own; if the table has a column
// `picture`, so are text and visual tokens.
static int draw_points(const char *path, const struct figure_look *look, const struct results *r,
                       const struct result_table *t, struct err *err)
{
    static const char *const names[] = { "", "text tokens", "visual tokens" };
    struct plot_line lines[PLOT_LINES];
    size_t count = 0;
    const int picture = picture_column(t);
    const bool kinds = picture > 0;
    for (int c = 0; c < (r->condition_count ? (int)r->condition_count : 1); c++)
        for (int k = kinds ? POINTS_VISUAL : POINTS_ALL; k >= (kinds ? POINTS_TEXT : POINTS_ALL);
             k--) {
            if (count == PLOT_LINES) continue;
            struct plot_line line = points_of(t, c, picture, k);
            line.name = line_name(r, c, *names[k] || r->condition_count ? names[k] : t->columns[2]);
            if (line.count)
                lines[count++] = line;
            else
                line_free(&line);
        }
    char *title = xasprintf("%s: %s over %s", t->name, t->columns[2], t->columns[1]);
    char *x = points_label(t, 1), *y = points_label(t, 2);
    const struct plot_axes axes = { .title = title, .x = x, .y = y, .log_y = t->log_y };
    const int status = plot_figure(path, look, &axes, lines, count, err);
    for (size_t i = 0; i < count; i++) line_free(&lines[i]);
    free(title);
    free(x);
    free(y);
    return status;
}

// --- several figures -----------------------------------------------------------------------------

// Returns the path of a figure: for the first, `path` ("x.png"); for others, results_path with the
// table's name ("x-TABLE.png"), or "x-curves.png" if that gives `path` itself.
static char *path_of(const char *path, const char *table, bool first)
{
    if (first) return xstrdup(path);
    const char *dot = strrchr(path, '.');
    const char *ending = dot && !strchr(dot, '/') ? dot : "";
    char *whole = results_path(path, ending, table, 1);
    if (strcmp(whole, path) != 0) return whole;
    free(whole);
    return xasprintf("%.*s-curves%s", (int)(strlen(path) - strlen(ending)), path, ending);
}

// Draws a table. `column`: the only column of curves; 0: all.
static int draw_table(const struct shell *shell, const char *path, const struct results *r,
                      const struct result_table *t, int column, bool *first, struct err *err)
{
    const struct figure_look look = figure_look(engine_settings(shell->engine));
    char *name = column ? xasprintf("%s.%s", t->name, t->columns[column]) : xstrdup(t->name);
    char *to = path_of(path, name, *first), *what = xasprintf("plot of %s", name);
    const int status =
        t->points ? draw_points(to, &look, r, t, err) : draw_columns(to, &look, r, t, column, err);
    if (status == 0) figure_written(shell, what, to);
    *first = false;
    free(name);
    free(to);
    free(what);
    return status;
}

// Draws a figure of all columns. If it would have too many curves, a table of conditions gets a
// figure per column instead. Points always share one figure.
static int draw_lines(const struct shell *shell, const char *path, const struct results *r,
                      const struct result_table *t, bool *first, struct err *err)
{
    size_t columns = 0;
    const size_t conditions = r->condition_count;
    const size_t most = t->points && picture_column(t) ? PLOT_LINES / 2 : PLOT_LINES;
    for (int c = 1; c < t->column_count; c++) columns += is_drawn(t, c);
    if (conditions > most)
        sinks_notice(
            shell->sinks,
            "the figure of %s shows the first %zu of %zu conditions; --csv FILE writes all",
            t->name, most, conditions);
    if (t->points || conditions * columns <= PLOT_LINES)
        return draw_table(shell, path, r, t, 0, first, err);
    for (int c = 1; c < t->column_count; c++)
        if (is_drawn(t, c) && draw_table(shell, path, r, t, c, first, err) < 0) return -1;
    return 0;
}

int figure_results(const struct shell *shell, const char *path, const struct results *r,
                   const struct event_heatmap *maps, struct err *err)
{
    const struct figure_look look = figure_look(engine_settings(shell->engine));
    bool first = true;
    if (r->map_count) {
        if (heatmap_figure(path, &look, maps, r->map_count, err) < 0) return -1;
        figure_written(shell, "maps", path);
        first = false;
    }
    for (size_t i = 0; i < r->table_count; i++) {
        const struct result_table *t = r->tables[i];
        if (t->points ? !has_points(t) : !(t->curve || is_bars(t)) || t->row_count < 2) continue;
        if (draw_lines(shell, path, r, t, &first, err) < 0) return -1;
    }
    if (first) sinks_notice(shell->sinks, "nothing to draw: '%s' was not written", path);
    return 0;
}
