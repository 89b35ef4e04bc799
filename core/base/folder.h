// core/base/folder.h -- folders that appear under their name only when they are complete.
//
//   char *work = folder_begin("out/adapter", &err);        // out/adapter.XXXXXX
//   ... files into work ...
//   if (folder_commit(work, "out/adapter", &err) < 0) ...  // on disk, then renamed; frees work
//   folder_abandon(work);                                  // or: gone with what is in it; frees it
#ifndef CORE_BASE_FOLDER_H
#define CORE_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/err.h"

// A new folder beside `target`, which must be absent or an empty folder. NULL on failure.
char *folder_begin(const char *target, struct err *err);
// On failure the folder is abandoned.
int folder_commit(char *work, const char *target, struct err *err);
void folder_abandon(char *work);
// A folder of ours with all that is in it; nothing when there is none.
void folder_remove(const char *path);

// The folder itself, made now or empty: what must not be renamed into place. *made: it is new.
int folder_claim(const char *path, bool *made, struct err *err);

// A file of the folder, to be written with stdio as NAME.part; closing gives it its name when all
// of it is on disk, else removes it.
FILE *folder_create(const char *folder, const char *name, struct err *err);
int folder_close(FILE *f, const char *folder, const char *name, struct err *err);
// Whole files, on disk when it returns.
int folder_write(const char *folder, const char *name, const void *bytes, size_t size,
                 struct err *err);
int folder_copy(const char *folder, const char *name, const char *from, struct err *err);

#endif
