// tui/text.h -- text on its way out: valid UTF-8 for programs, harmless for terminals, its width.
//
//   text_repair(&b, bytes);       // JSON: invalid UTF-8 becomes U+FFFD
//   text_printable(&b, bytes);    // terminal: also control characters become visible
//
// What a model says and what file names hold is not ours: an escape sequence in it must not reach
// the terminal.
#ifndef TUI_TEXT_H
#define TUI_TEXT_H

#include "core/mem.h"

// Appends the text with every invalid byte replaced by U+FFFD.
void text_repair(struct buf *to, const char *text);
// The same, and control characters other than newline and tab are shown as ^X or U+FFFD.
void text_printable(struct buf *to, const char *text);
// Columns on a terminal (wide characters count two, combining ones none).
int text_width(const char *text);
// Bytes of the longest beginning that fits into `columns`.
size_t text_fit(const char *text, int columns);

#endif
