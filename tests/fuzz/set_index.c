// tests/fuzz/set_index.c -- reads arbitrary bytes as the cached index of a 64 MB evaluation set:
// what follows the times of the set in its header. The index is refused, or all its rows, pictures
// and keys lie inside the set. Adds the hash, which would refuse every input but one.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/places.h"
#include "core/sets/columns.h"
#include "core/sets/index.h"
#include "tests/fuzz/files.h"

enum { SET = 64 << 20, ROWS = 20, READ = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

// A set of zeros, of which the disk holds none. Without a valid index it is refused at once, as it
// begins with a zero byte.
static char *make_set(const char *folder)
{
    const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    char *path = xasprintf("%s/set.tsv", folder);
    const int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, SET) < 0 || futimens(file, times) < 0) abort();
    close(file);
    return path;
}

static void write_index(const char *folder, const char *set, const uint8_t *bytes, size_t size)
{
    const struct {
        char magic[8];
        uint64_t size, seconds, nanoseconds;
    } head = { "vlmset3", SET, 1, 0 };
    struct buf b = { 0 };
    char hex[HASH_HEX];
    hash_hex(set, strlen(set), hex);
    char *name = xasprintf("sets/%.32s.index", hex);
    char *path = places_file("XDG_CACHE_HOME", ".cache", name);
    buf_add(&b, &head, sizeof head);
    buf_add(&b, bytes, size);
    hash_hex(b.data, b.length, hex);
    buf_add(&b, hex, HASH_HEX);
    if (!path || places_make_parents(path, NULL) < 0) abort();
    files_put(folder, path + strlen(folder) + 1, (const uint8_t *)b.data, b.length);
    buf_release(&b);
    free(path);
    free(name);
}

static void read_rows(const struct set_index *x)
{
    for (int64_t i = 0; i < x->count && i < ROWS; i++) {
        const struct set_row *r = &x->rows[i];
        struct buf text = { 0 };
        struct err err;
        if (r->at + r->size > SET || r->image_at + r->image_size > r->size) abort();
        if (r->size < READ)
            (void)set_index_read(x, i, &text, &err), (void)set_index_image(x, i, &text, &err);
        buf_release(&text);
    }
    for (size_t i = 0; i < x->keys.count; i++)
        if (x->key_rows[i] < SET_ROWS || x->key_rows[i] >= x->count) abort();
}

// Returns whether the index was used.
static bool read_index(const uint8_t *bytes, size_t size)
{
    const struct set_columns none = { 0 };
    struct set_index x;
    struct err err;
    char *folder = files_folder();
    if (setenv("XDG_CACHE_HOME", folder, 1) < 0) abort();
    char *set = make_set(folder);
    write_index(folder, set, bytes, size);
    const bool used = set_index_open(&x, set, &none, &err) == 0;
    if (used) read_rows(&x);
    if (used) set_index_close(&x);
    free(set);
    folder_remove(folder);
    free(folder);
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const uint64_t one_row[17] = { [0] = 1, [14] = 1 }; // 4 counts, 72 bytes of hash, a row
    static bool tried;
    if (!tried && !read_index((const uint8_t *)one_row, sizeof one_row)) abort();
    tried = true;
    (void)read_index(bytes, size);
    return 0;
}
