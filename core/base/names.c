// core/base/names.c -- a hash table from names to small numbers.
#include "core/base/names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/clock.h"

// Secret, so that no file can contain names that all share a slot and make the table slow.
static uint64_t seed;

static void make_seed(void)
{
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = (uint64_t)clock_seconds();
}

uint64_t names_seed(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_seed);
    return seed;
}

// FNV-1a.
uint64_t names_hash(const char *name)
{
    uint64_t h = 14695981039346656037u ^ names_seed();
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h ^ h >> 32;
}

// Returns the slot of the name, or the free slot for it.
static size_t *find(const struct names *n, const char *name)
{
    for (size_t i = names_hash(name);; i++) {
        size_t *slot = &n->slots[i & (n->slot_count - 1)];
        if (!*slot || !strcmp(n->list[*slot - 1], name)) return slot;
    }
}

static void grow(struct names *n)
{
    n->capacity = n->capacity ? 2 * n->capacity : 32;
    n->list = xreallocarray(n->list, n->capacity, sizeof *n->list);
    free(n->slots);
    n->slot_count = 2 * n->capacity; // a power of two, half of it free
    n->slots = xcalloc(n->slot_count, sizeof *n->slots);
    for (size_t i = 0; i < n->count; i++) *find(n, n->list[i]) = i + 1;
}

size_t names_add(struct names *n, const char *name, bool *known)
{
    if (n->count == n->capacity) grow(n);
    size_t *slot = find(n, name);
    if (known) *known = *slot != 0;
    if (!*slot) {
        n->list[n->count++] = xstrdup(name);
        *slot = n->count;
    }
    return *slot - 1;
}

bool names_find(const struct names *n, const char *name, size_t *number)
{
    const size_t slot = n->slot_count ? *find(n, name) : 0;
    if (slot) *number = slot - 1;
    return slot != 0;
}

void names_put(struct buf *to, const struct names *n, size_t most)
{
    for (size_t i = 0; i < n->count && i < most; i++)
        buf_printf(to, "%s%.80s", i ? ", " : "", n->list[i]);
    if (n->count > most) buf_printf(to, " and %zu more", n->count - most);
}

void names_release(struct names *n)
{
    for (size_t i = 0; i < n->count; i++) free(n->list[i]);
    free(n->list);
    free(n->slots);
    *n = (struct names){ 0 };
}
