// tests/fuzz/zipped.c -- reads arbitrary bytes as a ZIP archive. Three names are looked for in it,
// then in its folder: each file is read or refused, and all returned bytes are valid.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/picture/zipped.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const names[] = { "a.png", "b/a.png", "c.png" };
    char folder[256], path[300];
    const char *base = getenv("TMPDIR");
    volatile unsigned sum = 0;
    struct err err;
    snprintf(folder, sizeof folder, "%s/fuzz-%d", base ? base : "/tmp", (int)getpid());
    snprintf(path, sizeof path, "%s/x.zip", folder);
    mkdir(folder, 0700);
    FILE *f = fopen(path, "w");
    if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0) abort();
    const size_t count = sizeof names / sizeof *names;
    for (size_t i = 0; i < 2 * count; i++) {
        char *whole = NULL, *data = NULL;
        size_t length = 0;
        if (asprintf(&whole, "%s/%s", i < count ? path : folder, names[i % count]) < 0) abort();
        if (zipped_read(whole, 1 << 20, &data, &length, &err) > 0)
            for (size_t k = 0; k < length; k++) sum += (unsigned char)data[k];
        free(data);
        free(whole);
    }
    unlink(path); // the next archive must be a new file
    rmdir(folder);
    return 0;
}
