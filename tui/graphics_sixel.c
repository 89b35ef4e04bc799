// tui/graphics_sixel.c -- DEC's sixel graphics (VT330/340 programmer reference, chapter 14): bands
// of six rows; for each colour of a band, one character per column whose six bits say which rows
// have it.
//
// At most 256 colours, found by median cut (Heckbert 1982) over a histogram of 15-bit colours: the
// box with the largest spread of its pixels is split at its median until there are enough.
#include "tui/graphics.h"

#include <stdlib.h>
#include <string.h>

enum { BINS = 1 << 15, COLOURS = 256, CLEAR = 255, BAND = 6 };

struct box {
    int from, to; // bins[from..to)
    int axis;     // 0 red, 1 green, 2 blue: the one it is longest along
    long weight;  // length along it times the number of pixels
};

struct palette {
    uint32_t count[BINS]; // pixels of each 15-bit colour
    uint16_t bins[BINS];  // those that occur, in the order of boxes
    uint8_t colour[BINS]; // which of the palette's
    struct box boxes[COLOURS];
    int box_count;
    uint8_t rgb[COLOURS][3]; // percent
};

static int bin_of(const uint8_t *p)
{
    return p[0] >> 3 << 10 | p[1] >> 3 << 5 | p[2] >> 3;
}

static int level(uint16_t bin, int axis)
{
    return bin >> (10 - 5 * axis) & 31;
}

// --- the palette ---------------------------------------------------------------------------------

static void measure(const struct palette *p, struct box *b)
{
    long pixels = 0;
    int longest = 0;
    for (int i = b->from; i < b->to; i++) pixels += p->count[p->bins[i]];
    for (int axis = 0; axis < 3; axis++) {
        int low = 31, high = 0;
        for (int i = b->from; i < b->to; i++) {
            const int v = level(p->bins[i], axis);
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        if (high - low > longest) longest = high - low, b->axis = axis;
    }
    b->weight = longest * pixels;
}

// Counting sort of a box's bins along its axis, then the cut at half of its pixels.
static void split(struct palette *p, struct box *b, struct box *second)
{
    uint16_t *sorted = xreallocarray(NULL, (size_t)(b->to - b->from), sizeof *sorted);
    long half = 0, sum = 0;
    int n = 0, cut = b->from;
    for (int v = 0; v < 32; v++)
        for (int i = b->from; i < b->to; i++)
            if (level(p->bins[i], b->axis) == v) sorted[n++] = p->bins[i];
    memcpy(p->bins + b->from, sorted, (size_t)n * sizeof *sorted);
    free(sorted);
    for (int i = b->from; i < b->to; i++) half += p->count[p->bins[i]];
    while (cut + 1 < b->to && 2 * sum < half) sum += p->count[p->bins[cut++]];
    *second = (struct box){ .from = cut, .to = b->to };
    b->to = cut;
    measure(p, b);
    measure(p, second);
}

static void add_colour(struct palette *p, int number)
{
    const struct box *b = &p->boxes[number];
    uint64_t sum[3] = { 0 }, pixels = 0;
    for (int i = b->from; i < b->to; i++) {
        const uint16_t bin = p->bins[i];
        for (int axis = 0; axis < 3; axis++)
            sum[axis] += (uint64_t)p->count[bin] * (uint64_t)level(bin, axis);
        pixels += p->count[bin];
        p->colour[bin] = (uint8_t)number;
    }
    for (int axis = 0; axis < 3 && pixels; axis++)
        p->rgb[number][axis] = (uint8_t)((sum[axis] * 100 + pixels * 31 / 2) / (pixels * 31));
}

static void make_palette(struct palette *p, const struct graphics_picture *picture)
{
    const size_t pixels = (size_t)picture->width * (size_t)picture->height;
    int occurring = 0;
    for (size_t i = 0; i < pixels; i++)
        if (picture->pixels[4 * i + 3]) p->count[bin_of(picture->pixels + 4 * i)]++;
    for (int bin = 0; bin < BINS; bin++)
        if (p->count[bin]) p->bins[occurring++] = (uint16_t)bin;
    p->boxes[0] = (struct box){ .to = occurring };
    p->box_count = occurring > 0;
    if (occurring) measure(p, &p->boxes[0]);
    while (p->box_count && p->box_count < COLOURS - 1) {
        struct box *most = &p->boxes[0];
        for (int i = 1; i < p->box_count; i++)
            if (p->boxes[i].weight > most->weight) most = &p->boxes[i];
        if (!most->weight) break; // each has one colour
        split(p, most, &p->boxes[p->box_count++]);
    }
    for (int i = 0; i < p->box_count; i++) add_colour(p, i);
}

// --- bands ---------------------------------------------------------------------------------------

static void put_run(struct buf *out, char sixel, int length)
{
    if (length > 3)
        buf_printf(out, "!%d%c", length, sixel);
    else
        for (; length > 0; length--) buf_putc(out, sixel);
}

// The columns of one colour; what is empty at the right is left out.
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

// places [height, width]: the colour of each pixel, or CLEAR; bits [COLOURS, width]: scratch.
static void put_band(struct buf *out, const uint8_t *places, int width, int rows, uint8_t *bits)
{
    uint8_t used[COLOURS] = { 0 };
    bool first = true;
    memset(bits, 0, (size_t)COLOURS * (size_t)width);
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

// tmux reads sixels itself where it can show them: nothing is wrapped.
void graphics_encode_sixel(const struct graphics_picture *p, bool tmux, struct buf *out)
{
    const size_t pixels = (size_t)p->width * (size_t)p->height;
    struct palette *palette = xcalloc(1, sizeof *palette);
    uint8_t *places = xmalloc(pixels), *bits = xmalloc((size_t)COLOURS * (size_t)p->width);
    make_palette(palette, p);
    for (size_t i = 0; i < pixels; i++)
        places[i] = p->pixels[4 * i + 3] ? palette->colour[bin_of(p->pixels + 4 * i)] : CLEAR;
    buf_printf(out, "\033P0;1;0q\"1;1;%d;%d", p->width, p->height);
    for (int i = 0; i < palette->box_count; i++)
        buf_printf(out, "#%d;2;%d;%d;%d", i, palette->rgb[i][0], palette->rgb[i][1],
                   palette->rgb[i][2]);
    for (int y = 0; y < p->height; y += BAND)
        put_band(out, places + (size_t)y * (size_t)p->width, p->width,
                 p->height - y < BAND ? p->height - y : BAND, bits);
    buf_puts(out, "\033\\");
    free(palette);
    free(places);
    free(bits);
}
