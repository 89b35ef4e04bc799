// tui/text.h -- output text: valid UTF-8 for programs, safe for terminals, with its width.
//
//   text_repair(&b, bytes);       // JSON: invalid UTF-8 becomes U+FFFD
//   text_printable(&b, bytes);    // terminal: also control characters become visible
//   text_put(stderr, bytes);      // printable on a terminal, unchanged elsewhere
//
// Model output and file names are untrusted: their escape sequences must not reach the terminal.
#ifndef TUI_TEXT_H
#define TUI_TEXT_H

#include <stdio.h>

#include "core/base/mem.h"

// Appends the text with every invalid byte replaced by U+FFFD.
void text_repair(struct buf *to, const char *text);
// The same, with control characters other than newline and tab shown as ^X or U+FFFD.
void text_printable(struct buf *to, const char *text);
// All output except our own escape sequences goes through this. If the stream is not a terminal the
// bytes are unchanged.
void text_put(FILE *out, const char *text);
void text_printf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Columns on a terminal (wide characters count two, combining ones none).
int text_width(const char *text);
// Columns of the terminal; 0: the stream is not a terminal, and lines may have any length.
int text_terminal_columns(FILE *out);
// Columns at which paragraphs are wrapped: the terminal's, else COLUMNS, else 100.
int text_wrap_columns(FILE *out);
// Length in bytes of the longest prefix that fits into `columns`.
size_t text_fit(const char *text, int columns);
// The last part of a path, without trailing slashes. free() it.
char *text_last_part(const char *path);
// The longest end of the text that fits.
const char *text_tail(const char *text, int columns);

#endif
