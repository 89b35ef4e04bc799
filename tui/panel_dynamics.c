// tui/panel_dynamics.c -- numbers over layers, steps or tokens as curves, with the run before as a
// ghost.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/chart.h"
#include "tui/panel.h"

enum { CURVES = 4 };

static double *column(const struct series *s, int index)
{
    double *values = xreallocarray(NULL, (size_t)s->row_count + 1, sizeof *values);
    for (int r = 0; r < s->row_count; r++)
        values[r] = s->values[(size_t)r * (size_t)s->column_count + (size_t)index];
    return values;
}

static void widen(const struct series *s, int index, double *min, double *max)
{
    for (int r = 0; r < s->row_count; r++) {
        const double value = s->values[(size_t)r * (size_t)s->column_count + (size_t)index];
        if (!isfinite(value)) continue;
        if (value < *min) *min = value;
        if (value > *max) *max = value;
    }
}

// Deviations stand beside what they belong to; they are no curve of their own.
static bool is_curve(const struct series *s, int index)
{
    const char *name = s->columns[index];
    const size_t n = strlen(name);
    if (n > 4 && !strcmp(name + n - 4, " std")) return false;
    double min = INFINITY, max = -INFINITY;
    widen(s, index, &min, &max);
    return index > 0 && max >= min;
}

static bool has_ghost(const struct dynamics_view *d, const struct series *s, const struct series *g)
{
    return !d->no_ghost && g->name && g->column_count == s->column_count;
}

static void draw_curves(const struct series *s, const struct chart *chart, bool ghost)
{
    double *x = column(s, 0);
    for (int i = 1, k = 0; i < s->column_count && k < CURVES; i++) {
        if (!is_curve(s, i)) continue;
        double *y = column(s, i);
        chart_line(chart, ghost ? STYLE_GHOST : (enum style)(STYLE_CURVE1 + k), x, y,
                   (size_t)s->row_count);
        free(y);
        k++;
    }
    free(x);
}

static void draw_names(const struct series *s, struct canvas *c, struct area area)
{
    int x = canvas_printf(c, area, 0, 0, STYLE_TITLE, "%s", s->name) + 2;
    for (int i = 1, k = 0; i < s->column_count && k < CURVES; i++)
        if (is_curve(s, i))
            x = canvas_text(c, area, x, 0, (enum style)(STYLE_CURVE1 + k++), s->columns[i]) + 2;
}

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    const struct dynamics_view *d = &v->dynamics;
    if (!d->count) {
        canvas_text(c, area, 0, 0, STYLE_DIM, "no curves yet: commands that");
        canvas_text(c, area, 0, 1, STYLE_DIM, "measure layers draw them here");
        return;
    }
    const struct series *s = &d->series[d->shown], *g = &d->ghosts[d->shown];
    const struct area inner = { area.x, area.y + 1, area.width, area.height - 1 };
    double min_x = INFINITY, max_x = -INFINITY, min = INFINITY, max = -INFINITY;
    draw_names(s, c, area);
    widen(s, 0, &min_x, &max_x);
    for (int i = 1, k = 0; i < s->column_count && k < CURVES; i++) {
        if (!is_curve(s, i)) continue;
        widen(s, i, &min, &max);
        if (has_ghost(d, s, g)) widen(g, i, &min, &max);
        k++;
    }
    if (!(max >= min) || inner.height < 3) return;
    const struct chart chart = chart_begin(c, inner, min_x, max_x, min, max);
    if (has_ghost(d, s, g)) draw_curves(g, &chart, true);
    draw_curves(s, &chart, false);
}

static unsigned act(struct view *v, const char *action)
{
    struct dynamics_view *d = &v->dynamics;
    if (!strcmp(action, "table-back"))
        d->shown = d->count ? (d->shown + d->count - 1) % d->count : 0;
    else if (!strcmp(action, "table-next"))
        d->shown = d->count ? (d->shown + 1) % d->count : 0;
    else if (!strcmp(action, "ghost"))
        d->no_ghost = !d->no_ghost;
    else if (!strcmp(action, "back"))
        return PANEL_DONE | PANEL_BACK;
    else
        return PANEL_IGNORED;
    return PANEL_DONE;
}

const struct panel panel_dynamics = {
    .name = "dynamics",
    .title = "dynamics",
    .min_width = 30,
    .min_height = 7,
    .draw = draw,
    .act = act,
};
