// core/files/weight_cache.c -- converted weights by fingerprint; a file's modification time (mtime)
// is the time of its last use.
#include "core/files/weight_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/places.h"
#include "core/base/unfinished.h"
#include "core/files/gguf_write.h"

enum { UNFINISHED_SECONDS = 3600 }; // an unfinished file unchanged for this long is abandoned

char *weight_cache_path(const char *fingerprint, const char *kind, struct err *err)
{
    char *folder = places_file("XDG_CACHE_HOME", ".cache", "weights");
    if (!folder) {
        err_set(err, "no folder is set for converted weights: set XDG_CACHE_HOME or HOME");
        return NULL;
    }
    char *path = xasprintf("%s/%s-%s.gguf", folder, fingerprint, kind);
    free(folder);
    if (places_make_parents(path, err) == 0) return path;
    free(path);
    return NULL;
}

void weight_cache_use(const char *path)
{
    utimensat(AT_FDCWD, path, NULL, 0);
}

// --- holding -------------------------------------------------------------------------------------

// Locks the folder and returns the lock as a file descriptor. Returns -1 on failure; errno says
// why, unless no folder is set.
static int lock_folder(int how)
{
    char *folder = places_file("XDG_CACHE_HOME", ".cache", "weights");
    const int held = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(folder);
    if (held < 0) return -1;
    int status;
    while ((status = flock(held, how)) < 0 && errno == EINTR) continue;
    if (status == 0) return held;
    const int why = errno;
    close(held);
    errno = why;
    return -1;
}

int weight_cache_hold(void)
{
    return lock_folder(LOCK_SH);
}

void weight_cache_release(int held)
{
    if (held >= 0) close(held);
}

// --- removing ------------------------------------------------------------------------------------

struct kept {
    char *path;
    struct timespec used;
    double bytes;
};

static int by_use(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

// Returns whether a name has the form FINGERPRINT-KIND.gguf. *unfinished: the name has
// ".part-XXXXXX" appended.
static bool is_cache_file(const char *name, bool *unfinished)
{
    static const char ending[] = ".gguf";
    enum { DIGITS = HASH_HEX - 1 };
    const size_t base = unfinished_base(name), length = base ? base : strlen(name);
    const size_t rest = DIGITS + 1 + sizeof ending - 1; // all but KIND
    *unfinished = base > 0;
    if (strspn(name, "0123456789abcdef") != DIGITS || name[DIGITS] != '-' || length <= rest ||
        strncmp(name + length - (sizeof ending - 1), ending, sizeof ending - 1) != 0)
        return false;
    char *kind = xstrndup(name + DIGITS + 1, length - rest);
    const bool known = gguf_kind_find(kind) != NULL;
    free(kind);
    return known;
}

static int trim(const char *folder, double most, struct err *err)
{
    struct stat st;
    struct kept *list = NULL;
    size_t count = 0;
    double all = 0;
    // Removes nothing through a link or from another user's folder: other programs may need the
    // files.
    const bool own = lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
    char **names = folder_list(folder);
    for (char **name = names; *name; name++) {
        bool unfinished;
        if (!is_cache_file(*name, &unfinished)) continue;
        char *path = xasprintf("%s/%s", folder, *name);
        const bool file = lstat(path, &st) == 0 && S_ISREG(st.st_mode);
        if (file && !unfinished) {
            list = xreallocarray(list, count + 1, sizeof *list);
            list[count++] = (struct kept){ path, st.st_mtim, (double)st.st_size };
            all += (double)st.st_size;
            continue;
        }
        if (file && own && time(NULL) - st.st_mtime > UNFINISHED_SECONDS) unlink(path);
        free(path);
    }
    folder_list_free(names);
    if (count) qsort(list, count, sizeof *list, by_use);
    for (size_t i = 0; i < count; i++) {
        if (own && all > most && unlink(list[i].path) == 0) all -= list[i].bytes;
        free(list[i].path);
    }
    free(list);
    if (own || all <= most) return 0;
    return err_set(
        err,
        "'%s' holds %.3g GB of converted weights, more than weights.cache allows, but vlmsh "
        "removes nothing from it because it is a link or belongs to another user: remove files "
        "yourself, or set XDG_CACHE_HOME to a folder of your own",
        folder, all / 1e9);
}

int weight_cache_trim(double bytes, struct err *err)
{
    const int held = lock_folder(LOCK_EX | LOCK_NB);
    if (held < 0 && errno == EWOULDBLOCK) return 0;
    char *folder = places_file("XDG_CACHE_HOME", ".cache", "weights");
    const int status = folder ? trim(folder, bytes, err) : 0;
    free(folder);
    weight_cache_release(held);
    return status;
}
