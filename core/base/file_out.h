// core/base/file_out.h -- files that commands write by name: tables, maps, screens.
//
//   FILE *f = file_out_open("table.csv", &err);       // table.csv.part
//   fputs(..., f);
//   if (file_out_close(f, "table.csv", &err) < 0) ... // renamed; on failure nothing is left
//
// A file that is there is replaced, as by `sqlite3 .output` or a shell's `>`, but whole or not at
// all: whoever reads it meanwhile sees the former one. What is no plain file (a pipe, a terminal)
// is written to as it is, and so is the file that standard output goes to (/dev/stdout). What holds
// work (data sets, adapters, calibrations, exported sessions) is never replaced: those commands
// refuse.
#ifndef CORE_BASE_FILE_OUT_H
#define CORE_BASE_FILE_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/err.h"

FILE *file_out_open(const char *path, struct err *err);
int file_out_close(FILE *f, const char *path, struct err *err);
// Is something there that is no plain file of its own?
bool file_out_special(const char *path);
void file_out_abandon(FILE *f, const char *path); // what was there stays
// All of it at once.
int file_out_write(const char *path, const void *bytes, size_t size, struct err *err);

#endif
