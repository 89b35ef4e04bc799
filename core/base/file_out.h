// core/base/file_out.h -- output files that the user names: tables, figures, submissions, screens.
//
//   FILE *f = file_out_open("table.csv", &err);       // table.csv.part-XXXXXX
//   fputs(..., f);
//   if (file_out_close(f, "table.csv", &err) < 0) ... // renamed; removed on failure
//
// An existing file is replaced only if this program wrote it and nobody has changed it since
// (core/base/written.h), if it is empty (mktemp), or with --force. Never replaced: files that the
// running command or job has read (core/base/file_in.h), files of a model, databases.
//
// Replacing is atomic: concurrent readers see the old file until the new one is complete. Pipes,
// terminals and the target of standard output or standard error (/dev/stdout) are written in place.
#ifndef CORE_BASE_FILE_OUT_H
#define CORE_BASE_FILE_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/err.h"

FILE *file_out_open(const char *path, struct err *err);
int file_out_close(FILE *f, const char *path, struct err *err);
// Like file_out_close, for a file that the user may edit, such as a data set: later, only --force
// replaces it.
int file_out_close_work(FILE *f, const char *path, struct err *err);
void file_out_abandon(FILE *f, const char *path); // discards the new file; an existing one is
                                                  // unchanged
// Writes a whole file at once.
int file_out_write(const char *path, const void *bytes, size_t size, struct err *err);

// Returns 0 if the path may be written. For commands that compute for long before they write.
int file_out_check(const char *path, struct err *err);
// Sets --force for this thread's outputs; returns the previous value.
bool file_out_force(bool force);
// Returns whether the path exists and is not a regular file, or is the target of standard output or
// standard error.
bool file_out_special(const char *path);

// Replaces a file without the checks of file_out_open: for the program's own files, and for files
// whose new content includes the old one.
int file_out_update(const char *path, const void *bytes, size_t size, struct err *err);

#endif
