// core/picture/source.c -- paths (also into ZIP archives), file:// and data: URIs of pictures.
#include "core/picture/source.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/base64.h"
#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/picture/image.h"
#include "core/picture/zipped.h"

const char *const picture_endings[] = { ".png", ".jpg", ".jpeg", ".webp",
                                        ".gif", ".bmp", ".ppm",  NULL };

static bool is_data(const char *name)
{
    return !strncasecmp(name, "data:", 5);
}

// Returns true if a scheme and "://" begin the name, as in "https://".
bool picture_source_is_url(const char *name)
{
    size_t n = 0;
    while (isalnum((unsigned char)name[n]) || (n && strchr("+-.", name[n]) && name[n])) n++;
    return n > 1 && !strncmp(name + n, "://", 3);
}

bool picture_source_is_file(const char *name)
{
    return !is_data(name) && !picture_source_is_url(name);
}

char *picture_source_path(const char *text)
{
    static const char digits[] = "0123456789abcdef";
    struct buf b = { 0 };
    if (strncasecmp(text, "file:/", 6) != 0) return xstrdup(text);
    text += !strncmp(text + 5, "//", 2) ? 7 : 5; // "file://HOST/PATH" or "file:/PATH"
    if (!strncmp(text, "localhost/", 10)) text += 9;
    // Some programs write names without percent-encoding.
    if (access(text, F_OK) == 0) return xstrdup(text);
    buf_puts(&b, "");
    for (; *text; text++) {
        const char *high = NULL, *low = NULL;
        if (*text == '%' && text[1]) high = strchr(digits, tolower((unsigned char)text[1]));
        if (high && text[2]) low = strchr(digits, tolower((unsigned char)text[2]));
        if (low && (*high != '0' || *low != '0')) { // %00 would end the path
            buf_putc(&b, (char)((high - digits) * 16 + (low - digits)));
            text += 2;
        } else {
            buf_putc(&b, *text);
        }
    }
    return buf_take(&b);
}

// Returns whether a text is a picture in base64 without "data:...", as in some data sets.
static bool is_bare(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "+/= \t\r\n";
    enum { HEAD = 40 }; // characters; every picture has more
    const size_t n = strspn(text, letters);
    struct buf bytes = { 0 };
    const bool bare = n >= HEAD && !text[n] && base64_decode(&bytes, text, HEAD) == 0 &&
                      image_begins(bytes.data, bytes.length);
    buf_release(&bytes);
    return bare;
}

char *picture_source(const char *text, const char *folder)
{
    char *path = picture_source_path(text);
    if (*path != '/' && strcmp(folder, ".") != 0 && picture_source_is_file(path)) {
        char *relative = path;
        path = xasprintf("%s/%s", folder, relative);
        free(relative);
    }
    if (!is_bare(text) || access(path, F_OK) == 0) return path; // "/9j/..." may be a path too
    free(path);
    return xasprintf("data:;base64,%s", text);
}

char *picture_source_title(const char *name)
{
    enum { SHOWN = 40, URL_SHOWN = 200 };
    const size_t n = strlen(name), most = is_data(name)                              ? SHOWN
                                          : picture_source_is_url(name)              ? URL_SHOWN
                                          : is_bare(name) && access(name, F_OK) != 0 ? SHOWN
                                                                                     : PATH_MAX;
    if (n <= most) return xstrdup(name);
    return xasprintf("%.*s... (%zu characters)", utf8_head(name, SHOWN), name, n);
}

// Decodes "data:image/png;base64,TEXT". Ignores spaces and newlines, and accepts missing padding.
static char *read_data(const char *uri, size_t limit, size_t *size, struct err *err)
{
    const char *comma = strchr(uri, ',');
    struct buf text = { 0 }, bytes = { 0 };
    int status = 0;
    if (!comma || comma - uri < 7 || strncasecmp(comma - 7, ";base64", 7) != 0) {
        err_set(err, "a data: URI must hold base64: data:image/png;base64,...");
        return NULL;
    }
    for (const char *p = comma + 1; *p; p++)
        if (!strchr(" \t\r\n", *p)) buf_putc(&text, *p);
    while (text.length % 4 > 1) buf_putc(&text, '=');
    if (!text.length || base64_decode(&bytes, text.data, text.length) < 0)
        status = err_set(err, "it is not base64");
    else if (bytes.length > limit)
        status = err_set(err, "it is too large: more than %zu MB", limit >> 20);
    *size = bytes.length;
    buf_release(&text);
    if (status == 0) return buf_take(&bytes);
    buf_release(&bytes);
    return NULL;
}

char *picture_source_read(const char *name, size_t limit, size_t *size, struct err *err)
{
    char *title = picture_source_title(name), *bytes = NULL;
    if (is_data(name)) {
        bytes = read_data(name, limit, size, err);
        if (!bytes) err_in(err, "'%s'", title);
    } else if (picture_source_is_url(name)) {
        err_set(err, "'%s' is a URL: vlmsh downloads nothing; fetch the picture and name its file",
                title);
    } else if (strlen(name) > strlen(title)) {
        err_set(
            err,
            "'%s' is not a path: a picture in base64 needs \"data:image/png;base64,\" before it",
            title);
    } else if (access(name, F_OK) == 0 || !zipped_read(name, limit, &bytes, size, err)) {
        bytes = file_read(name, limit, size, err);
    }
    free(title);
    return bytes;
}
