// core/base/folder.c -- folders that appear under their name only when they are complete.
#include "core/base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/base/unfinished.h"

static char *without_slashes(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    return xstrndup(path, n);
}

char **folder_list(const char *path)
{
    char **names = xcalloc(1, sizeof *names);
    size_t count = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        names = xreallocarray(names, count + 2, sizeof *names);
        names[count++] = xstrdup(entry->d_name);
    }
    if (dir) closedir(dir);
    text_sort(names, count, sizeof *names);
    names[count] = NULL;
    return names;
}

void folder_list_free(char **names)
{
    for (char **name = names; *name; name++) free(*name);
    free(names);
}

char *folder_entry(const char *folder, const char *name)
{
    return xasprintf("%s%s%s", folder, text_ends(folder, "/") ? "" : "/", name);
}

bool folder_is_empty(const char *path)
{
    DIR *dir = opendir(path);
    bool empty = dir != NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        empty &= !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
    if (dir) closedir(dir);
    return empty;
}

static int check_free(const char *target, struct err *err)
{
    struct statx st = { 0 };
    const char *last = text_file_name(target);
    if (!*target) return err_set(err, "give the output folder");
    if (!strcmp(last, ".") || !strcmp(last, ".."))
        return err_set(err, "'%s' does not name an output folder: give its name", target);
    if (statx(AT_FDCWD, target, AT_SYMLINK_NOFOLLOW, 0, &st) < 0)
        return errno == ENOENT ? 0
                               : err_set(err, "cannot create '%s': %s", target, strerror(errno));
    if (!folder_is_empty(target))
        return err_set(err, "'%s' already exists: choose another folder", target);
    // The finished folder could not replace it.
    if (statx(AT_FDCWD, target, 0, 0, &st) == 0 && st.stx_attributes & STATX_ATTR_MOUNT_ROOT)
        return err_set(err, "'%s' is a mount point: choose a folder in it", target);
    return 0;
}

int folder_begin(struct folder_work *work, const char *target, struct err *err)
{
    char *plain = without_slashes(target), *real = unfinished_target(plain);
    *work = (struct folder_work){ .lock = -1 };
    int status = check_free(plain, err);
    if (status == 0) work->path = unfinished_begin(real, true, &work->lock);
    if (status == 0 && !work->path)
        status = err_set(err, "cannot create a folder beside '%s': %s", plain, strerror(errno));
    free(real);
    free(plain);
    if (status < 0) folder_abandon(work);
    return status;
}

// Waits briefly for the lock: the kernel releases it when the last process with the open folder
// ends, and a killed process may leave a picture decoder that ends a moment later.
int folder_lock(const char *path, const char *doing, struct err *err)
{
    static const double leave_s = 2;
    const struct timespec moment = { .tv_nsec = 20000000 };
    const int lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const double began = clock_seconds();
    if (lock < 0) return err_set(err, "cannot open '%s': %s", path, strerror(errno));
    while (flock(lock, LOCK_EX | LOCK_NB) < 0) {
        if (clock_seconds() - began > leave_s) {
            close(lock);
            return err_set(err, "another process is %s into '%s'", doing, path);
        }
        nanosleep(&moment, NULL);
    }
    return lock;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

void folder_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void release(struct folder_work *work)
{
    if (work->lock >= 0) close(work->lock);
    free(work->path);
    *work = (struct folder_work){ .lock = -1 };
}

void folder_abandon(struct folder_work *work)
{
    if (work->path) folder_remove(work->path);
    release(work);
}

// Ignores folders that cannot be synced (some network file systems).
void folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

int folder_commit(struct folder_work *work, const char *target, struct err *err)
{
    char *plain = without_slashes(target), *real = unfinished_target(plain),
         *above = text_folder(real);
    folder_sync(work->path);
    // An empty folder of that name is replaced; anything else makes rename fail.
    const int status = rename(work->path, real);
    if (status < 0)
        err_set(err, "cannot rename the finished '%s': %s", work->path, strerror(errno));
    else
        folder_sync(above);
    free(above);
    free(real);
    free(plain);
    if (status < 0) folder_remove(work->path);
    release(work);
    return status;
}

FILE *folder_create(const char *folder, const char *name, struct err *err)
{
    char *path = xasprintf("%s/%s.part", folder, name);
    FILE *f = fopen(path, "wbe");
    if (!f) err_set(err, "cannot create '%s': %s", path, strerror(errno));
    free(path);
    return f;
}

int folder_close(FILE *f, const char *folder, const char *name, struct err *err)
{
    char *part = xasprintf("%s/%s.part", folder, name), *path = xasprintf("%s/%s", folder, name);
    const int status = unfinished_end(f, part, path, path, true, err);
    free(part);
    free(path);
    return status;
}

int folder_write(const char *folder, const char *name, const void *bytes, size_t size,
                 struct err *err)
{
    FILE *f = folder_create(folder, name, err);
    if (!f) return -1;
    fwrite(bytes, 1, size, f);
    return folder_close(f, folder, name, err);
}

int folder_copy(const char *folder, const char *name, const char *from, struct err *err)
{
    enum { PIECE = 1 << 20 };
    const int in = file_in_open(from, err);
    FILE *out = in < 0 ? NULL : folder_create(folder, name, err);
    if (!out) {
        if (in >= 0) close(in);
        return -1;
    }
    char *piece = xmalloc(PIECE);
    ssize_t n;
    while ((n = read(in, piece, PIECE)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0 && fwrite(piece, 1, (size_t)n, out) != (size_t)n) break;
    const bool unread = n < 0;
    free(piece);
    close(in);
    int status = folder_close(out, folder, name, err);
    return unread ? err_set(err, "cannot read all of '%s'", from) : status;
}
