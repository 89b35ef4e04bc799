// sessions/export.c -- a session as a file: a command script, or a transcript for *.md.
//
// Writes stored pictures into the folder PATH.files beside the export, under names that begin with
// their hash: each picture is one file, which another export rewrites with the same bytes.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/picture/image.h"
#include "sessions/internal.h"

static int write_all(int fd, const char *path, const char *bytes, size_t size, struct err *err)
{
    while (size) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_set(err, "cannot write '%s': %s", path, strerror(errno));
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

// A full disk may be reported only on close.
static int finish_file(int fd, const char *path, int status, struct err *err)
{
    if (close(fd) < 0 && status == 0)
        return err_set(err, "cannot write '%s': %s", path, strerror(errno));
    return status;
}

int export_folder(const struct session_export *x, struct err *err)
{
    if (mkdir(x->folder, 0777) == 0 || errno == EEXIST) return 0;
    return err_set(err, "cannot create the folder '%s': %s", x->folder, strerror(errno));
}

char *export_beside(struct session_export *x, const char *name, const void *bytes, size_t size,
                    struct err *err)
{
    if (export_folder(x, err) < 0) return NULL;
    // "9f86d081884c-cat.png": harmless characters only, whatever the path was.
    char hex[HASH_HEX];
    hash_hex(bytes, size, hex);
    const char *base = text_file_name(name);
    const size_t length = strlen(base);
    if (length > 60) base += length - 60;
    struct buf b = { 0 };
    buf_printf(&b, "%s/%.12s-", x->folder, hex);
    for (const char *p = base; *p; p++)
        buf_putc(&b, (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                             (*p >= '0' && *p <= '9') || *p == '.' || *p == '-'
                         ? *p
                         : '_');
    char *path = buf_take(&b);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    int status = fd < 0 ? err_set(err, "cannot write '%s': %s", path, strerror(errno))
                        : write_all(fd, path, bytes, size, err);
    if (fd >= 0) status = finish_file(fd, path, status, err);
    if (status == 0) return path;
    free(path);
    return NULL;
}

char *export_picture(struct session_export *x, int picture, struct err *err)
{
    const struct saved_picture *p = &x->saved->pictures[picture];
    const bool named = text_bad_byte(p->path, strlen(p->path)) == strlen(p->path);
    if (!p->stored && named && strcmp(p->path, "-")) return xstrdup(p->path);
    char *bytes;
    size_t size;
    if (saved_bytes(x->store, p, &bytes, &size, err) < 0) return NULL;
    const char *base = text_file_name(p->path);
    const char *ending = strchr(base, '.') ? "" : image_ending(bytes, size);
    char *name = xasprintf("%s%s", strcmp(base, "-") ? base : "standard-input", ending);
    char *path = export_beside(x, name, bytes, size, err);
    free(name);
    free(bytes);
    return path;
}

static int export_to(struct store *s, const struct saved *saved, const char *path, int fd,
                     struct err *err)
{
    char *real = realpath(path, NULL);
    if (!real) return err_set(err, "cannot write '%s': %s", path, strerror(errno));
    struct session_export x = { .store = s, .saved = saved };
    x.folder = xasprintf("%s.files", real);
    int status = text_ends(path, ".md") ? transcript_write(&x, err) : script_write(&x, err);
    // Sessions of older versions, and paths, may hold bytes that are not UTF-8.
    struct buf text = { 0 };
    if (x.text.length) utf8_repair(&text, x.text.data, x.text.length);
    if (status == 0) status = write_all(fd, path, text.data, text.length, err);
    buf_release(&text);
    buf_release(&x.text);
    free(x.folder);
    free(real);
    return status;
}

// Opens a new file, or an existing empty one (mktemp); overwrites nothing.
static int open_new(const char *path, bool *made, struct err *err)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *made = fd >= 0;
    if (fd >= 0) return fd;
    if (errno != EEXIST) return err_set(err, "cannot write '%s': %s", path, strerror(errno));
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && !st.st_size)
        fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 ? fd : err_set(err, "'%s' already exists: choose another name", path);
}

int store_export(struct store *s, const char *name, const char *path, struct err *err)
{
    struct saved saved;
    bool made;
    if (store_flush(s, err) < 0) return -1;
    if (!name) name = s->current.name;
    if (!name) return err_set(err, "no session to export yet: it starts with the first message");
    if (saved_read(s, name, &saved, err) < 0) return -1;
    int fd = open_new(path, &made, err), status = -1;
    if (fd >= 0) {
        status = finish_file(fd, path, export_to(s, &saved, path, fd, err), err);
        if (status < 0 && made) unlink(path);
    }
    saved_release(&saved);
    return status;
}
