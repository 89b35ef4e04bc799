// core/draw/plot_png.c -- curves and bars as a picture: 3 bytes a pixel, lines drawn point to
// point.
//
//      title
//      legend, in as many rows as it takes
//   y  +---------------------------+
//      |  few points of a line are marked, very many are drawn as means in a band
//      +---------------------------+
//                   x
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/draw/letters.h"
#include "core/draw/plot_parts.h"
#include "core/picture/image_write.h"

enum {
    WIDTH = 960,
    HEIGHT = 600,
    LEFT = 110,
    RIGHT = 24,
    BOTTOM = 84,
    DOT = 2,
    DASH = 14, // pixels of the dashes of lines with marks, but for the first
    LETTER = LETTER_HEIGHT * DOT,
    ROW = (LETTER_HEIGHT + LETTER_BELOW + 2) * DOT, // of the legend
    MARKED = 60,                                    // points of a line that still get marks
    BINS = 276                                      // of a line with more points: 3 pixels each
};

static const uint8_t colours[PLOT_LINES][3] = {
    { 31, 90, 180 },  { 214, 96, 24 }, { 44, 140, 60 },  { 190, 40, 50 },
    { 120, 80, 170 }, { 120, 80, 60 }, { 200, 90, 170 }, { 90, 90, 90 },
};
static const uint8_t black[3] = { 0, 0, 0 }, grey[3] = { 225, 225, 225 };

struct sheet {
    uint8_t *pixels;
    struct plot_frame frame;
    int top; // where the frame begins
};

static void dot(const struct sheet *s, int x, int y, const uint8_t colour[3])
{
    if (x < 0 || y < 0 || x >= WIDTH || y >= HEIGHT) return;
    memcpy(s->pixels + ((size_t)y * WIDTH + (size_t)x) * 3, colour, 3);
}

// A stroke of dashes begins with `done` pixels of the line behind it; returns how many then are.
// gap 0: whole.
static int dashes(const struct sheet *s, double x0, double y0, double x1, double y1, int thick,
                  int gap, int done, const uint8_t colour[3])
{
    const int n = (int)fmax(fabs(x1 - x0), fabs(y1 - y0)) + 1;
    for (int i = 0; i <= n; i++) {
        if (gap && (done + i) % (DASH + gap) >= DASH) continue;
        const int x = (int)lround(x0 + (x1 - x0) * i / n), y = (int)lround(y0 + (y1 - y0) * i / n);
        for (int a = 0; a < thick; a++)
            for (int c = 0; c < thick; c++) dot(s, x + a, y + c, colour);
    }
    return done + n;
}

static void stroke(const struct sheet *s, double x0, double y0, double x1, double y1, int thick,
                   const uint8_t colour[3])
{
    dashes(s, x0, y0, x1, y1, thick, 0, 0, colour);
}

static void box(const struct sheet *s, double x0, double y0, double x1, double y1,
                const uint8_t colour[3])
{
    for (int y = (int)lround(fmin(y0, y1)); y <= (int)lround(fmax(y0, y1)); y++)
        for (int x = (int)lround(x0); x <= (int)lround(x1); x++) dot(s, x, y, colour);
}

static int text_pixels(const char *text)
{
    return letters_width(text, DOT);
}

static void write_text(const struct sheet *s, int x, int y, const char *text,
                       const uint8_t colour[3])
{
    letters_draw(s->pixels, WIDTH, HEIGHT, x, y, DOT, text, colour);
}

static double pixel_x(const struct sheet *s, double x)
{
    const struct plot_frame *f = &s->frame;
    return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}

static double pixel_y(const struct sheet *s, double y)
{
    const struct plot_frame *f = &s->frame;
    return HEIGHT - BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (HEIGHT - s->top - BOTTOM);
}

// --- marks ---------------------------------------------------------------------------------------

// Each line has a mark of its own, so that they are told apart without colours: is (x, y), from -1
// to 1, within mark `l`?
static bool within_mark(size_t l, double x, double y)
{
    const double ax = fabs(x), ay = fabs(y);
    switch (l % 6) {
    case 0: return true;                  // a square
    case 1: return x * x + y * y <= 1.1;  // a disc
    case 2: return ax <= (y + 1) / 2;     // a triangle
    case 3: return ax + ay <= 1;          // a diamond
    case 4: return fabs(ax - ay) <= 0.45; // a cross
    default: return ax <= (1 - y) / 2;    // a triangle that stands on its tip
    }
}

// Earlier ones are larger: they can be seen behind later ones.
static int mark_size(size_t l, size_t count)
{
    const int size = 4 + (int)(count - 1 - l);
    return size < 7 ? size : 7;
}

static void mark(const struct sheet *s, double x, double y, size_t l, int size)
{
    for (int b = -size; b <= size; b++)
        for (int a = -size; a <= size; a++)
            if (within_mark(l, (double)a / size, (double)b / size))
                dot(s, (int)lround(x) + a, (int)lround(y) + b, colours[l]);
}

