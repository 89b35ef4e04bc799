// core/base/mem.c -- small host memory, growing text and id lists.
#include "core/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

bool mul_overflows(size_t a, size_t b, size_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

static void *checked(void *memory, size_t size)
{
    if (!memory) fatal("out of memory (%zu bytes)", size);
    return memory;
}

size_t text_distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++) d[i][0] = i;
    for (size_t j = 0; j <= m; j++) d[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

void *xmalloc(size_t size)
{
    return checked(malloc(size ? size : 1), size);
}

void *xcalloc(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size ? size : 1), count);
}

void *xrealloc(void *memory, size_t size)
{
    return checked(realloc(memory, size ? size : 1), size);
}

void *xreallocarray(void *memory, size_t count, size_t size)
{
    size_t bytes;
    if (mul_overflows(count, size, &bytes)) fatal("out of memory (%zu x %zu bytes)", count, size);
    return xrealloc(memory, bytes);
}

void *xgrow(void *list, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity) return list;
    *capacity = *capacity ? 2 * *capacity : 16;
    return xreallocarray(list, *capacity, size);
}

char *xstrndup(const char *text, size_t length)
{
    char *copy = xmalloc(length + 1);
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

char *xstrdup(const char *text)
{
    return xstrndup(text, strlen(text));
}

char *xasprintf(const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    return buf_take(&b);
}

// Makes sure that `more` bytes and the closing NUL fit.
static void buf_reserve(struct buf *b, size_t more)
{
    if (more > SIZE_MAX / 4 - b->length) fatal("out of memory (text)");
    size_t need = b->length + more + 1;
    if (need <= b->capacity) return;
    size_t capacity = b->capacity ? b->capacity * 2 : 64;
    while (capacity < need) capacity *= 2;
    b->data = xrealloc(b->data, capacity);
    b->capacity = capacity;
}

void buf_add(struct buf *b, const void *bytes, size_t length)
{
    buf_reserve(b, length);
    if (length) memcpy(b->data + b->length, bytes, length);
    b->length += length;
    b->data[b->length] = 0;
}

void buf_puts(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_putc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_vprintf(struct buf *b, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0) BUG("bad format '%s'", format);
    buf_reserve(b, (size_t)n);
    vsnprintf(b->data + b->length, (size_t)n + 1, format, args);
    b->length += (size_t)n;
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_vprintf(b, format, args);
    va_end(args);
}

void buf_clear(struct buf *b)
{
    b->length = 0;
    if (b->data) b->data[0] = 0;
}

char *buf_take(struct buf *b)
{
    buf_reserve(b, 0);
    b->data[b->length] = 0;
    char *text = b->data;
    *b = (struct buf){ 0 };
    return text;
}

void buf_release(struct buf *b)
{
    free(b->data);
    *b = (struct buf){ 0 };
}

void ids_append(struct ids *list, const int32_t *more, size_t count)
{
    if (list->count + count > list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        while (capacity < list->count + count) capacity *= 2;
        list->data = xreallocarray(list->data, capacity, sizeof *list->data);
        list->capacity = capacity;
    }
    if (count) memcpy(list->data + list->count, more, count * sizeof *more);
    list->count += count;
}

void ids_add(struct ids *list, int32_t id)
{
    ids_append(list, &id, 1);
}

void ids_clear(struct ids *list)
{
    list->count = 0;
}

bool ids_same(const struct ids *a, const struct ids *b)
{
    return a->count == b->count &&
           (!a->count || !memcmp(a->data, b->data, a->count * sizeof *a->data));
}

void ids_release(struct ids *list)
{
    free(list->data);
    *list = (struct ids){ 0 };
}
