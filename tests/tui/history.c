// tests/tui/history.c -- tui/history.c: a private file, no duplicates, entries of several lines.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>

#include "core/base/mem.h"
#include "tests/core/scratch.h"
#include "tui/history.h"

static void expect_entries(int count, const char *const *entries)
{
    assert_int_equal(history_length, count);
    for (int i = 0; i < count; i++)
        assert_string_equal(history_get(history_base + i)->line, entries[i]);
}

static void test_kept(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/a/b/history", folder);
    struct history *h = history_open(path);
    history_keep(h, "one");
    history_keep(h, "two\nlines \\n here");
    history_keep(h, " secret");
    history_keep(h, "");
    history_keep(h, "three");
    history_keep(h, "one");
    history_keep(h, "one");
    const char *expected[] = { "two\nlines \\n here", "three", "one" };
    expect_entries(3, expected);
    history_close(h);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    h = history_open(path); // reads the unchanged entries from the file
    expect_entries(3, expected);
    history_close(h);
    free(path);
    scratch_remove(folder);
}

// Lines that are too long are not kept, because each search would scan them.
static void test_long(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/long-history", folder);
    char *text = xmalloc(5001);
    memset(text, 'x', 5000);
    text[5000] = '\0';
    FILE *f = fopen(path, "we"); // written by a version that kept long lines
    fprintf(f, "%s\nkept\n", text);
    fclose(f);
    struct history *h = history_open(path);
    const char *expected[] = { "kept", text + 1000 };
    expect_entries(1, expected);
    history_keep(h, text);
    expect_entries(1, expected);
    history_keep(h, text + 1000);
    expect_entries(2, expected);
    history_close(h);
    free(text);
    free(path);
    scratch_remove(folder);
}

// A file with too many duplicates is rewritten; what a killed process left is removed.
static void test_rewritten(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/full-history", folder);
    char *left = xasprintf("%s.part-abc123", path), line[16] = "";
    FILE *f = fopen(left, "we");
    fclose(f);
    f = fopen(path, "we");
    for (int i = 0; i < 10001; i++) fputs(i % 2 ? "one\n" : "two\n", f);
    fclose(f);
    struct history *h = history_open(path);
    const char *expected[] = { "one", "two" };
    expect_entries(2, expected);
    history_close(h);
    assert_int_not_equal(access(left, F_OK), 0);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    f = fopen(path, "re");
    assert_int_equal(fread(line, 1, sizeof line, f), 8);
    fclose(f);
    assert_string_equal(line, "one\ntwo\n");
    free(left);
    free(path);
    scratch_remove(folder);
}

static void test_without_a_file(void **state)
{
    struct history *h = history_open("/proc/none/history");
    history_keep(h, "one");
    assert_int_equal(history_length, 1);
    history_close(h);
    h = history_open(NULL);
    history_keep(h, "one");
    history_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_rewritten),
        cmocka_unit_test(test_without_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
