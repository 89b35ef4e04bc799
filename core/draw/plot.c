// core/draw/plot.c -- the frame of all plots, and curves and bars as text.
//
// The frame: the range of all points, and round numbers on the axes. In text each line has a mark;
// where lines overlap, the first shows. Figures: core/draw/plot_figure.c.
#include "core/draw/plot.h"
#include "core/base/tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/draw/plot_parts.h"

struct mean_point {
    double x, y;
};

static int by_x(const void *a, const void *b)
{
    const struct mean_point *p = a, *q = b;
    return p->x < q->x ? -1 : p->x > q->x;
}

void plot_mean(struct plot_line *line)
{
    struct mean_point *all = xreallocarray(NULL, line->count + 1, sizeof *all);
    size_t n = 0;
    line->low = xreallocarray(NULL, line->count + 1, sizeof *line->low);
    line->high = xreallocarray(NULL, line->count + 1, sizeof *line->high);
    for (size_t i = 0; i < line->count; i++)
        if (isfinite(line->x[i]) && isfinite(line->y[i]))
            all[n++] = (struct mean_point){ line->x[i], line->y[i] };
    qsort(all, n, sizeof *all, by_x);
    line->count = 0;
    for (size_t i = 0, j; i < n; i = j) {
        struct tally t = { 0 };
        const size_t to = line->count++;
        for (j = i; j < n && all[j].x == all[i].x; j++) tally_add(&t, all[j].y);
        line->x[to] = all[i].x;
        line->y[to] = tally_mean(&t);
        tally_interval(&t, &line->low[to], &line->high[to]);
    }
    free(all);
}

// Sum and number of the finite values from one index to another.
struct part {
    double sum;
    size_t n;
};

static struct part part_with(struct part p, double y)
{
    return isfinite(y) ? (struct part){ p.sum + y, p.n + 1 } : p;
}

// Splits the values into blocks as long as the window. Each window is then the end of a block and
// the start of the next one (van Herk), whose sums are computed once.
void plot_smooth(double *y, size_t count, size_t window)
{
    static const struct part none;
    if (!count) return;
    struct part *starts = xreallocarray(NULL, 2 * count, sizeof *starts), *ends = starts + count;
    for (size_t i = 0; i < count; i++)
        starts[i] = part_with(i % window ? starts[i - 1] : none, y[i]);
    for (size_t i = count; i-- > 0;)
        ends[i] = part_with(i + 1 < count && (i + 1) % window ? ends[i + 1] : none, y[i]);
    const size_t before = window / 2, after = (window - 1) / 2;
    for (size_t i = 0; i < count; i++) {
        const size_t from = i > before ? i - before : 0;
        const size_t to = i + after < count ? i + after : count - 1;
        struct part p = from % window ? ends[from] : starts[to];
        if (from / window != to / window) p.sum += starts[to].sum, p.n += starts[to].n;
        if (isfinite(y[i]) && p.n) y[i] = p.sum / (double)p.n;
    }
    free(starts);
}

// --- the frame -----------------------------------------------------------------------------------

static double round_step(double span, int most)
{
    const double raw = span / most, ten = pow(10, floor(log10(raw)));
    return raw <= ten ? ten : raw <= 2 * ten ? 2 * ten : raw <= 5 * ten ? 5 * ten : 10 * ten;
}

int plot_ticks(double min, double max, int most, double *ticks, char format[16])
{
    double step = round_step(max - min, most > 1 ? most : 1);
    // A range of `most` steps can have most + 1 ticks: enlarges the step until the ticks fit.
    for (int n = most - 1; n > 0 && floor(max / step) - ceil(min / step) + 1 > most; n--)
        step = round_step(max - min, n);
    const double large = fmax(fabs(min), fabs(max));
    int count = 0;
    // Prints the digits from the largest number down to the step.
    const double digits = floor(log10(large)) - floor(log10(step)) + 1;
    snprintf(format, 16, "%%.%dg", (int)fmin(fmax(digits, 1), 12));
    if (large < 1e6 && step >= 1e-5) {
        const int decimals = step < 1 ? (int)-floor(log10(step)) : 0;
        snprintf(format, 16, "%%.%df", decimals);
    }
    const double first = ceil(min / step - 1e-9);
    for (; count < most && (first + count) * step <= max + step * 1e-9; count++)
        ticks[count] = (first + count) * step + 0.0; // no -0
    return count;
}

