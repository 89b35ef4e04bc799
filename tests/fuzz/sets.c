// tests/fuzz/sets.c -- reads arbitrary bytes as evaluation sets of several formats: the first rows
// and their pictures can be read or are refused.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/data/dataset.h"
#include "core/picture/image.h"
#include "core/sets/set.h"

enum { ROWS = 50 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_pictures(const struct dataset *d, const struct sample *s)
{
    struct err err;
    size_t size;
    for (size_t i = 0; i < s->dialogue.path_count; i++)
        free(dataset_picture(d, s->dialogue.paths[i], IMAGE_MAX_FILE, &size, &err));
}

static void read_all(const struct eval_set *set, const char *path, const char *columns)
{
    struct dataset d;
    struct err err;
    if (eval_set_open(&d, set, set->ways, path, "/nowhere", columns, &err) < 0) return;
    for (int64_t i = 0; i < d.count && i < ROWS; i++) {
        struct sample s;
        if (dataset_read(&d, i, &s, &err) == 0) read_pictures(&d, &s);
        sample_release(&s);
    }
    dataset_close(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const names[] = { "pope", "mmmu", "hellaswag", "refcoco", "mme-realworld" };
    struct err err;
    char path[64];
    const int file = memfd_create("set", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        read_all(eval_set_need(names[i], &err), path, NULL);
    read_all(eval_set_need("mcq", &err), path, "question=q,picture=img,choices=c,answer=a");
    close(file);
    return 0;
}
