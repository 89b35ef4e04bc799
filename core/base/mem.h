// core/base/mem.h -- growing buffers, and small allocations in host memory, which end the program
// if they fail. Model-sized memory comes from an arena, whose functions report failure
// (core/graph/arena.h).
#ifndef CORE_BASE_MEM_H
#define CORE_BASE_MEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *memory, size_t size);
// Resizes memory to `count` elements of `size` bytes; checks the product for overflow.
void *xreallocarray(void *memory, size_t count, size_t size);
// Makes space for one more element: if `count` has reached *capacity, doubles the list and
// *capacity (from 16). Returns the list.
void *xgrow(void *list, size_t *capacity, size_t count, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t length);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Returns the edit distance between two words: the least number of bytes to insert, delete, replace
// or swap with their neighbours; 64 if a word is longer than 64 bytes.
size_t text_distance(const char *a, const char *b);

// Sets *product to a * b; returns true on overflow.
bool mul_overflows(size_t a, size_t b, size_t *product);

// A growing text (or byte) buffer. A zero-initialised buffer is empty; data is NUL-terminated after
// the first addition.
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
// Returns the text (never NULL) and empties b; the caller frees the text.
char *buf_take(struct buf *b);
void buf_release(struct buf *b);

// A growing int32 list: token ids, positions.
struct ids {
    int32_t *data;
    size_t count, capacity;
};

void ids_add(struct ids *list, int32_t id);
void ids_append(struct ids *list, const int32_t *more, size_t count);
void ids_clear(struct ids *list);
bool ids_same(const struct ids *a, const struct ids *b);
void ids_release(struct ids *list);

#endif
