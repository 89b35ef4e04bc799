// tui/typed.h -- turns typed input into logical lines: a multi-line message stays one, commands are
// taken one by one.
//
//   typed_submit(&t, text);                     // what readline gave
//   while (typed_next(&t, &line)) { ... free(line); }
//   if (typed_open(&t)) ... a text was begun and goes on ...
//   typed_release(&t);
#ifndef TUI_TYPED_H
#define TUI_TYPED_H

#include "commands/script.h"
#include "tui/history.h"

struct typed {
    struct history *history;   // gets what was typed; borrowed
    struct line_reader reader; // physical lines to a logical one
    struct buf text;           // the same as it was typed, for the history
    char *pending;             // lines pasted at once and not taken yet; NULL = none
    size_t at;                 // how far pending is taken
};

void typed_submit(struct typed *t, const char *text);
bool typed_next(struct typed *t, char **line);
bool typed_open(const struct typed *t);
// Discards pasted lines that have not been taken yet.
void typed_flush(struct typed *t);
// Also discards the unfinished text.
void typed_drop(struct typed *t);
void typed_release(struct typed *t);

#endif
