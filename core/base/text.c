// core/base/text.c -- checks texts, splits paths, sorts.
#include "core/base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"

bool text_ends(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

bool text_ends_with_any(const char *text, const char *const *endings)
{
    const size_t n = strlen(text);
    for (; *endings; endings++) {
        const size_t m = strlen(*endings);
        if (n > m && !strcasecmp(text + n - m, *endings)) return true;
    }
    return false;
}

bool text_listed(const char *const *list, const char *text)
{
    for (; list && text && *list; list++)
        if (!strcmp(*list, text)) return true;
    return false;
}

void text_append(char **all, char *more)
{
    char *before = *all;
    *all = before ? xasprintf("%s; %s", before, more) : xstrdup(more);
    free(before);
    free(more);
}

bool text_is_word(char c)
{
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

const char *text_trimmed(const char *text)
{
    return text + strspn(text, " \t\r\n");
}

size_t text_bad_byte(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size) {
        uint64_t eight;
        int32_t c;
        if (i + sizeof eight <= size && (memcpy(&eight, text + i, sizeof eight), true) &&
            !(eight & UINT64_C(0x8080808080808080))) { // ASCII
            i += sizeof eight;
            continue;
        }
        const size_t n = utf8_next(text + i, size - i, &c);
        if (c < 0) return i;
        i += n;
    }
    return size;
}

const char *text_wide(const char *text, size_t size)
{
    int zeros = 0;
    for (size_t i = 0; i < 4 && i < size; i++) zeros += !text[i];
    if (size < 2) return NULL;
    const bool marked = !memcmp(text, "\xFF\xFE", 2) || !memcmp(text, "\xFE\xFF", 2);
    if (size >= 4 &&
        (zeros == 3 || !memcmp(text, "\xFF\xFE\0\0", 4) || !memcmp(text, "\0\0\xFE\xFF", 4)))
        return "UTF-32";
    return marked || !text[0] != !text[1] ? "UTF-16" : NULL;
}

int text_check_part(const char *text, size_t size, int64_t line, struct err *err)
{
    const char *wide = line == 1 ? text_wide(text, size) : NULL;
    const size_t bad = text_bad_byte(text, size);
    if (wide) return err_set(err, "it is %s: convert it, with iconv -f %s -t UTF-8", wide, wide);
    if (bad == size) return 0;
    size_t start = 0;
    for (size_t i = 0; i < bad; i++)
        if (text[i] == '\n') {
            line += line > 0;
            start = line ? i + 1 : 0;
        }
    char place[32] = "";
    if (line) snprintf(place, sizeof place, "line %lld, ", (long long)line);
    return err_set(err,
                   "%sbyte %zu is 0x%02X, which is not UTF-8: convert the text, as with "
                   "iconv -f LATIN1 -t UTF-8",
                   place, bad - start + 1, (unsigned)(unsigned char)text[bad]);
}

size_t text_mark(const char *text, size_t size)
{
    return size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
}

int text_check(const char *text, size_t size, const char *name, struct err *err)
{
    const char *wide = text_wide(text, size);
    if (wide)
        return err_set(err, "'%s' is %s: convert it, with iconv -f %s -t UTF-8", name, wide, wide);
    if (size && memchr(text, 0, size))
        return err_set(err, "'%s' contains a zero byte: it is not a text file", name);
    return text_check_part(text, size, 1, err) < 0 ? err_in(err, "'%s'", name) : 0;
}

void text_put_markdown(struct buf *to, const char *text)
{
    for (; *text; text++)
        if (*text == '|')
            buf_puts(to, "\\|");
        else if (*text == '<' && (isalpha((unsigned char)text[1]) || strchr("/!?", text[1])))
            buf_puts(to, "&lt;");
        else if (*text != '\r')
            buf_putc(to, *text == '\n' ? ' ' : *text);
}

void text_put_xml(struct buf *to, const char *text)
{
    for (const char *p = text; *p; p++) {
        switch (*p) {
        case '&': buf_puts(to, "&amp;"); break;
        case '<': buf_puts(to, "&lt;"); break;
        case '>': buf_puts(to, "&gt;"); break;
        case '"': buf_puts(to, "&quot;"); break;
        case '\'': buf_puts(to, "&#39;"); break;
        default: buf_putc(to, *p);
        }
    }
}

const char *text_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *text_folder(const char *path)
{
    const size_t length = (size_t)(text_file_name(path) - path);
    return length ? xstrndup(path, length) : xstrdup("./");
}

bool text_shard(const char *path, const char *end, struct text_shard *shard)
{
    static const char form[] = "-00002-of-00003"; // each digit matches any digit
    const size_t n = strlen(path), m = sizeof form - 1 + strlen(end);
    if (n < m || !text_ends(path, end)) return false;
    const char *at = path + n - m;
    for (size_t i = 0; form[i]; i++)
        if (isdigit((unsigned char)form[i]) ? !isdigit((unsigned char)at[i]) : at[i] != form[i])
            return false;
    *shard = (struct text_shard){ .stem = n - m,
                                  .part = strtoul(at + strlen("-"), NULL, 10),
                                  .count = strtoul(at + strlen("-00002-of-"), NULL, 10) };
    return true;
}

void text_number(char text[32], double value, bool percent)
{
    const double shown = percent ? 100 * value : value, size = fabs(shown);
    const char *unit = percent ? "%" : "";
    if (size >= 999.5 && size < 1e6)
        snprintf(text, 32, "%.0f%s", shown, unit);
    else
        snprintf(text, 32, "%.3g%s", shown, unit);
}

int text_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *text_sort(void *items, size_t count, size_t size)
{
    const char *at = items;
    if (count) qsort(items, count, size, text_compare);
    for (size_t i = 1; i < count; i++)
        if (text_compare(at + (i - 1) * size, at + i * size) == 0)
            return *(const char *const *)(at + i * size);
    return NULL;
}
