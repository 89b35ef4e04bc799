// core/draw/heatmap_figure.c -- maps as a figure: title, map, colour bar with its ends and unit.
//
//      attention, layer 3,          as many side by side as fit
//      all heads
//      +---------+
//      |   map   |                  a matrix has numbers beside its rows and columns
//      +---------+
//      [colour bar]
//      0.001   0.09
//      share of attention
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/draw/figure.h"
#include "core/draw/heatmap.h"
#include "core/draw/ramp.h"

enum {
    ACROSS = 4, // maps beside each other
    MANY = 64,  // from here on as many across as down
    SHADES = 64,
    LINES = 3 // of a title
};

// Points.
static const double side = 160, gap = 12, size = 8, line = 11, bar = 6, numbers = 16;

struct sheet {
    struct figure *f;
    bool cut;
    double head, foot, left, below; // around the map of a cell, alike for all
};

static void write_at(const struct sheet *s, double x, double y, double at, const char *text)
{
    figure_text(
        s->f,
        &(struct figure_text){
            .x = x, .y = y, .at = at, .size = size, .rgb = s->f->look.theme->text, .text = text });
}

// Of what lies over no picture (a matrix by layers): numbers of rows and columns.
static bool numbered(const struct event_heatmap *map)
{
    return !map->image && map->picture < 0;
}

// Which of `count` rows or columns have a number, on `length` points of `room` each: every so many.
static int number_every(int count, double length, double room)
{
    const int most = (int)(length / room) > 1 ? (int)(length / room) : 1;
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
    if (!map->axes[0]) return;
    figure_text(s->f, &(struct figure_text){ .x = x - numbers - 1,
                                             .y = y + height / 2,
                                             .at = 0.5,
                                             .size = size,
                                             .turn = 90,
                                             .rgb = s->f->look.theme->text,
                                             .text = map->axes[0] });
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

// The title stands on the map, however many lines it has.
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

// A pixel for each of the file's: in SVG and PDF, two a point.
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

// The words of the cells, as much of each as fits.
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

static void measure(struct sheet *s, const struct event_heatmap *maps, size_t count, double *most)
{
    bool matrix = false, dropped = false, unit = false, axes[2] = { false, false };
    size_t longest = 1;
    *most = 1;
    for (size_t i = 0; i < count; i++) {
        char title[512];
        heatmap_title(&maps[i], title, sizeof title);
        longest = strlen(title) > longest ? strlen(title) : longest;
        *most = fmax(*most, heatmap_height(&maps[i], (int)side));
        matrix |= numbered(&maps[i]);
        dropped |= maps[i].dropped != NULL;
        unit |= maps[i].unit != NULL;
        for (int k = 0; k < 2; k++) axes[k] |= maps[i].axes[k] != NULL;
    }
    // Letters of common text take 0.56 of their size, and lines are not quite full.
    s->head = fmin(ceil((double)longest * size * 0.56 / (side * 0.9)), LINES) * line + 4;
    s->left = matrix ? numbers + (axes[0] ? line : 0) : 0;
    s->below = matrix ? line + 4 + (axes[1] ? line : 0) : 4;
    s->foot = bar + line + (unit ? line : 0) + (dropped ? line : 0) + 4;
}

// How many cells across, and the size of each.
static size_t lay_out(struct sheet *s, const struct event_heatmap *maps, size_t count,
                      double *cell_x, double *cell_y)
{
    const size_t wide = count > MANY ? (size_t)ceil(sqrt((double)count)) : ACROSS;
    double most;
    measure(s, maps, count, &most);
    *cell_x = side + gap + s->left;
    *cell_y = s->head + most + s->below + s->foot + gap;
    return wide;
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
