// tui/chart.h -- curves on a canvas: two by four dots per cell (braille), or in ASCII `*` and `.`.
//
//   struct chart chart = chart_begin(c, area, min_x, max_x, min_y, max_y);
//   chart_line(&chart, STYLE_CURVE1, x, y, count);
#ifndef TUI_CHART_H
#define TUI_CHART_H

#include "tui/canvas.h"

struct chart {
    struct canvas *canvas;
    struct area area; // of the curves, without the numbers of the axes
    double min_x, max_x, min_y, max_y;
};

// Draws both axes, with round numbers if the range has two, else with its limits; returns the
// chart. In a very small area the chart draws nothing.
struct chart chart_begin(struct canvas *c, struct area area, double min_x, double max_x,
                         double min_y, double max_y);
// `percent`: the y axis shows shares as percentages.
struct chart chart_begin_as(struct canvas *c, struct area area, double min_x, double max_x,
                            double min_y, double max_y, bool percent);
// Draws a dotted vertical line at x, behind the curves that are already drawn.
void chart_mark(const struct chart *chart, enum style style, double x);
// Returns the x of a column of the chart, counted from its left edge.
double chart_x(const struct chart *chart, int column);
// Draws a curve with gaps at points that are not finite or outside the range of x; values outside
// the range of y are drawn at the edge. x NULL: 0, 1, 2 ...
void chart_line(const struct chart *chart, enum style style, const double *x, const double *y,
                size_t count);
// Draws a curve that may have more points than columns: a line through the mean of each column's
// points, over faint dots from the minimum to the maximum of those points. x must ascend.
void chart_crowd(const struct chart *chart, enum style style, double *x, double *y, size_t count);

#endif
