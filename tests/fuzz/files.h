// tests/fuzz/files.h -- the folder that a fuzz target reads. Errors end in abort, which the tests
// of allocations replace (Makefile).
//
//   char *folder = files_folder();
//   files_put(folder, "config.json", bytes, size);
//   ...
//   folder_remove(folder);
//   free(folder);
#ifndef TESTS_FUZZ_FILES_H
#define TESTS_FUZZ_FILES_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/mem.h"

// Makes a folder in memory.
static inline char *files_folder(void)
{
    char *folder = xstrdup("/dev/shm/vlmsh-fuzz-XXXXXX");
    if (!mkdtemp(folder)) abort();
    return folder;
}

static inline void files_put(const char *folder, const char *name, const uint8_t *bytes,
                             size_t size)
{
    char *path = xasprintf("%s/%s", folder, name);
    const int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
    close(file);
    free(path);
}

#endif
