// tests/core/files/content.c -- core/files/content.c: any change changes the hash; holes are zeros;
// a stored hash belongs to one state of the file; reading in parts.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/files/content.h"
#include "tests/core/scratch.h"

enum { SIZE = (3 << 20) + 77 };

static void write_bytes(const char *path, const void *bytes, size_t size, off_t at)
{
    const int fd = open(path, O_CREAT | O_WRONLY, 0666);
    assert_true(fd >= 0 && pwrite(fd, bytes, size, at) == (ssize_t)size);
    close(fd);
}

static void expect_hash(const char *path, const char *hex, bool same)
{
    struct err err;
    char is[HASH_HEX];
    assert_int_equal(content_hash(path, NULL, is, &err), 0);
    assert_int_equal(!strcmp(is, hex), same);
}

static void the_hash_covers_every_byte(void **state)
{
    static const off_t places[] = { 0, 1, 63, 64, 4096, 1 << 20, (2 << 20) - 1, SIZE - 1 };
    char *folder = scratch_new(), *path = xasprintf("%s/file", folder), hex[HASH_HEX];
    unsigned char *bytes = xmalloc(SIZE);
    struct err err;
    for (size_t i = 0; i < SIZE; i++) bytes[i] = (unsigned char)(i * 31 + (i >> 13));
    write_bytes(path, bytes, SIZE, 0);
    assert_int_equal(content_hash(path, NULL, hex, &err), 0);
    expect_hash(path, hex, true);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const unsigned char other = bytes[places[i]] ^ 0x10;
        write_bytes(path, &other, 1, places[i]);
        expect_hash(path, hex, false);
        write_bytes(path, &bytes[places[i]], 1, places[i]);
        expect_hash(path, hex, true);
    }
    write_bytes(path, bytes, 1 << 20, 1 << 20); // two pieces swapped
    write_bytes(path, bytes + (1 << 20), 1 << 20, 0);
    expect_hash(path, hex, false);
    write_bytes(path, bytes, SIZE, 0);
    write_bytes(path, "\0", 1, SIZE); // one more zero
    expect_hash(path, hex, false);
    free(bytes);
    free(path);
    scratch_remove(folder);
}

static bool stop(void *self, uint64_t done, uint64_t total)
{
    int *left = self;
    return --*left;
}

// Reads in parts, each of which continues the one before.
static void reads_in_parts(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/file", folder), hex[HASH_HEX];
    struct err err = { "" };
    int left = 1, parts = 0;
    const struct load_progress progress = { .report = stop, .self = &left };
    for (off_t at = 0; at < SIZE; at += 4097) write_bytes(path, "piece", 5, at);
    write_bytes(path, "x", 1, SIZE - 1);
    assert_int_equal(content_hash(path, NULL, hex, &err), 0);
    struct content *c = content_begin(path, &err);
    assert_non_null(c);
    assert_int_equal(content_size(c), SIZE);
    for (; content_continue(c, &progress, &err) < 0 && parts < 10; parts++) {
        assert_string_equal(err.text, "cancelled");
        assert_null(content_hex(c));
        left = 1 + parts % 2;
    }
    assert_int_equal(parts, 3);
    assert_string_equal(content_hex(c), hex);
    content_end(c);
    free(path);
    scratch_remove(folder);
}

static void holes_are_zeros(void **state)
{
    char *folder = scratch_new(), *a = xasprintf("%s/hole", folder),
         *b = xasprintf("%s/zeros", folder), hex[HASH_HEX];
    char *zeros = xcalloc(1, SIZE);
    struct err err;
    write_bytes(a, "x", 1, SIZE - 1);
    write_bytes(b, zeros, SIZE, 0);
    write_bytes(b, "x", 1, SIZE - 1);
    assert_int_equal(content_hash(a, NULL, hex, &err), 0);
    expect_hash(b, hex, true);
    free(zeros);
    free(a);
    free(b);
    scratch_remove(folder);
}