// --- around the frame ----------------------------------------------------------------------------

// Writes the legend from `y` on, or only counts its rows (s NULL).
static int legend(const struct sheet *s, const struct plot_line *lines, size_t count, bool bars,
                  int y)
{
    int x = LEFT, rows = 1;
    for (size_t l = 0; l < count; l++) {
        const int width = text_pixels(lines[l].name) + 32;
        if (x > LEFT && x + width > WIDTH) {
            x = LEFT;
            y += ROW;
            rows++;
        }
        if (s) {
            if (bars)
                box(s, x, y + 2, x + 12, y + LETTER - 2, colours[l]);
            else
                mark(s, x + 6, y + LETTER * 0.5, l, 5);
            write_text(s, x + 20, y, lines[l].name, colours[l]);
        }
        x += width + 16;
    }
    return rows;
}

static void draw_x_axis(const struct sheet *s)
{
    const struct plot_frame *f = &s->frame;
    int end = 0;
    for (int i = 0; i < f->x_count; i++) {
        char *text = plot_number(f->x_format, f->x_ticks[i]);
        const double x = pixel_x(s, plot_at(f->log_x, f->x_ticks[i]));
        const int from = (int)x - (text_pixels(text) - DOT) / 2;
        stroke(s, x, s->top, x, HEIGHT - BOTTOM, 1, grey);
        if (from > end) {
            write_text(s, from, HEIGHT - BOTTOM + 10, text, black);
            end = from + text_pixels(text);
        }
        free(text);
    }
}

// Names of bars, in two rows by turns where one is too short for them.
static void draw_names(const struct sheet *s, const struct plot_axes *axes)
{
    const double room = (double)(WIDTH - LEFT - RIGHT) / (double)axes->name_count;
    bool turns = false;
    for (size_t i = 0; i < axes->name_count; i++) turns |= text_pixels(axes->names[i]) > room;
    for (size_t i = 0; i < axes->name_count; i++) {
        const int x = (int)pixel_x(s, (double)i) - text_pixels(axes->names[i]) / 2;
        write_text(s, x, HEIGHT - BOTTOM + 10 + (turns && i % 2 ? ROW : 0), axes->names[i], black);
    }
}

static void draw_y_axis(const struct sheet *s)
{
    const struct plot_frame *f = &s->frame;
    for (int i = 0; i < f->y_count; i++) {
        char *text = plot_number(f->y_format, f->y_ticks[i]);
        const double y = pixel_y(s, plot_at(f->log_y, f->y_ticks[i]));
        stroke(s, LEFT, y, WIDTH - RIGHT, y, 1, grey);
        write_text(s, LEFT - 10 - text_pixels(text), (int)y - LETTER / 2, text, black);
        free(text);
    }
}

static void draw_frame(const struct sheet *s, const struct plot_axes *axes)
{
    draw_y_axis(s);
    if (axes->names)
        draw_names(s, axes);
    else
        draw_x_axis(s);
    stroke(s, LEFT, s->top, LEFT, HEIGHT - BOTTOM, 1, black);
    stroke(s, LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, 1, black);
    if (axes->title)
        write_text(s, (WIDTH + LEFT - RIGHT - text_pixels(axes->title)) / 2, 12, axes->title,
                   black);
    if (axes->x)
        write_text(s, (WIDTH + LEFT - RIGHT - text_pixels(axes->x)) / 2, HEIGHT - LETTER - 6,
                   axes->x, black);
    if (axes->y)
        letters_draw_up(s->pixels, WIDTH, HEIGHT, 8,
                        (HEIGHT - BOTTOM + s->top + text_pixels(axes->y)) / 2, DOT, axes->y, black);
}

// --- in it ---------------------------------------------------------------------------------------

// From low to high at the point x, with a stroke across at both ends.
static void draw_interval(const struct sheet *s, const struct plot_line *line, size_t i, double x,
                          const uint8_t colour[3])
{
    double low, high;
    if (!plot_interval(&s->frame, line, i, &low, &high)) return;
    const double top = pixel_y(s, high), bottom = pixel_y(s, low);
    stroke(s, x, top, x, bottom, 2, colour);
    stroke(s, x - 4, top, x + 5, top, 2, colour);
    stroke(s, x - 4, bottom, x + 5, bottom, 2, colour);
}

