// tui/chips.h -- the row of methods under the picture: key, name, on or off, and what the key would
// change in the next prompt.
#ifndef TUI_CHIPS_H
#define TUI_CHIPS_H

#include "tui/view.h"

// Draws the methods at the bottom of the area, on at most `most` lines, or one more if their
// names need it; returns the number of lines used. A click on a method presses its key
// (tui/hints.h).
int chips_draw(const struct view *v, struct canvas *c, struct area area, int most);

#endif
