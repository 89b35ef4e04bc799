// tui/table_text.h -- a table as aligned lines of text, fitted to a width.
//
//   struct table_copy *t = table_copy_new(event->table);
//   char *text = table_copy_text(t, 78);               // free() it
//   table_copy_free(t);
//
// Where the table is wider, its widest columns of words are made narrower, and their cells go on in
// the lines below. Numbers and headings are never broken: what then is still too wide stays so.
#ifndef TUI_TABLE_TEXT_H
#define TUI_TABLE_TEXT_H

#include "core/base/event.h"

struct table_copy;

struct table_copy *table_copy_new(const struct event_table *t);
void table_copy_free(void *table);
// The name, where people shall see it (event_table.titled), the headings, the rows.
char *table_copy_text(const void *table, int width);

#endif
