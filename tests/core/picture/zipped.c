// tests/core/picture/zipped.c -- pictures in ZIP archives: where they are looked for, and archives
// that are damaged, encrypted, ambiguous, numerous or lie about sizes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
// needs the headers above
#include <cmocka.h>
#include <zip.h>

#include "core/base/mem.h"
#include "core/picture/source.h"
#include "core/picture/zipped.h"

static char folder[256];

static char *at(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

// Writes an archive of files "NAME=CONTENT".
static void write_zip(const char *archive, const char *const *files, const char *password)
{
    zip_t *zip = zip_open(at(archive), ZIP_CREATE | ZIP_TRUNCATE, NULL);
    assert_non_null(zip);
    for (; *files; files++) {
        const char *content = strchr(*files, '=') + 1;
        char *name = xstrndup(*files, (size_t)(content - 1 - *files));
        zip_source_t *source = zip_source_buffer(zip, content, strlen(content), 0);
        const zip_int64_t i = zip_file_add(zip, name, source, 0);
        assert_true(i >= 0);
        if (password) zip_file_set_encryption(zip, (zip_uint64_t)i, ZIP_EM_TRAD_PKWARE, password);
        free(name);
    }
    assert_int_equal(zip_close(zip), 0);
}

static int make(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/zipped-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder) || mkdir(at("pictures"), 0777) < 0) return -1;
    write_zip("val.zip", (const char *const[]){ "val/a.png=a of val", "val/sub/c.png=c", NULL },
              NULL);
    write_zip("z.zip",
              (const char *const[]){ "a.png=a of z", "x/b.png=1", "y/b.png=2", "y/z/d.png=3",
                                     "../up.png=up", "z/d.png=4", NULL },
              NULL);
    return 0;
}

static int clear(void **state)
{
    char *command = xasprintf("rm -r '%s'", folder);
    const int status = system(command); // NOLINT(cert-env33-c)
    free(command);
    return status;
}

static void expect(const char *name, const char *content)
{
    struct err err = { 0 };
    size_t size;
    char *bytes = picture_source_read(at(name), 100, &size, &err);
    if (!bytes) fail_msg("%s: %s", name, err.text);
    assert_string_equal(bytes, content);
    assert_int_equal(size, strlen(content));
    assert_int_equal(zipped_find(at(name), &err), 1);
    free(bytes);
}

static void refused(const char *name, const char *why)
{
    struct err err = { 0 };
    size_t size;
    char *bytes = picture_source_read(at(name), 100, &size, &err);
    assert_null(bytes);
    if (!strstr(err.text, why)) fail_msg("%s: %s", name, err.text);
}

static void test_places(void **state)
{
    expect("val/a.png", "a of val"); // val.zip instead of the folder
    expect("val/sub/c.png", "c");
    expect("sub/c.png", "c"); // in val.zip, below its folder val
    expect("./val/sub/c.png", "c");
    expect("z.zip/a.png", "a of z"); // the archive by name
    expect("z.zip/x/b.png", "1");
    expect("z/d.png", "4"); // exactly this name, not y/z/d.png
    refused("z.zip/b.png", "has several files named 'b.png', one of them 'x/b.png'");
    refused("z.zip/none.png", "none.png");
    refused("pictures/a.png", "pictures/a.png"); // an existing folder without archives
    refused("../up.png", "up.png");
}

// Overwrites bytes of the archive's central directory: the last record with that name.
static void patch(const char *archive, const char *name, long offset, const void *bytes, size_t n)
{
    char all[4096];
    FILE *f = fopen(at(archive), "r+");
    assert_non_null(f);
    const size_t size = fread(all, 1, sizeof all, f);
    size_t k = size - strlen(name);
    while (memcmp(all + k, name, strlen(name)) != 0) k--;
    fseek(f, (long)k - 46 + offset, SEEK_SET);
    fwrite(bytes, 1, n, f);
    fclose(f);
}

static void test_bad(void **state)
{
    const char *const one[] = { "a.png=some text that is compressed, compressed, compressed",
                                NULL };
    static const uint32_t wrong = 7, large = 0x7fffffff, longer = 70;
    write_zip("locked.zip", one, "secret");
    refused("locked.zip/a.png", "is encrypted: unpack it");
    write_zip("crc.zip", one, NULL);
    patch("crc.zip", "a.png", 16, &wrong, 4);
    refused("crc.zip/a.png", "is damaged: CRC error");
    write_zip("large.zip", one, NULL);
    patch("large.zip", "a.png", 24, &large, 4);
    refused("large.zip/a.png", "is too large");
    write_zip("long.zip", one, NULL);
    patch("long.zip", "a.png", 24, &longer, 4);
    refused("long.zip/a.png", "is damaged: ");
    write_zip("short.zip", one, NULL);
    patch("short.zip", "a.png", 24, &wrong, 4);
    refused("short.zip/a.png", "is damaged: ");
    FILE *f = fopen(at("text.zip"), "w");
    assert_non_null(f);
    fputs("not an archive", f);
    fclose(f);
    refused("text.zip/a.png", "text.zip' cannot be read as a ZIP archive: ");
    refused("missing.png",
            "text.zip' cannot be read as a ZIP archive: "); // the picture may be in there
    expect("sub/c.png", "c");
    // A new archive of the same name is read.
    write_zip("text.zip", one, NULL);
    expect("text.zip/a.png", strchr(one[0], '=') + 1);
    assert_int_equal(symlink("z.zip", at("photos.tar.gz")), 0);
    refused("missing.png", "missing.png': if it is in 'photos.tar.gz', unpack that archive");
}

// The folder has more archives than the process may open files.
static void test_many(void **state)
{
    struct rlimit usual, few;
    char name[64];
    assert_int_equal(mkdir(at("many"), 0777), 0);
    for (int i = 0; i < 310; i++) {
        char *file = xasprintf("%d.png=%d", i, i);
        snprintf(name, sizeof name, "many/%03d.zip", i);
        write_zip(name, (const char *const[]){ file, NULL }, NULL);
        free(file);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    few = (struct rlimit){ 300, usual.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    expect("many/309.png", "309");
    expect("many/0.png", "0");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_places), cmocka_unit_test(test_bad),
                                        cmocka_unit_test(test_many) };
    return cmocka_run_group_tests(tests, make, clear);
}
