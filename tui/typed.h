// tui/typed.h -- splits typed input into logical lines: a multi-line message stays together,
// commands are separated.
//
//   typed_submit(&t, text);                     // the text from readline
//   while (typed_next(&t, &line)) { ... free(line); }
//   if (typed_open(&t)) ... a multi-line text is incomplete ...
//   typed_release(&t);
#ifndef TUI_TYPED_H
#define TUI_TYPED_H

#include "commands/script.h"
#include "tui/history.h"

struct typed {
    struct history *history;   // receives the typed text; borrowed
    struct line_reader reader; // joins physical lines
    struct buf text;           // the text as typed, for the history
    char *pending;             // pasted lines not taken yet; NULL = none
    size_t at;                 // offset of the next pending line
};

void typed_submit(struct typed *t, const char *text);
bool typed_next(struct typed *t, char **line);
bool typed_open(const struct typed *t);
// Discards pasted lines that have not been taken yet.
void typed_flush(struct typed *t);
// Discards an incomplete multi-line text, but no pasted lines.
void typed_drop(struct typed *t);
void typed_release(struct typed *t);

#endif
