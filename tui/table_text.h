// tui/table_text.h -- a table as aligned lines of text, fitted to a width.
//
//   struct table_copy *t = table_copy_new(event->table);
//   char *text = table_copy_text(t, 78);               // free() it
//   table_copy_free(t);
//
// If the table is too wide, its widest text columns are narrowed and their cells wrapped. Numbers
// and headings are never broken: the table may stay too wide.
#ifndef TUI_TABLE_TEXT_H
#define TUI_TABLE_TEXT_H

#include "core/base/event.h"

struct table_copy;

// A cell on one line; an answer without its leading blank. free() it. column NULL: a heading.
char *table_cell(const char *column, const char *cell);

struct table_copy *table_copy_new(const struct event_table *t);
void table_copy_free(void *table);
// The name if it is shown (event_table.titled), the headings, the rows.
char *table_copy_text(const void *table, int width);
// The width that it needs at least; how many lines of its text are not rows.
int table_copy_least(const struct table_copy *t);
size_t table_copy_headings(const struct table_copy *t);
// Each row as an item of help (commands/help_text.h): the first cell explained by the others.
char *table_copy_items(const struct table_copy *t);

#endif
