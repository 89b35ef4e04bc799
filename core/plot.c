// core/plot.c -- curves as text and as a picture.
//
// Both drawings share their frame: the range of all points, round numbers on the axes. Text: each
// line has a mark of its own; where two share a place the first one shows. Picture: 3 bytes a
// pixel, lines drawn point to point, letters of 3 x 5 dots.
#include "core/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/image_write.h"
#include "core/letters.h"

enum { TICKS = 16 };

struct frame {
    double x0, x1, y0, y1; // what the axes show
    double x_ticks[TICKS], y_ticks[TICKS];
    int x_count, y_count;
    char x_format[16], y_format[16];
};

void plot_smooth(double *y, size_t count, size_t window)
{
    double *from = xreallocarray(NULL, count + 1, sizeof *from);
    memcpy(from, y, count * sizeof *from);
    const size_t reach = window / 2;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        size_t n = 0;
        for (size_t k = i > reach ? i - reach : 0; k <= i + reach && k < count; k++)
            if (isfinite(from[k])) {
                sum += from[k];
                n++;
            }
        if (isfinite(y[i]) && n) y[i] = sum / (double)n;
    }
    free(from);
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
    // One number more than steps may be too many.
    for (int n = most - 1; n > 0 && floor(max / step) - ceil(min / step) + 1 > most; n--)
        step = round_step(max - min, n);
    const double large = fmax(fabs(min), fabs(max));
    int count = 0;
    // Digits: down to the step, counted from the largest number.
    int digits = (int)(floor(log10(large)) - floor(log10(step))) + 1;
    if (digits < 1) digits = 1;
    snprintf(format, 16, "%%.%dg", digits > 12 ? 12 : digits);
    if (large < 1e6 && step >= 1e-5) {
        const int places = step < 1 ? (int)-floor(log10(step)) : 0;
        snprintf(format, 16, "%%.%df", places);
    }
    const double first = ceil(min / step - 1e-9);
    for (; count < most && (first + count) * step <= max + step * 1e-9; count++)
        ticks[count] = (first + count) * step + 0.0; // no -0
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

static void frame_fit(struct frame *f, const struct plot_line *lines, size_t count, int x_most,
                      int y_most)
{
    *f = (struct frame){ .x0 = INFINITY, .x1 = -INFINITY, .y0 = INFINITY, .y1 = -INFINITY };
    for (size_t l = 0; l < count; l++)
        for (size_t i = 0; i < lines[l].count; i++) {
            const double x = lines[l].x[i], y = lines[l].y[i];
            if (!isfinite(x) || !isfinite(y)) continue;
            f->x0 = fmin(f->x0, x);
            f->x1 = fmax(f->x1, x);
            f->y0 = fmin(f->y0, y);
            f->y1 = fmax(f->y1, y);
        }
    widen(&f->x0, &f->x1);
    widen(&f->y0, &f->y1);
    f->x_count = plot_ticks(f->x0, f->x1, x_most, f->x_ticks, f->x_format);
    f->y_count = plot_ticks(f->y0, f->y1, y_most, f->y_ticks, f->y_format);
}

static char *number(const char *format, double value)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return xasprintf(format, value);
#pragma GCC diagnostic pop
}

// Place of a value among n, 0 at `min`.
static int place(double value, double min, double max, int n)
{
    const int at = (int)lround((value - min) / (max - min) * (n - 1));
    return at < 0 ? 0 : at >= n ? n - 1 : at;
}

// --- as text -------------------------------------------------------------------------------------

static const char marks[PLOT_LINES + 1] = "*o+x#@%&";

static int terminal_width(void)
{
    struct winsize w;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col
                                                                                          : 80;
}

