// core/train/run_folder.c -- creates and locks the folder of a training run, and writes its record.
#include "core/train/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/unfinished.h"

enum { RECORD_MAX = 16 << 20 };

cJSON *run_folder_read(const char *folder, struct err *err)
{
    char *path = xasprintf("%s/training.json", folder);
    cJSON *record = json_read_data(path, RECORD_MAX, err);
    free(path);
    return record;
}

// Returns the state in the record, "running" or "done"; NULL: no record. The caller frees it.
// *keep: train.keep of the run; -1: unknown.
static char *read_state(const char *path, int64_t *keep)
{
    cJSON *record = run_folder_read(path, NULL);
    const char *state;
    char *copy = NULL;
    if (record && json_text(record, "state", "", &state, NULL) == 0) copy = xstrdup(state);
    const char *kept = cJSON_GetStringValue(json_get(json_get(record, "settings"), "train.keep"));
    char *end = NULL;
    *keep = kept ? strtoll(kept, &end, 10) : -1;
    if (!kept || end == kept || *end || *keep < 0) *keep = -1;
    cJSON_Delete(record);
    return copy;
}

// Checks that a folder of that name can be created.
static int check_above(const char *path, struct err *err)
{
    char *above = xstrdup(path);
    size_t n = strlen(above);
    while (n > 1 && above[n - 1] == '/') n--;
    while (n && above[n - 1] != '/') n--;
    above[n] = 0;
    int status = 0;
    if (*above && access(above, F_OK) < 0)
        status = err_set(err, "cannot create '%s': there is no folder '%s': create it first", path,
                         above);
    else if (access(*above ? above : ".", W_OK | X_OK) < 0)
        status = err_set(err, "cannot create '%s': %s", path, strerror(errno));
    free(above);
    return status;
}

static int examine(const char *path, bool resume, struct run_folder *o, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        if (errno != ENOENT) return err_set(err, "cannot use '%s': %s", path, strerror(errno));
        return check_above(path, err);
    }
    if (!S_ISDIR(st.st_mode)) return err_set(err, "'%s' is not a folder", path);
    char *state = read_state(path, &o->keep);
    int status = 0;
    o->begun = state != NULL;
    o->done = state && !strcmp(state, "done");
    bool empty = true; // apart from the remains of an unfinished record
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        empty &= !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
                 !strncmp(e->d_name, "training.json.part", strlen("training.json.part"));
    if (d) closedir(d);
    if (!state && !empty)
        status = err_set(err, "'%s' holds other files: choose a new folder", path);
    else if (o->done && !resume)
        status = err_set(err, "'%s' holds a finished training run: choose a new folder", path);
    else if (state && !resume)
        status = err_set(err,
                         "'%s' holds an unfinished training run: continue it with --resume, or "
                         "choose a new folder",
                         path);
    free(state);
    return status;
}

int run_folder_check(const char *path, bool resume, struct err *err)
{
    struct run_folder o = { 0 };
    return examine(path, resume, &o, err);
}

int run_folder_open(struct run_folder *o, const char *path, bool resume, struct err *err)
{
    *o = (struct run_folder){ .path = xstrdup(path), .lock = -1 };
    int status = examine(path, resume, o, err);
    if (status == 0 && mkdir(path, 0777) < 0 && errno != EEXIST)
        status = err_set(err, "cannot create '%s': %s", path, strerror(errno));
    if (status == 0 && (o->lock = folder_lock(path, "training", err)) < 0) status = -1;
    // The content may have changed before the lock was acquired.
    if (status == 0) status = examine(path, resume, o, err);
    if (status < 0) run_folder_close(o);
    return status;
}

int run_folder_record(const struct run_folder *o, const cJSON *record, struct err *err)
{
    char *path = xasprintf("%s/training.json", o->path), *text = cJSON_Print(record);
    struct buf line = { 0 };
    buf_printf(&line, "%s\n", text ? text : "");
    const int status =
        text ? unfinished_write(path, line.data, err) : err_set(err, "out of memory");
    if (status == 0) fsync(o->lock);
    buf_release(&line);
    cJSON_free(text);
    free(path);
    return status;
}

void run_folder_close(struct run_folder *o)
{
    if (o->path && o->lock >= 0) close(o->lock);
    free(o->path);
    *o = (struct run_folder){ .lock = -1 };
}
