// core/model/tensor_groups.c -- names many tensors in a short text.
#include "core/model/tensor_groups.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

void tensor_groups_release(struct tensor_groups *g)
{
    for (int i = 0; i < g->count; i++) free(g->group[i].pattern);
}

void tensor_groups_add(struct tensor_groups *g, char *pattern)
{
    int i = 0;
    g->tensors++;
    while (i < g->count && strcmp(g->group[i].pattern, pattern) != 0) i++;
    if (i < TENSOR_GROUPS) g->listed++;
    if (i == g->count && i < TENSOR_GROUPS) {
        g->group[g->count++].pattern = pattern;
        pattern = NULL;
    }
    if (i < TENSOR_GROUPS) g->group[i].tensors++;
    free(pattern);
}

char *tensor_groups_text(const struct tensor_groups *g)
{
    struct buf b = { 0 };
    buf_printf(&b, "%lld tensor%s (", (long long)g->tensors, g->tensors == 1 ? "" : "s");
    for (int i = 0; i < g->count; i++) {
        buf_printf(&b, "%s'%.120s'", i ? ", " : "", g->group[i].pattern);
        if (g->group[i].tensors > 1) buf_printf(&b, " x %lld", (long long)g->group[i].tensors);
    }
    if (g->listed < g->tensors) buf_printf(&b, ", %lld more", (long long)(g->tensors - g->listed));
    buf_putc(&b, ')');
    return buf_take(&b);
}

size_t name_level(const char *name)
{
    return strcspn(name, ".");
}

static bool is_number(const char *level)
{
    const size_t n = strspn(level, "0123456789");
    return n && n == name_level(level);
}

const char *name_number(const char *name)
{
    while (!is_number(name)) {
        name += name_level(name);
        if (!*name++) return NULL;
    }
    return name;
}

char *tensor_pattern(const char *name, bool layer)
{
    struct buf b = { 0 };
    const char *cut = layer ? name_number(name) : NULL;
    for (const char *at = name; *at; at += *at == '.') {
        const size_t n = name_level(at);
        if (is_number(at) && at != cut)
            buf_putc(&b, '*');
        else
            buf_printf(&b, "%.*s", (int)n, at);
        at += n;
        if (*at) buf_putc(&b, '.');
        if (cut && at > cut) {
            buf_putc(&b, '*');
            break;
        }
    }
    return buf_take(&b);
}
