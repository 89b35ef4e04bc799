// core/files/weight_cache.c -- smaller forms of models, kept by fingerprint; their times of change
// say when they were used last.
#include "core/files/weight_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/places.h"

enum { UNFINISHED_SECONDS = 3600 }; // nobody writes a file that has not changed for so long

char *weight_cache_path(const char *fingerprint, const char *kind, struct err *err)
{
    char *folder = places_file("XDG_CACHE_HOME", ".cache", "weights");
    if (!folder) {
        err_set(err, "there is no place for smaller weights: set XDG_CACHE_HOME or HOME");
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

// The folder's lock as a file descriptor; -1 with errno.
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

void weight_cache_let(int held)
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

static bool is_whole(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && !strcmp(name + n - 5, ".gguf");
}

// The complete files, those used longest ago first; unfinished ones of long ago are removed.
static struct kept *list_kept(const char *folder, size_t *count)
{
    struct kept *list = NULL;
    DIR *dir = opendir(folder);
    *count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        char *path = xasprintf("%s/%s", folder, entry->d_name);
        const bool file = lstat(path, &st) == 0 && S_ISREG(st.st_mode);
        if (file && is_whole(entry->d_name)) {
            list = xreallocarray(list, *count + 1, sizeof *list);
            list[(*count)++] = (struct kept){ path, st.st_mtim, (double)st.st_size };
            continue;
        }
        if (file && strstr(path, ".gguf.") && time(NULL) - st.st_mtime > UNFINISHED_SECONDS)
            unlink(path);
        free(path);
    }
    if (dir) closedir(dir);
    if (*count) qsort(list, *count, sizeof *list, by_use);
    return list;
}

static void trim(const char *folder, double bytes)
{
    size_t count;
    double all = 0;
    struct kept *list = list_kept(folder, &count);
    for (size_t i = 0; i < count; i++) all += list[i].bytes;
    for (size_t i = 0; i < count; i++) {
        if (all > bytes && unlink(list[i].path) == 0) all -= list[i].bytes;
        free(list[i].path);
    }
    free(list);
}

void weight_cache_trim(double bytes)
{
    const int held = lock_folder(LOCK_EX | LOCK_NB);
    if (held < 0 && errno == EWOULDBLOCK) return;
    char *folder = places_file("XDG_CACHE_HOME", ".cache", "weights");
    if (folder) trim(folder, bytes);
    free(folder);
    weight_cache_let(held);
}
