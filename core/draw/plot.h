// core/draw/plot.h -- curves and bars as text and as figures: axes with numbers, several lines.
//
//   struct plot_line lines[] = { { .name = "3 loss", .x = steps, .y = values, .count = n } };
//   plot_text(&b, NULL, lines, 1, 0, 16);                 // as wide as the terminal
//   const struct plot_axes axes = { .x = "step", .y = "loss" };
//   plot_figure("loss.pdf", &look, &axes, lines, 1, &err);
//
// Room core/draw/: curves, bars and heat maps, as text and as figures. Uses base, settings and
// picture.
#ifndef CORE_DRAW_PLOT_H
#define CORE_DRAW_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/draw/figure.h"

// Points that are not finite are gaps. Intervals are drawn unless the points are binned.
struct plot_line {
    const char *name;
    double *x, *y;      // [count]
    double *low, *high; // [count] an interval around each y, low <= high; both NULL: none
    size_t count;
    bool points; // the points are not joined by a line
};

enum { PLOT_LINES = FIGURE_LINES }; // number of distinguishable lines

// Labels and scales of the axes; may be zeroed.
struct plot_axes {
    const char *title, *x, *y;
    // If not NULL, draws bars instead of curves; x is then an index into these names.
    const char *const *names;
    size_t name_count;
    bool log_x, log_y; // values of 0 and below are gaps
};

// Appends the plot as text; bins a line with very many points (plot_bin). `axes` may be NULL.
// `width` 0: the width of the terminal on standard output, or 80 without a terminal. `height`:
// lines of the drawing itself; ignored for bars, which take a line each.
void plot_text(struct buf *b, const struct plot_axes *axes, const struct plot_line *lines,
               size_t count, int width, int height);
// Writes a PNG, SVG or PDF file, as the extension of `path` says.
int plot_figure(const char *path, const struct figure_look *look, const struct plot_axes *axes,
                const struct plot_line *lines, size_t count, struct err *err);
// Counts the points that can be drawn. *lost: finite points that a logarithmic axis cannot show.
size_t plot_count(const struct plot_axes *axes, const struct plot_line *lines, size_t count,
                  size_t *lost);
// Sorts a line by x, and replaces points with the same x with their mean and its 95% interval
// (allocates low and high). Leaves out points that are not finite.
void plot_mean(struct plot_line *line);
// Replaces each value with the mean of `window` values around it, one more before it than after it
// if `window` is even; skips gaps, and values beyond the ends.
void plot_smooth(double *y, size_t count, size_t window);

// A line's points binned by columns, for a line with ascending x and more points than the columns
// can show. Plots draw the means, and around them the range from minimum to maximum.
struct plot_bins {
    double *x, *mean, *least, *most; // [count]; not finite: a gap
    size_t count;
};

// Bins the points from x0 to x1, which are logarithms if log_x. Returns false if the line needs no
// bins; then there is nothing to release.
bool plot_bin(struct plot_bins *b, const struct plot_line *line, bool log_x, double x0, double x1,
              size_t columns);
void plot_bins_release(struct plot_bins *b);

// Tick positions of an axis from min to max: at most `most` round values; returns their number.
// *format prints them with as many digits as needed to tell them apart.
int plot_ticks(double min, double max, int most, double *ticks, char format[16]);
char *plot_number(const char *format, double value); // a tick as text; the caller frees it
// Returns (value - min) / (max - min), clamped to -1..2; 0 for NaN. Never overflows.
double plot_share(double value, double min, double max);

#endif
