// core/base/items.c -- lists of items in one string, compared as sets.
#include "core/base/items.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

char *items_take(const char **at, const char *separator)
{
    if (!**at) return NULL;
    const char *start = *at, *end = strstr(start, separator);
    if (!end) end = start + strlen(start);
    *at = *end ? end + strlen(separator) : end;
    return xstrndup(start, (size_t)(end - start));
}

bool items_has(const char *list, const char *item, const char *separator)
{
    const size_t n = strlen(item), m = strlen(separator);
    if (strstr(item, separator)) return false;
    for (const char *p = list; (p = strstr(p, item)); p++) {
        const bool begins = p == list || ((size_t)(p - list) >= m && !memcmp(p - m, separator, m));
        if (begins && (!p[n] || !strncmp(p + n, separator, m))) return true;
        if (!*p) return false;
    }
    return false;
}

static bool has_all(const char *list, const char *items, const char *separator)
{
    char *one;
    bool all = true;
    while (all && (one = items_take(&items, separator))) {
        all = items_has(list, one, separator);
        free(one);
    }
    return all;
}

bool items_same(const char *a, const char *b, const char *separator)
{
    return has_all(a, b, separator) && has_all(b, a, separator);
}

char *items_with_key(const char *list, const char *item, const char *separator)
{
    const char *equals = strchr(item, '=');
    const size_t key = equals ? (size_t)(equals - item) + 1 : strlen(item);
    char *one;
    while ((one = items_take(&list, separator))) {
        if (!strncmp(one, item, key)) return one;
        free(one);
    }
    return NULL;
}
