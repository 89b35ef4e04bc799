// core/base/file_in.h -- opens regular files for reading; other files give an error message.
//
//   const int fd = file_in_open(path, &err);            // -1: no such file, or not a regular one
//   char *text = file_read(path, limit, &size, &err);   // all of it
//   void *map = file_map(path, &size, &err);            // mapped; munmap(map, size)
//
// Data must come from regular files: reading a pipe or a terminal could block, and /dev/zero never
// ends; files in /proc only look regular. Standard input and scripts may be pipes; their readers
// wait with file_in_wait, which Ctrl-C interrupts.
#ifndef CORE_BASE_FILE_IN_H
#define CORE_BASE_FILE_IN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "core/base/err.h"

// Opens a regular file; returns a descriptor, which the caller closes, or -1.
int file_in_open(const char *path, struct err *err);
// Like file_in_open, but pipes and devices are allowed: reading from them gives EAGAIN instead of
// waiting.
int file_in_open_any(const char *path, struct err *err);
// Refuses files under /proc, which may block. *st receives the open file's status.
int file_in_check(int fd, const char *path, struct stat *st, struct err *err);
// Waits for input or the end of the file; -1 once *cancel is true (NULL: cannot be cancelled).
int file_in_wait(int fd, const atomic_bool *cancel, struct err *err);

// Returns whether file_in_open has opened this file (or file_in_record marked it) since the last
// file_in_clear: outputs must not replace an input of the running command or job
// (core/base/file_out.h).
bool file_in_opened(const struct stat *st);
void file_in_record(const char *path); // marks a file that was read earlier as opened
void file_in_clear(void);              // call it when a command begins

// True if both paths are equal, or resolve to the same path of an existing file or folder.
bool file_same(const char *a, const char *b);
// True if a path is below a folder; both as realpath returns them.
bool file_is_below(const char *path, const char *folder);
// Returns the kind of a file that is not regular: "a folder", "a pipe", "a socket", "a device".
const char *file_in_kind(mode_t mode);

// Reads a whole file into memory and adds a NUL, which *size does not count. Returns NULL on error
// or if the file exceeds `limit` bytes; the caller frees the text.
char *file_read(const char *path, size_t limit, size_t *size, struct err *err);
// Reads bytes of an open file until `size` are read or the file ends; -1 on error (errno).
ssize_t file_read_at(int fd, void *to, size_t size, uint64_t at);
// Maps a whole file, read-only; the caller unmaps it. NULL on error, including an empty file.
void *file_map(const char *path, uint64_t *size, struct err *err);
// Like file_read, for standard input: reads a regular file from its start, refuses a terminal.
char *file_read_standard(size_t limit, size_t *size, const atomic_bool *cancel, struct err *err);
// Reads the number after `key` in a system file with lines like "Key:   123 kB" or, with key "",
// the only number in the file. Returns false if the file lacks the number.
bool file_number(const char *path, const char *key, uint64_t *value);
// Returns whether file_read_standard was called.
bool file_standard_was_read(void);

// Truncating a mapped file kills its reader with SIGBUS. After this call such a fault ends the
// program through the fatal hook with a message.
void file_in_guard(void);

#endif
