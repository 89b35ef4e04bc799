// core/draw/plot_parts.h -- shared by plot.c (text) and plot_figure.c (figures); others use
// core/draw/plot.h.
#ifndef CORE_DRAW_PLOT_PARTS_H
#define CORE_DRAW_PLOT_PARTS_H

#include "core/draw/plot.h"

enum { PLOT_TICKS = 16 };

// Range and ticks of the axes. On a logarithmic axis limits and positions are logarithms, ticks are
// values.
struct plot_frame {
    double x0, x1, y0, y1;
    double x_ticks[PLOT_TICKS], y_ticks[PLOT_TICKS];
    int x_count, y_count;
    char x_format[16], y_format[16];
    bool log_x, log_y;
};

// Fits ranges and ticks to the lines. x_most, y_most: maximum number of ticks per axis.
void plot_fit(struct plot_frame *f, const struct plot_axes *axes, const struct plot_line *lines,
              size_t count, int x_most, int y_most);
// Returns the position of a value on its axis: the value or its logarithm; NaN if it has none.
double plot_at(bool logarithmic, double value);
// Computes the bounds of the interval around point i, as positions on the y axis; false if it has
// none.
bool plot_interval(const struct plot_frame *f, const struct plot_line *line, size_t i, double *low,
                   double *high);

#endif
