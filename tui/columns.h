// tui/columns.h -- two texts side by side, wrapped between words; where they part is marked.
#ifndef TUI_COLUMNS_H
#define TUI_COLUMNS_H

#include "core/event.h"
#include "core/mem.h"

// Appends the lines, no wider than `width` (at least 20) columns of the terminal.
void columns_draw(struct buf *to, const struct event_columns *c, int width);

#endif
