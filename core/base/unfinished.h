// core/base/unfinished.h -- files and folders that get their final name when they are complete.
// Until then they are called NAME.part-XXXXXX, and the writing process keeps them locked.
//
//   char *part = unfinished_begin("out/q.gguf", false, &lock);
//   ... rename(part, "out/q.gguf"); close(lock); free(part);
#ifndef CORE_BASE_UNFINISHED_H
#define CORE_BASE_UNFINISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/err.h"

// Returns the path that an output gets: what a link leads to, since rename does not follow links,
// otherwise a copy of `path`. The caller frees it.
char *unfinished_target(const char *path);
// Removes the unfinished files or folders of `path` that killed processes left, then creates a new
// one with default permissions. *lock: the file, open for writing, or the folder. Keep *lock open
// until the rename, because other processes remove unlocked files and folders. Returns the name,
// which the caller frees; NULL on error, with errno set.
char *unfinished_begin(const char *path, bool folder, int *lock);
// Closes f, then renames `part` to `target`, or removes `part` on failure; part NULL: f already has
// its final name. `sync`: writes the file to disk first. `name` is used in messages.
int unfinished_end(FILE *f, const char *part, const char *target, const char *name, bool sync,
                   struct err *err);
// Writes a whole file, or nothing: readers on other machines see either the former file or the
// complete new one. On success its content is on disk.
int unfinished_write(const char *path, const char *text, struct err *err);
// Returns the length of NAME if a file's name is NAME.part-XXXXXX, else 0.
size_t unfinished_base(const char *name);

#endif
