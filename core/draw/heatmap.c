// core/draw/heatmap.c -- heat maps as pixels, over the picture, and as figures.
#include "core/draw/heatmap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/draw/figure.h"
#include "core/draw/ramp.h"
#include "core/picture/image.h"

double heatmap_share(const struct event_heatmap *map, int row, int col)
{
    const float v = map->values[(size_t)row * (size_t)map->cols + (size_t)col];
    const double span = (double)map->max - (double)map->min;
    if (!isfinite(v)) return NAN;
    return span > 0 ? fmin(fmax(((double)v - (double)map->min) / span, 0), 1) : 0;
}

double heatmap_alpha(double share)
{
    static const double most = 0.75;
    return isnan(share) ? 0 : most * share;
}

int heatmap_height(const struct event_heatmap *map, int width)
{
    const double w = map->area[2] - map->area[0], h = map->area[3] - map->area[1];
    double ratio = map->image && w > 0 && h > 0 ? h / w : (double)map->rows / map->cols;
    if (map->picture < 0)
        ratio = fmax(ratio, 0.4); // keeps a matrix of many columns from becoming a line
    const int height = (int)lround(width * fmin(ratio, 8));
    return height > 0 ? height : 1;
}

// Computes the mean colour of the picture, on white, in the rectangle (x, y, w, h), which is given
// in shares of the map; false if the rectangle is outside the picture.
static bool picture_at(const struct event_heatmap *map, double x, double y, double w, double h,
                       double rgb[3])
{
    const struct image *p = map->image;
    if (!p || !p->pixels) return false;
    const double wide = map->area[2] - map->area[0], high = map->area[3] - map->area[1];
    const double left = map->area[0] + x * wide, top = map->area[1] + y * high;
    const int64_t x0 = (int64_t)fmax(floor(left), 0), y0 = (int64_t)fmax(floor(top), 0);
    const int64_t x1 = (int64_t)fmin(fmax(floor(left + w * wide), left + 1), (double)p->width);
    const int64_t y1 = (int64_t)fmin(fmax(floor(top + h * high), top + 1), (double)p->height);
    double sum[3] = { 0 };
    for (int64_t r = y0; r < y1; r++)
        for (int64_t c = x0; c < x1; c++) {
            const uint8_t *at = p->pixels + (r * p->width + c) * p->channels;
            const double alpha = p->channels == 4 ? at[3] / 255.0 : 1;
            for (int k = 0; k < 3; k++) sum[k] += 255 + (at[k] - 255) * alpha;
        }
    for (int k = 0; k < 3; k++) rgb[k] = sum[k] / (double)((y1 - y0) * (x1 - x0));
    return y1 > y0 && x1 > x0;
}

void heatmap_draw(const struct event_heatmap *map, const char *ramp, int width, int height,
                  uint8_t *pixels)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *to = pixels + ((size_t)y * (size_t)width + (size_t)x) * 3;
            const int r = (int)((y + 0.5) / height * map->rows);
            const int c = (int)((x + 0.5) / width * map->cols);
            const double share = heatmap_share(map, r, c), over = heatmap_alpha(share);
            double below[3];
            const bool seen = picture_at(map, (double)x / width, (double)y / height, 1.0 / width,
                                         1.0 / height, below);
            const bool bare = isnan(share) || (map->dropped && map->dropped[r * map->cols + c]);
            const double light = seen ? 0.299 * below[0] + 0.587 * below[1] + 0.114 * below[2] : 67;
            const uint32_t rgb = ramp_colour(ramp, share);
            for (int k = 0; k < 3; k++) {
                double v = rgb >> (16 - 8 * k) & 255;
                if (seen) v = v * over + below[k] * (1 - over);
                if (bare) v = light * 0.6;
                to[k] = (uint8_t)lround(v);
            }
        }
}

void heatmap_title(const struct event_heatmap *map, char *text, size_t size)
{
    struct buf b = { 0 };
    if (map->condition) buf_printf(&b, "%s: ", map->condition);
    buf_puts(&b, map->name);
    if (map->layer >= 0) buf_printf(&b, ", layer %d", map->layer);
    if (map->layer >= 0 && map->head == -1) buf_puts(&b, ", all heads");
    if (map->head >= 0) buf_printf(&b, ", head %d", map->head);
    if (map->token >= 0) buf_printf(&b, ", token %d", map->token);
    if (map->layer >= 0 && map->token == -1) buf_puts(&b, ", all tokens");
    if (map->picture >= 0) buf_printf(&b, ", picture %d", map->picture);
    if (map->tile) buf_printf(&b, ", %s", map->tile);
    snprintf(text, size, "%s", b.data);
    buf_release(&b);
}

