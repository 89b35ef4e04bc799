// core/draw/heatmap.c -- maps in colour: pixels, the picture under the colours of the values.
#include "core/draw/heatmap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
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
    static const double least = 0.08, most = 0.8;
    return isnan(share) ? 0 : least + (most - least) * share;
}

int heatmap_height(const struct event_heatmap *map, int width)
{
    const double w = map->area[2] - map->area[0], h = map->area[3] - map->area[1];
    double ratio = map->image && w > 0 && h > 0 ? h / w : (double)map->rows / map->cols;
    if (map->picture < 0) ratio = fmax(ratio, 0.4); // a matrix of many columns is no line
    const int height = (int)lround(width * fmin(ratio, 8));
    return height > 0 ? height : 1;
}

// The mean of the picture's colours from (x, y) on over (w, h), all shares of the map, over white;
// false: outside.
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
