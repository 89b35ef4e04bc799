// tests/fuzz/sets.c -- reads arbitrary bytes as evaluation sets of several formats: the first rows
// and their pictures can be read or are refused. In a text, the bytes after a zero byte are the
// contents of all files that sets look for beside the text; a Parquet file is beside itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/data/dataset.h"
#include "core/picture/image.h"
#include "core/sets/set.h"

enum { ROWS = 50 };

static const char shard[] = "x_instructions/test-00000-of-00001.parquet";
static const char text[] = "x_instructions/q_test.csv";
static const char *const beside[] = { "x_images/test-00000-of-00001.parquet",
                                      "x_instructions/dev-00000-of-00001.parquet",
                                      "dev/q_dev.csv",
                                      "x_instructions/pid_splits.json",
                                      "x_instructions/problems.json",
                                      "x_instructions/coco_pope_random.json",
                                      "x_instructions/TextVQA_0.5.1_val.json",
                                      "x_instructions/testdev_balanced_questions.json",
                                      "x_instructions/v2_mscoco_val2014_annotations.json" };

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

// Returns "FOLDER/NAME" of this process; the caller frees it.
static char *path_of(const char *name)
{
    const char *base = getenv("TMPDIR");
    return xasprintf("%s/fuzz-sets-%d/%s", base ? base : "/tmp", (int)getpid(), name);
}

static void write_file(const char *name, const uint8_t *bytes, size_t size)
{
    char *path = path_of(name);
    FILE *f = fopen(path, "w");
    if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0) abort();
    free(path);
}

static void read_together(const uint8_t *bytes, size_t size)
{
    static const char *const folders[] = { "", "dev", "x_images", "x_instructions" };
    static const char *const names[] = { "pope", "textvqa", "scienceqa", "gqa", "vqav2", "mmlu" };
    const bool parquet = size > 3 && !memcmp(bytes, "PAR1", 4);
    const uint8_t *end = size && !parquet ? memchr(bytes, 0, size) : NULL;
    struct err err;
    if (!end && !parquet) return;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path = path_of(folders[i]);
        mkdir(path, 0700);
        free(path);
    }
    write_file(parquet ? shard : text, bytes, end ? (size_t)(end - bytes) : size);
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        write_file(beside[i], end ? end + 1 : bytes, end ? size - (size_t)(end + 1 - bytes) : size);
    char *path = path_of(parquet ? text : shard), *pattern = path_of("x_*/*");
    unlink(path); // of an earlier input
    free(path);
    path = path_of(parquet ? shard : text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        read_all(eval_set_need(names[i], &err), path, NULL);
    read_all(eval_set_need("vqa", &err), pattern, NULL); // several files
    free(path);
    free(pattern);
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
    read_together(bytes, size);
    return 0;
}