// Finds ticks between `min` and `max`, which are logarithms: powers of ten, and 2 and 5 times these
// if they fit.
static int log_ticks(double min, double max, int most, double *ticks, char format[16])
{
    static const double within[] = { 1, 2, 5 };
    const int decades = (int)(floor(max) - ceil(min)) + 1;
    const int few = (max - min) * 3 + 1 <= most ? 3 : 1;
    const int apart = decades > most ? (decades + most - 1) / most : 1;
    int count = 0;
    snprintf(format, 16, "%%.6g");
    for (int e = (int)floor(min); e <= (int)ceil(max); e += apart)
        for (int k = 0; k < few && count < most; k++) {
            const double at = e + log10(within[k]);
            if (at >= min - 1e-9 && at <= max + 1e-9) ticks[count++] = pow(10, e) * within[k];
        }
    // Uses plain ticks if the range is too narrow for powers, unless its numbers would not be
    // finite.
    if (count < 2 && most > 1 && min > -300 && max < 300)
        return plot_ticks(pow(10, min), pow(10, max), most, ticks, format);
    return count;
}

static void widen(double *min, double *max)
{
    if (!(*min <= *max)) { // no point at all
        *min = 0;
        *max = 1;
    } else if (*max - *min <= 1e-12 * fmax(fabs(*min), fabs(*max)) || *min == *max) {
        const double margin = *min != 0 ? fabs(*min) * 0.05 : 1;
        *min -= margin;
        *max += margin;
    }
}

double plot_at(bool logarithmic, double value)
{
    if (!isfinite(value) || (logarithmic && value <= 0)) return NAN;
    return logarithmic ? log10(value) : value;
}

bool plot_interval(const struct plot_frame *f, const struct plot_line *line, size_t i, double *low,
                   double *high)
{
    if (!line->low || !isfinite(plot_at(f->log_y, line->y[i]))) return false;
    *low = plot_at(f->log_y, line->low[i]);
    *high = plot_at(f->log_y, line->high[i]);
    return isfinite(*low) && isfinite(*high);
}

size_t plot_count(const struct plot_axes *axes, const struct plot_line *lines, size_t count,
                  size_t *lost)
{
    const bool log_x = axes && axes->log_x && !axes->names, log_y = axes && axes->log_y;
    size_t shown = 0;
    *lost = 0;
    for (size_t l = 0; l < count; l++)
        for (size_t i = 0; i < lines[l].count; i++) {
            const double x = lines[l].x[i], y = lines[l].y[i];
            if (isfinite(plot_at(log_x, x)) && isfinite(plot_at(log_y, y)))
                shown++;
            else if (isfinite(x) && isfinite(y))
                ++*lost;
        }
    return shown;
}

