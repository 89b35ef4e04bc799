// tui/drawing.c -- draws a picture and a map over it, as pixels or in cells.
//
// The higher the map's value, the more the map covers the picture: its minimum leaves the picture
// unchanged, its maximum hides most of the picture. Patches that were dropped, or have no
// value, are grey and darker.
//
// A palette of 256 colours cannot show such mixtures. On terminals with 256 colours, the map uses
// the palette's colours and, depending on its value, covers no pixels of the picture, every other
// one, or all.
//
// In the cells of a canvas a drawing becomes letters, half blocks, quadrants or sextants, or a
// picture that the terminal draws itself. With eight colours, a cell's background shows the map,
// its letter and ink the picture. A character has two colours: if a cell has more than two pixels
// (2 x 2, 2 x 3), the code splits the pixels at the middle of the channel in which they differ
// most, and gives each part its mean colour.
#include "tui/drawing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/draw/heatmap.h"
#include "core/draw/ramp.h"
#include "tui/painter.h"

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
    const struct map *m = d->map_count ? d->maps[0] : NULL;
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

// --- colours and values at a position ------------------------------------------------------------

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

// Returns the map's value at u, v as a share of its range; smooth: interpolated between the centres
// of patches.
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

// Returns the highest value of the patches in a pixel, du x dv, around u, v. Small drawings have
// fewer pixels than patches, and must not lose a single high patch.
static double map_most(const struct map *m, double u, double v, double du, double dv)
{
    const int left = (int)((u - du / 2) * m->cols + 0.5), top = (int)((v - dv / 2) * m->rows + 0.5);
    const int right = (int)((u + du / 2) * m->cols + 0.5),
              bottom = (int)((v + dv / 2) * m->rows + 0.5);
    double most = 0;
    for (int row = top; row < bottom || row == top; row++)
        for (int col = left; col < right || col == left; col++)
            most = fmax(most, map_value(m, row, col));
    return most;
}

// Returns the mean of the pixels in u..u+du, v..v+dv.
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

enum { FRAME = 0xff3030 }; // of the marked area: in no ramp

static double brightness(uint32_t rgb)
{
    return (0.299 * (rgb >> 16) + 0.587 * (rgb >> 8 & 255) + 0.114 * (rgb & 255)) / 255;
}

static double tile_size(const struct map *m)
{
    return (m->area[2] - m->area[0]) * (m->area[3] - m->area[1]);
}

// Returns the smallest tile at *u, *v; converts *u, *v from fractions of the picture to fractions
// of the tile.
static const struct map *tile_at(const struct map *const *tiles, int count, double *u, double *v)
{
    const struct map *best = NULL;
    for (int i = 0; i < count; i++) {
        const double *a = tiles[i]->area;
        const bool covers = *u >= a[0] && *u < a[2] && *v >= a[1] && *v < a[3];
        if (covers && (!best || tile_size(tiles[i]) < tile_size(best))) best = tiles[i];
    }
    if (!best) return NULL;
    *u = (*u - best->area[0]) / (best->area[2] - best->area[0]);
    *v = (*v - best->area[1]) / (best->area[3] - best->area[1]);
    return best;
}

const struct map *drawing_patch(const struct map *const *tiles, int count, double x, double y,
                                int *row, int *col)
{
    const struct map *m = tile_at(tiles, count, &x, &y);
    if (!m) return NULL;
    *row = (int)(y * m->rows) < m->rows ? (int)(y * m->rows) : m->rows - 1;
    *col = (int)(x * m->cols) < m->cols ? (int)(x * m->cols) : m->cols - 1;
    return m;
}

static bool is_bare(const struct map *m, double u, double v)
{
    const int row = (int)(v * m->rows), col = (int)(u * m->cols);
    const size_t at = (size_t)(row < m->rows ? row : m->rows - 1) * (size_t)m->cols +
                      (size_t)(col < m->cols ? col : m->cols - 1);
    return !isfinite(m->values[at]) || (m->dropped && m->dropped[at]);
}

