// tui/chart.c -- draws curves as braille dots.
#include "tui/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/draw/plot.h"

struct chart chart_begin(struct canvas *c, struct area area, double min_x, double max_x,
                         double min_y, double max_y)
{
    char top[24], bottom[24];
    if (!(max_y > min_y)) {
        max_y += fabs(max_y) * 0.1 + 1e-6;
        min_y -= fabs(min_y) * 0.1 + 1e-6;
    }
    if (!(max_x > min_x)) max_x = min_x + 1;
    snprintf(top, sizeof top, "%.4g", max_y);
    snprintf(bottom, sizeof bottom, "%.4g", min_y);
    const int wide = (int)(strlen(top) > strlen(bottom) ? strlen(top) : strlen(bottom)) + 1;
    const struct area inner = { area.x + wide, area.y, area.width - wide, area.height - 1 };
    canvas_text(c, area, 0, 0, STYLE_DIM, top);
    if (inner.height > 1) canvas_text(c, area, 0, inner.height - 1, STYLE_DIM, bottom);
    canvas_printf(c, area, wide, area.height - 1, STYLE_DIM, "%.4g", min_x);
    char right[24];
    const int n = snprintf(right, sizeof right, "%.4g", max_x);
    canvas_text(c, area, area.width - n, area.height - 1, STYLE_DIM, right);
    return (struct chart){ c, inner, min_x, max_x, min_y, max_y };
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
        const double u = (at - chart->min_x) / (chart->max_x - chart->min_x);
        const double v = drawn ? (y[i] - chart->min_y) / (chart->max_y - chart->min_y) : 0;
        if (!drawn || u < 0 || u > 1 || v < 0 || v > 1) {
            before = false;
            continue;
        }
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
    const double u = (x - chart->min_x) / (chart->max_x - chart->min_x);
    const double from = (high - chart->min_y) / (chart->max_y - chart->min_y),
                 to = (low - chart->min_y) / (chart->max_y - chart->min_y);
    if (!(u >= 0 && u <= 1 && to >= 0 && from <= 1)) return;
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
