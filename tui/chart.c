// tui/chart.c -- draws curves as braille dots, or in ASCII.
#include "tui/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/draw/plot.h"

enum { TICKS = 8 }; // maximum number of ticks of an axis

// The numbers of an axis.
struct axis {
    double at[TICKS];
    char *text[TICKS];
    int count, width; // width: of the longest text
};

static void add_tick(struct axis *a, double at, char *text)
{
    const int width = (int)strlen(text);
    if (width > a->width) a->width = width;
    a->at[a->count] = at;
    a->text[a->count++] = text;
}

// Chooses at most `most` round numbers; the limits themselves if the range has fewer than two.
static struct axis axis_of(double min, double max, int most, bool percent)
{
    struct axis a = { 0 };
    double ticks[TICKS];
    char format[16];
    const double scale = percent ? 100 : 1;
    const int count =
        plot_ticks(min * scale, max * scale, most < TICKS ? most : TICKS, ticks, format);
    for (int i = 0; i < count && count > 1; i++) {
        char *text = plot_number(format, ticks[i]);
        add_tick(&a, ticks[i] / scale, percent ? xasprintf("%s%%", text) : xstrdup(text));
        free(text);
    }
    for (int i = 0; i < 2 && count < 2; i++) {
        char text[32];
        text_number(text, i ? max : min, percent);
        add_tick(&a, i ? max : min, xstrdup(text));
    }
    return a;
}

static void axis_free(struct axis *a)
{
    for (int i = 0; i < a->count; i++) free(a->text[i]);
}

static void draw_y_axis(struct canvas *c, struct area inner, const struct axis *a, double min,
                        double max)
{
    const struct area left = { inner.x - 1 - a->width, inner.y, a->width + 1, inner.height };
    for (int y = 0; y < inner.height; y++)
        canvas_put(c, left, a->width, y, STYLE_BORDER, c->ascii ? '|' : 0x2502);
    for (int i = 0; i < a->count; i++) {
        const int y = (int)(plot_share(a->at[i], max, min) * (inner.height - 0.01));
        if (y < 0 || y >= inner.height) continue;
        canvas_text(c, left, a->width - (int)strlen(a->text[i]), y, STYLE_DIM, a->text[i]);
        canvas_put(c, left, a->width, y, STYLE_BORDER, c->ascii ? '+' : 0x2524);
    }
}

static void draw_x_axis(struct canvas *c, struct area curves, const struct axis *a, double min,
                        double max)
{
    const struct area line = { curves.x, curves.y + curves.height, curves.width, 1 };
    int free_from = 0;
    for (int i = 0; i < a->count; i++) {
        const int width = (int)strlen(a->text[i]), most = line.width - width;
        int x = (int)(plot_share(a->at[i], min, max) * (line.width - 0.5)) - (width - 1) / 2;
        x = x < 0 ? 0 : x > most ? most : x;
        if (x < free_from) continue;
        canvas_text(c, line, x, 0, STYLE_DIM, a->text[i]);
        free_from = x + width + 1;
    }
}

struct chart chart_begin_as(struct canvas *c, struct area area, double min_x, double max_x,
                            double min_y, double max_y, bool percent)
{
    if (!(max_y > min_y)) {
        max_y += fabs(max_y) * 0.1 + 1e-6;
        min_y -= fabs(min_y) * 0.1 + 1e-6;
    }
    if (!(max_x > min_x)) max_x = min_x + 1;
    const int height = area.height - 1;
    struct chart none = { c, { area.x, area.y, 0, 0 }, min_x, max_x, min_y, max_y };
    struct axis y = axis_of(min_y, max_y, height < 4 ? 2 : height / 2, percent);
    const int left = y.width + 1;
    const struct area inner = { area.x + left, area.y, area.width - left, height };
    if (inner.width < 1 || height < 1) {
        axis_free(&y);
        return none; // draws nothing
    }
    // The positions are whole numbers: layers, steps, tokens.
    const int most = inner.width / 4, whole = (int)fmin(max_x - min_x + 1, 1000);
    struct axis x = axis_of(min_x, max_x, most < whole ? most : whole, false);
    draw_y_axis(c, inner, &y, min_y, max_y);
    draw_x_axis(c, inner, &x, min_x, max_x);
    axis_free(&x);
    axis_free(&y);
    return (struct chart){ c, inner, min_x, max_x, min_y, max_y };
}

struct chart chart_begin(struct canvas *c, struct area area, double min_x, double max_x,
                         double min_y, double max_y)
{
    return chart_begin_as(c, area, min_x, max_x, min_y, max_y, false);
}

// Returns the column of x, counted from the chart's left edge; -1 if it is outside.
static int column_at(const struct chart *chart, double x)
{
    const double u = plot_share(x, chart->min_x, chart->max_x);
    return isfinite(x) && u >= 0 && u <= 1 ? (int)(u * (2.0 * chart->area.width - 1) + 0.5) / 2
                                           : -1;
}