// Returns a dithered colour: the picture for shares below `some`, the picture and the map on
// alternate pixels for shares below `all`, else the map; without a picture, always the map.
static uint32_t step_colour(const struct drawing *d, double share, uint32_t below, int x, int y)
{
    static const double some = 0.2, all = 0.5;
    const bool alone = !d->picture || d->bare;
    if (!alone && (share < some || (share < all && (x + y) % 2 == 0))) return below;
    return colour_cube(d->ramp[(int)(share * SHADES + 0.5)]);
}

// Returns whether the pixel belongs to the frame, one pixel wide, around the marked area.
static bool in_frame(const struct drawing *d, int x, int y)
{
    const int left = (int)(d->mark[0] * d->width + 0.5), top = (int)(d->mark[1] * d->height + 0.5);
    const int right = (int)(d->mark[2] * d->width + 0.5) - 1,
              bottom = (int)(d->mark[3] * d->height + 0.5) - 1;
    const bool inside =
        x >= left && y >= top && (x <= right || x == left) && (y <= bottom || y == top);
    return inside && (x == left || x >= right || y == top || y >= bottom);
}

// Returns the drawing's colour at a pixel as 0xRRGGBB.
static uint32_t colour_at(const struct drawing *d, int x, int y)
{
    if (d->marked && in_frame(d, x, y)) return FRAME;
    const double du = 1.0 / d->width, dv = 1.0 / d->height;
    double u = x * du, v = y * dv;
    const bool alone = !d->picture || d->bare;
    const uint32_t below = alone ? 0x303030 : picture_at(d->picture, u, v, du, dv);
    if (!d->map_count) return below;
    u += du / 2;
    v += dv / 2;
    const struct map *m = tile_at(d->maps, d->map_count, &u, &v);
    const uint32_t grey = (uint32_t)(brightness(below) * 255 + 0.5) * 0x010101;
    if (!m || is_bare(m, u, v)) return colour_mix(grey, 0, 0.4);
    const double wide = du / (m->area[2] - m->area[0]), high = dv / (m->area[3] - m->area[1]);
    const bool small = wide * m->cols > 1.01 || high * m->rows > 1.01;
    const double share = small ? map_most(m, u, v, wide, high) : map_at(m, u, v, d->smooth);
    if (d->steps) return step_colour(d, share, below, x, y);
    const uint32_t colour = d->ramp[(int)(share * SHADES + 0.5)];
    return alone ? colour : colour_mix(below, colour, heatmap_alpha(share));
}

// Returns the map's value as a share of its range, 0..1; -1 if the patch was dropped or has no
// value, or if no map covers the pixel.
static double share_at(const struct drawing *d, int x, int y)
{
    double u = (x + 0.5) / d->width, v = (y + 0.5) / d->height;
    const struct map *m = tile_at(d->maps, d->map_count, &u, &v);
    return m && !is_bare(m, u, v) ? map_at(m, u, v, d->smooth) : -1;
}

// Returns the picture's colour without the map.
static uint32_t below_at(const struct drawing *d, int x, int y)
{
    const double du = 1.0 / d->width, dv = 1.0 / d->height;
    return d->picture ? picture_at(d->picture, x * du, y * dv, du, dv) : 0;
}

// --- for another thread --------------------------------------------------------------------------

static void mix(uint64_t *key, const void *bytes, size_t length)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < length; i++) hash_mix(key, b[i]);
}

// Hashes everything that determines the pixels.
static uint64_t key_of(const struct drawing *d)
{
    uint64_t key = d->picture_key;
    hash_mix(&key, 2 * d->smooth + d->bare);
    if (d->marked) mix(&key, d->mark, sizeof d->mark);
    hash_mix(&key, (uint64_t)d->width);
    hash_mix(&key, (uint64_t)d->height);
    if (d->map_count) mix(&key, d->ramp, sizeof d->ramp);
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

// Copies the drawing for another thread, with everything that its pixels depend on.
static struct drawing *copy(const struct drawing *d)
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
            const uint32_t rgb = colour_at(d, x, y);
            uint8_t *to = pixels + ((size_t)y * (size_t)width + (size_t)(left + x)) * 4;
            to[0] = (uint8_t)(rgb >> 16);
            to[1] = (uint8_t)(rgb >> 8);
            to[2] = (uint8_t)rgb;
            to[3] = 255;
        }
    return pixels;
}

