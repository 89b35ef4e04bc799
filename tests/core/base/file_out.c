// tests/core/base/file_out.c -- core/base/file_out.c: files are replaced whole or not at all.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/file_out.h"
#include "core/base/mem.h"
#include "tests/core/scratch.h"

static char *folder;

static char *place(const char *name)
{
    return xasprintf("%s/%s", folder, name);
}

static void holds(const char *path, const char *want)
{
    char text[64] = "";
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("'%s' is not there", path);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    assert_string_equal(text, want);
}

static void is_replaced_whole(void **state)
{
    struct err err = { 0 };
    char *path = place("a.csv"), *part = place("a.csv.part");
    assert_int_equal(file_out_write(path, "first", 5, &err), 0);
    holds(path, "first");
    FILE *f = file_out_open(path, &err);
    fputs("sec", f);
    fflush(f);
    holds(path, "first"); // as long as the new one is not whole
    file_out_abandon(f, path);
    holds(path, "first");
    assert_int_equal(access(part, F_OK), -1);
    f = file_out_open(path, &err);
    fputs("second", f);
    assert_int_equal(file_out_close(f, path, &err), 0);
    holds(path, "second");
    assert_int_equal(access(part, F_OK), -1);
    free(path);
    free(part);
}

// A link stays one; what it points to is replaced.
static void a_link_stays(void **state)
{
    struct err err = { 0 };
    struct stat st;
    char *path = place("real.csv"), *link = place("link.csv");
    assert_int_equal(file_out_write(path, "old", 3, &err), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(file_out_write(link, "new", 3, &err), 0);
    holds(path, "new");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    free(path);
    free(link);
}

static void what_is_no_file_is_written_to(void **state)
{
    struct err err = { 0 };
    struct stat st;
    assert_int_equal(file_out_write("/dev/null", "gone", 4, &err), 0);
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

// /dev/stdout may be a plain file: what is written goes between the other output.
static void standard_output_goes_on(void **state)
{
    struct err err = { 0 };
    char *path = place("out.txt");
    fflush(stdout);
    const int before = dup(1), file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_int_equal(dup2(file, 1), 1);
    printf("one ");
    const int status = file_out_write("/dev/stdout", "two ", 4, &err);
    printf("three");
    fflush(stdout);
    assert_int_equal(dup2(before, 1), 1);
    close(before), close(file);
    assert_int_equal(status, 0);
    holds(path, "one two three");
    free(path);
}

static void failures_name_the_file(void **state)
{
    struct err err = { 0 };
    char *path = place("no/such/folder.csv");
    assert_int_equal(file_out_write(path, "x", 1, &err), -1);
    assert_non_null(strstr(err.text, "no/such/folder.csv"));
    assert_int_equal(file_out_write("/dev/full", "x", 1, &err), -1);
    assert_non_null(strstr(err.text, "/dev/full"));
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_replaced_whole),
        cmocka_unit_test(a_link_stays),
        cmocka_unit_test(what_is_no_file_is_written_to),
        cmocka_unit_test(standard_output_goes_on),
        cmocka_unit_test(failures_name_the_file),
    };
    folder = scratch_new();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(folder);
    return failed;
}