// --- as a figure --------------------------------------------------------------------------------
//
//      attention, layer 3,          ACROSS maps side by side
//      all heads
//      +---------+
//      |   map   |                  a matrix has numbers beside its rows and columns
//      +---------+
//      [colour bar]
//      0.001   0.09
//      share of attention

enum {
    ACROSS = 4, // maps beside each other
    MANY = 64,  // above this count, as many across as down
    SHADES = 64,
    LINES = 3 // maximum number of lines of a title
};

// In points.
static const double side = 160, gap = 12, size = 8, line = 11, bar = 6, numbers = 16;

struct sheet {
    struct figure *f;
    bool cut;
    double head, foot, left, below; // space around a cell's map, the same for all
};

static void write_at(const struct sheet *s, double x, double y, double at, const char *text)
{
    figure_label(s->f, x, y, at, 0, size, text);
}

// True for maps whose rows and columns get numbers: those without a picture (a matrix by layers).
static bool numbered(const struct event_heatmap *map)
{
    return !map->image && map->picture < 0;
}

// Returns the interval between numbered rows or columns, for `count` rows or columns on `length`
// points and `space` points per number.
static int number_every(int count, double length, double space)
{
    const int most = (int)(length / space) > 1 ? (int)(length / space) : 1;
    return (count + most - 1) / most;
}

static void draw_numbers(const struct sheet *s, const struct event_heatmap *map, double x, double y,
                         double height)
{
    char text[16];
    for (int i = 0; i < map->rows; i += number_every(map->rows, height, line)) {
        snprintf(text, sizeof text, "%d", i);
        write_at(s, x - 3, y + (i + 0.5) * height / map->rows + size * 0.36, 1, text);
    }
    for (int i = 0; i < map->cols; i += number_every(map->cols, side, 2 * size)) {
        snprintf(text, sizeof text, "%d", i);
        write_at(s, x + (i + 0.5) * side / map->cols, y + height + size + 2, 0.5, text);
    }
    if (map->axes[1]) write_at(s, x + side / 2, y + height + size + 2 + line, 0.5, map->axes[1]);
    if (map->axes[0])
        figure_label(s->f, x - numbers - 1, y + height / 2, 0.5, 90, size, map->axes[0]);
}

static void draw_bar(const struct sheet *s, const struct event_heatmap *map, double x, double y)
{
    const struct figure_look *look = &s->f->look;
    char text[64];
    uint8_t shades[SHADES * 3];
    for (int i = 0; i < SHADES; i++)
        ramp_bytes(look->ramp, (double)i / (SHADES - 1), shades + (size_t)(3 * i));
    figure_pixels(s->f, shades, SHADES, 1, x, y, side, bar);
    y += bar + line - 1;
    snprintf(text, sizeof text, "%.4g", (double)map->min);
    write_at(s, x, y, 0, text);
    snprintf(text, sizeof text, "%.4g%s", (double)map->max, s->cut ? " or more" : "");
    write_at(s, x + side, y, 1, text);
    y += line;
    if (map->unit) write_at(s, x + side / 2, y, 0.5, map->unit);
    if (map->dropped) write_at(s, x, y + (map->unit ? line : 0), 0, "grey: dropped");
}

// Draws the title, its last line directly above the map.
static void draw_title(const struct sheet *s, const struct event_heatmap *map, double x, double y)
{
    char title[512], *lines[LINES];
    heatmap_title(map, title, sizeof title);
    const int count = figure_text_wrap(s->f, size, title, side, lines, LINES, NULL);
    for (int i = 0; i < count; i++) {
        write_at(s, x, y - 4 - (count - 1 - i) * line, 0, lines[i]);
        free(lines[i]);
    }
}

// Draws plot.scale pixels per point, in SVG and PDF too.
static void draw_map(const struct sheet *s, const struct event_heatmap *map, double x, double y,
                     double height)
{
    const int width = (int)lround(side * s->f->look.scale);
    const int down = (int)fmax(lround(height * s->f->look.scale), 1);
    uint8_t *pixels = xmalloc((size_t)width * (size_t)down * 3);
    heatmap_draw(map, s->f->look.ramp, width, down, pixels);
    figure_pixels(s->f, pixels, width, down, x, y, side, height);
    free(pixels);
}

