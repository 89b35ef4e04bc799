// commands/figure.c -- figures of measurements: maps, tables as curves or points; their file names.
#include "commands/figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/draw/heatmap.h"
#include "core/draw/plot.h"

int figure_take(const char **to, const char *value, struct err *err)
{
    *to = value;
    return figure_check(value, err);
}

void figure_written(const struct shell *shell, const char *what, const char *path)
{
    static bool said;
    sinks_written(shell->sinks, "figure", path, what);
    if (said || figure_has_fonts()) return;
    said = true;
    sinks_notice(shell->sinks,
                 "this machine has no fonts: letters of PNG and PDF figures are plain "
                 "strokes (Debian, Ubuntu: apt-get install fonts-dejavu-core)");
}

// --- a table as curves ---------------------------------------------------------------------------

// Columns that no curve is drawn of: deviations, which token it was, other units.
static bool bare(const struct result_table *t, int column)
{
    return text_ends(t->columns[column], " std") || text_ends(t->columns[column], "at token") ||
           (!t->points && !results_same_unit(t, column));
}

// The deviation of a column: "X std" beside "X", "std" beside "mean"; 0: none.
static int deviation_of(const struct result_table *t, int column)
{
    if (column + 1 >= t->column_count) return 0;
    const char *next = t->columns[column + 1];
    const size_t n = strlen(t->columns[column]);
    const bool plain = !strcmp(t->columns[column], "mean") && !strcmp(next, "std");
    const bool named = !strncmp(next, t->columns[column], n) && !strcmp(next + n, " std");
    return plain || named ? column + 1 : 0;
}

static struct plot_line line_of(const struct result_table *t, int column)
{
    const size_t n = t->row_count;
    const int deviation = t->points ? 0 : deviation_of(t, column);
    struct plot_line l = { .count = n, .points = t->points };
    l.name = t->points ? xasprintf("%s over %s", t->columns[2], t->columns[1])
                       : xstrdup(t->columns[column]);
    l.x = xreallocarray(NULL, 4 * n + 1, sizeof *l.x);
    l.y = l.x + n;
    if (deviation) l.low = l.x + 2 * n, l.high = l.x + 3 * n;
    for (size_t i = 0; i < n; i++) {
        l.x[i] = t->points ? t->rows[i].value[0] : strtod(t->rows[i].key, NULL);
        l.y[i] = t->rows[i].value[column - 1];
        if (!deviation) continue;
        const double std = t->rows[i].value[deviation - 1];
        l.low[i] = l.y[i] - std;
        l.high[i] = l.y[i] + std;
    }
    return l;
}

// The columns of a table as curves over its keys, or columns 1 and 2 as points.
static int draw_table(const char *path, const struct figure_look *look,
                      const struct result_table *t, struct err *err)
{
    struct plot_line lines[PLOT_LINES];
    size_t count = 0;
    bool deviations = false;
    for (int c = t->points ? 2 : 1; c < (t->points ? 3 : t->column_count); c++) {
        if (bare(t, c) || count == PLOT_LINES) continue;
        lines[count] = line_of(t, c);
        deviations |= lines[count++].low != NULL;
    }
    const char *unit = t->points ? t->columns[2] : results_unit(t->name);
    if (!unit && count == 1) unit = lines[0].name;
    char *y = unit ? xasprintf("%s%s", unit, deviations ? ", mean \xC2\xB1 std" : "") : NULL;
    const struct plot_axes axes = {
        .title = t->name, .x = t->columns[t->points], .y = y, .log_y = t->log_y
    };
    const int status = plot_figure(path, look, &axes, lines, count, err);
    for (size_t i = 0; i < count; i++) {
        free((char *)lines[i].name);
        free(lines[i].x);
    }
    free(y);
    return status;
}

// --- several of them -----------------------------------------------------------------------------

// FILE.png for the first, FILE-TABLE.png for the others; FILE-curves.png where that is taken.
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
        const struct heatmap_words words = { .unit = results_unit(maps[0].name),
                                             .rows = !strcmp(maps[0].name, "similarity") ? "layer"
                                                                                         : NULL };
        if (heatmap_figure(path, &look, maps, r->map_count, &words, err) < 0) return -1;
        figure_written(shell, "maps", path);
        first = false;
    }
    for (size_t i = 0; i < r->table_count; i++) {
        const struct result_table *t = r->tables[i];
        if ((!t->curve && !t->points) || t->row_count < 2) continue;
        char *to = path_of(path, t->name, first), *what = xasprintf("plot of %s", t->name);
        const int status = draw_table(to, &look, t, err);
        if (status == 0) figure_written(shell, what, to);
        free(to);
        free(what);
        if (status < 0) return -1;
        first = false;
    }
    if (first) sinks_notice(shell->sinks, "nothing to draw: '%s' was not written", path);
    return 0;
}
