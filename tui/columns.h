// tui/columns.h -- two texts side by side, wrapped between words; differences are marked.
#ifndef TUI_COLUMNS_H
#define TUI_COLUMNS_H

#include "core/base/event.h"
#include "core/base/mem.h"

// Appends the lines, no wider than `width` (at least 20) columns of the terminal.
void columns_draw(struct buf *to, const struct event_columns *c, int width);

// A copy of the columns; its lines at a width, which the caller frees; frees the copy.
void *columns_copy(const struct event_columns *c);
char *columns_text(const void *copy, int width);
void columns_free(void *copy);

#endif
