// tui/stream.h -- text on standard output or standard error: styles, and on a terminal lines that
// end between words.
//
//   struct stream out;
//   stream_open(&out, stdout);
//   stream_put_lines(&out, STYLE_DIM, "a notice");
//   growing_add(&g, &out, STYLE_TEXT, " token");   // an answer, piece by piece
//   growing_end_line(&g, &out);
#ifndef TUI_STREAM_H
#define TUI_STREAM_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "tui/theme.h"

struct stream {
    FILE *file;
    bool terminal;
    bool escapes; // the terminal supports cursor movement
    bool colours;
    int palette; // colours for maps: 0, 8, 256
};

void stream_open(struct stream *s, FILE *file);
bool stream_true_colour(void); // the environment says that the terminal has 24-bit colours
// Writes text in a form safe for this stream; pipes get the bytes unchanged.
void stream_put(const struct stream *s, enum style style, const char *text);
// Writes whole lines. On a terminal, a text that is wider is wrapped between words, except code and
// commands, which people copy.
void stream_put_lines(const struct stream *s, enum style style, const char *text);

// A text that grows word by word. A terminal would break its lines within words, so a word is
// printed when it is complete, on the next line if it does not fit; nothing is drawn twice.
struct growing {
    const struct stream *to;
    enum style style;
    struct buf word; // not printed yet: spaces and the beginning of a word
    int column;      // of the printed text
    bool fenced;     // within a code block
    bool code;       // the line is code, which is not wrapped
    bool split;      // the word is longer than a line: its beginning is printed, and so is the rest
};

// Adds text to that which grows on the stream.
void growing_add(struct growing *g, const struct stream *to, enum style style, const char *text);
// Prints the word that is held, and ends the line.
void growing_end_line(struct growing *g, const struct stream *to);

#endif
