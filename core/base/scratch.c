// core/base/scratch.c -- a list of allocations to free.
#include "core/base/scratch.h"

#include <stdlib.h>

void *scratch_keep(struct scratch *s, void *memory)
{
    s->list = xgrow(s->list, &s->capacity, s->count, sizeof *s->list);
    return s->list[s->count++] = memory;
}

char *scratch_take(struct scratch *s, struct buf *b)
{
    return scratch_keep(s, buf_take(b));
}

char *scratch_dup(struct scratch *s, const char *text, size_t length)
{
    return scratch_keep(s, xstrndup(text, length));
}

char *scratch_printf(struct scratch *s, const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    return scratch_take(s, &b);
}

void scratch_release(struct scratch *s)
{
    for (size_t i = 0; i < s->count; i++) free(s->list[i]);
    free(s->list);
    *s = (struct scratch){ 0 };
}
