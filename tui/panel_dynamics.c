// tui/panel_dynamics.c -- curves of numbers over layers, steps or tokens, with faint curves of
// earlier runs. All curves share one axis, so the panel draws only columns of one unit at a time
// and names the others; `u` switches units. A dotted line marks the cursor, or the layer of the
// shown map; the values there are written above the curves.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/probes/results.h"
#include "tui/chart.h"
#include "tui/maps.h"
#include "tui/panel.h"
#include "tui/wrap.h"

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

// Returns the number of earlier runs to draw: at most d->runs, up to the first that has another
// number of columns.
static int earlier_runs(const struct dynamics_view *d)
{
    const struct series *runs = d->series[d->shown];
    int count = 0;
    while (count < d->runs && runs[count + 1].name &&
           runs[count + 1].column_count == runs[0].column_count)
        count++;
    return count;
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

// --- the range -----------------------------------------------------------------------------------

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Narrows the range to the values between the fences of a box plot: 1.5 times the distance between
// the quartiles beyond them.
static void zoom(const struct series *s, const int *columns, int count, double *min, double *max)
{
    double *all = xreallocarray(NULL, (size_t)(s->row_count * count) + 1, sizeof *all);
    size_t n = 0;
    for (int k = 0; k < count; k++)
        for (int r = 0; r < s->row_count; r++) {
            const double value = s->values[(size_t)(r * s->column_count + columns[k])];
            if (isfinite(value)) all[n++] = value;
        }
    qsort(all, n, sizeof *all, by_value);
    if (n > 3) {
        const double low = all[n / 4], high = all[n - 1 - n / 4], reach = 1.5 * (high - low);
        double least = high, most = low;
        for (size_t i = 0; i < n; i++) {
            if (all[i] < low - reach || all[i] > high + reach) continue;
            least = fmin(least, all[i]);
            most = fmax(most, all[i]);
        }
        *min = least;
        *max = most;
    }
    free(all);
}

// --- the cursor ----------------------------------------------------------------------------------

// Returns the row nearest to the cursor, or else to the layer of the shown map; -1: neither is set.
static int pointed_row(const struct view *v, const struct series *s)
{
    const struct dynamics_view *d = &v->dynamics;
    const struct map *m = view_map(v);
    const bool layers = !strcmp(s->columns[0], "layer") && m && m->layer >= 0;
    const double at = d->pointed ? d->cursor : layers ? m->layer : NAN;
    int best = -1;
    for (int r = 0; r < s->row_count && isfinite(at); r++) {
        const double x = s->values[(size_t)(r * s->column_count)];
        const double now = best < 0 ? NAN : s->values[(size_t)(best * s->column_count)];
        if (isfinite(x) && (best < 0 || fabs(x - at) < fabs(now - at))) best = r;
    }
    return best;
}

static bool is_share(const struct series *s, int index)
{
    const struct result_table t = as_table(s);
    const char *unit = results_column_unit(&t, index);
    return unit && !strncmp(unit, "share", 5);
}

// Writes the values at the row: "layer 4: 39.3% 2.59%". Each has the colour of its curve.
static void draw_values(const struct series *s, struct canvas *c, struct area line,
                        const int *columns, int count, int row)
{
    const double *values = &s->values[(size_t)(row * s->column_count)];
    char text[32];
    text_number(text, values[0], false);
    int x = canvas_printf(c, line, 0, 0, STYLE_DIM, "%s %s:", s->columns[0], text);
    for (int k = 0; k < count; k++) {
        text_number(text, values[columns[k]], is_share(s, columns[k]));
        x = canvas_text(c, line, x + 1, 0, (enum style)(STYLE_CURVE1 + k),
                        isfinite(values[columns[k]]) ? text : "-");
    }
}

// --- the panel -----------------------------------------------------------------------------------

// Draws the names of columns; returns the number of lines used.
static int draw_names(const struct dynamics_view *d, struct canvas *c, struct area area,
                      const int *columns, int count)
{
    struct buf left = { 0 };
    const struct series *s = d->series[d->shown];
    const struct result_table t = as_table(s);
    const int earlier = earlier_runs(d);
    bool others = false; // some columns have a different unit
    int x = canvas_printf(c, area, 0, 0, STYLE_TITLE, "%s", s->name) + 2;
    for (int k = 0; k < count; k++)
        x = canvas_text(c, area, x, 0, (enum style)(STYLE_CURVE1 + k), s->columns[columns[k]]) + 2;
    if (earlier) x = canvas_printf(c, area, x, 0, STYLE_GHOST, "%d before", earlier) + 2;
    if (d->zoomed) canvas_text(c, area, x, 0, STYLE_CHANGED, "zoomed");
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

static int shown_columns(const struct dynamics_view *d, const struct series *s, int columns[CURVES])
{
    const struct result_table t = as_table(s);
    const int shown = shown_column(d, s);
    int count = 0;
    for (int i = 1; shown && i < s->column_count && count < CURVES; i++)
        if (is_curve(s, i) && results_share_unit(&t, shown, i)) columns[count++] = i;
    return count;
}

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    struct dynamics_view *d = &v->dynamics;
    d->area = (struct area){ 0 };
    if (!d->count) {
        struct wrap w = wrap_begin("no curves yet: /attention --layer all, /norms and other "
                                   "measurements of layers draw them here",
                                   area.width);
        for (int y = 0; y < area.height && wrap_next(&w); y++)
            canvas_text_n(c, area, 0, y, STYLE_DIM, w.line, w.length);
        return;
    }
    const struct series *s = d->series[d->shown];
    double min_x = INFINITY, max_x = -INFINITY, min = INFINITY, max = -INFINITY;
    int columns[CURVES] = { 0 }, lines;
    const int count = shown_columns(d, s, columns), earlier = earlier_runs(d);
    const int row = pointed_row(v, s);
    lines = draw_names(d, c, area, columns, count);
    if (row >= 0 && count && area.height - lines >= 4)
        draw_values(s, c, (struct area){ area.x, area.y + lines++, area.width, 1 }, columns, count,
                    row);
    const struct area inner = { area.x, area.y + lines, area.width, area.height - lines };
    widen(s, 0, &min_x, &max_x);
    for (int k = 0; k < count; k++)
        for (int run = 0; run <= earlier; run++) widen(&s[run], columns[k], &min, &max);
    if (!(max >= min) || inner.height < 3) return;
    if (min > 0 && min < 0.3 * max) min = 0; // an axis from 0 is easier to read
    if (d->zoomed) zoom(s, columns, count, &min, &max);
    const struct chart chart =
        chart_begin_as(c, inner, min_x, max_x, min, max, is_share(s, columns[0]));
    for (int run = earlier; run > 0; run--) draw_curves(&s[run], &chart, columns, count, true);
    draw_curves(s, &chart, columns, count, false);
    if (row >= 0) chart_mark(&chart, STYLE_FOCUS, s->values[(size_t)(row * s->column_count)]);
    d->area = chart.area;
    d->min_x = chart.min_x;
    d->max_x = chart.max_x;
}

// --- keys and mouse ------------------------------------------------------------------------------

// Moves the cursor by rows. Without a cursor, starts at the shown map's layer, else before the
// first row (by < 0: behind the last).
static void move_cursor(struct view *v, int by)
{
    struct dynamics_view *d = &v->dynamics;
    if (!d->count) return;
    const struct series *s = d->series[d->shown];
    int row = pointed_row(v, s);
    if (row < 0) row = by > 0 ? -1 : s->row_count;
    row += by;
    row = row < 0 ? 0 : row >= s->row_count ? s->row_count - 1 : row;
    d->pointed = true;
    d->cursor = s->values[(size_t)(row * s->column_count)];
}

static void show_table(struct dynamics_view *d, int by)
{
    if (d->count) d->shown = (d->shown + d->count + (size_t)by) % d->count;
    d->unit = 0;
    d->pointed = false;
}

// Shows the map of the layer at the cursor in the panel of the picture.
static void show_layer(struct view *v)
{
    struct dynamics_view *d = &v->dynamics;
    const struct series *s = d->count ? d->series[d->shown] : NULL;
    const int row = s ? pointed_row(v, s) : -1;
    if (row < 0 || strcmp(s->columns[0], "layer") != 0)
        view_hint(v, "only a curve over layers has maps to show");
    else if (!maps_go_layer(v, (int)s->values[(size_t)(row * s->column_count)]))
        view_hint(v, "no map to show: F3 shows the maps of an answer about a picture");
}

static unsigned act(struct view *v, const char *action)
{
    struct dynamics_view *d = &v->dynamics;
    if (!strcmp(action, "table-back"))
        show_table(d, -1);
    else if (!strcmp(action, "table-next"))
        show_table(d, 1);
    else if (!strcmp(action, "cursor-back"))
        move_cursor(v, -1);
    else if (!strcmp(action, "cursor-next"))
        move_cursor(v, 1);
    else if (!strcmp(action, "cursor-first"))
        move_cursor(v, -(1 << 20));
    else if (!strcmp(action, "cursor-last"))
        move_cursor(v, 1 << 20);
    else if (!strcmp(action, "show"))
        show_layer(v);
    else if (!strcmp(action, "unit"))
        d->unit++;
    else if (!strcmp(action, "zoom"))
        d->zoomed = !d->zoomed;
    else if (!strcmp(action, "runs"))
        d->runs = d->runs == 1 ? RUNS - 1 : d->runs ? 0 : 1;
    else if (!strcmp(action, "back") && d->pointed)
        d->pointed = false;
    else if (!strcmp(action, "back"))
        return PANEL_DONE | PANEL_BACK;
    else
        return PANEL_IGNORED;
    return PANEL_DONE;
}

// A click sets the cursor; the wheel moves it.
static void click(struct view *v, struct area area, int x, int y, int button)
{
    struct dynamics_view *d = &v->dynamics;
    const struct area a = d->area;
    const int at = area.x + x - a.x;
    if (button == 4) move_cursor(v, -1);
    if (button == 5) move_cursor(v, 1);
    if (button != 1 || !area_has(a, area.x + x, area.y + y)) return;
    const struct chart chart = { .area = a, .min_x = d->min_x, .max_x = d->max_x };
    d->pointed = true;
    d->cursor = chart_x(&chart, at);
}

const struct panel panel_dynamics = {
    .name = "dynamics",
    .title = "dynamics",
    .min_width = 30,
    .min_height = 7,
    .draw = draw,
    .act = act,
    .click = click,
};
