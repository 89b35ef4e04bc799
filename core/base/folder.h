// core/base/folder.h -- folders that get their name only when complete.
//
//   char *work = folder_begin("out/adapter", &err);        // out/adapter.XXXXXX
//   ... files into work ...
//   if (folder_commit(work, "out/adapter", &err) < 0) ...  // on disk, then renamed; frees work
//   folder_abandon(work);                                  // or: deletes it; frees work
#ifndef CORE_BASE_FOLDER_H
#define CORE_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/err.h"

// A new folder beside `target`, which must be absent or an empty folder, by its name. NULL on
// failure.
char *folder_begin(const char *target, struct err *err);
// On failure the folder is discarded.
int folder_commit(char *work, const char *target, struct err *err);
void folder_abandon(char *work);
// Removes a folder of ours and its content; does nothing if it does not exist.
void folder_remove(const char *path);

// Is it a folder that holds nothing?
bool folder_is_empty(const char *path);

// Opens a file of the folder for stdio as NAME.part; closing it syncs and renames it, or removes it
// on failure.
FILE *folder_create(const char *folder, const char *name, struct err *err);
int folder_close(FILE *f, const char *folder, const char *name, struct err *err);
// Writes whole files, synced to disk on return.
int folder_write(const char *folder, const char *name, const void *bytes, size_t size,
                 struct err *err);
int folder_copy(const char *folder, const char *name, const char *from, struct err *err);

#endif
