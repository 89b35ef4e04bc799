// tui/early.h -- what was typed while a command read the terminal's replies; readline gets it next.
//
// Readline's own rl_stuff_char() would do, but does not say how much is left: a line that was typed
// whole would wait for the next key.
#ifndef TUI_EARLY_H
#define TUI_EARLY_H

#include <stdbool.h>
#include <stddef.h>

void early_add(const char *bytes, size_t length);
bool early_left(void);
int early_next(void); // the next byte, 0..255; below 0: none is left
void early_drop(void);

#endif
