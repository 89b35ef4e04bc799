// core/metrics/python.h -- texts as Python's str treats them, for rules that are defined by Python
// programs.
//
// All functions read UTF-8; a byte that is none counts as a character of its own. Differences:
// lower() maps a capital sigma at the end of a word to the common small sigma. Results are never
// NULL; free() them.
#ifndef CORE_METRICS_PYTHON_H
#define CORE_METRICS_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"

// One character at p and its length in bytes; a negative number for a byte that is no UTF-8.
int32_t python_char(const char *p, size_t *length);
void python_put_char(struct buf *b, int32_t c); // as UTF-8
bool python_is_digit(int32_t c);                // \d
// 0 to 9 of a digit of any script.
int python_digit(int32_t c);
bool python_is_alpha(int32_t c); // str.isalpha

char *python_lower(const char *text);
char *python_capitalize(const char *text); // the first character, the others in lower case
char *python_strip(const char *text);      // white space
char *python_strip_in(char *text);         // the same; frees `text`
char *python_strip_of(const char *text, const char *letters);             // ASCII characters only
char *python_replace(const char *text, const char *from, const char *to); // from: not empty
// Is it one of the words that pandas, which reads the suites' tables, takes for a missing value
// ("", nan, None, N/A ...)?
bool python_is_missing(const char *text);
// " ".join(text.split())
char *python_words(const char *text);
size_t python_length(const char *text);                      // in characters
char *python_head(const char *text, size_t count);           // text[:count]
size_t python_find_last(const char *text, const char *part); // bytes before it; SIZE_MAX: nowhere
// Is the word among the texts between single blanks?
bool python_has_word(const char *words, const char *word);

#endif
