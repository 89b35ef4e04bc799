// core/draw/heatmap.c -- maps in colour. The ramp goes through a few points of equal steps in
// lightness (as viridis does: Smith and van der Walt 2015), so that it reads in grey too.
#include "core/draw/heatmap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/draw/letters.h"
#include "core/picture/image.h"
#include "core/picture/image_write.h"

void heatmap_colour(double share, uint8_t rgb[3])
{
    static const double points[][3] = {
        { 68, 1, 84 }, { 59, 82, 139 }, { 33, 145, 140 }, { 94, 201, 98 }, { 253, 231, 37 }
    };
    enum { LAST = sizeof points / sizeof *points - 1 };
    const double at = fmin(fmax(isnan(share) ? 0 : share, 0), 1) * LAST;
    const int i = at < LAST ? (int)at : LAST - 1;
    for (int c = 0; c < 3; c++)
        rgb[c] = (uint8_t)lround(points[i][c] + (points[i + 1][c] - points[i][c]) * (at - i));
}

double heatmap_share(const struct event_heatmap *map, int row, int col)
{
    const float v = map->values[(size_t)row * (size_t)map->cols + (size_t)col];
    const double span = (double)map->max - (double)map->min;
    if (!isfinite(v)) return NAN;
    return span > 0 ? fmin(fmax(((double)v - (double)map->min) / span, 0), 1) : 0;
}

double heatmap_alpha(double share)
{
    static const double least = 0.08, most = 0.8;
    return isnan(share) ? 0 : least + (most - least) * share;
}

int heatmap_height(const struct event_heatmap *map, int width)
{
    const double w = map->area[2] - map->area[0], h = map->area[3] - map->area[1];
    const double ratio = map->image && w > 0 && h > 0 ? h / w : (double)map->rows / map->cols;
    const int height = (int)lround(width * fmin(ratio, 8));
    return height > 0 ? height : 1;
}

// The picture's colour there, over white; false: outside.
static bool picture_at(const struct event_heatmap *map, double x, double y, double rgb[3])
{
    const struct image *p = map->image;
    if (!p || !p->pixels) return false;
    const int64_t px = (int64_t)floor(map->area[0] + x * (map->area[2] - map->area[0]));
    const int64_t py = (int64_t)floor(map->area[1] + y * (map->area[3] - map->area[1]));
    if (px < 0 || py < 0 || px >= p->width || py >= p->height) return false;
    const uint8_t *c = p->pixels + (py * p->width + px) * p->channels;
    const double alpha = p->channels == 4 ? c[3] / 255.0 : 1;
    for (int k = 0; k < 3; k++) rgb[k] = 255 + (c[k] - 255) * alpha;
    return true;
}

void heatmap_draw(const struct event_heatmap *map, int width, int height, uint8_t *pixels)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *to = pixels + ((size_t)y * (size_t)width + (size_t)x) * 3, rgb[3];
            const double fx = (x + 0.5) / width, fy = (y + 0.5) / height;
            const int r = (int)(fy * map->rows), c = (int)(fx * map->cols);
            const double share = heatmap_share(map, r, c), over = heatmap_alpha(share);
            double below[3];
            const bool seen = picture_at(map, fx, fy, below);
            const bool bare = isnan(share) || (map->dropped && map->dropped[r * map->cols + c]);
            const double light = seen ? 0.299 * below[0] + 0.587 * below[1] + 0.114 * below[2] : 67;
            heatmap_colour(share, rgb);
            for (int k = 0; k < 3; k++) {
                double v = seen ? rgb[k] * over + below[k] * (1 - over) : rgb[k];
                if (bare) v = light * 0.6;
                to[k] = (uint8_t)lround(v);
            }
        }
}

