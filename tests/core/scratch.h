// tests/core/scratch.h -- a temporary folder for a test, and files in it.
//
//   char *folder = scratch_new();
//   scratch_write(folder, "config.json", "{}", 2);
//   scratch_remove(folder);               // with everything in it; frees the name
#ifndef TESTS_CORE_SCRATCH_H
#define TESTS_CORE_SCRATCH_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/json.h"
#include "core/base/mem.h"

static inline char *scratch_new(void)
{
    const char *base = getenv("TMPDIR");
    char *folder = xasprintf("%s/vlmsh-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) fatal("mkdtemp %s", folder);
    return folder;
}

// `name` may contain folders, which are created.
static inline void scratch_write(const char *folder, const char *name, const void *bytes,
                                 size_t size)
{
    char *path = xasprintf("%s/%s", folder, name);
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0777);
            *p = '/';
        }
    FILE *f = fopen(path, "wb");
    if (!f || (size && fwrite(bytes, size, 1, f) != 1) || fclose(f)) fatal("write %s", path);
    free(path);
}

static inline void scratch_text(const char *folder, const char *name, const char *text)
{
    scratch_write(folder, name, text, strlen(text));
}

// Copies FOLDER/NAME of the repository into the scratch folder under the same name.
static inline void scratch_copy(const char *folder, const char *from, const char *name)
{
    char *path = xasprintf("%s/%s", from, name);
    size_t size;
    struct err err;
    char *bytes = file_read(path, 1u << 30, &size, &err);
    if (!bytes) fatal("%s", err.text);
    scratch_write(folder, name, bytes, size);
    free(bytes);
    free(path);
}

// Copies FROM/NAME to FOLDER/NAME with the members of `more`, a JSON object.
static inline void scratch_json(const char *folder, const char *name, const char *from,
                                const char *more)
{
    struct err err;
    char *path = xasprintf("%s/%s", from, name);
    cJSON *config = json_read(path, 1 << 20, &err), *add = cJSON_Parse(more), *field;
    if (!config || !add) fatal("%s and %s", path, more);
    while ((field = cJSON_DetachItemFromArray(add, 0))) {
        cJSON_DeleteItemFromObjectCaseSensitive(config, field->string);
        cJSON_AddItemToObject(config, field->string, field);
    }
    char *text = cJSON_Print(config);
    scratch_text(folder, name, text);
    free(text);
    cJSON_Delete(config);
    cJSON_Delete(add);
    free(path);
}

// Copies FROM/config.json to FOLDER/config.json with these fields ("key": value, ...) added or
// replaced.
static inline void scratch_config(const char *folder, const char *from, const char *fields)
{
    char *more = xasprintf("{%s}", fields);
    scratch_json(folder, "config.json", from, more);
    free(more);
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int kind,
                                     struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static inline void scratch_remove(char *folder)
{
    nftw(folder, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

#endif
