// core/base/items.h -- lists in one text, such as "a=1, b=2", compared as sets, because their order
// may differ between versions of the program.
//
//   if (!items_same(then, now, ", ")) ...
#ifndef CORE_BASE_ITEMS_H
#define CORE_BASE_ITEMS_H

#include <stdbool.h>

// Returns whether both texts have the same items. `separator` is not empty.
bool items_same(const char *a, const char *b, const char *separator);
bool items_has(const char *list, const char *item, const char *separator);
// Returns the item at *at and advances; NULL at the end. The caller frees it.
char *items_take(const char **at, const char *separator);
// Returns the list's item with the same key as `item` ("key=value"); NULL: none. The caller frees
// it.
char *items_with_key(const char *list, const char *item, const char *separator);

#endif
