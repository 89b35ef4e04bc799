// core/files/hub.c -- finds a model by name: the path of a folder or GGUF file, or org/name in the
// local Hugging Face cache.
//
//   CACHE/models--org--name/refs/main            holds the hash of the newest revision fetched
//   CACHE/models--org--name/snapshots/HASH/      is the model folder (links into ../blobs)
//
// A folder without safetensors stands for the one GGUF model in it; org/name/FILE.gguf is a file of
// a snapshot.
//
// Files of a model that its other files name may be links into its folder or, from a snapshot, into
// the blobs beside it.
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
#include "core/files/checkpoint_parts.h"

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

// --- GGUF files in a folder ----------------------------------------------------------------------

// "...-00002-of-00003.gguf", but for the first.
static bool is_later_part(const char *name)
{
    static const char end[] = "-00001-of-00003.gguf";
    const size_t n = strlen(name), m = sizeof end - 1;
    if (n < m) return false;
    const char *part = name + n - m;
    bool first = true;
    for (size_t i = 0; i < m; i++) {
        if (isdigit((unsigned char)end[i]) ? !isdigit((unsigned char)part[i]) : part[i] != end[i])
            return false;
        if (i < 6) first &= part[i] == end[i];
    }
    return !first;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Names of the models in GGUF files, sorted: none if there are safetensors.
static char **list_gguf(const char *folder, size_t *count)
{
    char **names = NULL;
    size_t n = 0;
    bool others = false;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *name = entry->d_name, *end = strrchr(name, '.');
        others |= end && !strcmp(end, ".safetensors");
        if (!checkpoint_is_gguf(name) || strstr(name, "mmproj") || is_later_part(name)) continue;
        names = xreallocarray(names, n + 1, sizeof *names);
        names[n++] = xstrdup(name);
    }
    if (dir) closedir(dir);
    if (n) qsort(names, n, sizeof *names, by_name);
    while (others && n) free(names[--n]);
    *count = n;
    return names;
}

static void free_names(char **names, size_t count)
{
    while (count) free(names[--count]);
    free(names);
}

static bool has_gguf(const char *folder)
{
    size_t count;
    char **names = list_gguf(folder, &count);
    free_names(names, count);
    return count > 0;
}

