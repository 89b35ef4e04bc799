// core/base/csv.h -- tables of text in CSV files: a line of column names, then rows with the same
// number of fields.
//
//   struct csv t = { 0 };
//   if (csv_read(&t, "keep.csv", &err) < 0) ...
//   const int keep = csv_column(&t, "keep");             // -1: none
//   for (size_t r = 0; r < t.row_count; r++) csv_cell(&t, r, keep);
//   csv_set(&t, csv_add_row(&t), csv_need_column(&t, "score"), "0.5");
//   csv_write(&t, "keep.csv", &err);                     // replaces the file, whole or not at all
//   csv_release(&t);
//
// Double-quoted fields may contain commas, newlines and doubled quotes (RFC 4180). Files are
// untrusted: the size and the number of columns are bounded, and a row is an error if its number of
// fields differs from the first line's. An empty file is an empty table. A byte order mark, and
// blank lines after the first line, are skipped.
#ifndef CORE_BASE_CSV_H
#define CORE_BASE_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/err.h"
#include "core/base/mem.h"

struct sinks;

struct csv {
    char **columns; // [column_count]
    int column_count;
    char ***rows; // [row_count][column_count]; no cell is NULL
    size_t row_count, row_capacity;
};

int csv_read(struct csv *t, const char *path, struct err *err);
// Like csv_read, from memory; `name` is used in messages. `columns`: the names of the columns, with
// commas between them, if the text has no line of names; otherwise NULL.
int csv_parse(struct csv *t, const char *text, size_t size, const char *columns, const char *name,
              struct err *err);
int csv_write(const struct csv *t, const char *path, struct err *err);
// Emits the table; a column whose cells are all numbers or empty is a column of numbers.
void csv_emit(const struct csv *t, const char *name, const struct sinks *sinks);
// Appends a Markdown table whose first column is aligned left, the others right.
void csv_put_markdown(const struct csv *t, struct buf *to);
// Writes STEM.csv and, for documents, the same table as STEM.md and as STEM.tex (with the rules of
// LaTeX's booktabs).
int csv_write_documents(const struct csv *t, const char *stem, struct err *err);
void csv_release(struct csv *t);

int csv_column(const struct csv *t, const char *name); // -1: none
// Like csv_column, but if there is no such column, sets an error that lists the columns.
int csv_find_column(const struct csv *t, const char *name, const char *path, struct err *err);
// Returns the index of a column; adds the column, with empty fields, if it is missing.
int csv_need_column(struct csv *t, const char *name);
size_t csv_add_row(struct csv *t); // adds a row of empty fields; returns its index
void csv_drop_row(struct csv *t, size_t row);
void csv_set(struct csv *t, size_t row, int column, const char *text);
const char *csv_cell(const struct csv *t, size_t row, int column);
// Returns whether `text` is one of `values`, which are separated by "|".
bool csv_is(const char *text, const char *values);
// Returns whether the field is a number; NaN is one, an empty field is not.
bool csv_number(const char *text, double *value);

// Returns a selection of all rows: one flag per row, set to true; the caller frees it.
bool *csv_all(const struct csv *t);
// Reads "COLUMN=VALUE" (or VALUE|VALUE...) and deselects the rows with any other value. `path` is
// used in messages.
int csv_where(const struct csv *t, const char *where, const char *path, bool *chosen,
              struct err *err);

// Writes a quoted CSV string (NULL: an empty one).
void csv_quote(struct buf *b, const char *text);
// Writes a field of a row to a file (core/base/file_out.h): a quoted string (NULL: an empty one),
// then `end`: ',' or '\n'.
void csv_text(FILE *f, const char *text, char end);

#endif