// Line `l` of `count`. Where two lie on each other, the one below is seen between the dashes.
static void draw_line(const struct sheet *s, const struct plot_line *line, size_t l, size_t count)
{
    const struct plot_frame *f = &s->frame;
    const bool marked = line->points || line->count <= MARKED;
    const int gap = l && marked ? 6 : 0;
    bool pen = false;
    int done = 0;
    double x = 0, y = 0;
    for (size_t i = 0; i < line->count; i++) {
        const double at_x = plot_at(f->log_x, line->x[i]), at_y = plot_at(f->log_y, line->y[i]);
        const bool there = isfinite(at_x) && isfinite(at_y);
        const double to_x = there ? pixel_x(s, at_x) : 0, to_y = there ? pixel_y(s, at_y) : 0;
        if (there && marked) mark(s, to_x, to_y, l, line->points ? 4 : mark_size(l, count));
        if (there) draw_interval(s, line, i, to_x, colours[l]);
        if (there && !line->points)
            done = dashes(s, pen ? x : to_x, pen ? y : to_y, to_x, to_y, 2, gap, done, colours[l]);
        x = to_x;
        y = to_y;
        pen = there;
    }
}

// From the least to the most of each bin, so light that other lines show through.
static void draw_band(const struct sheet *s, const struct plot_bins *b, const uint8_t colour[3])
{
    const struct plot_frame *f = &s->frame;
    for (size_t i = 0; i < b->count; i++) {
        const double low = plot_at(f->log_y, b->least[i]), high = plot_at(f->log_y, b->most[i]);
        if (!isfinite(high)) continue;
        const double top = pixel_y(s, high), bottom = pixel_y(s, isfinite(low) ? low : f->y0);
        const double x = pixel_x(s, plot_at(f->log_x, b->x[i]));
        if (!(top >= 0 && bottom < HEIGHT && x >= 1 && x + 2 < WIDTH)) continue; // beyond doubles
        for (int y = (int)top; y <= (int)bottom; y++)
            for (int k = -1; k <= 1; k++) {
                uint8_t *p = s->pixels + ((size_t)y * WIDTH + (size_t)((int)x + k)) * 3;
                for (int c = 0; c < 3; c++) p[c] = (uint8_t)((3 * p[c] + colour[c]) / 4);
            }
    }
}

// All bands first: the means are drawn over them.
static void draw_lines(const struct sheet *s, const struct plot_line *lines, size_t count)
{
    const struct plot_frame *f = &s->frame;
    struct plot_bins bins[PLOT_LINES];
    bool crowded[PLOT_LINES];
    for (size_t l = 0; l < count; l++) {
        crowded[l] = plot_bin(&bins[l], &lines[l], f->log_x, f->x0, f->x1, BINS);
        draw_band(s, &bins[l], colours[l]);
    }
    for (size_t l = 0; l < count; l++) {
        const struct plot_line mean = { .x = bins[l].x, .y = bins[l].mean, .count = bins[l].count };
        draw_line(s, crowded[l] ? &mean : &lines[l], l, count);
        plot_bins_release(&bins[l]);
    }
}

// Line `l` of `count` at each name.
static void draw_bars(const struct sheet *s, const struct plot_line *line, size_t l, size_t count)
{
    const struct plot_frame *f = &s->frame;
    const double wide = 0.8 / (double)count, base = f->log_y ? f->y0 : 0;
    for (size_t i = 0; i < line->count; i++) {
        const double y = plot_at(f->log_y, line->y[i]);
        const double x = line->x[i] - 0.4 + wide * (double)l;
        if (!isfinite(y)) continue;
        box(s, pixel_x(s, x) + 1, pixel_y(s, y), pixel_x(s, x + wide) - 2, pixel_y(s, base),
            colours[l]);
        draw_interval(s, line, i, pixel_x(s, x + wide / 2), black);
    }
}

// No point lies on the frame itself; bars stand on it.
static void add_margin(struct plot_frame *f, bool bars)
{
    const double margin = (f->y1 - f->y0) * 0.03;
    f->y1 += margin;
    if (!bars || f->y0 < 0 || f->log_y) f->y0 -= margin; // the smallest of log bars is seen too
    if (!bars) f->x0 -= (f->x1 - f->x0) * 0.01;
    if (!bars) f->x1 += (f->x1 - f->x0) * 0.01;
}

int plot_png(const char *path, const struct plot_axes *axes, const struct plot_line *lines,
             size_t count, struct err *err)
{
    static const struct plot_axes plain = { 0 };
    struct sheet s = { .pixels = xmalloc((size_t)WIDTH * HEIGHT * 3) };
    if (!axes) axes = &plain;
    if (count > PLOT_LINES) count = PLOT_LINES;
    memset(s.pixels, 255, (size_t)WIDTH * HEIGHT * 3);
    const bool bars = axes->names != NULL;
    const int head = axes->title ? 12 + ROW : 10;
    s.top = head + legend(NULL, lines, count, bars, 0) * ROW + 6;
    plot_fit(&s.frame, axes, lines, count, 9, 9);
    add_margin(&s.frame, bars);
    draw_frame(&s, axes);
    legend(&s, lines, count, bars, head);
    for (size_t l = 0; l < count && bars; l++) draw_bars(&s, &lines[l], l, count);
    if (!bars) draw_lines(&s, lines, count);
    const int status = image_write_png(path, s.pixels, WIDTH, HEIGHT, err);
    free(s.pixels);
    return status;
}
