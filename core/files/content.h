// core/files/content.h -- a hash over the whole content of a file, computed once.
//
//   char hex[HASH_HEX];
//   if (content_hash(path, &progress, hex, &err) < 0) ...    // reads the file, or its cached hash
// Caches hashes of files of 1 MB or more in $XDG_CACHE_HOME/vlmsh/hashes (~/.cache/vlmsh/hashes),
// one small file each, with size, times of change, device and inode, so that an unchanged file is
// not read again. The hash detects damage and edits, not forgery.
#ifndef CORE_FILES_CONTENT_H
#define CORE_FILES_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/hash.h"

// Reports the progress of a long load: done of total bytes. May be NULL.
struct load_progress {
    // False cancels the load, which fails with "cancelled".
    bool (*report)(void *self, uint64_t done, uint64_t total);
    void *self;
    void (*notice)(void *self, const char *text); // receives notices while loading; NULL: none
};

// Reports to the watcher of core/base/cancel.h, which may cancel.
extern const struct load_progress content_watched;

int content_hash(const char *path, const struct load_progress *progress, char hex[HASH_HEX],
                 struct err *err);

// Computes content_hash in parts: reading may stop, and continue later, even in another thread.
struct content;

// Begins to hash a file. NULL: it cannot be opened.
struct content *content_begin(const char *path, struct err *err);
// Reads the rest of the file, unless its hash is known. -1 on error, or if `progress` cancels it;
// it may be called again.
int content_continue(struct content *c, const struct load_progress *progress, struct err *err);
// Returns the hash; NULL until all bytes are read.
const char *content_hex(const struct content *c);
uint64_t content_size(const struct content *c);
void content_end(struct content *c);

// Like content_hash, but always reads the file, and neither reads nor writes cached hashes.
int content_hash_uncached(const char *path, const struct load_progress *progress,
                          char hex[HASH_HEX], struct err *err);
// Like content_hash_uncached, for a file that contains its own hash at `at`, near its beginning:
// hashes the character 0 in place of each digit of that hash.
int content_hash_blank(const char *path, uint64_t at, const struct load_progress *progress,
                       char hex[HASH_HEX], struct err *err);
// Hashes bytes in memory as if they were a file.
void content_hash_bytes(const void *bytes, size_t size, char hex[HASH_HEX]);
// Caches the hash of a file again after its times were changed on purpose.
void content_cache(const char *path, const char hex[HASH_HEX]);

// Caches a hash under the names `of` and `kind`, for a file made from others. content_get sets hex
// to "" if none is cached.
void content_put(const char *of, const char *kind, const char hex[HASH_HEX]);
void content_get(const char *of, const char *kind, char hex[HASH_HEX]);

#endif
