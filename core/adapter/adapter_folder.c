// core/adapter/adapter_folder.c -- recognises an adapter folder and opens its files;
// says what another folder is instead. core/adapter/adapter_read.c reads the tensors.
#include <stdlib.h>
#include <string.h>
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

struct adapter *adapter_read(const char *folder, struct model *m, struct err *err)
{
    struct safetensors *file = NULL, *extra = NULL;
    struct adapter *a = NULL;
    cJSON *config = NULL;
    if (adapter_need(folder, err) < 0) return NULL;
    if (open_files(folder, &config, &file, &extra, err) == 0) {
        a = adapter_parse(folder, m, config, file, extra, err);
        if (a) adapter_beside(a);
    } else {
        safetensors_close(file);
        safetensors_close(extra);
    }
    cJSON_Delete(config);
    return a;
}