// --- in cells ------------------------------------------------------------------------------------

static const char shades[] = " .:-=+*#%@";
enum { BLACK = 0, BLUE = 4, WHITE = 7 };

struct dots {
    int across, down;                // pixels per cell
    uint32_t (*code)(unsigned mask); // character whose ink covers the pixels of the mask
};

static uint32_t half_block(unsigned mask)
{
    static const uint32_t codes[] = { ' ', 0x2580, 0x2584, 0x2588 };
    return codes[mask];
}

// Bits: upper left, upper right, lower left, lower right.
static uint32_t quadrant(unsigned mask)
{
    static const uint32_t codes[] = { ' ',    0x2598, 0x259d, 0x2580, 0x2596, 0x258c,
                                      0x259e, 0x259b, 0x2597, 0x259a, 0x2590, 0x259c,
                                      0x2584, 0x2599, 0x259f, 0x2588 };
    return codes[mask];
}

// U+1FB00..1FB3B are the masks in order, except those whose characters exist elsewhere in Unicode.
static uint32_t sextant(unsigned mask)
{
    if (mask == 0) return ' ';
    if (mask == 21) return 0x258c;
    if (mask == 42) return 0x2590;
    if (mask == 63) return 0x2588;
    return 0x1fb00 + mask - 1 - (mask > 21) - (mask > 42);
}

static const struct dots dots_of[] = {
    [GRAPHICS_BLOCKS] = { 1, 2, half_block },
    [GRAPHICS_QUADRANTS] = { 2, 2, quadrant },
    [GRAPHICS_SEXTANTS] = { 2, 3, sextant },
};

// --- reducing to two colours ---------------------------------------------------------------------

static uint32_t channel(uint32_t rgb, int shift)
{
    return rgb >> shift & 255;
}

static uint32_t mean_of(const uint32_t *rgb, int count, unsigned mask)
{
    uint32_t sum[3] = { 0 }, n = 0;
    for (int i = 0; i < count; i++) {
        if (!(mask >> i & 1)) continue;
        for (int k = 0; k < 3; k++) sum[k] += channel(rgb[i], 16 - 8 * k);
        n++;
    }
    return n ? (sum[0] / n) << 16 | (sum[1] / n) << 8 | sum[2] / n : 0;
}

