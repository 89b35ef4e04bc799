// tui/event_text.h -- formats events as lines of text: tables and pairs of texts, fitted to a
// width, and measures of answers.
//
//   struct table_copy *t = table_copy_new(event->table);
//   char *text = table_copy_text(t, 78);               // free() it
//   table_copy_free(t);
//
// If the table is too wide, its widest text columns are narrowed and their cells wrapped. Numbers,
// headings and words are never broken; a table that cannot fit keeps one line per row.
#ifndef TUI_EVENT_TEXT_H
#define TUI_EVENT_TEXT_H

#include "core/base/event.h"
#include "core/base/mem.h"

struct table_copy;

struct table_copy *table_copy_new(const struct event_table *t);
void table_copy_free(void *table);
// Returns the name (if event_table.titled), the headings and the rows, as lines; free() the text.
char *table_copy_text(const void *table, int width);
// These return the minimum width, and the number of lines above the rows.
int table_copy_least(const struct table_copy *t);
size_t table_copy_headings(const struct table_copy *t);
// Returns each row as an item of a help text (commands/help_text.h): its first cell, explained by
// the other cells.
char *table_copy_items(const struct table_copy *t);

// Appends two texts side by side, wrapped between words to `width` columns in all (19 if it is less
// than 20); marks their first difference.
void columns_draw(struct buf *to, const struct event_columns *c, int width);
// Copies the texts, so that columns_text can wrap them to any width. The caller frees the copy with
// columns_free, and the result of columns_text with free().
void *columns_copy(const struct event_columns *c);
char *columns_text(const void *copy, int width);
void columns_free(void *copy);

// "604 prompt tokens (576 visual), 3 new, 0.1 s; 24 tokens, 2.1 s, 11.4/s, 18 of 21 drafts
// accepted"
void measures_text(struct buf *b, const struct event_answer *a, bool speed);
char *event_line(const struct event *e); // of EVENT_RESULT and EVENT_IDS; free() it

// Limits progress events to five per second; the first and the last always pass.
struct throttle {
    double last;    // when an event last passed, in seconds; 0: never
    bool running;   // the first event has passed, the last one has not
    double started; // time of the first event
};
bool throttle_pass(struct throttle *t, const struct event_progress *progress);

#endif
