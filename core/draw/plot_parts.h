// core/draw/plot_parts.h -- what plot.c (text) and plot_png.c (pictures) share; others use
// core/draw/plot.h.
#ifndef CORE_DRAW_PLOT_PARTS_H
#define CORE_DRAW_PLOT_PARTS_H

#include "core/draw/plot.h"

enum { PLOT_TICKS = 16 };

// What the axes show. On a logarithmic axis limits and places are logarithms, ticks are values.
struct plot_frame {
    double x0, x1, y0, y1;
    double x_ticks[PLOT_TICKS], y_ticks[PLOT_TICKS];
    int x_count, y_count;
    char x_format[16], y_format[16];
    bool log_x, log_y;
};

// At most so many numbers on each axis.
void plot_fit(struct plot_frame *f, const struct plot_axes *axes, const struct plot_line *lines,
              size_t count, int x_most, int y_most);
// Where a value is on its axis; NaN: nowhere.
double plot_at(bool logarithmic, double value);
// The ends of the interval around point i, at their places on the y axis. false: it has none.
bool plot_interval(const struct plot_frame *f, const struct plot_line *line, size_t i, double *low,
                   double *high);
// A tick as text; belongs to the caller.
char *plot_number(const char *format, double value);

#endif