void plot_fit(struct plot_frame *f, const struct plot_axes *axes, const struct plot_line *lines,
              size_t count, int x_most, int y_most)
{
    *f = (struct plot_frame){ .x0 = INFINITY, .x1 = -INFINITY, .y0 = INFINITY, .y1 = -INFINITY };
    f->log_x = axes && axes->log_x && !axes->names;
    f->log_y = axes && axes->log_y;
    for (size_t l = 0; l < count; l++)
        for (size_t i = 0; i < lines[l].count; i++) {
            const double x = plot_at(f->log_x, lines[l].x[i]), y = plot_at(f->log_y, lines[l].y[i]);
            if (!isfinite(x) || !isfinite(y)) continue;
            f->x0 = fmin(f->x0, x);
            f->x1 = fmax(f->x1, x);
            f->y0 = fmin(f->y0, y);
            f->y1 = fmax(f->y1, y);
            double low, high;
            if (!plot_interval(f, &lines[l], i, &low, &high)) continue;
            f->y0 = fmin(f->y0, low);
            f->y1 = fmax(f->y1, high);
        }
    if (axes && axes->names) { // bars start at 0 and extend half a unit around their index
        f->x0 = -0.5;
        f->x1 = (double)axes->name_count - 0.5;
        if (!f->log_y) f->y0 = fmin(f->y0, 0), f->y1 = fmax(f->y1, 0);
    }
    widen(&f->x0, &f->x1);
    widen(&f->y0, &f->y1);
    f->x_count = (f->log_x ? log_ticks : plot_ticks)(f->x0, f->x1, x_most, f->x_ticks, f->x_format);
    f->y_count = (f->log_y ? log_ticks : plot_ticks)(f->y0, f->y1, y_most, f->y_ticks, f->y_format);
}

char *plot_number(const char *format, double value)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return xasprintf(format, value);
#pragma GCC diagnostic pop
}

double plot_share(double value, double min, double max)
{
    const double share = (value / 2 - min / 2) / (max / 2 - min / 2);
    return isnan(share) ? 0 : fmin(fmax(share, -1), 2);
}

// Maps a value to an index 0..n-1, 0 at `min`.
static int cell_index(double value, double min, double max, int n)
{
    const int at = (int)lround(plot_share(value, min, max) * (n - 1));
    return at < 0 ? 0 : at >= n ? n - 1 : at;
}

// --- bins ----------------------------------------------------------------------------------------
//
// Reduces a line with more points than columns to each column's mean, minimum and maximum. Drawn
// point by point, it would be an unreadable band.

enum { POINTS = 2 }; // maximum number per column at which each point is drawn

// True if the points are in order and too many for the columns.
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

// Returns the column of x, monotonic in x; `columns` if x is outside, which only the first and last
// points can be.
static size_t column_of(double x, bool log_x, double x0, double x1, size_t columns)
{
    const double share = (plot_at(log_x, x) - x0) / (x1 - x0);
    if (!(share >= 0 && share <= 1)) return columns;
    return share < 1 ? (size_t)(share * (double)columns) : columns - 1;
}

