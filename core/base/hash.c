// core/base/hash.c -- SHA-256 by libmd.
#include "core/base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/base/file_in.h"
#include "core/base/mem.h"

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

int hash_file(const char *path, char hex[HASH_HEX], struct err *err)
{
    enum { BLOCK = 1 << 20, LOOK = 64 }; // blocks between two looks at Ctrl-C
    struct hash h;
    const int fd = file_in_open(path, err);
    if (fd < 0) return -1;
    char *block = xmalloc(BLOCK);
    ssize_t n;
    bool cancelled = false;
    int64_t blocks = 0;
    hash_start(&h);
    while (!cancelled && ((n = read(fd, block, BLOCK)) > 0 || (n < 0 && errno == EINTR))) {
        if (n > 0) hash_add(&h, block, (size_t)n);
        cancelled = ++blocks % LOOK == 0 && cancel_asked();
    }
    const int why = errno;
    hash_end(&h, hex);
    free(block);
    close(fd);
    if (cancelled) return err_set(err, "cancelled");
    return n < 0 ? err_set(err, "cannot read '%s': %s", path, strerror(why)) : 0;
}
