// core/base/names.h -- numbers names in order of appearance: sample ids, kinds, files.
//
//   struct names kinds = { 0 };
//   size_t i = names_add(&kinds, "detail", &known);   // kinds.list[i]
//   names_release(&kinds);
#ifndef CORE_BASE_NAMES_H
#define CORE_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/mem.h"

struct names {
    char **list;
    size_t count, capacity;
    size_t *slots; // number + 1, 0 = free; open addressing
    size_t slot_count;
};

// Returns the number of the name; *known: it already existed (may be NULL).
size_t names_add(struct names *n, const char *name, bool *known);
// Finds the number of a name without adding it.
bool names_find(const struct names *n, const char *name, size_t *number);
// Appends the first names, at most `most`: "a, b and 3 more".
void names_put(struct buf *to, const struct names *n, size_t most);
void names_release(struct names *n);
// The hash function of the table, for other tables of texts. The same name has different hashes in
// different processes.
uint64_t names_hash(const char *name);
// Returns the secret number in these hashes, for tables with hash functions of their own.
uint64_t names_seed(void);

#endif
