// tui/graphics_sixel.c -- DEC's sixel graphics (VT330/340 programmer reference, chapter 14): bands
// of six rows; for each colour of a band, one character per column, whose six bits say which rows
// have that colour.
#include "tui/graphics.h"

#include <stdlib.h>
#include <string.h>

#include "core/draw/palette.h"

enum { CLEAR = 255, BAND = 6 };

// --- bands ---------------------------------------------------------------------------------------

static void put_run(struct buf *out, char sixel, int length)
{
    if (length > 3)
        buf_printf(out, "!%d%c", length, sixel);
    else
        for (; length > 0; length--) buf_putc(out, sixel);
}

// Writes the columns of one colour, without trailing empty columns.
static void put_colour(struct buf *out, int colour, const uint8_t *bits, int width)
{
    int run = 0;
    char now = 0;
    buf_printf(out, "#%d", colour);
    while (width > 0 && !bits[width - 1]) width--;
    for (int x = 0; x < width; x++) {
        const char sixel = (char)('?' + bits[x]);
        if (run && sixel != now) put_run(out, now, run), run = 0;
        now = sixel;
        run++;
    }
    put_run(out, now, run);
}

// places [rows, width]: the colour of each pixel, or CLEAR; bits [CLEAR + 1, width]: scratch.
static void put_band(struct buf *out, const uint8_t *places, int width, int rows, uint8_t *bits)
{
    uint8_t used[CLEAR + 1] = { 0 };
    bool first = true;
    memset(bits, 0, (size_t)(CLEAR + 1) * (size_t)width);
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < width; x++) {
            const uint8_t colour = places[(size_t)y * (size_t)width + (size_t)x];
            used[colour] = 1;
            bits[(size_t)colour * (size_t)width + (size_t)x] |= (uint8_t)(1 << y);
        }
    for (int colour = 0; colour < CLEAR; colour++) {
        if (!used[colour]) continue;
        if (!first) buf_putc(out, '$');
        put_colour(out, colour, bits + (size_t)colour * (size_t)width, width);
        first = false;
    }
    buf_putc(out, '-');
}

static int percent(uint8_t value)
{
    return (value * 100 + 127) / 255;
}

// tmux parses sixels itself if it can show them, so they are not wrapped. tmux counts a partial
// last band as a whole one, which could cover one more line, so that band is left out.
void graphics_encode_sixel(const struct graphics_picture *p, bool tmux, struct buf *out)
{
    const int height = tmux && p->height > BAND ? p->height - p->height % BAND : p->height;
    const size_t pixels = (size_t)p->width * (size_t)height;
    struct palette *palette = palette_new(p->pixels, pixels, 4);
    uint8_t *places = xmalloc(pixels), *bits = xmalloc((size_t)(CLEAR + 1) * (size_t)p->width);
    for (size_t i = 0; i < pixels; i++)
        places[i] = p->pixels[4 * i + 3] ? (uint8_t)palette_of(palette, p->pixels + 4 * i) : CLEAR;
    buf_printf(out, "\033P0;1;0q\"1;1;%d;%d", p->width, height);
    for (int i = 0; i < palette->count; i++)
        buf_printf(out, "#%d;2;%d;%d;%d", i, percent(palette->rgb[i][0]),
                   percent(palette->rgb[i][1]), percent(palette->rgb[i][2]));
    for (int y = 0; y < height; y += BAND)
        put_band(out, places + (size_t)y * (size_t)p->width, p->width,
                 height - y < BAND ? height - y : BAND, bits);
    buf_puts(out, "\033\\");
    free(palette);
    free(places);
    free(bits);
}
