// tui/flow.h -- wraps help texts and tables to lines of a given width, between words if possible.
//
//   struct flow f = { 0 };
//   flow_add_text(&f, command->details, 40);
//   flow_add_table(&f, table, 40);              // of tui/event_text.h
//   for (size_t i = 0; i < f.count; i++) ... f.lines[i].text ...
//   flow_release(&f);
#ifndef TUI_FLOW_H
#define TUI_FLOW_H

#include <stdbool.h>
#include <stddef.h>

struct table_copy;

struct flow_line {
    char *text;
    size_t term; // bytes of the term or heading at the start of the line; 0: none
};

struct flow {
    struct flow_line *lines;
    size_t count;
};

// Adds a text in the form of commands/help_text.h, after an empty line.
void flow_add_text(struct flow *f, const char *text, int width);
// Adds a table with its text columns wrapped, or its rows as items if it is still too wide.
void flow_add_table(struct flow *f, const struct table_copy *table, int width);
void flow_release(struct flow *f);

#endif
