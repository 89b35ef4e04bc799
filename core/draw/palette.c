// core/draw/palette.c -- median cut.
#include "core/draw/palette.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

enum { LEVELS = 32 };

struct box {
    int from, to;   // bins[from..to)
    int axis;       // its longest axis: 0 red, 1 green, 2 blue
    int64_t weight; // length along `axis` times the number of pixels
};

struct cut {
    uint32_t count[PALETTE_BINS];  // pixels of each 15-bit colour
    uint64_t sum[PALETTE_BINS][3]; // sums of the channels of these pixels
    uint16_t bins[PALETTE_BINS];   // occurring colours, in the order of boxes
    uint16_t sorted[PALETTE_BINS];
    struct box boxes[PALETTE_COLOURS];
};

static int bin_of(const uint8_t *p)
{
    return p[0] >> 3 << 10 | p[1] >> 3 << 5 | p[2] >> 3;
}

static int level(uint16_t bin, int axis)
{
    return bin >> (10 - 5 * axis) & (LEVELS - 1);
}

int palette_of(const struct palette *p, const uint8_t *pixel)
{
    return p->colour[bin_of(pixel)];
}

static void measure(const struct cut *c, struct box *b)
{
    int64_t pixels = 0;
    int longest = 0;
    for (int i = b->from; i < b->to; i++) pixels += c->count[c->bins[i]];
    for (int axis = 0; axis < 3; axis++) {
        int low = LEVELS - 1, high = 0;
        for (int i = b->from; i < b->to; i++) {
            const int v = level(c->bins[i], axis);
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        if (high - low > longest) longest = high - low, b->axis = axis;
    }
    b->weight = longest * pixels;
}

// Sorts a box's bins along its axis and splits it at its median pixel.
static void split(struct cut *c, struct box *b, struct box *second)
{
    uint64_t half = 0, sum = 0;
    int n = 0, at = b->from;
    for (int v = 0; v < LEVELS; v++)
        for (int i = b->from; i < b->to; i++)
            if (level(c->bins[i], b->axis) == v) c->sorted[n++] = c->bins[i];
    memcpy(c->bins + b->from, c->sorted, (size_t)n * sizeof *c->sorted);
    for (int i = b->from; i < b->to; i++) half += c->count[c->bins[i]];
    while (at + 1 < b->to && 2 * sum < half) sum += c->count[c->bins[at++]];
    *second = (struct box){ .from = at, .to = b->to };
    b->to = at;
    measure(c, b);
    measure(c, second);
}

// Sets a colour to the mean of a box's pixels.
static void take_colour(struct palette *p, const struct cut *c, int number)
{
    const struct box *b = &c->boxes[number];
    uint64_t sum[3] = { 0 }, pixels = 0;
    for (int i = b->from; i < b->to; i++) {
        const uint16_t bin = c->bins[i];
        for (int axis = 0; axis < 3; axis++) sum[axis] += c->sum[bin][axis];
        pixels += c->count[bin];
        p->colour[bin] = (uint8_t)number;
    }
    for (int axis = 0; axis < 3 && pixels; axis++)
        p->rgb[number][axis] = (uint8_t)((sum[axis] + pixels / 2) / pixels);
}

// Counts the 15-bit colours that occur.
static int count_colours(struct cut *c, const uint8_t *pixels, size_t count, int channels)
{
    int occurring = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *pixel = pixels + i * (size_t)channels;
        if (channels == 4 && !pixel[3]) continue;
        const int bin = bin_of(pixel);
        c->count[bin]++;
        for (int axis = 0; axis < 3; axis++) c->sum[bin][axis] += pixel[axis];
    }
    for (int bin = 0; bin < PALETTE_BINS; bin++)
        if (c->count[bin]) c->bins[occurring++] = (uint16_t)bin;
    return occurring;
}

struct palette *palette_new(const uint8_t *pixels, size_t count, int channels)
{
    struct palette *p = xcalloc(1, sizeof *p);
    struct cut *c = xcalloc(1, sizeof *c);
    c->boxes[0].to = count_colours(c, pixels, count, channels);
    p->count = c->boxes[0].to > 0;
    measure(c, &c->boxes[0]);
    while (p->count && p->count < PALETTE_COLOURS) {
        struct box *most = &c->boxes[0];
        for (int i = 1; i < p->count; i++)
            if (c->boxes[i].weight > most->weight) most = &c->boxes[i];
        if (!most->weight) break; // every box has one colour
        split(c, most, &c->boxes[p->count++]);
    }
    for (int i = 0; i < p->count; i++) take_colour(p, c, i);
    free(c);
    return p;
}
