// tui/text.h -- makes output valid UTF-8 for programs and safe for terminals; measures its width.
//
//   text_repair(&b, bytes);       // JSON: invalid UTF-8 becomes U+FFFD
//   text_printable(&b, bytes);    // terminal: control characters become visible too
//   text_put(stderr, bytes);      // printable on a terminal, unchanged elsewhere
//
// Model output and file names are untrusted: their escape sequences must not reach the terminal.
#ifndef TUI_TEXT_H
#define TUI_TEXT_H

#include <stdio.h>

#include "core/base/mem.h"

// Appends the text with every invalid byte replaced by U+FFFD.
void text_repair(struct buf *to, const char *text);
// Like text_repair, but also shows control characters other than newline and tab as ^X or U+FFFD.
void text_printable(struct buf *to, const char *text);
// Writes text in printable form to a terminal, unchanged to other streams. Plain output writes all
// untrusted text by this function.
void text_put(FILE *out, const char *text);
void text_printf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Returns the text's width in columns of a terminal (two for a wide character, none for a combining
// one).
int text_width(const char *text);
// Returns the terminal's width in columns; 0: the stream is not a terminal, and lines may have any
// length.
int text_terminal_columns(FILE *out);
// Returns the width for wrapping paragraphs: the terminal's, else COLUMNS, else 100.
int text_wrap_columns(FILE *out);
// Returns the length in bytes of the longest prefix that fits into `columns`.
size_t text_fit(const char *text, int columns);
// Returns the last part of a path, without trailing slashes. The caller frees it.
char *text_last_part(const char *path);
// Returns the longest suffix of the text that fits into `columns`.
const char *text_tail(const char *text, int columns);

#endif
