// core/files/content.c -- hashes whole files and caches the hashes.
//
// The hash is SHA-256 over the file's size and eight 64-bit lanes per piece of 1 MB, which mix the
// piece at memory speed: SHA-256 alone would take a minute for a 7B model. Each step of a lane is
// invertible, so a change to one word always changes the lane. A piece that lies in a hole counts
// as zeros, without being read (/new --zeros).
#include "core/files/content.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/mem.h"
#include "core/base/places.h"

enum {
    PIECE = 1 << 20,
    KEPT = PIECE, // bytes; smaller files are read every time
    LANES = 8,
    SETTLED_MS = 2000 // a file changed more recently may change again within the same time stamp
};

// --- the hash ------------------------------------------------------------------------------------

static void mix(uint64_t lane[LANES], const unsigned char *bytes)
{
    uint64_t word[LANES];
    memcpy(word, bytes, sizeof word);
    for (int k = 0; k < LANES; k++) {
        const uint64_t x = (lane[k] ^ word[k]) * 0x9e3779b97f4a7c15u; // 2^64 / golden ratio, odd
        lane[k] = x << 29 | x >> 35;
    }
}

static void hash_piece(const unsigned char *bytes, size_t size, uint64_t lane[LANES])
{
    unsigned char last[LANES * 8] = { 0 };
    size_t at = 0;
    for (int k = 0; k < LANES; k++) lane[k] = (uint64_t)k + 1;
    for (; size - at >= sizeof last; at += sizeof last) mix(lane, bytes + at);
    memcpy(last, bytes + at, size - at);
    mix(lane, last);
}

// Reads `n` bytes at `at` of the file. Does not map the file, because mapped pages count as memory
// of the program.
static int read_piece(int fd, unsigned char *to, uint64_t n, uint64_t at, const char *path,
                      struct err *err)
{
    const ssize_t got = file_read_at(fd, to, n, at);
    if (got < 0) return err_set(err, "cannot read '%s': %s", path, strerror(errno));
    if ((uint64_t)got < n) return err_set(err, "cannot read '%s': the file was truncated", path);
    return 0;
}

void content_hash_bytes(const void *bytes, size_t size, char hex[HASH_HEX])
{
    uint64_t lane[LANES];
    const uint64_t all = size;
    struct hash h;
    hash_start(&h);
    hash_add(&h, &all, sizeof all);
    for (size_t at = 0; at < size; at += PIECE) {
        hash_piece((const unsigned char *)bytes + at, size - at < PIECE ? size - at : PIECE, lane);
        hash_add(&h, lane, sizeof lane);
    }
    hash_end(&h, hex);
}

// --- the cache of hashes -------------------------------------------------------------------------

static const char digits[] = "0123456789abcdef";

// Returns the path of an entry, "FIRST-SECOND"; NULL without a cache folder.
static char *entry_path(const char *first, const char *second)
{
    char *folder = places_file("XDG_CACHE_HOME", ".cache", "hashes");
    char *path = folder ? xasprintf("%s/%s-%s", folder, first, second) : NULL;
    free(folder);
    return path;
}

// Returns the text of an entry, or NULL if none exists; frees the path.
static char *read_entry(char *path)
{
    char *text = path && access(path, R_OK) == 0 ? file_read(path, 4096, NULL, NULL) : NULL;
    free(path);
    return text;
}

// Writes an entry, and frees its path. A hash that cannot be written is computed again the next
// time.
static void write_entry(char *path, const char *text)
{
    if (path && places_make_parents(path, NULL) == 0)
        file_out_update(path, text, strlen(text), NULL);
    free(path);
}

void content_put(const char *of, const char *kind, const char hex[HASH_HEX])
{
    write_entry(entry_path(of, kind), hex);
}

void content_get(const char *of, const char *kind, char hex[HASH_HEX])
{
    char *text = read_entry(entry_path(of, kind));
    *hex = 0;
    if (text && strlen(text) == HASH_HEX - 1 && strspn(text, digits) == HASH_HEX - 1)
        memcpy(hex, text, HASH_HEX);
    free(text);
}

static char *kept_path(const struct stat *st)
{
    char device[32], inode[32];
    snprintf(device, sizeof device, "%jx", (uintmax_t)st->st_dev);
    snprintf(inode, sizeof inode, "%jx", (uintmax_t)st->st_ino);
    return entry_path(device, inode);
}

