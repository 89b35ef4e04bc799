// core/base/mem.h -- small host memory that is always there (else the program ends), and growing
// text.
//
// Model-sized memory is not taken here but from an arena, which can say no (core/graph/arena.h).
#ifndef CORE_BASE_MEM_H
#define CORE_BASE_MEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *memory, size_t size);
// Room for `count` elements; the product is checked.
void *xreallocarray(void *memory, size_t count, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t length);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Number of letters to insert, delete, replace or swap to turn one word into the other.
size_t text_distance(const char *a, const char *b);

// product = a * b; true when it does not fit.
bool mul_overflows(size_t a, size_t b, size_t *product);

// Text (or bytes) that grows. Zero-initialised is empty; data is NUL-terminated once anything was
// added.
struct buf {
    char *data;
    size_t length, capacity;
};

void buf_add(struct buf *b, const void *bytes, size_t length);
void buf_puts(struct buf *b, const char *text);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *format, va_list args);
void buf_clear(struct buf *b);
// The text, never NULL; belongs to the caller (free), b is empty again.
char *buf_take(struct buf *b);
void buf_release(struct buf *b);

// int32 list that grows: token ids, positions.
struct ids {
    int32_t *data;
    size_t count, capacity;
};

void ids_add(struct ids *list, int32_t id);
void ids_append(struct ids *list, const int32_t *more, size_t count);
void ids_clear(struct ids *list);
void ids_release(struct ids *list);

#endif
