// sessions/names.c -- names and titles of sessions.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <utf8proc.h>

#include "core/base/utf8.h"
#include "sessions/internal.h"

// Number of bytes passed to the UTF-8 decoder. The decoder stops at the text's NUL, because that is
// not a continuation byte.
enum { CHARACTER = 4 };

int name_check(const char *name, struct err *err)
{
    size_t size = strlen(name), length;
    int32_t c;
    if (!size) return err_set(err, "a session's name cannot be empty");
    if (size > NAME_LONGEST)
        return err_set(err, "a session name can have at most %d bytes, not %zu", NAME_LONGEST,
                       size);
    if (name[0] == ' ' || name[size - 1] == ' ')
        return err_set(err, "a session name cannot start or end with a space");
    for (const char *p = name; *p; p += length) {
        length = utf8_next(p, CHARACTER, &c);
        if (c < 0) return err_set(err, "a session name must be valid UTF-8");
        if (utf8proc_category(c) == UTF8PROC_CATEGORY_CC)
            return err_set(err, "a session name cannot contain control characters");
    }
    return 0;
}

static bool is_letter(int32_t c)
{
    if (c < 0) return false;
    utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO;
}

char *name_make(int64_t time, const char *words)
{
    enum { LONGEST = 32 }; // bytes of the words, at most
    char *date = time_text(time, "%Y-%m-%d");
    struct buf b = { 0 };
    buf_puts(&b, date);
    size_t date_length = b.length, length;
    int32_t c;
    bool gap = true;
    for (const char *p = words; *p; p += length) {
        length = utf8_next(p, CHARACTER, &c);
        if (is_letter(c)) {
            utf8proc_uint8_t lower[4];
            utf8proc_ssize_t n = utf8proc_encode_char(utf8proc_tolower(c), lower);
            if (b.length + (size_t)n + gap > date_length + 1 + LONGEST) break;
            if (gap) buf_putc(&b, '-');
            buf_add(&b, lower, (size_t)n);
            gap = false;
        } else if (c != '\'') {
            gap = true;
        }
    }
    if (b.length == date_length) buf_puts(&b, "-session");
    free(date);
    return buf_take(&b);
}

char *name_unique(struct store *s, const char *name, struct err *err)
{
    for (int n = 1;; n++) {
        char *candidate = n == 1 ? xstrdup(name) : xasprintf("%s-%d", name, n);
        int64_t taken;
        int status = store_number(s, err, 0, &taken, "SELECT 1 FROM sessions WHERE name = ?", "t",
                                  candidate);
        if (status == 0 && !taken) return candidate;
        free(candidate);
        if (status < 0) return NULL;
    }
}

char *first_words(const char *text, size_t limit)
{
    struct buf b = { 0 };
    size_t length;
    int32_t c;
    bool gap = false;
    for (const char *p = text; *p; p += length) {
        length = utf8_next(p, CHARACTER, &c);
        if (c <= ' ' || c == 0x7f) { // also invalid UTF-8, for which c is negative
            gap = b.length > 0;
            continue;
        }
        if (b.length + gap + length > limit) {
            buf_puts(&b, "…");
            break;
        }
        if (gap) buf_putc(&b, ' ');
        buf_add(&b, p, length);
        gap = false;
    }
    return buf_take(&b);
}

char *time_text(int64_t time, const char *format)
{
    char text[64];
    time_t t = (time_t)time;
    struct tm local;
    // A damaged database may hold any number.
    if (!localtime_r(&t, &local) || !strftime(text, sizeof text, format, &local))
        return xstrdup("?");
    return xstrdup(text);
}
