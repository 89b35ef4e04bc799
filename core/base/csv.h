// core/base/csv.h -- tables of text in CSV files: a line of column names, then rows of as many
// fields.
//
//   struct csv t = { 0 };
//   if (csv_read(&t, "keep.csv", &err) < 0) ...
//   const int keep = csv_column(&t, "keep");             // -1: there is none
//   for (size_t r = 0; r < t.row_count; r++) csv_cell(&t, r, keep);
//   csv_set(&t, csv_add_row(&t), csv_need_column(&t, "score"), "0.5");
//   csv_write(&t, "keep.csv", &err);                     // whole or not at all
//   csv_release(&t);
//
// Fields in double quotes may hold commas, line ends and doubled quotes (RFC 4180). Read files are
// untrusted: size and number of columns are bounded, a row of another length is refused. An empty
// file is an empty table; a byte order mark is passed over.
#ifndef CORE_BASE_CSV_H
#define CORE_BASE_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/err.h"
#include "core/base/mem.h"

struct csv {
    char **columns; // [column_count]
    int column_count;
    char ***rows; // [row_count][column_count]; none is NULL
    size_t row_count;
};

int csv_read(struct csv *t, const char *path, struct err *err);
// The same from memory; `name` is for messages.
int csv_parse(struct csv *t, const char *text, size_t size, const char *name, struct err *err);
int csv_write(const struct csv *t, const char *path, struct err *err);
void csv_release(struct csv *t);

int csv_column(const struct csv *t, const char *name); // -1: there is none
// -1 with a message that names those there are.
int csv_find_column(const struct csv *t, const char *name, const char *path, struct err *err);
int csv_need_column(struct csv *t, const char *name); // added, empty in all rows, when it is new
size_t csv_add_row(struct csv *t);                    // of empty fields
void csv_drop_row(struct csv *t, size_t row);
void csv_set(struct csv *t, size_t row, int column, const char *text);
const char *csv_cell(const struct csv *t, size_t row, int column);
// Is the field one of these, separated by "|"?
bool csv_is(const char *text, const char *values);
// Is the field a number? NaN counts, nothing does not.
bool csv_number(const char *text, double *value);

// All rows, to be chosen from; belongs to the caller.
bool *csv_all(const struct csv *t);
// "COLUMN=VALUE" (or VALUE|VALUE...): rows without it are no longer chosen. `path` is for messages.
int csv_where(const struct csv *t, const char *where, const char *path, bool *chosen,
              struct err *err);

// A text in quotes, as CSV writes it (NULL: an empty one).
void csv_quote(struct buf *b, const char *text);
// For rows that are written as they come (core/base/file_out.h): a text in quotes (NULL: an empty
// one), then `end`: ',' or '\n'.
void csv_text(FILE *f, const char *text, char end);

#endif
