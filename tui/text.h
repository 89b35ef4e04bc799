// tui/text.h -- text on its way out: valid UTF-8 for programs, harmless for terminals, its width.
//
//   text_repair(&b, bytes);       // JSON: invalid UTF-8 becomes U+FFFD
//   text_printable(&b, bytes);    // terminal: also control characters become visible
//   text_put(stderr, bytes);      // printable on a terminal, as it is elsewhere
//
// What a model says and what file names hold is not ours: an escape sequence in it must not reach
// the terminal.
#ifndef TUI_TEXT_H
#define TUI_TEXT_H

#include <stdio.h>

#include "core/base/mem.h"

// Appends the text with every invalid byte replaced by U+FFFD.
void text_repair(struct buf *to, const char *text);
// The same, and control characters other than newline and tab are shown as ^X or U+FFFD.
void text_printable(struct buf *to, const char *text);
// Everything that is written goes this way, but for escape sequences of our own. Where the stream
// is no terminal the bytes stay as they are.
void text_put(FILE *out, const char *text);
void text_printf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Columns on a terminal (wide characters count two, combining ones none).
int text_width(const char *text);
// Bytes of the longest beginning that fits into `columns`.
size_t text_fit(const char *text, int columns);

#endif