// Returns the size and times of a file; a cached hash is valid only while they stay the same. A
// copy over the file that keeps its modification time (cp -p) still changes its inode's change
// time.
static char *state_of(const struct stat *st)
{
    return xasprintf("1 %jd %jd.%09ld %jd.%09ld ", (intmax_t)st->st_size,
                     (intmax_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
                     (intmax_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

static bool read_kept(const struct stat *st, char hex[HASH_HEX])
{
    char *state = state_of(st), *text = read_entry(kept_path(st));
    const size_t n = strlen(state);
    const bool same = text && !strncmp(text, state, n) && strspn(text + n, digits) == HASH_HEX - 1;
    if (same) memcpy(hex, text + n, HASH_HEX - 1), hex[HASH_HEX - 1] = 0;
    free(text);
    free(state);
    return same;
}

static void write_kept(const struct stat *st, const char *hex)
{
    char *state = state_of(st), *line = xasprintf("%s%s\n", state, hex);
    write_entry(kept_path(st), line);
    free(line);
    free(state);
}

void content_cache(const char *path, const char hex[HASH_HEX])
{
    struct stat st;
    if (stat(path, &st) == 0 && st.st_size >= KEPT) write_kept(&st, hex);
}

// --- a file in parts -----------------------------------------------------------------------------

struct content {
    char *path;
    int fd;
    struct stat st;
    bool keep;      // keep the hash for later runs
    uint64_t blank; // offset of the file's own hash in the file; 0: none
    struct hash hash;
    uint64_t done, data; // bytes hashed; offset of the next data after a hole
    char hex[HASH_HEX];  // "" until all is hashed
};

static struct content *begin(const char *path, bool kept, struct err *err)
{
    const int fd = file_in_open(path, err);
    if (fd < 0) return NULL;
    struct content *c = xcalloc(1, sizeof *c);
    c->path = xstrdup(path);
    c->fd = fd;
    if (fstat(fd, &c->st) < 0) {
        err_set(err, "cannot read '%s': %s", path, strerror(errno));
        content_end(c);
        return NULL;
    }
    kept = kept && c->st.st_size >= KEPT;
    if (kept && read_kept(&c->st, c->hex)) return c;
    const uint64_t size = (uint64_t)c->st.st_size;
    struct timespec now, changed = c->st.st_ctim;
    clock_gettime(CLOCK_REALTIME, &now);
    c->keep = kept && (int64_t)(now.tv_sec - changed.tv_sec) * 1000 +
                              (now.tv_nsec - changed.tv_nsec) / 1000000 >
                          SETTLED_MS;
    hash_start(&c->hash);
    hash_add(&c->hash, &size, sizeof size);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return c;
}

struct content *content_begin(const char *path, struct err *err)
{
    return begin(path, true, err);
}

static int hash_pieces(struct content *c, unsigned char *piece,
                       const struct load_progress *progress, struct err *err)
{
    const uint64_t size = content_size(c);
    uint64_t zero[LANES] = { 0 }, lane[LANES];
    if (size >= PIECE) hash_piece(piece, PIECE, zero); // `piece` is all zeros until it is read into
    while (c->done < size) {
        const uint64_t n = size - c->done < PIECE ? size - c->done : PIECE;
        if (c->data <= c->done) { // a file system without holes reports none
            const off_t next = lseek(c->fd, (off_t)c->done, SEEK_DATA);
            c->data = next >= 0 ? (uint64_t)next : errno == ENXIO ? size : c->done;
        }
        const bool hole = n == PIECE && c->data >= c->done + n;
        if (!hole && read_piece(c->fd, piece, n, c->done, c->path, err) < 0) return -1;
        if (!c->done && c->blank && c->blank + HASH_HEX < n)
            memset(piece + c->blank, '0', HASH_HEX - 1);
        if (!hole) hash_piece(piece, n, lane);
        hash_add(&c->hash, hole ? zero : lane, sizeof lane);
        c->done += n;
        if (progress && !progress->report(progress->self, c->done, size))
            return err_set(err, "cancelled");
    }
    return 0;
}

int content_continue(struct content *c, const struct load_progress *progress, struct err *err)
{
    if (*c->hex) return 0;
    const uint64_t size = content_size(c);
    unsigned char *piece = xcalloc(1, size < PIECE ? size + 1 : PIECE);
    const int status = hash_pieces(c, piece, progress, err);
    free(piece);
    if (status == 0) hash_end(&c->hash, c->hex);
    return status;
}

const char *content_hex(const struct content *c)
{
    return *c->hex ? c->hex : NULL;
}

uint64_t content_size(const struct content *c)
{
    return (uint64_t)c->st.st_size;
}

void content_end(struct content *c)
{
    struct stat after;
    if (!c) return;
    if (c->keep && *c->hex && fstat(c->fd, &after) == 0 &&
        !memcmp(&c->st.st_mtim, &after.st_mtim, sizeof after.st_mtim))
        write_kept(&c->st, c->hex);
    close(c->fd);
    free(c->path);
    free(c);
}

static bool report_watched(void *self, uint64_t done, uint64_t total)
{
    return !cancel_report("hashing", done, total);
}

const struct load_progress content_watched = { .report = report_watched };

// Hashes a file. `blank`: offset of the file's own hash (content_hash_blank); 0: none.
static int hash_path(const char *path, bool kept, uint64_t blank,
                     const struct load_progress *progress, char hex[HASH_HEX], struct err *err)
{
    struct content *c = begin(path, kept, err);
    if (c) c->blank = blank;
    const int status = c ? content_continue(c, progress, err) : -1;
    if (status == 0) memcpy(hex, c->hex, HASH_HEX);
    content_end(c);
    return status;
}

int content_hash(const char *path, const struct load_progress *progress, char hex[HASH_HEX],
                 struct err *err)
{
    return hash_path(path, true, 0, progress, hex, err);
}

int content_hash_uncached(const char *path, const struct load_progress *progress,
                          char hex[HASH_HEX], struct err *err)
{
    return hash_path(path, false, 0, progress, hex, err);
}

int content_hash_blank(const char *path, uint64_t at, const struct load_progress *progress,
                       char hex[HASH_HEX], struct err *err)
{
    return hash_path(path, false, at, progress, hex, err);
}