// A stored hash is used until the file changes, even if its modification time is restored.
static void keeps_hashes(void **state)
{
    static const char kept[] = "00000000000000000000000000000000"
                               "00000000000000000000000000000000",
                      newer[] = "11111111111111111111111111111111"
                                "11111111111111111111111111111111";
    char *folder = scratch_new(), *path = xasprintf("%s/file", folder), hex[HASH_HEX];
    char *small = xasprintf("%s/small", folder);
    char *zeros = xcalloc(1, SIZE);
    struct err err;
    struct stat st;
    setenv("XDG_CACHE_HOME", folder, 1);
    write_bytes(path, zeros, SIZE, 0);
    write_bytes(small, zeros, 100, 0);
    content_cache(path, kept);
    content_cache(small, kept);
    expect_hash(path, kept, true);
    expect_hash(small, kept, false); // small files are always read
    content_cache(path, newer);      // replaces the stored hash
    expect_hash(path, newer, true);
    content_cache(path, kept);
    for (int i = 0; i < 2; i++) { // hashes stored by name, too
        content_put("weights", "q8_0", i ? newer : kept);
        content_get("weights", "q8_0", hex);
        assert_string_equal(hex, i ? newer : kept);
    }
    assert_int_equal(content_hash_uncached(path, NULL, hex, &err), 0);
    assert_string_not_equal(hex, kept);
    // The file changes, and its modification time is restored.
    assert_int_equal(stat(path, &st), 0);
    usleep(50000); // longer than a tick of the clock that stamps ctime
    write_bytes(path, "x", 1, 1000);
    const struct timespec times[] = { st.st_atim, st.st_mtim };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    expect_hash(path, kept, false);
    expect_hash(path, hex, false);
    // A file in place of the folder of stored hashes does no harm.
    char *list = xasprintf("rm -rf %s/vlmsh && mkdir %s/vlmsh && : >%s/vlmsh/hashes", folder,
                           folder, folder);
    assert_int_equal(system(list), 0);
    expect_hash(path, kept, false);
    free(list);
    free(zeros);
    free(small);
    free(path);
    scratch_remove(folder);
}

// Returns the only file in the folder of stored hashes.
static char *entry_in(const char *folder)
{
    char *hashes = xasprintf("%s/vlmsh/hashes", folder), *path = NULL;
    char **names = folder_list(hashes);
    for (int i = 0; names[i]; i++)
        if (names[i][0] != '.') {
            assert_null(path);
            path = xasprintf("%s/%s", hashes, names[i]);
        }
    assert_non_null(path);
    folder_list_free(names);
    free(hashes);
    return path;
}

// A damaged entry counts as none: the file is read, and the hash is stored again.
static void damaged_entries_are_ignored(void **state)
{
    static const char kept[] = "00000000000000000000000000000000"
                               "00000000000000000000000000000000";
    char *folder = scratch_new(), *path = xasprintf("%s/file", folder), hex[HASH_HEX];
    char *large = xcalloc(1, 1 << 16);
    struct err err;
    size_t size;
    setenv("XDG_CACHE_HOME", folder, 1);
    write_bytes(path, "x", 1, SIZE - 1);
    content_cache(path, kept);
    char *entry = entry_in(folder), *whole = file_read(entry, 4096, &size, &err);
    assert_non_null(whole);
    expect_hash(path, kept, true);
    memset(large, 'a', (1 << 16) - 1);
    const struct {
        const char *bytes;
        size_t size;
    } damaged[] = {
        { "", 0 },           { whole, size - 2 }, { whole, size / 2 },    { large, 1 << 16 },
        { "\xff\0\xfe", 3 }, { large, 4096 },     { whole + 1, size - 1 }
    };
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        assert_int_equal(truncate(entry, 0), 0);
        write_bytes(entry, damaged[i].bytes, damaged[i].size, 0);
        expect_hash(path, kept, false);
    }
    for (size_t at = size - HASH_HEX; at < size; at += HASH_HEX - 2) { // a digit is no longer one
        assert_int_equal(truncate(entry, 0), 0);
        write_bytes(entry, whole, size, 0);
        write_bytes(entry, "g", 1, (off_t)at);
        expect_hash(path, kept, false);
    }
    // So do those stored by name.
    assert_int_equal(unlink(entry), 0);
    free(entry);
    content_put("weights", "q8_0", kept);
    entry = entry_in(folder);
    write_bytes(entry, "G", 1, 10);
    content_get("weights", "q8_0", hex);
    assert_string_equal(hex, "");
    assert_int_equal(truncate(entry, 20), 0);
    content_get("weights", "q8_0", hex);
    assert_string_equal(hex, "");
    free(large), free(whole), free(entry), free(path);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_covers_every_byte),
        cmocka_unit_test(reads_in_parts),
        cmocka_unit_test(holes_are_zeros),
        cmocka_unit_test(keeps_hashes),
        cmocka_unit_test(damaged_entries_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