// Adds the bin of the points [first, end), which fall into one column.
static void add_bin(struct plot_bins *b, const struct plot_line *line, size_t first, size_t end)
{
    const size_t at = b->count;
    double x = 0, sum = 0, least = INFINITY, most = -INFINITY;
    size_t n = 0;
    for (size_t i = first; i < end; i++) {
        if (!isfinite(line->x[i]) || !isfinite(line->y[i])) continue;
        n++;
        x += (line->x[i] - x) / (double)n; // avoids an overflowing sum
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

// --- as text -------------------------------------------------------------------------------------

static const char marks[PLOT_LINES + 1] = "*o+x#@%&";

static int terminal_width(void)
{
    struct winsize w;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col
                                                                                          : 80;
}

// Draws a line. Fills the columns between neighbouring points, so that a steep curve has no gaps.
static void draw_text(char *grid, int w, int h, const struct plot_frame *f,
                      const struct plot_line *line, char mark)
{
    int last_x = -1, last_y = -1;
    for (size_t i = 0; i < line->count; i++) {
        const double at_x = plot_at(f->log_x, line->x[i]), at_y = plot_at(f->log_y, line->y[i]);
        if (!isfinite(at_x) || !isfinite(at_y)) {
            last_x = -1;
            continue;
        }
        const int x = cell_index(at_x, f->x0, f->x1, w), y = cell_index(at_y, f->y0, f->y1, h);
        const int from = last_x < 0 || line->points ? x : last_x;
        for (int at = from; at <= x; at++) {
            const int step = x > from ? last_y + (y - last_y) * (at - from) / (x - from) : y;
            char *cell = &grid[(h - 1 - step) * w + at];
            if (*cell == ' ') *cell = mark;
        }
        last_x = x;
        last_y = y;
    }
}

// Draws intervals, as '|' in empty cells.
static void draw_intervals(char *grid, int w, int h, const struct plot_frame *f,
                           const struct plot_line *line)
{
    for (size_t i = 0; i < line->count; i++) {
        const double at = plot_at(f->log_x, line->x[i]);
        double low, high;
        if (!isfinite(at) || !plot_interval(f, line, i, &low, &high)) continue;
        const int x = cell_index(at, f->x0, f->x1, w), end = cell_index(high, f->y0, f->y1, h);
        for (int y = cell_index(low, f->y0, f->y1, h); y <= end; y++) {
            char *cell = &grid[(h - 1 - y) * w + x];
            if (*cell == ' ') *cell = '|';
        }
    }
}

// Draws a line of too many points column by column: its mark at the mean and, for a single line,
// '.' from minimum to maximum. Draws any other line point by point and returns false.
static bool draw_crowd(char *grid, int w, int h, const struct plot_frame *f,
                       const struct plot_line *line, char mark, bool alone)
{
    struct plot_bins b;
    if (!plot_bin(&b, line, f->log_x, f->x0, f->x1, (size_t)w)) {
        draw_text(grid, w, h, f, line, mark);
        return false;
    }
    draw_text(grid, w, h, f, &(struct plot_line){ .x = b.x, .y = b.mean, .count = b.count }, mark);
    for (size_t i = 0; i < b.count && alone; i++) {
        const double low = plot_at(f->log_y, b.least[i]), high = plot_at(f->log_y, b.most[i]);
        if (!isfinite(high)) continue;
        const int x = cell_index(plot_at(f->log_x, b.x[i]), f->x0, f->x1, w);
        const int from = isfinite(low) ? cell_index(low, f->y0, f->y1, h) : 0;
        for (int y = from; y <= cell_index(high, f->y0, f->y1, h); y++) {
            char *cell = &grid[(h - 1 - y) * w + x];
            if (*cell == ' ') *cell = '.';
        }
    }
    plot_bins_release(&b);
    return true;
}

static int label_width(const struct plot_frame *f)
{
    size_t width = 1;
    for (int i = 0; i < f->y_count; i++) {
        char *text = plot_number(f->y_format, f->y_ticks[i]);
        if (strlen(text) > width) width = strlen(text);
        free(text);
    }
    return (int)width;
}

// Writes the numbers below the axis, each centred if it fits.
static void x_labels(struct buf *b, const struct plot_frame *f, int left, int w)
{
    int at = 0;
    for (int i = 0; i < f->x_count; i++) {
        char *text = plot_number(f->x_format, f->x_ticks[i]);
        const int n = (int)strlen(text);
        const int column = left + cell_index(plot_at(f->log_x, f->x_ticks[i]), f->x0, f->x1, w);
        int from = column - n / 2;
        if (from + n > left + w) from = left + w - n;
        if (from >= at + (at > 0)) {
            buf_printf(b, "%*s%s", from - at, "", text);
            at = from + n;
        }
        free(text);
    }
    buf_putc(b, '\n');
}

static void curves_text(struct buf *b, const struct plot_axes *axes, const struct plot_line *lines,
                        size_t count, int width, int height)
{
    struct plot_frame f;
    const int x_most = width / 12, y_most = height / 3 + 1;
    plot_fit(&f, axes, lines, count, x_most < PLOT_TICKS ? x_most : PLOT_TICKS,
             y_most < PLOT_TICKS ? y_most : PLOT_TICKS);
    const int left = label_width(&f) + 2, w = width - left - 1 > 10 ? width - left - 1 : 10;
    char *grid = xmalloc((size_t)w * (size_t)height);
    memset(grid, ' ', (size_t)w * (size_t)height);
    bool crowd[PLOT_LINES];
    for (size_t l = 0; l < count; l++)
        crowd[l] = draw_crowd(grid, w, height, &f, &lines[l], marks[l], count == 1);
    for (size_t l = 0; l < count; l++)
        if (!crowd[l]) draw_intervals(grid, w, height, &f, &lines[l]);
    for (int r = 0; r < height; r++) {
        char *label = NULL;
        for (int i = 0; i < f.y_count; i++)
            if (cell_index(plot_at(f.log_y, f.y_ticks[i]), f.y0, f.y1, height) == height - 1 - r &&
                !label)
                label = plot_number(f.y_format, f.y_ticks[i]);
        int end = w;
        while (end && grid[r * w + end - 1] == ' ') end--;
        buf_printf(b, "%*s %c%.*s\n", left - 2, label ? label : "", label ? '+' : '|', end,
                   grid + (size_t)r * (size_t)w);
        free(label);
    }
    buf_printf(b, "%*s+", left - 1, "");
    for (int i = 0; i < w; i++) buf_putc(b, '-');
    buf_putc(b, '\n');
    x_labels(b, &f, left, w);
    free(grid);
}

// Links the points of each name: next[count + n] is the first point of name n, next[i] the one
// after point i; numbers from `count` on end a list.
static size_t *link_points(const struct plot_line *line, size_t names)
{
    size_t *next = xreallocarray(NULL, line->count + names + 1, sizeof *next);
    for (size_t n = 0; n < names; n++) next[line->count + n] = line->count;
    for (size_t i = line->count; i-- > 0;) {
        const double x = line->x[i];
        if (!(x >= 0 && x < (double)names)) continue;
        size_t *first = &next[line->count + (size_t)x];
        next[i] = *first;
        *first = i;
    }
    return next;
}

// Writes a line for each bar; the longest bar reaches the edge.
static void bars_text(struct buf *b, const struct plot_axes *axes, const struct plot_line *lines,
                      size_t count, int width)
{
    enum { LONGEST = 1000 }; // bytes of a name that widen the others' lines
    size_t longest = 1, *next[PLOT_LINES];
    double most = 0;
    for (size_t i = 0; i < axes->name_count; i++) {
        const size_t length = strlen(axes->names[i]);
        if (length > longest) longest = length < LONGEST ? length : LONGEST;
    }
    for (size_t l = 0; l < count; l++) {
        next[l] = link_points(&lines[l], axes->name_count);
        for (size_t i = 0; i < lines[l].count; i++)
            if (isfinite(lines[l].y[i])) most = fmax(most, fabs(lines[l].y[i]));
    }
    const int taken = (int)longest + 14 + (count && lines->low ? 22 : 0);
    const int length = width - taken > 10 ? width - taken : 10;
    for (size_t n = 0; n < axes->name_count; n++)
        for (size_t l = 0; l < count; l++)
            for (size_t at = lines[l].count + n, i; (i = next[l][at]) < lines[l].count; at = i) {
                const double y = lines[l].y[i];
                if (!isfinite(y)) continue;
                buf_printf(b, "%*s %10.5g ", (int)longest, l ? "" : axes->names[n], y);
                const int bar = most > 0 ? (int)lround(fabs(y) / most * length) : 0;
                for (int k = 0; k < bar; k++) buf_putc(b, marks[l]);
                if (lines[l].low && isfinite(lines[l].low[i]) && isfinite(lines[l].high[i]))
                    buf_printf(b, " (%.4g to %.4g)", lines[l].low[i], lines[l].high[i]);
                buf_putc(b, '\n');
            }
    for (size_t l = 0; l < count; l++) free(next[l]);
}

void plot_text(struct buf *b, const struct plot_axes *axes, const struct plot_line *lines,
               size_t count, int width, int height)
{
    if (width <= 0) width = terminal_width();
    if (width < 30) width = 30;
    if (height < 4) height = 4;
    if (count > PLOT_LINES) count = PLOT_LINES;
    if (axes && axes->names)
        bars_text(b, axes, lines, count, width);
    else
        curves_text(b, axes, lines, count, width, height);
    for (size_t l = 0; l < count; l++)
        buf_printf(b, "%s%c %s", l ? "   " : "", marks[l], lines[l].name);
    buf_putc(b, '\n');
}
