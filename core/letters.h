// core/letters.h -- small letters for pictures that are drawn: 3 x 5 dots each.
#ifndef CORE_LETTERS_H
#define CORE_LETTERS_H

#include <stdint.h>

// RGB pixels [height, width, 3]; (x, y) is the upper left corner, `dot` pixels a dot. What lies
// outside is cut off; a letter without a drawing is a gap.
void letters_draw(uint8_t *pixels, int width, int height, int x, int y, int dot, const char *text,
                  const uint8_t colour[3]);
int letters_width(const char *text, int dot);

#endif
