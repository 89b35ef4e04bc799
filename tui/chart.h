// tui/chart.h -- curves on a canvas: two by four dots per cell (braille), or letters.
//
//   struct chart chart = chart_begin(c, area, min_x, max_x, min_y, max_y);
//   chart_line(&chart, STYLE_CURVE1, x, y, count);
#ifndef TUI_CHART_H
#define TUI_CHART_H

#include "tui/canvas.h"

struct chart {
    struct canvas *canvas;
    struct area area; // of the plot area, without the numbers
    double min_x, max_x, min_y, max_y;
};

// Draws the numbers of both axes.
struct chart chart_begin(struct canvas *c, struct area area, double min_x, double max_x,
                         double min_y, double max_y);
// Points that are not finite are gaps. x NULL: 0, 1, 2 ...
void chart_line(const struct chart *chart, enum style style, const double *x, const double *y,
                size_t count);
// Draws more points than can be distinguished: their means, over faint dots from minimum to
// maximum. x is ascending.
void chart_crowd(const struct chart *chart, enum style style, double *x, double *y, size_t count);

#endif
