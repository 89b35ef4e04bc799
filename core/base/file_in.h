// core/base/file_in.h -- opening files to read, for all who read data: a plain file, or a message.
//
//   const int fd = file_in_open(path, &err);            // -1: no such file, or no plain one
//   char *text = file_read(path, limit, &size, &err);   // all of it
//
// Whatever else stands where data is expected must not be read: a pipe would wait for its writer, a
// terminal for its keys, /dev/zero would never end. Standard input and scripts may be pipes; who
// reads those waits with file_in_wait, which Ctrl-C ends.
#ifndef CORE_BASE_FILE_IN_H
#define CORE_BASE_FILE_IN_H

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/base/err.h"

// A plain file; the descriptor, to be closed, or -1.
int file_in_open(const char *path, struct err *err);
// The same for what may be a pipe or a device too: reading gives EAGAIN where it would wait.
int file_in_open_any(const char *path, struct err *err);
// Until there is something to read or the end; -1 once *cancel is true (NULL: nothing cancels).
int file_in_wait(int fd, const atomic_bool *cancel, struct err *err);

// What stands where a plain file should: "a folder", "a pipe", "a socket", "a device".
const char *file_in_kind(mode_t mode);

// Whole file into memory (NUL-terminated, *size without it), at most `limit` bytes. NULL on error;
// free() it.
char *file_read(const char *path, size_t limit, size_t *size, struct err *err);
// The same of standard input, from its beginning where it is a plain file; never of a terminal.
char *file_read_standard(size_t limit, size_t *size, const atomic_bool *cancel, struct err *err);

#endif
