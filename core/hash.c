// core/hash.c -- SHA-256 by libmd.
#include "core/hash.h"

void hash_start(struct hash *h)
{
    SHA256Init(&h->state);
}

void hash_add(struct hash *h, const void *bytes, size_t size)
{
    SHA256Update(&h->state, bytes, size);
}

void hash_end(struct hash *h, char hex[HASH_HEX])
{
    SHA256End(&h->state, hex);
}

void hash_hex(const void *bytes, size_t size, char hex[HASH_HEX])
{
    struct hash h;
    hash_start(&h);
    hash_add(&h, bytes, size);
    hash_end(&h, hex);
}
