// tui/drawing.c -- pixels of a picture and a map.
//
// The map lies over the picture, more where its value is high: its least shows the picture as it
// is, its most nearly the colour alone. What was dropped, or has no value, is grey and darker.
//
// A mixture of both is lost on a terminal of 256 colours. There the map lies over the picture in
// colours that the terminal has, over none of its pixels, every other one, or all, by its value.
#include "tui/drawing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/draw/heatmap.h"
#include "core/draw/ramp.h"

void map_release(struct map *m)
{
    free(m->name);
    free(m->tile);
    for (int i = 0; m->words && i < m->rows * m->cols; i++) free(m->words[i]);
    free(m->words);
    free(m->dropped);
    free(m->values);
}

void drawing_ramp(struct drawing *d, const char *ramp)
{
    for (int k = 0; k <= SHADES; k++) d->ramp[k] = ramp_colour(ramp, (double)k / SHADES);
}

void drawing_fit(struct drawing *d, int width, int height, double aspect)
{
    const struct map *m = d->maps[0];
    const double w = d->picture ? (double)d->picture->width : m ? m->cols : 1;
    const double high = m && m->picture < 0 ? fmax(m->rows, 0.4 * m->cols) : m ? m->rows : 1;
    const double h = (d->picture ? (double)d->picture->height : high) / aspect;
    d->width = width;
    d->height = (int)(width * h / w + 0.5);
    if (d->height > height) {
        d->height = height;
        d->width = (int)(height * w / h + 0.5);
    }
    if (d->width > width) d->width = width;
    if (d->width < 1) d->width = 1;
    if (d->height < 1) d->height = 1;
}

// --- what is at a place --------------------------------------------------------------------------

static double map_value(const struct map *m, int row, int col)
{
    if (row < 0) row = 0;
    if (col < 0) col = 0;
    if (row >= m->rows) row = m->rows - 1;
    if (col >= m->cols) col = m->cols - 1;
    const float value = m->values[(size_t)row * (size_t)m->cols + (size_t)col];
    const float span = m->max - m->min;
    const float share = isfinite(value) && span > 0 ? (value - m->min) / span : 0;
    return share > 0 ? share < 1 ? share : 1 : 0;
}

// Share of the map at u, v in 0..1; smooth: between the middles of the patches.
static double map_at(const struct map *m, double u, double v, bool smooth)
{
    const double x = u * m->cols, y = v * m->rows;
    if (!smooth) return map_value(m, (int)y, (int)x);
    const int col = (int)floor(x - 0.5), row = (int)floor(y - 0.5);
    const double fx = x - 0.5 - col, fy = y - 0.5 - row;
    const double top = map_value(m, row, col) * (1 - fx) + map_value(m, row, col + 1) * fx;
    const double bottom =
        map_value(m, row + 1, col) * (1 - fx) + map_value(m, row + 1, col + 1) * fx;
    return top * (1 - fy) + bottom * fy;
}

// The mean of the pixels that u..u+du, v..v+dv covers.
static uint32_t picture_at(const struct image *p, double u, double v, double du, double dv)
{
    const int64_t x0 = (int64_t)(u * (double)p->width), y0 = (int64_t)(v * (double)p->height);
    int64_t x1 = (int64_t)((u + du) * (double)p->width),
            y1 = (int64_t)((v + dv) * (double)p->height);
    uint64_t sum[3] = { 0 }, count = 0;
    if (x1 <= x0) x1 = x0 + 1;
    if (y1 <= y0) y1 = y0 + 1;
    for (int64_t y = y0; y < y1 && y < p->height; y++)
        for (int64_t x = x0; x < x1 && x < p->width; x++, count++) {
            const uint8_t *pixel = p->pixels + (size_t)(y * p->width + x) * (size_t)p->channels;
            for (int k = 0; k < 3; k++) sum[k] += pixel[k];
        }
    if (!count) return 0;
    return (uint32_t)(sum[0] / count) << 16 | (uint32_t)(sum[1] / count) << 8 |
           (uint32_t)(sum[2] / count);
}

static double brightness(uint32_t rgb)
{
    return (0.299 * (rgb >> 16) + 0.587 * (rgb >> 8 & 255) + 0.114 * (rgb & 255)) / 255;
}

static double tile_size(const struct map *m)
{
    return (m->area[2] - m->area[0]) * (m->area[3] - m->area[1]);
}

// The smallest tile that covers the place (shares of the picture, made shares of the tile).
static const struct map *tile_at(const struct drawing *d, double *u, double *v)
{
    const struct map *best = NULL;
    for (int i = 0; i < d->map_count; i++) {
        const double *a = d->maps[i]->area;
        const bool covers = *u >= a[0] && *u < a[2] && *v >= a[1] && *v < a[3];
        if (covers && (!best || tile_size(d->maps[i]) < tile_size(best))) best = d->maps[i];
    }
    if (!best) return NULL;
    *u = (*u - best->area[0]) / (best->area[2] - best->area[0]);
    *v = (*v - best->area[1]) / (best->area[3] - best->area[1]);
    return best;
}

static bool is_bare(const struct map *m, double u, double v)
{
    const int row = (int)(v * m->rows), col = (int)(u * m->cols);
    const size_t at = (size_t)(row < m->rows ? row : m->rows - 1) * (size_t)m->cols +
                      (size_t)(col < m->cols ? col : m->cols - 1);
    return !isfinite(m->values[at]) || (m->dropped && m->dropped[at]);
}

