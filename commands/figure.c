// commands/figure.c -- figures of measurements: maps, and tables as curves or points.
#include "commands/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

// --- a table as curves ---------------------------------------------------------------------------

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

// `intervals`: the intervals of means over a data set, drawn instead of the deviations over tokens;
// NULL: none.
static struct plot_line line_of(const struct result_table *t, const struct result_table *intervals,
                                int column)
{
    const size_t n = t->row_count;
    const int deviation = intervals ? 0 : deviation_of(t, column);
    struct plot_line l = { .name = t->columns[column], .count = n };
    l.x = xreallocarray(NULL, 4 * n + 1, sizeof *l.x);
    l.y = l.x + n;
    if (deviation || intervals) l.low = l.x + 2 * n, l.high = l.x + 3 * n;
    for (size_t i = 0; i < n; i++) {
        l.x[i] = strtod(t->rows[i].key, NULL);
        l.y[i] = t->rows[i].value[column - 1];
        if (intervals && i < intervals->row_count) {
            l.low[i] = intervals->rows[i].value[2 * (column - 1)];
            l.high[i] = intervals->rows[i].value[2 * (column - 1) + 1];
        }
        if (!deviation) continue;
        const double std = t->rows[i].value[deviation - 1];
        l.low[i] = l.y[i] - std;
        l.high[i] = l.y[i] + std;
    }
    return l;
}

// Draws the columns of a table as curves over its keys.
static int draw_curves(const char *path, const struct figure_look *look, const struct results *r,
                       const struct result_table *t, struct err *err)
{
    char *of = xasprintf("%s%s", t->name, RESULTS_INTERVAL);
    const struct result_table *intervals = results_find(r, of);
    free(of);
    struct plot_line lines[PLOT_LINES];
    size_t count = 0;
    bool deviations = false;
    for (int c = 1; c < t->column_count; c++) {
        // Skips deviations, token numbers and columns with another unit.
        if (text_ends(t->columns[c], " std") || text_ends(t->columns[c], "at token") ||
            !results_same_unit(t, c) || count == PLOT_LINES)
            continue;
        lines[count] = line_of(t, intervals, c);
        deviations |= lines[count++].low != NULL;
    }
    const char *unit = results_unit(t->name);
    if (!unit && count == 1) unit = lines[0].name;
    const char *marks = !deviations ? "" : intervals ? ", mean, 95%" : ", mean \xC2\xB1 std";
    char *y = unit ? xasprintf("%s%s", unit, marks) : NULL;
    const struct plot_axes axes = {
        .title = t->name, .x = t->columns[0], .y = y, .log_y = t->log_y
    };
    const int status = plot_figure(path, look, &axes, lines, count, err);
    for (size_t i = 0; i < count; i++) free(lines[i].x);
    free(y);
    return status;
}

// --- a table as points ---------------------------------------------------------------------------

enum { POINTS_ALL, POINTS_TEXT, POINTS_VISUAL };

// Returns points of column 2 over column 1: all rows, or only those with (visual) or without (text)
// a number in the column `picture`.
static struct plot_line points_of(const struct result_table *t, int picture, int which)
{
    static const char *const names[] = { NULL, "text tokens", "visual tokens" };
    struct plot_line l = { .name = names[which] ? names[which] : t->columns[2], .points = true };
    l.x = xreallocarray(NULL, 2 * t->row_count + 1, sizeof *l.x);
    l.y = l.x + t->row_count;
    for (size_t i = 0; i < t->row_count; i++) {
        const double *v = t->rows[i].value;
        if (!isfinite(v[0]) || !isfinite(v[1])) continue;
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
    struct plot_line all = points_of(t, 0, POINTS_ALL);
    free(all.x);
    return all.count > 1;
}

// Draws column 2 over column 1; text and visual tokens are separate series if the table has a
// column `picture`.
static int draw_points(const char *path, const struct figure_look *look, const struct results *r,
                       const struct result_table *t, struct err *err)
{
    struct plot_line lines[2];
    size_t count = 0;
    int picture = t->column_count - 1;
    while (picture > 2 && strcmp(t->columns[picture], "picture") != 0) picture--;
    const bool kinds = picture > 2;
    for (int k = kinds ? POINTS_VISUAL : POINTS_ALL; k >= (kinds ? POINTS_TEXT : POINTS_ALL); k--) {
        lines[count] = points_of(t, picture, k);
        if (lines[count].count)
            count++;
        else
            free(lines[count].x);
    }
    char *title = xasprintf("%s: %s over %s", t->name, t->columns[2], t->columns[1]);
    char *x = points_label(t, 1), *y = points_label(t, 2);
    const struct plot_axes axes = { .title = title, .x = x, .y = y, .log_y = t->log_y };
    const int status = plot_figure(path, look, &axes, lines, count, err);
    for (size_t i = 0; i < count; i++) free(lines[i].x);
    free(title);
    free(x);
    free(y);
    return status;
}

// --- several figures -----------------------------------------------------------------------------

// The first figure goes to FILE.png, the others to FILE-TABLE.png, or FILE-curves.png if that name
// is taken.
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
        if (t->points ? !has_points(t) : !t->curve || t->row_count < 2) continue;
        char *to = path_of(path, t->name, first), *what = xasprintf("plot of %s", t->name);
        const int status = (t->points ? draw_points : draw_curves)(to, &look, r, t, err);
        if (status == 0) figure_written(shell, what, to);
        free(to);
        free(what);
        if (status < 0) return -1;
        first = false;
    }
    if (first) sinks_notice(shell->sinks, "nothing to draw: '%s' was not written", path);
    return 0;
}
