// core/base/items.h -- lists in one text, such as "a=1, b=2", compared as sets: their order is that
// of a table, which may differ between versions of the program.
//
//   if (!items_same(then, now, ", ")) ...
#ifndef CORE_BASE_ITEMS_H
#define CORE_BASE_ITEMS_H

#include <stdbool.h>

// Do both texts have the same items? `separator` is not empty.
bool items_same(const char *a, const char *b, const char *separator);
bool items_has(const char *list, const char *item, const char *separator);
// The item at *at, which moves to the next one; NULL at the end. The caller frees it.
char *items_take(const char **at, const char *separator);
// The item with the key of that one ("key=value"); NULL if there is none. The caller frees it.
char *items_with_key(const char *list, const char *item, const char *separator);

#endif
