// core/files/whole_file.h -- a large file that gets its name only when it is complete.
//
//   struct whole_file *f = whole_file_new(path);
//   whole_file_put(f, bytes, size);             // a failure is kept, and reported at the end
//   if (whole_file_finish(f, &err) < 0) ...     // synced and renamed; frees f
// The file is written as PATH.part-XXXXXX; the first write removes the unfinished file of a killed
// process with the same path. Several files get their names together:
//
//   if (whole_file_seal(a, &err) == 0 && whole_file_seal(b, &err) == 0) ...   // all is on disk
//   if (whole_file_finish(a, &err) == 0) status = whole_file_finish(b, &err); // renames
#ifndef CORE_FILES_WHOLE_FILE_H
#define CORE_FILES_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct whole_file {
    char *path, *temporary; // temporary: the name until the file is complete; NULL: not created
    int fd;                 // locked until the file is complete and renamed
    bool sealed, failed;
    struct err why; // of the first failure
};

struct whole_file *whole_file_new(const char *path);
// Returns 0; after the first failure (f->why), this and later calls return -1.
int whole_file_put(struct whole_file *f, const void *bytes, uint64_t size);
// Appends `size` zero bytes as a hole in the file.
int whole_file_skip(struct whole_file *f, uint64_t size);
// Overwrites bytes that were written before.
int whole_file_replace(struct whole_file *f, uint64_t at, const void *bytes, size_t size);
// Syncs the file to disk, even an empty one, without renaming it.
int whole_file_seal(struct whole_file *f, struct err *err);
// whole_file_finish completes the file, even an empty one; -1 on any failure, which discards it.
// whole_file_abandon discards it. Both free f.
int whole_file_finish(struct whole_file *f, struct err *err);
void whole_file_abandon(struct whole_file *f);

#endif
