// tui/flow.h -- texts of help and tables as lines of a given width: words stay whole.
//
//   struct flow f = { 0 };
//   flow_add_text(&f, command->details, 40);
//   flow_add_table(&f, table, 40);              // of tui/table_text.h
//   for (size_t i = 0; i < f.count; i++) ... f.lines[i].text ...
//   flow_release(&f);
#ifndef TUI_FLOW_H
#define TUI_FLOW_H

#include <stdbool.h>
#include <stddef.h>

struct table_copy;

struct flow_line {
    char *text;
    size_t term; // bytes at its beginning that name what the rest explains
};

struct flow {
    struct flow_line *lines;
    size_t count;
};

// A text as commands/help_text.h describes it. An empty line stands between it and what precedes.
void flow_add_text(struct flow *f, const char *text, int width);
// Its columns of words are wrapped; where that is not enough, each row becomes an item.
void flow_add_table(struct flow *f, const struct table_copy *table, int width);
void flow_release(struct flow *f);

#endif
