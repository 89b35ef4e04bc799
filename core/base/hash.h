// core/base/hash.h -- SHA-256 (libmd), as lower-case hex text: identity of weights, pictures, data
// sets.
//
//   char hex[HASH_HEX];
//   hash_hex(bytes, size, hex);
//
//   struct hash h;                      // or piece by piece
//   hash_start(&h); hash_add(&h, a, n); hash_add(&h, b, m); hash_end(&h, hex);
#ifndef CORE_BASE_HASH_H
#define CORE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <sha256.h>

#include "core/base/err.h"

enum { HASH_HEX = 65 }; // 64 digits and the NUL

struct hash {
    SHA2_CTX state;
};

void hash_start(struct hash *h);
void hash_add(struct hash *h, const void *bytes, size_t size);
void hash_end(struct hash *h, char hex[HASH_HEX]);
void hash_hex(const void *bytes, size_t size, char hex[HASH_HEX]);
int hash_file(const char *path, char hex[HASH_HEX], struct err *err);
// Like hash_file, but ignores Ctrl-C, so that a cancelled answer can be recorded.
int hash_file_always(const char *path, char hex[HASH_HEX], struct err *err);

// Mixes a number into a 64-bit key. Collisions are unlikely, but easy to construct.
static inline void hash_mix(uint64_t *key, uint64_t x)
{
    *key = (*key ^ x) * 0x9e3779b97f4a7c15u;
    *key ^= *key >> 29;
}

#endif
