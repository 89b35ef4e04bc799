// core/base/file_out.h -- output files that commands write by name: tables, maps, screens.
//
//   FILE *f = file_out_open("table.csv", &err);       // table.csv.part
//   fputs(..., f);
//   if (file_out_close(f, "table.csv", &err) < 0) ... // renamed; on failure nothing is left
//
// An existing file is replaced, as by `sqlite3 .output` or a shell's `>`, but atomically:
// concurrent readers see the old file until the new one is complete. Files that are not regular (a
// pipe, a terminal), and the target of standard output (/dev/stdout), are written in place. Files
// that hold work (data sets, adapters, calibrations, exported sessions) are never replaced: those
// commands refuse.
#ifndef CORE_BASE_FILE_OUT_H
#define CORE_BASE_FILE_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/err.h"

FILE *file_out_open(const char *path, struct err *err);
int file_out_close(FILE *f, const char *path, struct err *err);
// Is there something other than a regular file?
bool file_out_special(const char *path);
void file_out_abandon(FILE *f, const char *path); // discards the new file; an existing one is
                                                  // unchanged
// Writes a whole file at once.
int file_out_write(const char *path, const void *bytes, size_t size, struct err *err);

#endif
