// core/draw/letters.h -- letters for drawn pictures: 5 x 7 dots each, with two rows below the line
// for descenders.
#ifndef CORE_DRAW_LETTERS_H
#define CORE_DRAW_LETTERS_H

#include <stdint.h>

enum { LETTER_WIDTH = 6, LETTER_HEIGHT = 7, LETTER_BELOW = 2 }; // dots, with the gap after it

// RGB pixels [height, width, 3]; (x, y) is the upper left corner, `dot` pixels per dot. Clipped at
// the edges; an unknown character is a gap.
void letters_draw(uint8_t *pixels, int width, int height, int x, int y, int dot, const char *text,
                  const uint8_t colour[3]);
// The same, rotated upwards for labels of vertical axes; (x, y) is the lower left corner.
void letters_draw_up(uint8_t *pixels, int width, int height, int x, int y, int dot,
                     const char *text, const uint8_t colour[3]);
int letters_width(const char *text, int dot);

#endif
