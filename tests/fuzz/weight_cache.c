// tests/fuzz/weight_cache.c -- any bytes as the beginning of a file of weights.cache, whose weights
// are 0: it is used whole, or written again; the model loads either way.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/files/weight_cache.h"
#include "core/model/model.h"

static const char folder[] = "tests/goldens/llama-3.2";
enum { WEIGHTS = 1 << 20 }; // more than the file has

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static char *path_of(void)
{
    static char cache[64];
    struct err err;
    struct model *m = model_load(folder, backend_cpu(), NULL, &err);
    snprintf(cache, sizeof cache, "/dev/shm/vlmsh-fuzz-XXXXXX");
    if (!m || !mkdtemp(cache) || setenv("XDG_CACHE_HOME", cache, 1) < 0) abort();
    char *path = weight_cache_path(m->checkpoint->weights, "q8_0", &err);
    model_free(m);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char *path;
    volatile unsigned sum = 0;
    struct err err;
    if (!path && !(path = path_of())) abort();
    const int file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size || ftruncate(file, WEIGHTS) < 0)
        abort();
    close(file);
    struct model *m = model_load("tests/goldens/llama-3.2::q8_0", backend_cpu(), NULL, &err);
    if (!m) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    for (int64_t i = 0; i < m->checkpoint->tensor_count; i++) {
        const struct safetensor *t = m->checkpoint->tensors[i];
        const unsigned char *data = t->data;
        if (t->bytes) sum += data[0] + data[t->bytes - 1];
    }
    model_free(m);
    return 0;
}
