// core/metrics/python.h -- string functions that behave like those of Python's str, for rules that
// are defined by Python programs.
//
// All functions read UTF-8; a byte that is not UTF-8 counts as a character of its own. Results are
// never NULL, and live as long as the scratch.
#ifndef CORE_METRICS_PYTHON_H
#define CORE_METRICS_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/scratch.h"
#include "core/base/utf8.h"

// Returns the character at p and its length in bytes; a negative number for a byte that is not
// UTF-8.
int32_t python_char(const char *p, size_t *length);
void python_put_char(struct buf *b, int32_t c); // as UTF-8
bool python_is_digit(int32_t c);                // \d
bool python_is_alpha(int32_t c);                // str.isalpha
// True for a letter, mark or number (not '_', unlike \w), and for a byte that is not UTF-8.
bool python_is_word(int32_t c);
// Returns the first position from p on that is not white space.
const char *python_skip_space(const char *p);
// Returns the start of the character that ends at p > text.
const char *python_before(const char *text, const char *p);

char *python_lower(struct scratch *s, const char *text);
// Converts to upper case character by character: unlike in Python, ß does not become SS.
char *python_upper(struct scratch *s, const char *text);
char *python_capitalize(struct scratch *s, const char *text); // "hELLO": "Hello"
// Strips the ASCII characters `letters` (NULL: white space) from both ends.
char *python_strip(struct scratch *s, const char *text, const char *letters);
// Strips each of the letters from both ends, one after the other.
char *python_strip_each(struct scratch *s, const char *text, const char *letters);
// Replaces all occurrences of `from`, which must not be empty.
char *python_replace(struct scratch *s, const char *text, const char *from, const char *to);
char *python_drop_punctuation(struct scratch *s, const char *text);   // ASCII only
char *python_head(struct scratch *s, const char *text, size_t count); // text[:count]
char *python_words(struct scratch *s, const char *text);              // " ".join(text.split())
// True if pandas, which reads the suites' tables, treats the word as a missing value ("", nan,
// None, N/A ...).
bool python_is_missing(const char *text);
size_t python_length(const char *text);       // in characters
size_t python_upper_length(const char *text); // len(text.upper())
// Parses a number like float(): decimal, in any script, with single underscores between digits; inf
// and nan.
bool python_float(struct scratch *s, const char *text, double *number);
size_t python_find_last(const char *text, const char *part); // byte offset; SIZE_MAX: not found
// For words separated by single spaces: the first function finds a word, the second counts the
// words.
bool python_has_word(const char *words, const char *word);
size_t python_count_words(const char *words);

#endif
