// core/checkup/figures.c -- figures of the record, as SVG texts.
#include "core/checkup/checkup_parts.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/text.h"
#include "core/draw/heatmap.h"
#include "core/draw/plot.h"
#include "core/probes/results.h"

enum { SVG_MOST = 16 << 20 };

// Adds the drawn SVG file as a figure and removes it; frees the path.
static int take_file(struct checkup *c, const char *title, const char *text, char *path, int status,
                     struct err *err)
{
    size_t size;
    char *svg = status == 0 ? file_read(path, SVG_MOST, &size, err) : NULL;
    if (svg) checkup_figure(c, title, text, svg);
    unlink(path);
    free(path);
    free(svg);
    return svg ? 0 : -1;
}

int checkup_curves(struct checkup *c, const char *title, const char *text,
                   const struct result_table *t, const char *columns, struct err *err)
{
    struct plot_line lines[PLOT_LINES];
    const struct figure_look look = figure_look(NULL);
    size_t count = 0;
    for (int k = 1; k < t->column_count && count < PLOT_LINES; k++) {
        if (columns ? !results_lists(columns, t->columns[k]) : text_ends(t->columns[k], " std"))
            continue;
        double *x = xreallocarray(NULL, 2 * t->row_count + 1, sizeof *x), *y = x + t->row_count;
        for (size_t i = 0; i < t->row_count; i++) {
            x[i] = strtod(t->rows[i].key, NULL);
            y[i] = t->rows[i].value[k - 1];
        }
        lines[count] =
            (struct plot_line){ .name = t->columns[k], .x = x, .y = y, .count = t->row_count };
        count++;
    }
    char *path = xasprintf("%s/figure.svg", c->scratch);
    const struct plot_axes axes = { .x = t->columns[0], .y = results_unit(t->name) };
    const int status = plot_figure(path, &look, &axes, lines, count, err);
    for (size_t i = 0; i < count; i++) free(lines[i].x);
    return take_file(c, title, text, path, status, err);
}

int checkup_maps(struct checkup *c, const char *title, const char *text,
                 const struct event_heatmap *maps, size_t count, struct err *err)
{
    const struct figure_look look = figure_look(NULL);
    char *path = xasprintf("%s/figure.svg", c->scratch);
    return take_file(c, title, text, path, heatmap_figure(path, &look, maps, count, err), err);
}
