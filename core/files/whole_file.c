// core/files/whole_file.c -- a file written beside its name, synced and renamed.
#include "core/files/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/base/unfinished.h"

struct whole_file *whole_file_new(const char *path)
{
    struct whole_file *f = xcalloc(1, sizeof *f);
    f->path = xstrdup(path);
    f->fd = -1;
    return f;
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

int whole_file_seal(struct whole_file *f, struct err *err)
{
    if (begin(f) == 0 && !f->sealed && fsync(f->fd) < 0) fail(f, "write");
    f->sealed = !f->failed;
    return f->failed ? err_set(err, "%s", f->why.text) : 0;
}

int whole_file_finish(struct whole_file *f, struct err *err)
{
    int status = whole_file_seal(f, err);
    if (status == 0 && rename(f->temporary, f->path) < 0) {
        fail(f, "rename the finished file to");
        status = err_set(err, "%s", f->why.text);
    }
    if (status == 0) {
        char *folder = text_folder(f->path);
        folder_sync(folder);
        free(folder);
        free(f->temporary);
        f->temporary = NULL;
    }
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
