// core/base/file_out.c -- files that commands write by name.
#include "core/base/file_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"

// Standard output or standard error when `path` is the same file (/dev/stdout in `vlmsh >out`),
// else -1. Written into by its descriptor: a file in its place would part the two, and one opened
// anew would be written over from its beginning.
static int standard_of(const char *path)
{
    struct stat st, open;
    for (int fd = 1; fd <= 2; fd++)
        if (stat(path, &st) == 0 && fstat(fd, &open) == 0 && st.st_dev == open.st_dev &&
            st.st_ino == open.st_ino)
            return fd;
    return -1;
}

// Something that is there and no plain file cannot be put in place by a rename.
bool file_out_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (!S_ISREG(st.st_mode) || standard_of(path) >= 0);
}

static FILE *open_standard(int fd)
{
    fflush(fd == 1 ? stdout : stderr); // what was written before comes before
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *f = copy < 0 ? NULL : fdopen(copy, "wb");
    if (!f && copy >= 0) close(copy);
    return f;
}

// A pipe that nobody reads is an error (ENXIO), not something to wait for; writing waits for the
// reader as usual.
static FILE *open_part(const char *part)
{
    const int fd =
        open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (fd < 0) return NULL;
    fcntl(fd, F_SETFL, 0);
    FILE *f = fdopen(fd, "wb");
    if (!f) close(fd);
    return f;
}

// The file that a link points to is replaced, not the link.
static char *target_of(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : xstrdup(path);
}

static char *part_of(const char *path)
{
    char *target = target_of(path), *part = xasprintf("%s.part", target);
    free(target);
    return part;
}

FILE *file_out_open(const char *path, struct err *err)
{
    char *part = file_out_special(path) ? xstrdup(path) : part_of(path);
    const int standard = standard_of(path);
    FILE *f = standard < 0 ? open_part(part) : open_standard(standard);
    if (!f && errno == ENXIO)
        err_set(err, "cannot write '%s': the reader of this pipe or socket has closed it", path);
    else if (!f)
        err_set(err, "cannot write '%s': %s", path, strerror(errno));
    free(part);
    return f;
}

int file_out_close(FILE *f, const char *path, struct err *err)
{
    char *part = file_out_special(path) ? NULL : part_of(path), *target = target_of(path);
    errno = 0; // an earlier write's is lost
    int status = ferror(f) || fflush(f) ? -1 : 0, why = errno;
    if (fclose(f) && status == 0) status = -1, why = errno;
    if (status == 0 && part && rename(part, target) < 0) status = -1, why = errno;
    if (status < 0) {
        if (part) unlink(part);
        err_set(err, "cannot write '%s': %s", path, why ? strerror(why) : "the disk may be full");
    }
    free(part);
    free(target);
    return status;
}

void file_out_abandon(FILE *f, const char *path)
{
    char *part = file_out_special(path) ? NULL : part_of(path);
    fclose(f);
    if (part) unlink(part);
    free(part);
}

int file_out_write(const char *path, const void *bytes, size_t size, struct err *err)
{
    FILE *f = file_out_open(path, err);
    if (!f) return -1;
    if (size) fwrite(bytes, 1, size, f);
    return file_out_close(f, path, err);
}
