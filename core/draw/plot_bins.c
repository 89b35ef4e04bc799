// core/draw/plot_bins.c -- a line of more points than there is room for, column by column: the
// mean, and the least and the most around it. Drawn point by point it would be one broad smear.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/draw/plot_parts.h"

enum { POINTS = 2 }; // a column, that still show as they are

// Do the places of the points never go back, and are there too many of them?
static bool crowded(const struct plot_line *line, bool log_x, size_t columns)
{
    size_t finite = 0;
    double last = -INFINITY;
    if (line->points || line->count <= POINTS * columns) return false;
    for (size_t i = 0; i < line->count; i++) {
        const double x = plot_at(log_x, line->x[i]);
        if (!isfinite(x) && last == -INFINITY) continue; // step 0 of a logarithmic axis
        if (!(x >= last)) return false;
        last = x;
        finite += isfinite(line->y[i]);
    }
    return finite > POINTS * columns;
}

// `columns` outside, as at most the first and the last are. Never less for a larger x.
static size_t column_of(double x, bool log_x, double x0, double x1, size_t columns)
{
    const double share = (plot_at(log_x, x) - x0) / (x1 - x0);
    if (!(share >= 0 && share <= 1)) return columns;
    return share < 1 ? (size_t)(share * (double)columns) : columns - 1;
}

// The points from `first` to `end`, which fall into one column.
static void add_bin(struct plot_bins *b, const struct plot_line *line, size_t first, size_t end)
{
    const size_t at = b->count;
    double x = 0, sum = 0, least = INFINITY, most = -INFINITY;
    size_t n = 0;
    for (size_t i = first; i < end; i++) {
        if (!isfinite(line->x[i]) || !isfinite(line->y[i])) continue;
        n++;
        x += (line->x[i] - x) / (double)n; // no sum that overflows
        sum += (line->y[i] - sum) / (double)n;
        least = fmin(least, line->y[i]);
        most = fmax(most, line->y[i]);
    }
    b->x[at] = n ? x : line->x[first];
    b->mean[at] = n ? sum : NAN; // a gap as wide as a column
    b->least[at] = n ? least : NAN;
    b->most[at] = n ? most : NAN;
    b->count++;
}

bool plot_bin(struct plot_bins *b, const struct plot_line *line, bool log_x, double x0, double x1,
              size_t columns)
{
    *b = (struct plot_bins){ 0 };
    if (!columns || !(x1 > x0) || !crowded(line, log_x, columns)) return false;
    double *all = xreallocarray(NULL, 4 * columns, sizeof *all);
    b->x = all;
    b->mean = all + columns;
    b->least = all + 2 * columns;
    b->most = all + 3 * columns;
    for (size_t i = 0; i < line->count;) {
        const size_t column = column_of(line->x[i], log_x, x0, x1, columns);
        size_t end = i + 1;
        while (end < line->count && column_of(line->x[end], log_x, x0, x1, columns) == column)
            end++;
        if (column < columns) add_bin(b, line, i, end);
        i = end;
    }
    return true;
}

void plot_bins_release(struct plot_bins *b)
{
    free(b->x);
    *b = (struct plot_bins){ 0 };
}
