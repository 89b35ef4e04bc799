// core/files/hub.c -- finds a model by name: the path of a folder or GGUF file, or org/name in the
// local Hugging Face cache.
//
//   CACHE/models--org--name/refs/main            holds the hash of the newest revision fetched
//   CACHE/models--org--name/snapshots/HASH/      is the model folder (links into ../blobs)
// A folder without safetensors resolves to the one GGUF model in it; org/name/FILE.gguf is a file
// of a snapshot.
// A file that another file of the model names (a shard) may be a link, but only to a file in the
// model's folder or, in a snapshot, in the blobs of its repository.
//
// CACHE is the cache of huggingface_hub: $HF_HUB_CACHE, else $HF_HOME/hub, else
// $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/checkpoint_parts.h"

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

// Accepts only a regular file: reading anything else may never end.
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

// Expands `~` and `~/...` and frees the name; the shell expands other users' homes.
static char *expand_home(char *name)
{
    if (name[0] != '~' || (name[1] && name[1] != '/')) return name;
    const char *home = variable("HOME");
    const struct passwd *user = home ? NULL : getpwuid(getuid()); // NOLINT: copied at once
    if (!home) home = user && user->pw_dir ? user->pw_dir : "/";
    char *path = xasprintf("%s%s", home, name + 1);
    free(name);
    return path;
}

// --- the hub's cache -----------------------------------------------------------------------------

