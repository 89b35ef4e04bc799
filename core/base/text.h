// core/base/text.h -- checks and escapes texts, splits paths, sorts.
//
//   if (text_ends(path, ".gguf")) ...
//   if (text_check(text, size, path, err) < 0) ...   // a file that must be UTF-8
#ifndef CORE_BASE_TEXT_H
#define CORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct buf;

// Returns whether `text` ends with `end`; every text ends with "".
bool text_ends(const char *text, const char *end);
// Returns whether `text` ends with one of these endings, ignoring case, and is longer than it; the
// list ends with NULL.
bool text_ends_with_any(const char *text, const char *const *endings);
// Returns whether a list that ends with NULL contains the text. Returns false if either is NULL.
bool text_listed(const char *const *list, const char *text);
// Appends a sentence to *all (NULL: none yet) after "; "; frees `more`.
void text_append(char **all, char *more);
// Returns whether a byte belongs to a word: an ASCII letter or digit, or a byte of any
// character beyond ASCII.
bool text_is_word(char c);
// Skips leading spaces, tabs and newlines, which many models begin their answers with.
const char *text_trimmed(const char *text);
// Returns the offset of the first invalid UTF-8 byte, or `size` if the text is valid.
size_t text_bad_byte(const char *text, size_t size);
// Returns "UTF-16" or "UTF-32", recognised at the beginning of a file by a byte order mark or by
// the zero bytes of ASCII characters; NULL: neither.
const char *text_wide(const char *text, size_t size);
// Returns the length of the byte order mark at the start of the text: 3 or 0.
size_t text_mark(const char *text, size_t size);
// Refuses a file that is not UTF-8, or has a zero byte, which would end the C string early. The
// message names the file and, for invalid UTF-8, the line and byte (from 1).
int text_check(const char *text, size_t size, const char *name, struct err *err);
// Refuses invalid UTF-8 in a part that begins at line `line` of its file (0: a single line without
// a number). Names UTF-16 and UTF-32 in a part that begins at line 1. The message does not name the
// file.
int text_check_part(const char *text, size_t size, int64_t line, struct err *err);

// Appends a text for XML or HTML, between tags or quotes: & < > " ' become entities.
void text_put_xml(struct buf *to, const char *text);
// Appends a text for a cell of a Markdown table: escapes | and the < of tags and comments; a
// newline becomes a space.
void text_put_markdown(struct buf *to, const char *text);

// Returns the file name in a path, after the last '/'. Borrowed.
const char *text_file_name(const char *path);
// Returns the folder in a path, with its '/'; "./" if the path has none. The caller frees it.
char *text_folder(const char *path);

// The name of one of several files: "NAME-00002-of-00003.parquet".
struct text_shard {
    size_t stem; // length of NAME, with its folder
    size_t part, count;
};

// Parses the name of such a file, which ends with `end` (".parquet"); false for any other name.
bool text_shard(const char *path, const char *end, struct text_shard *shard);

// Writes a number for people: three significant digits, or the nearest whole number from 1000 to a
// million; "39.3%" for a share of 0.393.
void text_number(char text[32], double value, bool percent);

// Compares two items by strcmp, for qsort and bsearch: char pointers, or structs whose first member
// is one.
int text_compare(const void *a, const void *b);
// Sorts items of `size` bytes by text_compare. Returns a text that occurs twice, or NULL.
const char *text_sort(void *items, size_t count, size_t size);

#endif
