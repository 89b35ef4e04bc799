// core/draw/plot.h -- curves and bars as text and as a picture: axes with numbers, several lines.
//
//   struct plot_line lines[] = { { .name = "3 loss", .x = steps, .y = values, .count = n } };
//   plot_text(&b, NULL, lines, 1, 0, 16);                 // as wide as the terminal
//   plot_png("loss.png", &(struct plot_axes){ .x = "step", .y = "loss" }, lines, 1, &err);
//
// Room core/draw/: curves, bars and heat maps, as text and as pictures. It uses base and picture.
#ifndef CORE_DRAW_PLOT_H
#define CORE_DRAW_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "core/base/mem.h"

// Points that are not finite are gaps. Intervals are drawn around points, not where very many are
// drawn by their bins.
struct plot_line {
    const char *name;
    double *x, *y;      // [count]
    double *low, *high; // [count] an interval around each y, low <= high; both NULL: none
    size_t count;
    bool points; // not joined
};

enum { PLOT_LINES = 8 }; // that can be told apart

// What stands at the axes; all of it may be zero.
struct plot_axes {
    const char *title, *x, *y;
    // Bars instead of curves: x counts these names from 0.
    const char *const *names;
    size_t name_count;
    bool log_x, log_y; // what is not above 0 is a gap
};

// A line of very many points is drawn by its bins (below). axes NULL: plain ones. width 0: that of
// the terminal on standard output, else 80; height: lines of the drawing itself (bars take a line
// each).
void plot_text(struct buf *b, const struct plot_axes *axes, const struct plot_line *lines,
               size_t count, int width, int height);
int plot_png(const char *path, const struct plot_axes *axes, const struct plot_line *lines,
             size_t count, struct err *err);
// Each value becomes the mean of those at most window / 2 places away; gaps are passed over.
void plot_smooth(double *y, size_t count, size_t window);

// A line's points by columns, where there are more than can be told apart and x never goes back:
// in place of the line one draws its means, and from the least to the most around them.
struct plot_bins {
    double *x, *mean, *least, *most; // [count]; not finite: a gap
    size_t count;
};

// From x0 to x1 (logarithms if log_x). false: the line is drawn as it is, there is nothing to
// release.
bool plot_bin(struct plot_bins *b, const struct plot_line *line, bool log_x, double x0, double x1,
              size_t columns);
void plot_bins_release(struct plot_bins *b);

// Where an axis from min to max has its numbers: at most `most` round values; returns how many.
// *format prints them with as many digits as tell them apart.
int plot_ticks(double min, double max, int most, double *ticks, char format[16]);

#endif
