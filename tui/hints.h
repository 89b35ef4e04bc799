// tui/hints.h -- words on the screen that name keys ("Ctrl-P find", "Left Right: token"): a click
// on them presses the key.
#ifndef TUI_HINTS_H
#define TUI_HINTS_H

#include "tui/canvas.h"

// The key that the words at this cell name; false: none. Words belong together up to two blanks.
bool hint_key(const struct canvas *c, int x, int y, char name[32]);

#endif
