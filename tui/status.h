// tui/status.h -- the status line: model, device, speed, context, memory, methods that are on.
#ifndef TUI_STATUS_H
#define TUI_STATUS_H

#include "tui/view.h"

// ways: hints of keys with two blanks between them, the most useful first (keys_hints).
void status_draw(const struct view *v, struct canvas *c, struct area area, const char *ways);
// The input line's label: "[1 picture] vlmsh tiny> ".
char *status_prompt(const struct view *v, bool continues);

#endif
