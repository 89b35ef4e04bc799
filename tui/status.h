// tui/status.h -- the status line: model, device, speed, context, memory, enabled methods.
#ifndef TUI_STATUS_H
#define TUI_STATUS_H

#include "tui/view.h"

// ways: hints of keys, separated by two spaces, the most useful first (keys_hints).
void status_draw(const struct view *v, struct canvas *c, struct area area, const char *ways);
// Returns the input line's label, "[1 picture] vlmsh> ", or "... " in a text that continues; free()
// it.
char *status_prompt(const struct view *v, bool continues);

#endif