// Between neighbours the column between them is filled too, so that a steep curve has no gaps.
static void draw_text(char *grid, int w, int h, const struct frame *f, const struct plot_line *line,
                      char mark)
{
    int last_x = -1, last_y = -1;
    for (size_t i = 0; i < line->count; i++) {
        if (!isfinite(line->x[i]) || !isfinite(line->y[i])) {
            last_x = -1;
            continue;
        }
        const int x = place(line->x[i], f->x0, f->x1, w), y = place(line->y[i], f->y0, f->y1, h);
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

static int label_width(const struct frame *f)
{
    size_t width = 1;
    for (int i = 0; i < f->y_count; i++) {
        char *text = number(f->y_format, f->y_ticks[i]);
        if (strlen(text) > width) width = strlen(text);
        free(text);
    }
    return (int)width;
}

// The numbers below, each centred under its place as far as there is room.
static void x_labels(struct buf *b, const struct frame *f, int left, int w)
{
    int at = 0;
    for (int i = 0; i < f->x_count; i++) {
        char *text = number(f->x_format, f->x_ticks[i]);
        const int n = (int)strlen(text), column = left + place(f->x_ticks[i], f->x0, f->x1, w);
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

void plot_text(struct buf *b, const struct plot_line *lines, size_t count, int width, int height)
{
    struct frame f;
    if (width <= 0) width = terminal_width();
    if (width < 30) width = 30;
    if (height < 4) height = 4;
    if (count > PLOT_LINES) count = PLOT_LINES;
    frame_fit(&f, lines, count, width / 12 < TICKS ? width / 12 : TICKS, height / 3 + 1);
    const int left = label_width(&f) + 2, w = width - left - 1 > 10 ? width - left - 1 : 10;
    char *grid = xmalloc((size_t)w * (size_t)height);
    memset(grid, ' ', (size_t)w * (size_t)height);
    for (size_t l = 0; l < count; l++) draw_text(grid, w, height, &f, &lines[l], marks[l]);
    for (int r = 0; r < height; r++) {
        char *label = NULL;
        for (int i = 0; i < f.y_count; i++)
            if (place(f.y_ticks[i], f.y0, f.y1, height) == height - 1 - r && !label)
                label = number(f.y_format, f.y_ticks[i]);
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
    for (size_t l = 0; l < count; l++)
        buf_printf(b, "%s%c %s", l ? "   " : "", marks[l], lines[l].name);
    buf_putc(b, '\n');
    free(grid);
}

// --- as a picture --------------------------------------------------------------------------------

enum { WIDTH = 960, HEIGHT = 540, LEFT = 100, RIGHT = 20, TOP = 40, BOTTOM = 50, DOT = 2 };

static const uint8_t colours[PLOT_LINES][3] = {
    { 31, 90, 180 },  { 214, 96, 24 }, { 44, 140, 60 },  { 190, 40, 50 },
    { 120, 80, 170 }, { 120, 80, 60 }, { 200, 90, 170 }, { 90, 90, 90 },
};
static const uint8_t black[3] = { 0, 0, 0 }, grey[3] = { 225, 225, 225 };

static void dot(uint8_t *pixels, int x, int y, const uint8_t colour[3])
{
    if (x < 0 || y < 0 || x >= WIDTH || y >= HEIGHT) return;
    memcpy(pixels + ((size_t)y * WIDTH + (size_t)x) * 3, colour, 3);
}

static void stroke(uint8_t *pixels, double x0, double y0, double x1, double y1, int thick,
                   const uint8_t colour[3])
{
    const int n = (int)fmax(fabs(x1 - x0), fabs(y1 - y0)) + 1;
    for (int i = 0; i <= n; i++) {
        const int x = (int)lround(x0 + (x1 - x0) * i / n), y = (int)lround(y0 + (y1 - y0) * i / n);
        for (int a = 0; a < thick; a++)
            for (int c = 0; c < thick; c++) dot(pixels, x + a, y + c, colour);
    }
}

static int text_pixels(const char *text)
{
    return letters_width(text, DOT);
}

static void write_text(uint8_t *pixels, int x, int y, const char *text, const uint8_t colour[3])
{
    letters_draw(pixels, WIDTH, HEIGHT, x, y, DOT, text, colour);
}

static double pixel_x(const struct frame *f, double x)
{
    return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}

static double pixel_y(const struct frame *f, double y)
{
    return HEIGHT - BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(uint8_t *pixels, const struct frame *f)
{
    for (int i = 0; i < f->x_count; i++) {
        char *text = number(f->x_format, f->x_ticks[i]);
        const double x = pixel_x(f, f->x_ticks[i]);
        stroke(pixels, x, TOP, x, HEIGHT - BOTTOM, 1, grey);
        write_text(pixels, (int)x - text_pixels(text) / 2, HEIGHT - BOTTOM + 12, text, black);
        free(text);
    }
    for (int i = 0; i < f->y_count; i++) {
        char *text = number(f->y_format, f->y_ticks[i]);
        const double y = pixel_y(f, f->y_ticks[i]);
        stroke(pixels, LEFT, y, WIDTH - RIGHT, y, 1, grey);
        write_text(pixels, LEFT - 10 - text_pixels(text), (int)y - 5, text, black);
        free(text);
    }
    stroke(pixels, LEFT, TOP, LEFT, HEIGHT - BOTTOM, 1, black);
    stroke(pixels, LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, 1, black);
}

static void draw_line(uint8_t *pixels, const struct frame *f, const struct plot_line *line,
                      const uint8_t colour[3])
{
    bool pen = false;
    double x = 0, y = 0;
    for (size_t i = 0; i < line->count; i++) {
        const bool there = isfinite(line->x[i]) && isfinite(line->y[i]);
        const double to_x = there ? pixel_x(f, line->x[i]) : 0,
                     to_y = there ? pixel_y(f, line->y[i]) : 0;
        if (there && line->points)
            stroke(pixels, to_x - 2, to_y - 2, to_x - 2, to_y - 2, 5, colour);
        else if (there)
            stroke(pixels, pen ? x : to_x, pen ? y : to_y, to_x, to_y, 2, colour);
        x = to_x;
        y = to_y;
        pen = there;
    }
}

int plot_png(const char *path, const struct plot_line *lines, size_t count, struct err *err)
{
    struct frame f;
    uint8_t *pixels = xmalloc((size_t)WIDTH * HEIGHT * 3);
    memset(pixels, 255, (size_t)WIDTH * HEIGHT * 3);
    if (count > PLOT_LINES) count = PLOT_LINES;
    frame_fit(&f, lines, count, 9, 9);
    draw_axes(pixels, &f);
    int x = LEFT;
    for (size_t l = 0; l < count; l++) {
        draw_line(pixels, &f, &lines[l], colours[l]);
        write_text(pixels, x, TOP / 2 - 5, lines[l].name, colours[l]);
        x += text_pixels(lines[l].name) + 24;
    }
    const int status = image_write_png(path, pixels, WIDTH, HEIGHT, err);
    free(pixels);
    return status;
}