void chart_mark(const struct chart *chart, enum style style, double x)
{
    const int column = column_at(chart, x);
    struct canvas *c = chart->canvas;
    for (int y = 0; column >= 0 && y < chart->area.height; y++) {
        struct cell *cell = canvas_at(c, chart->area.x + column, chart->area.y + y);
        if (!cell || (cell->code && cell->code != ' ')) continue; // a curve stays visible
        canvas_put(c, chart->area, column, y, style, c->ascii ? ':' : 0x250a);
    }
}

double chart_x(const struct chart *chart, int column)
{
    const double share = chart->area.width > 1 ? (double)column / (chart->area.width - 1) : 0;
    return chart->min_x + (chart->max_x - chart->min_x) * fmin(fmax(share, 0), 1);
}

// Unicode's bits for the dots of a braille cell: [row][column].
static const uint8_t dots[4][2] = {
    { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 }
};

static void dot(const struct chart *chart, enum style style, int x, int y)
{
    const struct area a = chart->area;
    const int cx = x / 2, cy = y / 4;
    if (x < 0 || y < 0 || cx >= a.width || cy >= a.height) return;
    struct cell *cell = canvas_at(chart->canvas, a.x + cx, a.y + cy);
    if (!cell) return;
    const bool braille = cell->code >= 0x2800 && cell->code < 0x2900;
    // A cell has one colour, so a line replaces faint dots.
    const bool faint = cell->style == STYLE_GHOST && style != STYLE_GHOST;
    uint32_t now = braille && !faint ? cell->code : 0x2800;
    now = chart->canvas->ascii ? (style == STYLE_GHOST ? '.' : '*') : now | dots[y % 4][x % 2];
    cell->code = now;
    cell->width = 1;
    cell->style = (uint8_t)style;
}

void chart_line(const struct chart *chart, enum style style, const double *x, const double *y,
                size_t count)
{
    const double width = 2.0 * chart->area.width - 1, height = 4.0 * chart->area.height - 1;
    bool before = false;
    int last_x = 0, last_y = 0;
    if (chart->area.width < 1 || chart->area.height < 1) return;
    for (size_t i = 0; i < count; i++) {
        const double at = x ? x[i] : (double)i;
        const bool drawn = isfinite(y[i]) && isfinite(at);
        const double u = plot_share(at, chart->min_x, chart->max_x);
        double v = plot_share(y[i], chart->min_y, chart->max_y);
        if (!drawn || u < 0 || u > 1) {
            before = false;
            continue;
        }
        v = v < 0 ? 0 : v > 1 ? 1 : v; // values beyond the range run along the edge
        const int px = (int)(u * width + 0.5), py = (int)((1 - v) * height + 0.5);
        const int dx = before ? px - last_x : 0, dy = before ? py - last_y : 0;
        const int steps = abs(dx) > abs(dy) ? abs(dx) : abs(dy);
        for (int k = 0; k <= steps; k++)
            dot(chart, style, px - (steps ? dx * k / steps : 0), py - (steps ? dy * k / steps : 0));
        last_x = px;
        last_y = py;
        before = true;
    }
}

// Draws every other dot of a column between two values.
static void band(const struct chart *chart, double x, double low, double high)
{
    const double width = 2.0 * chart->area.width - 1, height = 4.0 * chart->area.height - 1;
    const double u = plot_share(x, chart->min_x, chart->max_x);
    const double from = plot_share(high, chart->min_y, chart->max_y),
                 to = plot_share(low, chart->min_y, chart->max_y);
    if (!isfinite(low) || !(u >= 0 && u <= 1 && to >= 0 && from <= 1)) return;
    const int at = (int)(u * width + 0.5) & ~1;
    const int top = (int)((1 - from) * height + 0.5), bottom = (int)((1 - to) * height + 0.5);
    for (int y = top; y <= bottom; y++)
        if (y % 2 == 0 || top == bottom) dot(chart, STYLE_GHOST, at, y);
}

void chart_crowd(const struct chart *chart, enum style style, double *x, double *y, size_t count)
{
    const struct plot_line line = { .x = x, .y = y, .count = count };
    const size_t columns = chart->area.width > 0 ? (size_t)chart->area.width : 1;
    struct plot_bins b;
    if (!plot_bin(&b, &line, false, chart->min_x, chart->max_x, columns)) {
        chart_line(chart, style, x, y, count);
        return;
    }
    for (size_t i = 0; i < b.count; i++) band(chart, b.x[i], b.least[i], b.most[i]);
    chart_line(chart, style, b.x, b.mean, b.count);
    plot_bins_release(&b);
}
