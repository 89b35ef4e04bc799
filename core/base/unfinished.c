// core/base/unfinished.c -- names and locks of unfinished files and folders.
#include "core/base/unfinished.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/err.h"
#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/text.h"

static const char infix[] = ".part-";
enum { RANDOM = 6 };

char *unfinished_target(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : xstrdup(path);
}

size_t unfinished_base(const char *name)
{
    const size_t n = strlen(name), suffix = sizeof infix - 1 + RANDOM;
    if (n <= suffix || strncmp(name + n - suffix, infix, sizeof infix - 1) != 0) return 0;
    for (size_t i = n - RANDOM; i < n; i++)
        if (!isalnum((unsigned char)name[i])) return 0;
    return n - suffix;
}

// Returns whether the open file or folder still has that name.
static bool has_name(int fd, const char *path)
{
    struct stat named, open;
    return lstat(path, &named) == 0 && fstat(fd, &open) == 0 && named.st_ino == open.st_ino &&
           named.st_dev == open.st_dev;
}

// Removes an unfinished file or folder, unless another process has locked it or it cannot be locked
// (some file systems).
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
    const char *base = text_file_name(path);
    char *above = text_folder(path), **names = folder_list(above);
    for (char **name = names; *name; name++) {
        const size_t n = unfinished_base(*name);
        if (!n || n != strlen(base) || strncmp(*name, base, n) != 0) continue;
        char *part = xasprintf("%s%s", above, *name);
        remove_dead(part, folder);
        free(part);
    }
    folder_list_free(names);
    free(above);
}

// Creates a file or folder with default permissions. mkostemp and mkdtemp would deny other users
// access, and correcting that needs the umask, which can be read only by changing it for all
// threads.
static int create(const char *part, bool folder)
{
    if (!folder) return open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (mkdir(part, 0777) < 0) return -1;
    const int fd = open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) rmdir(part);
    return fd;
}

char *unfinished_begin(const char *path, bool folder, int *lock)
{
    static const char characters[] = "0123456789"
                                     "abcdefghijklmnopqrstuvwxyz"
                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    sweep(path, folder);
    for (;;) {
        unsigned char bytes[RANDOM];
        char text[RANDOM + 1] = { 0 };
        if (getrandom(bytes, RANDOM, 0) != RANDOM) BUG("getrandom");
        for (int i = 0; i < RANDOM; i++) text[i] = characters[bytes[i] % (sizeof characters - 1)];
        char *part = xasprintf("%s%s%s", path, infix, text);
        *lock = create(part, folder);
        // Another process may remove the file before this one has locked it.
        if (*lock >= 0 && (flock(*lock, LOCK_EX) < 0 || has_name(*lock, part))) return part;
        const bool failed = *lock < 0 && errno != EEXIST;
        if (*lock >= 0) close(*lock);
        free(part);
        if (failed) return NULL;
    }
}

int unfinished_end(FILE *f, const char *part, const char *target, const char *name, bool sync,
                   struct err *err)
{
    errno = 0; // errno of an earlier failed write is no longer known
    int status = ferror(f) || fflush(f) || (sync && fsync(fileno(f))) ? -1 : 0, why = errno;
    // Keeps the lock until the rename, so that no process removes the file as the remains of a
    // killed process.
    const int held = part ? fcntl(fileno(f), F_DUPFD_CLOEXEC, 0) : -1;
    if (fclose(f) && status == 0) status = -1, why = errno;
    if (status == 0 && part && rename(part, target) < 0) status = -1, why = errno;
    if (held >= 0) close(held);
    if (status == 0) return 0;
    if (part) unlink(part);
    return err_set(err, "cannot write '%s': %s", name,
                   why ? strerror(why) : "the disk may be full");
}

int unfinished_write(const char *path, const char *text, struct err *err)
{
    int fd;
    char *part = unfinished_begin(path, false, &fd);
    FILE *f = part ? fdopen(fd, "w") : NULL;
    if (!f) {
        err_set(err, "cannot write '%s': %s", path, strerror(errno));
        if (part) close(fd);
    } else {
        fputs(text, f);
    }
    const int status = f ? unfinished_end(f, part, path, path, true, err) : -1;
    free(part);
    return status;
}
