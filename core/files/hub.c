// core/files/hub.c -- finds a model folder by name: a path, or org/name in the local Hugging Face
// cache.
//
//   CACHE/models--org--name/refs/main            holds the hash of the newest revision fetched
//   CACHE/models--org--name/snapshots/HASH/      is the model folder (links into ../blobs)
//
// CACHE is what huggingface_hub takes: $HF_HUB_CACHE, else $HF_HOME/hub, else
// $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/files/checkpoint.h"

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

// A plain one: reading anything else may never end.
static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static char *home_folder(void)
{
    const char *home = variable("HOME");
    if (home) return xstrdup(home);
    struct passwd *user = getpwuid(getuid()); // NOLINT: the name is copied at once
    return xstrdup(user && user->pw_dir ? user->pw_dir : "/");
}

// `~` and `~/...`; other users' homes are left to the shell.
static char *expand_home(const char *name)
{
    if (name[0] != '~' || (name[1] && name[1] != '/')) return xstrdup(name);
    char *home = home_folder(), *path = xasprintf("%s%s", home, name + 1);
    free(home);
    return path;
}

static char *cache_folder(void)
{
    const char *value;
    char *joined, *path, *home;
    if ((value = variable("HF_HUB_CACHE"))) return expand_home(value);
    if ((value = variable("HF_HOME")))
        joined = xasprintf("%s/hub", value);
    else if ((value = variable("XDG_CACHE_HOME")))
        joined = xasprintf("%s/huggingface/hub", value);
    else {
        home = home_folder();
        joined = xasprintf("%s/.cache/huggingface/hub", home);
        free(home);
    }
    path = expand_home(joined);
    free(joined);
    return path;
}

// org/name or name, as the hub allows: letters, digits, - _ . ; at most one slash, no "..".
static bool is_hub_name(const char *name)
{
    int slashes = 0;
    if (!isalnum((unsigned char)*name) || strstr(name, "..")) return false;
    for (const char *p = name; *p; p++) {
        if (*p == '/' && (++slashes > 1 || !p[1])) return false;
        if (!isalnum((unsigned char)*p) && !strchr("-_./", *p)) return false;
    }
    return true;
}

static char *repository_folder(const char *cache, const char *name)
{
    struct buf b = { 0 };
    buf_printf(&b, "%s/models--", cache);
    for (; *name; name++) {
        if (*name == '/')
            buf_puts(&b, "--");
        else
            buf_putc(&b, *name);
    }
    return buf_take(&b);
}

// The snapshot that refs/main names, if it is there.
static char *snapshot_of_main(const char *repository)
{
    char *path = xasprintf("%s/refs/main", repository), *found = NULL;
    char *hash = is_file(path) ? file_read(path, 1024, NULL, NULL) : NULL;
    free(path);
    if (hash) {
        size_t length = strspn(hash, "0123456789abcdefABCDEF");
        hash[length] = 0;
        if (length) found = xasprintf("%s/snapshots/%s", repository, hash);
    }
    free(hash);
    if (found && !is_folder(found)) {
        free(found);
        found = NULL;
    }
    return found;
}

// Among the snapshots with a config.json the one changed last.
static char *newest_snapshot(const char *repository)
{
    char *folder = xasprintf("%s/snapshots", repository), *best = NULL;
    struct timespec best_time = { 0 };
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        if (entry->d_name[0] == '.') continue;
        char *path = xasprintf("%s/%s", folder, entry->d_name);
        char *config = xasprintf("%s/config.json", path);
        bool usable = is_file(config) && stat(path, &st) == 0;
        free(config);
        bool newer =
            usable &&
            (!best || st.st_mtim.tv_sec > best_time.tv_sec ||
             (st.st_mtim.tv_sec == best_time.tv_sec && st.st_mtim.tv_nsec > best_time.tv_nsec));
        if (newer) {
            free(best);
            best = path;
            best_time = st.st_mtim;
        } else {
            free(path);
        }
    }
    if (dir) closedir(dir);
    free(folder);
    return best;
}

static char *snapshot_of(const char *repository)
{
    char *found = snapshot_of_main(repository);
    return found ? found : newest_snapshot(repository);
}

static char *locate_in_cache(const char *name, struct err *err)
{
    char *cache = cache_folder(), *repository = repository_folder(cache, name);
    char *found = snapshot_of(repository);
    if (!found && is_folder(repository))
        err_set(err,
                "'%s' has no complete snapshot in '%s': download it again with 'hf download %s'",
                name, repository, name);
    else if (!found)
        err_set(err,
                "no folder '%s', and no '%s' in the hub cache: download it with 'hf download %s', "
                "or give the path of a model folder",
                name, repository, name);
    free(cache);
    free(repository);
    return found;
}

char *checkpoint_locate(const char *name, struct err *err)
{
    if (!*name) {
        err_set(err, "the model name is empty");
        return NULL;
    }
    char *path = expand_home(name);
    if (is_folder(path) || checkpoint_is_gguf(path)) return path;
    if (access(path, F_OK) == 0) {
        err_set(err,
                "'%s' is a file: give the folder that holds config.json and the weights, or a "
                "*.gguf file",
                path);
    } else if (is_hub_name(name)) {
        char *found = locate_in_cache(name, err);
        free(path);
        return found;
    } else {
        err_set(err, "no folder '%s': %s", path, strerror(errno));
    }
    free(path);
    return NULL;
}

// "models--org--name" as org/name; NULL: something else.
static char *name_of(const char *folder)
{
    static const char prefix[] = "models--";
    if (strncmp(folder, prefix, sizeof prefix - 1) != 0) return NULL;
    char *name = xstrdup(folder + sizeof prefix - 1), *dashes = strstr(name, "--");
    if (dashes) {
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    if (is_hub_name(name)) return name;
    free(name);
    return NULL;
}

static bool is_model(const char *cache, const char *name)
{
    char *repository = repository_folder(cache, name), *found = snapshot_of(repository);
    char *config = found ? xasprintf("%s/config.json", found) : NULL;
    const bool there = config && is_file(config) && access(config, R_OK) == 0;
    free(config);
    free(found);
    free(repository);
    return there;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void checkpoint_cached(struct names *found)
{
    char *cache = cache_folder(), **names = NULL;
    size_t count = 0;
    DIR *dir = opendir(cache);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char *name = name_of(entry->d_name);
        if (name && is_model(cache, name)) {
            names = xreallocarray(names, count + 1, sizeof *names);
            names[count++] = name;
        } else {
            free(name);
        }
    }
    if (dir) closedir(dir);
    if (count) qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < count; i++) {
        names_add(found, names[i], NULL);
        free(names[i]);
    }
    free(names);
    free(cache);
}
