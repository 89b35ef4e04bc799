// core/draw/palette.h -- chooses at most 255 colours for a picture by median cut (Heckbert 1982)
// over a histogram of 15-bit colours: repeatedly splits the box with the largest product of pixels
// and longest side at its median pixel, until there are enough boxes.
//
//   struct palette *p = palette_new(pixels, count, 4);
//   p->rgb[palette_of(p, pixel)]
//   free(p);
#ifndef CORE_DRAW_PALETTE_H
#define CORE_DRAW_PALETTE_H

#include <stddef.h>
#include <stdint.h>

enum { PALETTE_BINS = 1 << 15, PALETTE_COLOURS = 255 };

struct palette {
    int count;
    uint8_t rgb[PALETTE_COLOURS][3];
    uint8_t colour[PALETTE_BINS]; // index in `rgb` for each 15-bit colour that occurs
};

// pixels [count, channels]: RGB, or RGBA, whose transparent pixels (alpha 0) are ignored. The
// caller frees the result.
struct palette *palette_new(const uint8_t *pixels, size_t count, int channels);
// Returns the index of a pixel's colour.
int palette_of(const struct palette *p, const uint8_t *pixel);

#endif
