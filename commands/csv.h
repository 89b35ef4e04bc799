// commands/csv.h -- tables as files of comma-separated values, for spreadsheets.
//
//   FILE *f = csv_create("answers.csv", "number,answer\n", &err);   // NULL: it cannot
//   fprintf(f, "%d,", 1);
//   csv_text(f, answer, '\n');
//   if (csv_close(f, "answers.csv", &err) < 0) ...
#ifndef COMMANDS_CSV_H
#define COMMANDS_CSV_H

#include <stdio.h>

#include "core/err.h"

// `head` is the first line. A file that is there is replaced when the new one is whole
// (core/file_out.h).
FILE *csv_create(const char *path, const char *head, struct err *err);
// A quoted text (NULL: an empty one), then `end`: ',' or '\n'.
void csv_text(FILE *f, const char *text, char end);
int csv_close(FILE *f, const char *path, struct err *err);
void csv_abandon(FILE *f, const char *path); // what was there stays

#endif
