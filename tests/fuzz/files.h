// tests/fuzz/files.h -- writes the files of a folder that a fuzz target reads. Ends by abort, which
// tests/allocations/main.c replaces.
#ifndef TESTS_FUZZ_FILES_H
#define TESTS_FUZZ_FILES_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/mem.h"

// For mkdtemp: a folder in memory, which folder_remove removes.
#define FILES_FOLDER "/dev/shm/vlmsh-fuzz-XXXXXX"

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
