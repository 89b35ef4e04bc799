// tui/status.h -- the status line: model, device, speed, context, memory, methods that are on.
#ifndef TUI_STATUS_H
#define TUI_STATUS_H

#include "tui/view.h"

void status_draw(const struct view *v, struct canvas *c, struct area area);
// The input line's label: "[1 picture] vlmsh tiny> ".
char *status_prompt(const struct view *v, bool goes_on);

#endif
