// core/base/utf8.h -- characters of a text: UTF-8 and white space.
#ifndef CORE_BASE_UTF8_H
#define CORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/mem.h"

// Decodes the character at text (at least one byte): returns its length; *c = -1 if invalid (then
// the length of the longest prefix of a valid character, at least 1).
size_t utf8_next(const char *text, size_t left, int32_t *c);
// Length of the character that ends at `end` (> 0). The text must be valid.
size_t utf8_before(const char *text, size_t end, int32_t *c);
void utf8_put(struct buf *b, int32_t c);
bool utf8_valid(const char *text, size_t length);
// Appends the text with every invalid sequence as U+FFFD (as Unicode recommends: one per longest
// prefix of a valid character).
void utf8_repair(struct buf *b, const char *text, size_t length);
// Length of the text without an unfinished character at its end, which later bytes may change.
size_t utf8_settled(const char *text, size_t length);
// At most `most` bytes of text, ending with a complete character: for "%.*s".
int utf8_head(const char *text, int most);
bool is_white(int32_t c);        // Unicode White_Space
bool python_is_space(int32_t c); // Python's str.isspace, which strip() and split() use

#endif
