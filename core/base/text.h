// core/base/text.h -- questions about texts.
//
//   if (text_ends(path, ".gguf")) ...
//   if (text_check(text, size, path, err) < 0) ...   // a file that must be UTF-8
#ifndef CORE_BASE_TEXT_H
#define CORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

// Does a text end so? "" ends every text.
bool text_ends(const char *text, const char *end);
// Is the text one of a list that ends with NULL? Neither needs to be there: NULL is in none.
bool text_listed(const char *const *list, const char *text);
// The text without leading blanks and line ends. Answers of many models begin with one, which is
// not shown.
const char *text_trimmed(const char *text);
// Returns the offset of the first invalid UTF-8 byte, or `size` if the text is valid.
size_t text_bad_byte(const char *text, size_t size);
// "UTF-16" or "UTF-32", recognised by a byte order mark or by the zeros of ASCII in two or four
// bytes; NULL: neither. `text`: the beginning of a file.
const char *text_wide(const char *text, size_t size);
// Refuses the text of a file that is not UTF-8 or has a byte 0, which would hide the rest: names
// the file; line, byte (from 1) and its value.
int text_check(const char *text, size_t size, const char *name, struct err *err);
// The same for a part that begins at this line of its file; line 0: a single line, not numbered.
int text_check_part(const char *text, size_t size, int64_t line, struct err *err);

#endif
