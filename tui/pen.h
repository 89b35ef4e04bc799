// tui/pen.h -- colours and attributes of a cell on a terminal with a given number of colours.
//
//   const struct pen pen = pen_of(theme, &cell, 256, false);
#ifndef TUI_PEN_H
#define TUI_PEN_H

#include <stdbool.h>

#include "tui/canvas.h"
#include "tui/theme.h"

// Colours: COLOUR_DEFAULT, a number of the terminal's palette, or CELL_RGB | 0xRRGGBB.
struct pen {
    int ink, paper;
    unsigned attributes; // LOOK_...
};

// colours: size of the palette; below 8, only attributes are used. exact: the terminal accepts RGB
// colours.
struct pen pen_of(const struct theme *theme, const struct cell *cell, int colours, bool exact);

#endif
