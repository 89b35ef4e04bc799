// tui/panel_dynamics.c -- curves of numbers over layers, steps or tokens, with faint curves of the
// previous run. All curves share one axis, so the panel draws only columns of one unit at a time
// and names the others; `u` switches units.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/probes/results.h"
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

// Returns whether the column gets a curve. Standard deviations and positions of tokens do not.
static bool is_curve(const struct series *s, int index)
{
    const char *name = s->columns[index];
    const size_t n = strlen(name);
    if (n > 4 && !strcmp(name + n - 4, " std")) return false;
    if (n >= 8 && !strcmp(name + n - 8, "at token")) return false;
    double min = INFINITY, max = -INFINITY;
    widen(s, index, &min, &max);
    return index > 0 && max >= min;
}

// Views the series as a result table, whose columns have units.
static struct result_table as_table(const struct series *s)
{
    return (struct result_table){ .name = s->name,
                                  .columns = s->columns,
                                  .column_count = s->column_count };
}

// Returns a column that has the unit to draw: at first the unit that figures use, then another
// after each `u`; 0: no column has a curve.
static int shown_column(const struct dynamics_view *d, const struct series *s)
{
    const struct result_table t = as_table(s);
    int found[16] = { 0 }, count = 0;
    for (int others = 0; others < 2; others++)
        for (int i = 1; i < s->column_count && count < 16; i++) {
            bool new = is_curve(s, i) && results_same_unit(&t, i) == !others;
            for (int k = 0; new &&k < count; k++) new = !results_share_unit(&t, found[k], i);
            if (new) found[count++] = i;
        }
    return count ? found[d->unit % count] : 0;
}

static bool has_ghost(const struct dynamics_view *d, const struct series *s, const struct series *g)
{
    return !d->no_ghost && g->name && g->column_count == s->column_count;
}

static void draw_curves(const struct series *s, const struct chart *chart, const int *columns,
                        int count, bool ghost)
{
    double *x = column(s, 0);
    for (int k = 0; k < count; k++) {
        double *y = column(s, columns[k]);
        chart_line(chart, ghost ? STYLE_GHOST : (enum style)(STYLE_CURVE1 + k), x, y,
                   (size_t)s->row_count);
        free(y);
    }
    free(x);
}

// Draws the names of columns; returns the number of lines used.
static int draw_names(const struct series *s, struct canvas *c, struct area area,
                      const int *columns, int count)
{
    struct buf left = { 0 };
    const struct result_table t = as_table(s);
    bool others = false; // some columns have a different unit
    int x = canvas_printf(c, area, 0, 0, STYLE_TITLE, "%s", s->name) + 2;
    for (int k = 0; k < count; k++)
        x = canvas_text(c, area, x, 0, (enum style)(STYLE_CURVE1 + k), s->columns[columns[k]]) + 2;
    for (int i = 1, k = 0; i < s->column_count; i++) {
        if (k < count && columns[k] == i)
            k++;
        else if (is_curve(s, i)) {
            buf_printf(&left, left.length ? ", %s" : "%s", s->columns[i]);
            others |= count && !results_share_unit(&t, columns[0], i);
        }
    }
    const int lines = left.length ? 2 : 1;
    if (left.length)
        canvas_printf(c, area, 0, 1, STYLE_DIM, others ? "press u for %s" : "not drawn: %s",
                      left.data);
    buf_release(&left);
    return lines;
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
    double min_x = INFINITY, max_x = -INFINITY, min = INFINITY, max = -INFINITY;
    const struct result_table t = as_table(s);
    const int shown = shown_column(d, s);
    int columns[CURVES], count = 0;
    for (int i = 1; shown && i < s->column_count && count < CURVES; i++)
        if (is_curve(s, i) && results_share_unit(&t, shown, i)) columns[count++] = i;
    const int names = draw_names(s, c, area, columns, count);
    const struct area inner = { area.x, area.y + names, area.width, area.height - names };
    widen(s, 0, &min_x, &max_x);
    for (int k = 0; k < count; k++) {
        widen(s, columns[k], &min, &max);
        if (has_ghost(d, s, g)) widen(g, columns[k], &min, &max);
    }
    if (!(max >= min) || inner.height < 3) return;
    const struct chart chart = chart_begin(c, inner, min_x, max_x, min, max);
    if (has_ghost(d, s, g)) draw_curves(g, &chart, columns, count, true);
    draw_curves(s, &chart, columns, count, false);
}

static unsigned act(struct view *v, const char *action)
{
    struct dynamics_view *d = &v->dynamics;
    if (!strcmp(action, "table-back"))
        d->shown = d->count ? (d->shown + d->count - 1) % d->count : 0, d->unit = 0;
    else if (!strcmp(action, "table-next"))
        d->shown = d->count ? (d->shown + 1) % d->count : 0, d->unit = 0;
    else if (!strcmp(action, "unit"))
        d->unit++;
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
