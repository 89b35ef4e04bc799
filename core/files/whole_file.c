// core/files/whole_file.c -- a file written beside its name, synced and renamed.
#include "core/files/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/unfinished.h"

struct whole_file {
    char *path, *temporary; // temporary: NULL until the file is there
    int fd;                 // locks it until it has its name
    bool sealed, failed;
    struct err why;
};

struct whole_file *whole_file_new(const char *path)
{
    struct whole_file *f = xcalloc(1, sizeof *f);
    f->path = xstrdup(path);
    f->fd = -1;
    return f;
}

const char *whole_file_path(const struct whole_file *f)
{
    return f->path;
}

const char *whole_file_why(const struct whole_file *f)
{
    return f->why.text;
}

static int fail(struct whole_file *f, const char *what)
{
    f->failed = true;
    return err_set(&f->why, "cannot %s '%s': %s", what, f->path, strerror(errno));
}

static int begin(struct whole_file *f)
{
    if (f->failed) return -1;
    if (f->temporary) return 0;
    f->temporary = unfinished_begin(f->path, false, &f->fd);
    return f->temporary ? 0 : fail(f, "create");
}

int whole_file_put(struct whole_file *f, const void *bytes, uint64_t size)
{
    if (begin(f) < 0) return -1;
    for (const char *at = bytes; size;) {
        ssize_t n = write(f->fd, at, size < (1 << 30) ? size : (1 << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(f, "write");
        at += n;
        size -= (uint64_t)n;
    }
    return 0;
}

int whole_file_skip(struct whole_file *f, uint64_t size)
{
    if (begin(f) < 0) return -1;
    const off_t end = lseek(f->fd, (off_t)size, SEEK_CUR);
    return end < 0 || ftruncate(f->fd, end) < 0 ? fail(f, "write") : 0;
}

int whole_file_replace(struct whole_file *f, uint64_t at, const void *bytes, size_t size)
{
    if (begin(f) < 0) return -1;
    return pwrite(f->fd, bytes, size, (off_t)at) == (ssize_t)size ? 0 : fail(f, "write");
}

const char *whole_file_temporary(const struct whole_file *f)
{
    return f->temporary;
}

// The rename survives a power cut only when the folder is on disk too; a folder that cannot be
// synced (some network file systems) is no reason to fail.
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

static int seal(struct whole_file *f)
{
    if (begin(f) < 0) return -1;
    if (f->sealed) return 0;
    if (fsync(f->fd) < 0) return fail(f, "write");
    f->sealed = true;
    return 0;
}

static int complete(struct whole_file *f)
{
    if (seal(f) < 0) return -1;
    if (rename(f->temporary, f->path) < 0) return fail(f, "rename the finished file to");
    sync_folder(f->path);
    free(f->temporary);
    f->temporary = NULL;
    return 0;
}

int whole_file_seal(struct whole_file *f, struct err *err)
{
    return seal(f) < 0 ? err_set(err, "%s", f->why.text) : 0;
}

int whole_file_finish(struct whole_file *f, struct err *err)
{
    int status = complete(f);
    if (status < 0) err_set(err, "%s", f->why.text);
    whole_file_abandon(f);
    return status;
}

void whole_file_abandon(struct whole_file *f)
{
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    if (f->temporary) unlink(f->temporary);
    free(f->temporary);
    free(f->path);
    free(f);
}