// Below the first step the picture, darker; below the second every other pixel of it.
static uint32_t step_colour(const struct drawing *d, double share, uint32_t below, int x, int y)
{
    static const double some = 0.2, all = 0.5, darker = 0.35;
    const bool alone = !d->picture || d->bare;
    if (!alone && (share < some || (share < all && (x + y) % 2 == 0)))
        return colour_mix(below, 0, darker);
    return colour_cube(d->ramp[(int)(share * SHADES + 0.5)]);
}

uint32_t drawing_colour(const struct drawing *d, int x, int y)
{
    const double du = 1.0 / d->width, dv = 1.0 / d->height;
    double u = x * du, v = y * dv;
    const bool alone = !d->picture || d->bare;
    const uint32_t below = alone ? 0x303030 : picture_at(d->picture, u, v, du, dv);
    if (!d->map_count) return below;
    u += du / 2;
    v += dv / 2;
    const struct map *m = tile_at(d, &u, &v);
    const uint32_t grey = (uint32_t)(brightness(below) * 255 + 0.5) * 0x010101;
    if (!m || is_bare(m, u, v)) return colour_mix(grey, 0, 0.4);
    const double share = map_at(m, u, v, d->smooth);
    if (d->steps) return step_colour(d, share, below, x, y);
    const uint32_t colour = d->ramp[(int)(share * SHADES + 0.5)];
    return alone ? colour : colour_mix(below, colour, heatmap_alpha(share));
}

double drawing_share(const struct drawing *d, int x, int y)
{
    double u = (x + 0.5) / d->width, v = (y + 0.5) / d->height;
    const struct map *m = tile_at(d, &u, &v);
    return m && !is_bare(m, u, v) ? map_at(m, u, v, d->smooth) : -1;
}

uint32_t drawing_below(const struct drawing *d, int x, int y)
{
    const double du = 1.0 / d->width, dv = 1.0 / d->height;
    return d->picture ? picture_at(d->picture, x * du, y * dv, du, dv) : 0;
}

double drawing_brightness(const struct drawing *d, int x, int y)
{
    return brightness(drawing_below(d, x, y));
}

double drawing_ink(const struct drawing *d, int x, int y)
{
    if (!d->map_count) return brightness(drawing_colour(d, x, y));
    const double share = drawing_share(d, x, y);
    return share > 0 ? share : 0;
}

// --- for another thread --------------------------------------------------------------------------

static void mix(uint64_t *key, const void *bytes, size_t length)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < length; i++) hash_mix(key, b[i]);
}

uint64_t drawing_key(const struct drawing *d)
{
    uint64_t key = d->picture_key;
    hash_mix(&key, 2 * d->smooth + d->bare);
    hash_mix(&key, (uint64_t)d->width);
    hash_mix(&key, (uint64_t)d->height);
    if (d->map_count) hash_mix(&key, d->ramp[SHADES / 3]);
    for (int i = 0; i < d->map_count; i++) {
        const struct map *m = d->maps[i];
        const size_t cells = (size_t)m->rows * (size_t)m->cols;
        hash_mix(&key, (uint64_t)m->rows);
        hash_mix(&key, (uint64_t)m->cols);
        mix(&key, m->area, sizeof m->area);
        mix(&key, &m->min, sizeof m->min);
        mix(&key, &m->max, sizeof m->max);
        mix(&key, m->values, cells * sizeof *m->values);
        if (m->dropped) mix(&key, m->dropped, cells);
    }
    return key;
}

static void *copy_bytes(const void *bytes, size_t size)
{
    void *copy = xmalloc(size ? size : 1);
    memcpy(copy, bytes, size);
    return copy;
}

static struct map *copy_map(const struct map *m)
{
    const size_t cells = (size_t)m->rows * (size_t)m->cols;
    struct map *copy = copy_bytes(m, sizeof *m);
    copy->name = copy->tile = NULL;
    copy->words = NULL;
    copy->values = copy_bytes(m->values, cells * sizeof *m->values);
    copy->dropped = m->dropped ? copy_bytes(m->dropped, cells) : NULL;
    return copy;
}

struct drawing *drawing_copy(const struct drawing *d)
{
    struct drawing *copy = copy_bytes(d, sizeof *d);
    for (int i = 0; i < d->map_count; i++) copy->maps[i] = copy_map(d->maps[i]);
    if (!d->picture) return copy;
    const struct image *p = d->picture;
    struct image *picture = copy_bytes(p, sizeof *p);
    picture->pixels = copy_bytes(p->pixels, (size_t)(p->width * p->height) * (size_t)p->channels);
    copy->picture = picture;
    return copy;
}

void drawing_free(struct drawing *d)
{
    if (!d) return;
    for (int i = 0; i < d->map_count; i++) {
        map_release((struct map *)d->maps[i]);
        free((struct map *)d->maps[i]);
    }
    if (d->picture) image_release((struct image *)d->picture);
    free((struct image *)d->picture);
    free(d);
}

uint8_t *drawing_pixels(const struct drawing *d, int width, int height)
{
    uint8_t *pixels = xcalloc((size_t)width * (size_t)height, 4);
    const int left = (width - d->width) / 2;
    for (int y = 0; y < d->height && y < height; y++)
        for (int x = 0; x < d->width && x < width; x++) {
            const uint32_t rgb = drawing_colour(d, x, y);
            uint8_t *to = pixels + ((size_t)y * (size_t)width + (size_t)(left + x)) * 4;
            to[0] = (uint8_t)(rgb >> 16);
            to[1] = (uint8_t)(rgb >> 8);
            to[2] = (uint8_t)rgb;
            to[3] = 255;
        }
    return pixels;
}