// Splits pixels at the middle of the channel with the widest range: returns the mask of the pixels
// above it. Two pixels are always split into the first and the second.
static unsigned part(const uint32_t *rgb, int count)
{
    uint32_t widest = 0, middle = 0;
    int shift = 16;
    unsigned mask = 0;
    if (count == 2) return 1;
    for (int s = 16; s >= 0; s -= 8) {
        uint32_t low = 255, high = 0;
        for (int i = 0; i < count; i++) {
            const uint32_t v = channel(rgb[i], s);
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        if (high - low <= widest) continue;
        widest = high - low;
        middle = (high + low) / 2;
        shift = s;
    }
    for (int i = 0; i < count && widest; i++)
        if (channel(rgb[i], shift) > middle) mask |= 1u << i;
    return mask;
}

static void draw_dots(const struct drawing *d, const struct dots *dots, struct canvas *c,
                      struct area area)
{
    const int count = dots->across * dots->down;
    const unsigned all = (1u << count) - 1;
    for (int y = 0; y < d->height / dots->down; y++)
        for (int x = 0; x < d->width / dots->across; x++) {
            uint32_t rgb[6];
            for (int i = 0; i < count; i++)
                rgb[i] = colour_at(d, x * dots->across + i % dots->across,
                                   y * dots->down + i / dots->across);
            const unsigned mask = part(rgb, count);
            canvas_put(c, area, x, y, STYLE_TEXT, dots->code(mask));
            struct cell *cell = canvas_at(c, area.x + x, area.y + y);
            if (!cell) continue;
            cell->ink = CELL_RGB | mean_of(rgb, count, mask ? mask : all);
            cell->paper = CELL_RGB | mean_of(rgb, count, all & ~mask);
        }
}

// --- letters, and eight colours ------------------------------------------------------------------

static uint32_t letter(double ink)
{
    const int shade = (int)(ink * 9 + 0.5);
    return (uint32_t)shades[shade < 0 ? 0 : shade > 9 ? 9 : shade];
}

// Draws the map as the cell's background: high values are coloured, low ones leave the picture's
// letter unchanged.
static void colour_letter(const struct drawing *d, int x, int y, struct cell *cell)
{
    const int paper = step_of_eight(share_at(d, x, y));
    if (d->picture && !d->bare) {
        const int hue = colour_hue(below_at(d, x, y));
        cell->code = letter(brightness(below_at(d, x, y)));
        cell->ink = hue < 0 ? 0 : CELL_RGB | colour_of(hue); // grey: the terminal's default colour
    }
    if (paper < 0) return;
    cell->paper = CELL_RGB | colour_of(paper);
    cell->ink = CELL_RGB | colour_of(paper == BLUE ? WHITE : BLACK);
}

static void draw_letters(const struct drawing *d, struct canvas *c, struct area area)
{
    for (int y = 0; y < d->height; y++)
        for (int x = 0; x < d->width; x++) {
            // The ink of a letter: the map's share, or the picture's brightness.
            const double ink = d->map_count ? share_at(d, x, y) : brightness(colour_at(d, x, y));
            canvas_put(c, area, x, y, STYLE_TEXT, letter(ink));
            struct cell *cell = canvas_at(c, area.x + x, area.y + y);
            if (cell && c->mono && c->colours >= 8 && !c->ascii) colour_letter(d, x, y, cell);
            if (cell && d->marked && in_frame(d, x, y)) cell->style = STYLE_MATCH;
        }
}

// --- the drawing in an area ----------------------------------------------------------------------

static struct area cells_of(const struct drawing *d, struct area area, int across, int down)
{
    const int width = (d->width + across - 1) / across, height = (d->height + down - 1) / down;
    return (struct area){ area.x + (area.width - width) / 2, area.y, width, height };
}

// Until the terminal's own picture is ready, characters fill exactly the cells of that picture:
// characters outside would remain beside it.
struct area drawing_show(struct drawing *d, struct canvas *c, struct area area)
{
    if (area.height < 1 || area.width < 1) return area;
    const bool own = c->painter && graphics_way(c->graphics)->encode;
    const bool letters = c->mono || c->ascii || c->graphics == GRAPHICS_ASCII;
    const struct dots *dots =
        &dots_of[c->graphics < GRAPHICS_KITTY ? c->graphics : GRAPHICS_BLOCKS];
    const int across = letters ? 1 : dots->across, down = letters ? 1 : dots->down;
    struct drawing sized =
        *d; // in pixels of the terminal, whose cells are not always twice as high as wide
    struct area place;
    // Dithers characters; the terminal's own pictures have all colours.
    d->steps = c->colours >= 256;
    if (own) {
        sized.steps = false;
        drawing_fit(&sized, area.width * c->cell_width, area.height * c->cell_height, 1);
        place = cells_of(&sized, area, c->cell_width, c->cell_height);
    } else { // a cell is twice as high as wide
        drawing_fit(d, area.width * across, area.height * down, 2.0 * across / down);
        place = cells_of(d, area, across, down);
    }
    d->width = place.width * across;
    d->height = place.height * down;
    if (letters)
        draw_letters(d, c, place);
    else
        draw_dots(d, dots, c, place);
    if (!own) return place;
    const uint64_t key = painter_key(key_of(&sized), c, place);
    if (!painter_has(c->painter, key)) painter_request(c->painter, key, copy(&sized), c, place);
    canvas_picture(c, place, key, sized.width, sized.height);
    return place;
}
