// core/base/utf8.h -- characters of a text: UTF-8 and white space.
#ifndef CORE_BASE_UTF8_H
#define CORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/mem.h"

// Decodes the character at `text` (`left`, the bytes that remain, is at least 1) and returns its
// length. If the character is invalid, *c is -1, and the length that of the longest prefix of a
// valid character, at least 1.
size_t utf8_next(const char *text, size_t left, int32_t *c);
// Decodes the character that ends at `end` (> 0) and returns its length. The text must be valid.
size_t utf8_before(const char *text, size_t end, int32_t *c);
void utf8_put(struct buf *b, int32_t c);
bool utf8_valid(const char *text, size_t length);
// Appends the text with every invalid sequence replaced by U+FFFD (as Unicode recommends: one per
// longest prefix of a valid character).
void utf8_repair(struct buf *b, const char *text, size_t length);
// Returns the length of the text without an unfinished character at its end, which later bytes may
// complete.
size_t utf8_settled(const char *text, size_t length);
// Returns the length of the longest prefix of at most `most` bytes that ends with a complete
// character: for "%.*s".
int utf8_head(const char *text, int most);
bool is_white(int32_t c);        // Unicode White_Space
bool python_is_space(int32_t c); // Python's str.isspace, which strip() and split() use

#endif