// Draws the words of the cells, shortened to fit.
static void draw_words(const struct sheet *s, const struct event_heatmap *map, double x, double y,
                       double height)
{
    const double wide = side / map->cols, high = height / map->rows, at = fmin(high, 5);
    for (int i = 0; map->words && i < map->rows * map->cols; i++) {
        const int row = i / map->cols;
        char *text = xstrdup(map->words[i] ? map->words[i] : "");
        for (size_t n = strlen(text); n && figure_text_width(s->f, at, text) > wide; text[n] = 0)
            while (n && ((unsigned char)text[--n] & 0xC0) == 0x80) {
            }
        figure_text(s->f, &(struct figure_text){ .x = x + (i % map->cols + 0.5) * wide,
                                                 .y = y + (row + 0.5) * high + at * 0.36,
                                                 .at = 0.5,
                                                 .size = at,
                                                 .rgb = 0xFFFFFF,
                                                 .text = text });
        free(text);
    }
}

// Computes the cell size. Returns the number of cells per row.
static size_t lay_out(struct sheet *s, const struct event_heatmap *maps, size_t count,
                      double *cell_x, double *cell_y)
{
    bool matrix = false, dropped = false, unit = false, axes[2] = { false, false };
    size_t longest = 1;
    double most = 1;
    for (size_t i = 0; i < count; i++) {
        char title[512];
        heatmap_title(&maps[i], title, sizeof title);
        longest = strlen(title) > longest ? strlen(title) : longest;
        most = fmax(most, heatmap_height(&maps[i], (int)side));
        matrix |= numbered(&maps[i]);
        dropped |= maps[i].dropped != NULL;
        unit |= maps[i].unit != NULL;
        for (int k = 0; k < 2; k++) axes[k] |= maps[i].axes[k] != NULL;
    }
    // Letters are 0.56 of the font size wide on average, and lines are not quite full.
    s->head = fmin(ceil((double)longest * size * 0.56 / (side * 0.9)), LINES) * line + 4;
    s->left = matrix ? numbers + (axes[0] ? line : 0) : 0;
    s->below = matrix ? line + 4 + (axes[1] ? line : 0) : 4;
    s->foot = bar + line + (unit ? line : 0) + (dropped ? line : 0) + 4;
    *cell_x = side + gap + s->left;
    *cell_y = s->head + most + s->below + s->foot + gap;
    return count > MANY ? (size_t)ceil(sqrt((double)count)) : ACROSS;
}

void heatmap_size(const struct event_heatmap *maps, size_t count, double *width, double *height)
{
    struct sheet s = { 0 };
    double cell_x, cell_y;
    const size_t wide = lay_out(&s, maps, count, &cell_x, &cell_y);
    const size_t across = count < wide ? count : wide, down = (count + wide - 1) / wide;
    *width = (double)across * cell_x + gap;
    *height = (double)down * cell_y + gap;
}

void heatmap_paint(struct figure *f, const struct event_heatmap *maps, size_t count, bool cut)
{
    struct sheet s = { .f = f, .cut = cut };
    double cell_x, cell_y;
    const size_t wide = lay_out(&s, maps, count, &cell_x, &cell_y);
    for (size_t i = 0; i < count; i++) {
        const size_t row = i / wide, col = i % wide;
        const double x = gap + s.left + (double)col * cell_x;
        const double y = gap + s.head + (double)row * cell_y;
        const double height = heatmap_height(&maps[i], (int)side);
        draw_title(&s, &maps[i], x, y);
        draw_map(&s, &maps[i], x, y, height);
        draw_words(&s, &maps[i], x, y, height);
        if (numbered(&maps[i])) draw_numbers(&s, &maps[i], x, y, height);
        draw_bar(&s, &maps[i], x, y + height + s.below);
    }
}

int heatmap_figure(const char *path, const struct figure_look *look,
                   const struct event_heatmap *maps, size_t count, struct err *err)
{
    double width, height;
    heatmap_size(maps, count, &width, &height);
    struct figure *f = figure_open(path, width, height, look, err);
    if (!f) return -1;
    if (count) figure_name(f, maps[0].name);
    heatmap_paint(f, maps, count, false);
    return figure_close(f, err);
}
