// core/base/hash.c -- SHA-256 by libmd.
#include "core/base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static int hash_path(const char *path, bool always, char hex[HASH_HEX], struct err *err)
{
    enum { BLOCK = 1 << 20, LOOK = 16 }; // LOOK: blocks between reports
    struct hash h;
    struct stat st;
    const int fd = file_in_open(path, err);
    if (fd < 0) return -1;
    const uint64_t total = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    char *block = xmalloc(BLOCK), all[HASH_HEX];
    ssize_t n;
    bool cancelled = false;
    uint64_t done = 0;
    hash_start(&h);
    for (int64_t i = 1;
         !cancelled && ((n = read(fd, block, BLOCK)) > 0 || (n < 0 && errno == EINTR)); i++) {
        if (n > 0) hash_add(&h, block, (size_t)n), done += (uint64_t)n;
        if (i % LOOK == 0 || (done == total && done >= LOOK * (uint64_t)BLOCK))
            cancelled = cancel_report("hashing", done, total) && !always;
    }
    const int why = errno;
    hash_end(&h, all);
    free(block);
    close(fd);
    if (cancelled) return err_set(err, "cancelled");
    if (n < 0) return err_set(err, "cannot read '%s': %s", path, strerror(why));
    memcpy(hex, all, HASH_HEX);
    return 0;
}

int hash_file(const char *path, char hex[HASH_HEX], struct err *err)
{
    return hash_path(path, false, hex, err);
}

int hash_file_always(const char *path, char hex[HASH_HEX], struct err *err)
{
    return hash_path(path, true, hex, err);
}