void heatmap_title(const struct event_heatmap *map, char *text, size_t size)
{
    struct buf b = { 0 };
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

// --- as a file -----------------------------------------------------------------------------------

enum {
    SIDE = 320,
    GAP = 20,
    LINES = 3, // of a title
    LINE = 20,
    HEAD = LINES * LINE + 4,
    FOOT = 60,
    ACROSS = 4,
    BAR = 10,
    NUMBERS = 24 // room for those of rows and columns
};
static const uint8_t black[3] = { 0, 0, 0 };

struct sheet {
    uint8_t *pixels;
    int width, height;
};

static void copy_in(struct sheet *s, const uint8_t *from, int width, int height, int x, int y)
{
    for (int r = 0; r < height; r++)
        memcpy(s->pixels + ((size_t)(y + r) * (size_t)s->width + (size_t)x) * 3,
               from + (size_t)r * (size_t)width * 3, (size_t)width * 3);
}

static void draw_legend(struct sheet *s, const struct event_heatmap *map, int x, int y)
{
    char text[64];
    for (int i = 0; i < SIDE; i++)
        for (int r = 0; r < BAR; r++)
            heatmap_colour((double)i / (SIDE - 1),
                           s->pixels + ((size_t)(y + r) * (size_t)s->width + (size_t)(x + i)) * 3);
    snprintf(text, sizeof text, "%.4g", (double)map->min);
    letters_draw(s->pixels, s->width, s->height, x, y + BAR + 4, 2, text, black);
    snprintf(text, sizeof text, "%.4g", (double)map->max);
    letters_draw(s->pixels, s->width, s->height, x + SIDE - letters_width(text, 2), y + BAR + 4, 2,
                 text, black);
    if (!map->dropped) return;
    letters_draw(s->pixels, s->width, s->height, x, y + BAR + 24, 2, "grey: dropped", black);
}

// The title in as many lines as there is room for.
static void draw_title(struct sheet *s, const char *title, int x, int y)
{
    const int room = SIDE / letters_width("m", 2);
    char line[64];
    for (int i = 0; i < LINES && *title; i++) {
        int cut = (int)strlen(title);
        if (cut > room)
            for (cut = room; cut > 0 && title[cut] != ' ';) cut--;
        if (!cut) cut = room; // one long word
        snprintf(line, sizeof line, "%.*s", cut, title);
        letters_draw(s->pixels, s->width, s->height, x, y + i * LINE, 2, line, black);
        title += cut;
        title += *title == ' ';
    }
}

// Of what lies over no picture (a matrix by layers): numbers of rows and columns.
static bool numbered(const struct event_heatmap *map)
{
    return !map->image && map->picture < 0;
}

// Which of `count` rows or columns have a number, on `length` pixels: every so many.
static int number_every(int count, int length)
{
    const int room = length / (2 * letters_width("00", 2)), most = room > 1 ? room : 1;
    return (count + most - 1) / most;
}

// Rows at the left of a map, columns below it.
static void draw_numbers(struct sheet *s, const struct event_heatmap *map, int x, int y, int height)
{
    char text[16];
    for (int i = 0; i < map->rows; i += number_every(map->rows, height)) {
        const int middle = y + (int)((i + 0.5) * height / map->rows);
        snprintf(text, sizeof text, "%d", i);
        letters_draw(s->pixels, s->width, s->height, x - letters_width(text, 2) - 4,
                     middle - LETTER_HEIGHT, 2, text, black);
    }
    for (int i = 0; i < map->cols; i += number_every(map->cols, SIDE)) {
        const int middle = x + (int)((i + 0.5) * SIDE / map->cols);
        snprintf(text, sizeof text, "%d", i);
        letters_draw(s->pixels, s->width, s->height, middle - letters_width(text, 2) / 2,
                     y + height + 4, 2, text, black);
    }
}

int heatmap_png(const char *path, const struct event_heatmap *maps, size_t count, struct err *err)
{
    const int across = count < ACROSS ? (int)count : ACROSS;
    const int down = ((int)count + ACROSS - 1) / ACROSS;
    int most = 1, more = 0;
    for (size_t i = 0; i < count; i++) {
        if (heatmap_height(&maps[i], SIDE) > most) most = heatmap_height(&maps[i], SIDE);
        if (numbered(&maps[i])) more = NUMBERS;
    }
    const int cell = most + more + HEAD + FOOT, wide = SIDE + GAP + more;
    struct sheet s = { .width = across * wide + GAP, .height = down * cell + GAP };
    const size_t bytes = (size_t)s.width * (size_t)s.height * 3;
    s.pixels = xmalloc(bytes);
    memset(s.pixels, 255, bytes);
    for (size_t i = 0; i < count; i++) {
        const int x = GAP + more + (int)(i % ACROSS) * wide, y = GAP + (int)(i / ACROSS) * cell;
        const int height = heatmap_height(&maps[i], SIDE);
        uint8_t *drawn = xmalloc((size_t)SIDE * (size_t)height * 3);
        char title[256];
        heatmap_draw(&maps[i], SIDE, height, drawn);
        heatmap_title(&maps[i], title, sizeof title);
        draw_title(&s, title, x, y);
        copy_in(&s, drawn, SIDE, height, x, y + HEAD);
        if (numbered(&maps[i])) draw_numbers(&s, &maps[i], x, y + HEAD, height);
        draw_legend(&s, &maps[i], x, y + HEAD + height + more + 6);
        free(drawn);
    }
    const int status = image_write_png(path, s.pixels, s.width, s.height, err);
    free(s.pixels);
    return status;
}
