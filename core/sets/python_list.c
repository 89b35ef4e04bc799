// core/sets/python_list.c -- Python's list literals, in which tables keep several texts of a cell.
//
// Tables are written by repr(): what cannot be printed (a no-break space, an ideographic one) is
// escaped.
#include <stdlib.h>
#include <string.h>

#include "core/metrics/python.h"
#include "core/sets/form.h"

// \xNN, \uNNNN, \UNNNNNNNN: p at the letter. How many characters; 0: it is none.
static size_t read_code(const char *p, struct buf *text)
{
    const size_t digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    char hex[9] = { 0 };
    if (!digits) return 0;
    for (size_t i = 0; i < digits; i++) {
        if (!strchr("0123456789abcdefABCDEF", p[1 + i]) || !p[1 + i]) return 0;
        hex[i] = p[1 + i];
    }
    const unsigned long c = strtoul(hex, NULL, 16);
    // No text here can hold a zero or half a pair.
    python_put_char(text, !c || c > 0x10FFFF || (c & ~0x7FFUL) == 0xD800 ? 0xFFFD : (int32_t)c);
    return digits + 1;
}

// An escape: p behind its backslash. Returns what follows it.
static const char *read_escape(const char *p, struct buf *text)
{
    static const char letters[] = "ntrabfv'\"\\", means[] = "\n\t\r\a\b\f\v'\"\\";
    const char *known = strchr(letters, *p);
    const size_t code = read_code(p, text);
    if (code) return p + code;
    if (*p == '\n') return p + 1; // the literal goes on
    if (known)
        buf_putc(text, means[known - letters]);
    else
        buf_printf(text, "\\%c", *p);
    return p + 1;
}

// A string literal at p; NULL: it does not end.
static const char *read_string(const char *p, struct buf *text)
{
    const char quote = *p++;
    while (*p && *p != quote) {
        if (*p != '\\')
            buf_putc(text, *p++);
        else if (p[1])
            p = read_escape(p + 1, text);
        else
            return NULL;
    }
    return *p ? p + 1 : NULL;
}

// Any other item: a number, a word.
static const char *read_bare(const char *p, struct buf *text)
{
    const size_t n = strcspn(p, ",]");
    size_t used = n;
    while (used && strchr(" \t\r\n", p[used - 1])) used--;
    buf_add(text, p, used);
    return used ? p + n : NULL;
}

cJSON *set_python_list(const char *text)
{
    const char *p = text + strspn(text, " \t\r\n");
    cJSON *list = cJSON_CreateArray();
    bool good = *p++ == '[';
    while (good) {
        p += strspn(p, " \t\r\n");
        if (*p == ']') break; // also after a last comma
        struct buf item = { 0 };
        p = *p == '\'' || *p == '"' ? read_string(p, &item) : read_bare(p, &item);
        good = p != NULL;
        if (good) cJSON_AddItemToArray(list, cJSON_CreateString(item.data ? item.data : ""));
        buf_release(&item);
        if (good) p += strspn(p, " \t\r\n");
        if (good && *p == ',')
            p++;
        else if (good)
            good = *p == ']';
    }
    if (good) p++;
    if (good && !p[strspn(p, " \t\r\n")]) return list;
    cJSON_Delete(list);
    return NULL;
}
