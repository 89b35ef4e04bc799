// tests/fuzz/masks.c -- reads arbitrary bytes as a file of positions: the positions of its first
// pictures can be read or are refused.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/probes/masks.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct err err;
    struct masks m;
    char path[64];
    const int file = memfd_create("objects", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (masks_open(&m, path, &err) == 0) {
        for (size_t i = 0; i < m.pictures.count && i < 8; i++)
            for (int way = 0; way < 3; way++) {
                const struct masks_query query = { m.pictures.list[i], "a dog",  40,      30,
                                                   way == 1,           way == 0, way == 2 };
                struct image mask;
                if (masks_read(&m, &query, &mask, &err) == 0) image_release(&mask);
            }
        masks_close(&m);
    }
    close(file);
    return 0;
}