static char *in_folder(const char *folder, const char *name)
{
    const size_t n = strlen(folder);
    return xasprintf("%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
}

static void say_which(const char *name, char **files, size_t count, struct err *err)
{
    struct buf all = { 0 };
    for (size_t i = 0; i < count; i++) buf_printf(&all, "%s%s", i ? ", " : "", files[i]);
    char *example = in_folder(name, files[0]);
    err_set(err, "'%s' holds %zu models in GGUF files: choose one, as in '%s' (there are %s)", name,
            count, example, all.data);
    free(example);
    buf_release(&all);
}

// The folder, which is taken over, or the one GGUF model in it; NULL: there are several.
static char *model_in(char *folder, const char *name, struct err *err)
{
    size_t count;
    char **files = list_gguf(folder, &count);
    char *found = count > 1 ? NULL : count == 1 ? in_folder(folder, files[0]) : xstrdup(folder);
    if (!found) say_which(name, files, count, err);
    free_names(files, count);
    free(folder);
    return found;
}

// --- the hub's cache -----------------------------------------------------------------------------

static bool holds_model(const char *folder)
{
    char *config = xasprintf("%s/config.json", folder);
    const bool there = is_file(config) && access(config, R_OK) == 0;
    free(config);
    return there || has_gguf(folder);
}

// Among the snapshots with a model the one changed last.
static char *newest_snapshot(const char *repository)
{
    char *folder = xasprintf("%s/snapshots", repository), *best = NULL;
    struct timespec best_time = { 0 };
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        if (entry->d_name[0] == '.') continue;
        char *path = xasprintf("%s/%s", folder, entry->d_name);
        bool usable = holds_model(path) && stat(path, &st) == 0;
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
    else if (!found && !strchr(name, '/'))
        err_set(
            err,
            "no folder '%s': give the path of a model folder, or the name of a model in the hub "
            "cache, as in ORGANIZATION/NAME",
            name);
    else if (!found)
        err_set(err,
                "no folder '%s', and no '%s' in the hub cache: download it with 'hf download %s', "
                "or give the path of a model folder",
                name, repository, name);
    free(cache);
    free(repository);
    return found;
}

// org/name/FILE.gguf in the cache; NULL: there is no such snapshot.
static char *file_in_cache(const char *name)
{
    const char *slash = strchr(name, '/'), *rest = slash ? strchr(slash + 1, '/') : NULL;
    if (!rest || strstr(rest, "..")) return NULL;
    char *model = xstrndup(name, (size_t)(rest - name)), *found = NULL;
    if (is_hub_name(model)) {
        char *cache = cache_folder(), *repository = repository_folder(cache, model);
        char *snapshot = snapshot_of(repository);
        if (snapshot) found = xasprintf("%s%s", snapshot, rest);
        free(snapshot);
        free(repository);
        free(cache);
    }
    free(model);
    return found;
}

// A GGUF file, which need not be there.
static char *locate_file(const char *name)
{
    char *path = expand_home(name), *cached = NULL;
    if (access(path, F_OK) != 0) cached = file_in_cache(name);
    if (!cached) return path;
    free(path);
    return cached;
}

static char *locate_model(const char *name, struct err *err)
{
    if (checkpoint_is_gguf(name)) return locate_file(name);
    char *path = expand_home(name);
    if (is_folder(path)) return model_in(path, name, err);
    if (access(path, F_OK) == 0) {
        err_set(err,
                "'%s' is a file: give the folder that holds config.json and the weights, or a "
                "*.gguf file",
                path);
    } else if (is_hub_name(name)) {
        char *found = locate_in_cache(name, err);
        free(path);
        return found ? model_in(found, name, err) : NULL;
    } else {
        err_set(err, "no folder '%s': %s", path, strerror(errno));
    }
    free(path);
    return NULL;
}

// Both names together; NULL: the model is no GGUF file.
static char *with_encoder(const char *model, const char *encoder, struct err *err)
{
    if (!checkpoint_is_gguf(model)) {
        err_set(err, "'%s' is no GGUF file: --mmproj goes with GGUF files only", model);
        return NULL;
    }
    char *file = locate_file(encoder), *both = checkpoint_with_encoder(model, file);
    free(file);
    return both;
}

char *checkpoint_locate(const char *name, struct err *err)
{
    char *model, *encoder, *found = NULL;
    if (!*name) {
        err_set(err, "the model name is empty");
        return NULL;
    }
    checkpoint_split_name(name, &model, &encoder);
    found = locate_model(model, err);
    if (found && encoder) {
        char *both = with_encoder(found, encoder, err);
        free(found);
        found = both;
    }
    free(model);
    free(encoder);
    return found;
}

// --- links ---------------------------------------------------------------------------------------

static bool is_below(const char *path, const char *folder)
{
    const size_t n = strcmp(folder, "/") ? strlen(folder) : 0;
    return !strncmp(path, folder, n) && path[n] == '/';
}

// The blobs of the repository in whose snapshots a folder lies: CACHE/models--org--name/blobs;
// NULL: it lies in none.
static char *blobs_of(const char *folder)
{
    const char *snapshots = NULL, *p = folder;
    while ((p = strstr(p, "/snapshots/"))) snapshots = p++;
    const size_t n = snapshots ? (size_t)(snapshots - folder) : 0;
    char *repository = xstrndup(folder, n), *name = strrchr(repository, '/');
    const bool cached = name && !strncmp(name + 1, "models--", 8);
    char *blobs = cached ? xasprintf("%s/blobs", repository) : NULL;
    free(repository);
    return blobs;
}

int checkpoint_check_link(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char *named = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    char *folder = realpath(named, NULL), *file = realpath(path, NULL);
    char *blobs = folder ? blobs_of(folder) : NULL;
    int status = 0;
    // A path that does not resolve fails to open, with a message of its own.
    if (folder && file && !is_below(file, folder) && !(blobs && is_below(file, blobs)))
        status = err_set(err,
                         "'%s' is a link to '%s', outside the model's folder: replace it by the "
                         "file itself",
                         path, file);
    free(named);
    free(folder);
    free(file);
    free(blobs);
    return status;
}

// --- names of all --------------------------------------------------------------------------------

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
    const bool there = found && holds_model(found);
    free(found);
    free(repository);
    return there;
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
