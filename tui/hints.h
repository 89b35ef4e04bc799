// tui/hints.h -- words on the screen that name keys ("Ctrl-P find", "Left Right: token"): a click
// on them presses the key.
#ifndef TUI_HINTS_H
#define TUI_HINTS_H

#include "tui/canvas.h"

// Finds the key named by the words at this cell; false: none. Two spaces separate groups of words.
bool hint_key(const struct canvas *c, int x, int y, char name[32]);

#endif
