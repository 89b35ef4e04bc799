// core/base/unfinished.c -- names and locks of files and folders in the making.
#include "core/base/unfinished.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/mem.h"

static const char infix[] = ".part-";
enum { RANDOM = 6 };

size_t unfinished_base(const char *name)
{
    const size_t n = strlen(name), suffix = sizeof infix - 1 + RANDOM;
    if (n <= suffix || strncmp(name + n - suffix, infix, sizeof infix - 1) != 0) return 0;
    for (size_t i = n - RANDOM; i < n; i++)
        if (!isalnum((unsigned char)name[i])) return 0;
    return n - suffix;
}

static bool is_part(const char *name, const char *base)
{
    const size_t n = unfinished_base(name);
    return n && n == strlen(base) && !strncmp(name, base, n);
}

// Is the open file or folder still the one of that name?
static bool has_name(int fd, const char *path)
{
    struct stat named, open;
    return lstat(path, &named) == 0 && fstat(fd, &open) == 0 && named.st_ino == open.st_ino &&
           named.st_dev == open.st_dev;
}

// Keeps what another process has locked, and what cannot be locked (some file systems).
static void remove_dead(const char *path, bool folder)
{
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && (folder ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode)) &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && has_name(fd, path)) {
        if (folder)
            folder_remove(path);
        else
            unlink(path);
    }
    close(fd);
}

static void sweep(const char *path, bool folder)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char *above = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup("./");
    DIR *dir = opendir(above);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!is_part(entry->d_name, base)) continue;
        char *part = xasprintf("%s%s", above, entry->d_name);
        remove_dead(part, folder);
        free(part);
    }
    if (dir) closedir(dir);
    free(above);
}

static int create(char *part, bool folder)
{
    if (!folder) return mkostemp(part, O_CLOEXEC);
    if (!mkdtemp(part)) return -1;
    const int fd = open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) rmdir(part);
    return fd;
}

char *unfinished_begin(const char *path, bool folder, int *lock)
{
    sweep(path, folder);
    for (;;) {
        char *part = xasprintf("%s%sXXXXXX", path, infix);
        *lock = create(part, folder);
        if (*lock < 0) {
            free(part);
            return NULL;
        }
        // Another process may remove it before it is locked.
        if (flock(*lock, LOCK_EX) < 0 || has_name(*lock, part)) return part;
        close(*lock);
        free(part);
    }
}
