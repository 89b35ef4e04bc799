// core/adapter/adapter_folder.c -- recognises an adapter folder and opens its files;
// says what another folder is instead. core/adapter/adapter_read.c reads the tensors.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapter_config.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/files/safetensors.h"

enum { CONFIG_LIMIT = 16 << 20 };

char *folder_name(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin && path[begin - 1] != '/') begin--;
    return xstrndup(path + begin, end - begin);
}

static bool has_file(const char *folder, const char *name)
{
    char *path = xasprintf("%s/%s", folder, name);
    const bool exists = access(path, F_OK) == 0;
    free(path);
    return exists;
}

bool adapter_is(const char *folder)
{
    return has_file(folder, "adapter_config.json") || has_file(folder, "extra.safetensors");
}

char *adapter_run(const char *folder)
{
    if (has_file(folder, "training.json")) return xstrdup(folder);
    char *real = realpath(folder, NULL), *name = folder_name(real ? real : folder);
    char *run = xasprintf("%s/..", folder);
    const bool checkpoint = !strncmp(name, "checkpoint-", strlen("checkpoint-"));
    free(real);
    free(name);
    if (checkpoint && has_file(run, "training.json")) return run;
    free(run);
    return NULL;
}

int adapter_need(const char *folder, struct err *err)
{
    if (adapter_is(folder)) return 0;
    if (access(folder, F_OK) < 0) return err_set(err, "no folder '%s'", folder);
    const bool model = has_file(folder, "config.json");
    if (!model && has_file(folder, "state.safetensors"))
        return err_set(
            err,
            "'%s' contains only the state for resuming: to get loadable checkpoints, train with "
            "train.keep 1 or more",
            folder);
    if (!model && has_file(folder, "training.json"))
        return err_set(
            err,
            "'%s' contains an unfinished training run or a sweep (/job %s): load one of "
            "its folders instead, checkpoint-N (train.keep), a value of the sweep or best",
            folder, folder);
    return err_set(err,
                   "'%s' is not an adapter (no adapter_config.json and no extra.safetensors)%s",
                   folder, model ? " but a model: open it with /load" : "");
}

// Opens a file of the folder; *file stays NULL if it is absent.
static int open_file(const char *folder, const char *name, struct safetensors **file,
                     struct err *err)
{
    if (!has_file(folder, name)) return 0;
    char *path = xasprintf("%s/%s", folder, name);
    *file = safetensors_open(path, err);
    free(path);
    return *file ? 0 : -1;
}

static int open_files(const char *folder, cJSON **config, struct safetensors **file,
                      struct safetensors **extra, struct err *err)
{
    const bool described = has_file(folder, "adapter_config.json");
    if (open_file(folder, "adapter_model.safetensors", file, err) < 0) return -1;
    if (*file && !described) return err_set(err, "'%s' has no adapter_config.json", folder);
    if (described) {
        char *path = xasprintf("%s/adapter_config.json", folder);
        *config = json_read_config(path, CONFIG_LIMIT, err);
        free(path);
        if (!*config) return -1;
    }
    if (described && !*file)
        return err_set(err, "'%s' has no adapter_model.safetensors%s", folder,
                       has_file(folder, "adapter_model.bin")
                           ? ", only a PyTorch file (*.bin): save it with safe_serialization"
                           : "");
    return open_file(folder, "extra.safetensors", extra, err);
}

// Hashes what identifies the folder's files without reading them.
static void hash_files(const char *folder, char hex[HASH_HEX])
{
    static const char *const names[] = { "adapter_config.json", "adapter_model.safetensors",
                                         "extra.safetensors" };
    struct hash h;
    hash_start(&h);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = xasprintf("%s/%s", folder, names[i]);
        struct stat st = { 0 };
        if (stat(path, &st) == 0) {
            const int64_t facts[] = { (int64_t)st.st_dev, (int64_t)st.st_ino, st.st_size,
                                      st.st_mtim.tv_sec, st.st_mtim.tv_nsec };
            hash_add(&h, facts, sizeof facts);
        }
        hash_add(&h, names[i], strlen(names[i]));
        free(path);
    }
    hash_end(&h, hex);
}

bool adapter_files_changed(const struct adapter *a)
{
    char now[HASH_HEX];
    hash_files(a->folder, now);
    return *a->files && strcmp(a->files, now) != 0;
}

struct adapter *adapter_read(const char *folder, struct model *m, struct err *err)
{
    struct safetensors *file = NULL, *extra = NULL;
    struct adapter *a = NULL;
    cJSON *config = NULL;
    char files[HASH_HEX];
    if (adapter_need(folder, err) < 0) return NULL;
    hash_files(folder, files); // before they are opened, so that no later change is missed
    if (open_files(folder, &config, &file, &extra, err) == 0) {
        a = adapter_parse(folder, m, config, file, extra, err);
        if (a) adapter_beside(a);
        if (a) memcpy(a->files, files, sizeof a->files);
    } else {
        safetensors_close(file);
        safetensors_close(extra);
    }
    cJSON_Delete(config);
    return a;
}
