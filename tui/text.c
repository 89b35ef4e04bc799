// tui/text.c -- UTF-8 repair, control characters, width.
#include "tui/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

static const char replacement[] = "\xEF\xBF\xBD"; // U+FFFD

// Returns the length of the character at `p` and its code; an invalid byte has length 1 and code
// -1.
static int next_character(const char *p, size_t left, int32_t *code)
{
    utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)left, code);
    if (n > 0) return (int)n;
    *code = -1;
    return 1;
}

static void add_text(struct buf *to, const char *text, bool for_terminal)
{
    size_t left = strlen(text);
    while (left) {
        int32_t code;
        const int n = next_character(text, left, &code);
        const bool kept = !for_terminal || code == '\n' || code == '\t';
        const bool high = code >= 0x80 && code < 0xa0; // terminals read these as escape sequences
        if (code < 0 || (high && !kept))
            buf_puts(to, replacement);
        else if ((code < 0x20 || code == 0x7f) && !kept)
            buf_printf(to, "^%c", code ^ 0x40);
        else
            buf_add(to, text, (size_t)n);
        text += n;
        left -= (size_t)n;
    }
}

void text_repair(struct buf *to, const char *text)
{
    add_text(to, text, false);
}

void text_printable(struct buf *to, const char *text)
{
    add_text(to, text, true);
}

void text_put(FILE *out, const char *text)
{
    struct buf b = { 0 };
    if (isatty(fileno(out))) text_printable(&b, text);
    fputs(b.data ? b.data : text, out);
    buf_release(&b);
}

void text_printf(FILE *out, const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    text_put(out, b.data ? b.data : "");
    buf_release(&b);
}

static int width_of(int32_t code)
{
    return code < 0 ? 1 : utf8proc_charwidth(code);
}

int text_width(const char *text)
{
    size_t left = strlen(text);
    int columns = 0;
    while (left) {
        int32_t code;
        int n = next_character(text, left, &code);
        columns += width_of(code);
        text += n;
        left -= (size_t)n;
    }
    return columns;
}

size_t text_fit(const char *text, int columns)
{
    size_t at = 0, length = strlen(text);
    while (at < length) {
        int32_t code;
        int n = next_character(text + at, length - at, &code);
        columns -= width_of(code);
        if (columns < 0) break;
        at += (size_t)n;
    }
    return at;
}

const char *text_tail(const char *text, int columns)
{
    size_t left = strlen(text);
    for (int width = text_width(text); left && width > columns;) {
        int32_t code;
        const size_t n = (size_t)next_character(text, left, &code);
        width -= width_of(code);
        text += n;
        left -= n;
    }
    return text;
}

char *text_last_part(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from && path[from - 1] != '/') from--;
    return from < n ? xstrndup(path + from, n - from) : xstrdup("/");
}

int text_terminal_columns(FILE *out)
{
    struct winsize w;
    return ioctl(fileno(out), TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

int text_wrap_columns(FILE *out)
{
    enum { OTHERWISE = 100, LEAST = 20, MOST = 10000 };
    const int terminal = text_terminal_columns(out);
    const char *said = getenv("COLUMNS");
    const long columns = said ? strtol(said, NULL, 10) : 0;
    return terminal ? terminal : columns >= LEAST && columns < MOST ? (int)columns : OTHERWISE;
}
