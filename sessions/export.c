// sessions/export.c -- a session as a file: a command script, or a transcript for *.md.
//
// Writes stored pictures into the folder PATH.files beside the export, under names that begin with
// their hash: each picture is one file, which another export rewrites with the same bytes.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file_out.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/picture/image.h"
#include "sessions/internal.h"

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
    struct stat st;
    const bool special = lstat(path, &st) == 0 && !S_ISREG(st.st_mode);
    const int status =
        special
            ? err_set(err, "cannot write '%s': a link or special file is there: remove it", path)
            : file_out_update(path, bytes, size, err);
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

// Returns the folder of the pictures; NULL if that of `path` does not exist. The caller frees it.
static char *folder_of(const char *path, struct err *err)
{
    char *above = text_folder(path), *real = realpath(above, NULL), *folder = NULL;
    if (real)
        folder = xasprintf("%s/%s.files", strcmp(real, "/") ? real : "", text_file_name(path));
    else
        err_set(err, "cannot write '%s': %s", path, strerror(errno));
    free(above);
    free(real);
    return folder;
}

static int export_to(struct store *s, const struct saved *saved, const char *path, struct err *err)
{
    struct session_export x = { .store = s, .saved = saved, .folder = folder_of(path, err) };
    if (!x.folder) return -1;
    static const char *const markdown[] = { ".md", NULL };
    int status =
        text_ends_with_any(path, markdown) ? transcript_write(&x, err) : script_write(&x, err);
    // Sessions of older versions, and paths, may hold bytes that are not UTF-8.
    struct buf text = { 0 };
    if (x.text.length) utf8_repair(&text, x.text.data, x.text.length);
    if (status == 0) status = file_out_update(path, text.data, text.length, err);
    buf_release(&text);
    buf_release(&x.text);
    free(x.folder);
    return status;
}

int store_export(struct store *s, const char *name, const char *path, struct err *err)
{
    struct saved saved;
    struct stat st;
    if (store_flush(s, err) < 0) return -1;
    if (!name) name = s->current.name;
    if (!name) return err_set(err, "no session to export yet: it starts with the first message");
    // Replaces nothing but an empty file (mktemp).
    if (lstat(path, &st) == 0 && (!S_ISREG(st.st_mode) || st.st_size))
        return err_set(err, "'%s' already exists: choose another name", path);
    if (saved_read(s, name, &saved, err) < 0) return -1;
    const int status = export_to(s, &saved, path, err);
    saved_release(&saved);
    return status;
}
