// core/base/folder.h -- folders that get their name only when complete.
//
//   struct folder_work work;
//   if (folder_begin(&work, "out/adapter", &err) < 0) ...   // work.path: out/adapter.part-XXXXXX
//   ... files into work.path ...
//   if (folder_commit(&work, "out/adapter", &err) < 0) ...  // on disk, then renamed
//   folder_abandon(&work);                                  // or: deletes it
#ifndef CORE_BASE_FOLDER_H
#define CORE_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/err.h"

struct folder_work {
    char *path;
    int lock; // held until the folder has its name (core/base/unfinished.h)
};

// Creates a folder beside `target`, which must be absent, or an empty folder or a link to one.
// Refuses a mount point, which rename cannot replace. Removes unfinished folders that killed
// processes left for the same target.
int folder_begin(struct folder_work *work, const char *target, struct err *err);
// folder_commit discards the folder on failure. Both functions release *work.
int folder_commit(struct folder_work *work, const char *target, struct err *err);
void folder_abandon(struct folder_work *work);
// Writes the folder's entries to disk: only then does a rename survive a power cut.
void folder_sync(const char *path);
// Removes a folder and its content, if it exists.
void folder_remove(const char *path);

// Locks a folder for one process at a time: returns the lock, which closing it (or the end of the
// process) releases. Waits up to two seconds; then -1: "another process is DOING into 'PATH'".
int folder_lock(const char *path, const char *doing, struct err *err);

// Returns whether the path is a folder without entries.
bool folder_is_empty(const char *path);
// Returns the sorted names of a folder's entries, without "." and "..", ending with NULL; an empty
// list if the folder cannot be read. Free the list with folder_list_free.
char **folder_list(const char *path);
void folder_list_free(char **names);
// Returns the path of an entry of the folder, whose name may end with a slash; the caller frees it.
char *folder_entry(const char *folder, const char *name);

// Opens a file of the folder for stdio as NAME.part; closing it syncs and renames it, or removes it
// on failure.
FILE *folder_create(const char *folder, const char *name, struct err *err);
int folder_close(FILE *f, const char *folder, const char *name, struct err *err);
// Write whole files, whose content is on disk on return.
int folder_write(const char *folder, const char *name, const void *bytes, size_t size,
                 struct err *err);
int folder_copy(const char *folder, const char *name, const char *from, struct err *err);

#endif