static char *cache_folder(void)
{
    const char *value;
    if ((value = variable("HF_HUB_CACHE"))) return expand_home(xstrdup(value));
    if ((value = variable("HF_HOME"))) return expand_home(xasprintf("%s/hub", value));
    if ((value = variable("XDG_CACHE_HOME")))
        return expand_home(xasprintf("%s/huggingface/hub", value));
    return expand_home(xstrdup("~/.cache/huggingface/hub"));
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

// kind: "models" or "datasets".
static char *repository_folder(const char *kind, const char *name)
{
    char *cache = cache_folder();
    const int organization = (int)strcspn(name, "/");
    char *folder = name[organization] ? xasprintf("%s/%s--%.*s--%s", cache, kind, organization,
                                                  name, name + organization + 1)
                                      : xasprintf("%s/%s--%s", cache, kind, name);
    free(cache);
    return folder;
}

// Returns the sorted names of a folder's GGUF models, ending with NULL; none if the folder has
// safetensors. Leaves out picture encoders, and all but the first part of a model in several parts.
static char **list_gguf(const char *folder)
{
    bool others = false;
    size_t count = 0;
    char **names = folder_list(folder);
    for (char **name = names; *name; name++) {
        others |= text_ends(*name, ".safetensors");
        struct text_shard shard;
        if (checkpoint_is_gguf(*name) && !strstr(*name, "mmproj") &&
            (!text_shard(*name, ".gguf", &shard) || shard.part == 1))
            names[count++] = *name;
        else
            free(*name);
    }
    while (others && count) free(names[--count]);
    names[count] = NULL;
    return names;
}

static bool holds_model(const char *folder)
{
    char *config = xasprintf("%s/config.json", folder), **gguf = list_gguf(folder);
    const bool holds = (is_file(config) && access(config, R_OK) == 0) || *gguf;
    folder_list_free(gguf);
    free(config);
    return holds;
}

// Returns the path of the snapshot that a repository's refs/main names. If that revision was not
// downloaded, returns the most recently changed snapshot, or with `model` the most recently changed
// one that holds a model. NULL: no such snapshot. The caller frees the path.
static char *snapshot_of(const char *repository, bool model)
{
    char *path = xasprintf("%s/refs/main", repository), *best = NULL;
    char *hash = is_file(path) ? file_read(path, 1024, NULL, NULL) : NULL;
    free(path);
    const int length = hash ? (int)strspn(hash, "0123456789abcdefABCDEF") : 0;
    if (length) best = xasprintf("%s/snapshots/%.*s", repository, length, hash);
    free(hash);
    if (best && is_folder(best)) return best;
    free(best);
    best = NULL;
    struct timespec best_time = { 0 };
    char *folder = xasprintf("%s/snapshots", repository), **names = folder_list(folder);
    for (char **name = names; *name; name++) {
        struct stat st;
        path = xasprintf("%s/%s", folder, *name);
        if (**name != '.' && (!model || holds_model(path)) && stat(path, &st) == 0 &&
            (!best || st.st_mtim.tv_sec > best_time.tv_sec ||
             (st.st_mtim.tv_sec == best_time.tv_sec && st.st_mtim.tv_nsec > best_time.tv_nsec))) {
            free(best);
            best = path;
            best_time = st.st_mtim;
        } else {
            free(path);
        }
    }
    folder_list_free(names);
    free(folder);
    return best;
}

// Says that nothing has this name: names the file that has it with ".gguf", or what a model's name
// can be.
static void no_such_model(const char *name, struct err *err)
{
    char *file = xasprintf("%s.gguf", name);
    if (access(file, F_OK) == 0)
        err_set(err, "no folder '%s': did you mean '%s'?", name, file);
    else
        err_set(err,
                "no folder '%s': give the path of a model folder or GGUF file, or the name of a "
                "model in the hub cache, as in ORGANIZATION/NAME",
                name);
    free(file);
}

static char *locate_in_cache(const char *name, struct err *err)
{
    char *repository = repository_folder("models", name), *found = snapshot_of(repository, true);
    if (!found && is_folder(repository))
        err_set(err,
                "'%s' has no complete snapshot in '%s': download it again with 'hf download %s'",
                name, repository, name);
    else if (!found && !strchr(name, '/'))
        no_such_model(name, err);
    else if (!found)
        err_set(err,
                "no folder '%s', and no '%s' in the hub cache: download it with 'hf download %s', "
                "or give the path of a model folder",
                name, repository, name);
    free(repository);
    return found;
}

void checkpoint_cached(struct names *found)
{
    static const char prefix[] = "models--";
    char *cache = cache_folder(), **folders = folder_list(cache);
    size_t count = 0;
    // Each folder's name becomes the model's: "models--org--name" is org/name.
    for (char **folder = folders; *folder; folder++) {
        char *path = xasprintf("%s/%s", cache, *folder), *snapshot = snapshot_of(path, true);
        char *name = *folder, *dashes = NULL;
        if (!strncmp(name, prefix, strlen(prefix))) {
            memmove(name, name + strlen(prefix), strlen(name + strlen(prefix)) + 1);
            dashes = strstr(name, "--");
            if (dashes) {
                *dashes = '/';
                memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
            }
            if (snapshot && is_hub_name(name) && holds_model(snapshot)) {
                folders[count++] = name;
                name = NULL;
            }
        }
        free(name);
        free(path);
        free(snapshot);
    }
    folders[count] = NULL;
    text_sort(folders, count, sizeof *folders); // org/name sorts differently from org--name
    for (size_t i = 0; i < count; i++) names_add(found, folders[i], NULL);
    folder_list_free(folders);
    free(cache);
}

// --- locating ------------------------------------------------------------------------------------

// Returns the path of the folder, or of the one GGUF model in it; NULL if it has several. Frees
// `folder`.
static char *model_in(char *folder, const char *name, struct err *err)
{
    char **files = list_gguf(folder), *found = NULL;
    const char *slash = text_ends(name, "/") ? "" : "/";
    if (!*files) {
        found = xstrdup(folder);
    } else if (!files[1]) {
        found = folder_entry(folder, *files);
    } else {
        struct buf all = { 0 };
        int count = 0;
        for (; files[count]; count++) buf_printf(&all, "%s%s", count ? ", " : "", files[count]);
        err_set(err, "'%s' holds %d models in GGUF files: choose one, as in '%s%s%s' (found: %s)",
                name, count, name, slash, *files, all.data);
        buf_release(&all);
    }
    folder_list_free(files);
    free(folder);
    return found;
}

// Returns the path of a GGUF file, which need not exist: `name` is a path, or org/name/FILE.gguf in
// the cache.
static char *locate_file(const char *name)
{
    char *path = expand_home(xstrdup(name));
    const char *slash = strchr(name, '/'), *rest = slash ? strchr(slash + 1, '/') : NULL;
    if (access(path, F_OK) == 0 || !rest || strstr(rest, "..")) return path;
    char *model = xstrndup(name, (size_t)(rest - name));
    if (is_hub_name(model)) {
        char *repository = repository_folder("models", model),
             *snapshot = snapshot_of(repository, true);
        if (snapshot) {
            free(path);
            path = xasprintf("%s%s", snapshot, rest);
        }
        free(snapshot);
        free(repository);
    }
    free(model);
    return path;
}

static char *locate_model(const char *name, struct err *err)
{
    if (checkpoint_is_gguf(name)) return locate_file(name);
    char *path = expand_home(xstrdup(name));
    if (is_folder(path)) return model_in(path, name, err);
    if (access(path, F_OK) == 0) {
        err_set(err,
                "'%s' is a file: give the folder that holds config.json and the weights, or a "
                "*.gguf file%s",
                path, text_ends(path, ".vlmsh") ? "; -f runs a script: vlmsh MODEL -f FILE" : "");
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
        char *text = found, *file = locate_file(encoder);
        found = NULL;
        if (checkpoint_is_gguf(text))
            found = checkpoint_with_encoder(text, file);
        else
            err_set(err, "'%s' is not a GGUF file: --mmproj works with GGUF files only", text);
        free(text);
        free(file);
    }
    free(model);
    free(encoder);
    return found;
}

// --- links ---------------------------------------------------------------------------------------

// Returns the blobs folder (CACHE/models--org--name/blobs) of the repository whose snapshot
// contains `folder`; NULL: none.
static char *blobs_of(const char *folder)
{
    const char *snapshots = NULL, *p = folder;
    while ((p = strstr(p, "/snapshots/"))) snapshots = p++;
    const int n = snapshots ? (int)(snapshots - folder) : 0;
    char *blobs = xasprintf("%.*s/blobs", n, folder), *repository = xstrndup(folder, (size_t)n);
    const bool cached =
        !strncmp(text_file_name(repository), "models--", 8) && strchr(repository, '/');
    free(repository);
    if (cached) return blobs;
    free(blobs);
    return NULL;
}

int checkpoint_check_link(const char *path, struct err *err)
{
    char *named = text_folder(path), *folder = realpath(named, NULL), *file = realpath(path, NULL);
    char *blobs = folder ? blobs_of(folder) : NULL;
    int status = 0;
    // If a path does not resolve, opening it fails with its own message.
    if (folder && file && !file_is_below(file, folder) && !(blobs && file_is_below(file, blobs)))
        status = err_set(
            err,
            "'%s' is a link to '%s', outside the model's folder: replace it with the file itself",
            path, file);
    free(named);
    free(folder);
    free(file);
    free(blobs);
    return status;
}

// --- data sets -----------------------------------------------------------------------------------

// Adds the paths of a folder's parquet files to a list, one for each group of shards.
static void find_parquet(const char *folder, int depth, struct names *found)
{
    char **names = folder_list(folder);
    for (char **name = names; *name; name++) {
        char *path = xasprintf("%s/%s", folder, *name);
        struct text_shard shard;
        if (is_folder(path) && depth > 0 && **name != '.')
            find_parquet(path, depth - 1, found);
        else if (text_ends(*name, ".parquet") && is_file(path) &&
                 (!text_shard(*name, ".parquet", &shard) || shard.part == 0))
            names_add(found, path, NULL);
        free(path);
    }
    folder_list_free(names);
}

// Returns whether a file belongs to the split "SPLIT" or "CONFIGURATION/SPLIT": its name begins
// with the split, and its folder is the configuration, if one is wanted. The hub names files like
// that: "DocVQA/validation-00000-of-00006.parquet".
static bool is_split(const char *path, const char *wanted)
{
    const char *slash = strrchr(wanted, '/'), *split = slash ? slash + 1 : wanted;
    const char *file = text_file_name(path);
    const size_t n = strlen(split), folder = slash ? (size_t)(slash + 1 - wanted) : 0;
    if (strncmp(file, split, n) != 0 || !file[n] || !strchr("-.", file[n])) return false;
    return !folder || ((size_t)(file - path) > folder && file[-(ptrdiff_t)folder - 1] == '/' &&
                       !strncmp(file - folder, wanted, folder));
}

// Returns the only file of the wanted split, or a pattern for the split's files if each is in the
// folder of a configuration (MMMU's subjects); NULL: neither.
static char *choose_split(const char *snapshot, const struct names *files, const char *wanted)
{
    const char *one = NULL, *slash = strrchr(wanted, '/');
    size_t count = 0, below = 0;
    for (size_t i = 0; i < files->count; i++) {
        if (!is_split(files->list[i], wanted)) continue;
        const char *rest = files->list[i] + strlen(snapshot) + 1;
        one = files->list[i];
        count++;
        below += strchr(rest, '/') && strchr(rest, '/') + 1 == text_file_name(rest);
    }
    if (count == 1) return xstrdup(one);
    return count && count == below && !slash ? xasprintf("%s/*/%s[-.]*", snapshot, wanted) : NULL;
}

// Returns the path of a data set's only parquet file, or of its first shard, or the files that
// `split` selects; NULL: none, or several.
static char *find_data(const char *snapshot, const char *name, const char *split, struct err *err)
{
    enum { DEPTH = 4 };
    struct names files = { 0 };
    char *path = NULL;
    find_parquet(snapshot, DEPTH, &files);
    if (files.count == 1) {
        path = xstrdup(files.list[0]);
    } else if (!files.count) {
        err_set(err, "'%s' has no parquet file in '%s'", name, snapshot);
    } else if (!split || !(path = choose_split(snapshot, &files, split))) {
        struct buf b = { 0 };
        for (size_t i = 0; i < files.count && b.length < 800; i++)
            buf_printf(&b, "%s%s%s", i ? ", " : "", name, files.list[i] + strlen(snapshot));
        err_set(err, "'%s' has %zu data files in the hub cache: choose one of %s", name,
                files.count, b.data);
        buf_release(&b);
    }
    names_release(&files);
    return path;
}

char *checkpoint_data_file(const char *name, const char *split, struct err *err)
{
    const char *slash = strchr(name, '/'), *rest = slash ? strchr(slash + 1, '/') : NULL;
    char *whole = rest ? xstrndup(name, (size_t)(rest - name)) : xstrdup(name);
    char *repository =
        slash && access(name, F_OK) != 0 && is_hub_name(whole) && !strstr(name, "/..")
            ? repository_folder("datasets", whole)
            : NULL;
    char *snapshot = NULL, *path = NULL;
    if (!repository || (!is_folder(repository) && (rest || strchr(slash, '.'))))
        path = xstrdup(name); // a file; if it does not exist, opening it reports that
    else if (!is_folder(repository))
        err_set(err,
                "no file '%s', and no '%s' in the hub cache: download it with 'hf download "
                "--repo-type dataset %s', or give the path of a file",
                name, repository, name);
    else if (!(snapshot = snapshot_of(repository, false)))
        err_set(err,
                "'%s' has no complete snapshot in '%s': download it again with 'hf download "
                "--repo-type dataset %s'",
                whole, repository, whole);
    else
        path = rest ? xasprintf("%s%s", snapshot, rest) : find_data(snapshot, whole, split, err);
    free(snapshot);
    free(repository);
    free(whole);
    return path;
}
