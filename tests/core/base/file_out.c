// tests/core/base/file_out.c -- core/base/file_out.c: files are replaced whole or not at all;
// inputs, models, databases and files of others are kept; permissions follow the umask.
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/folder.h"
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
    if (!f) fail_msg("'%s' cannot be opened", path);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    assert_string_equal(text, want);
}

// Counts the unfinished files in the folder.
static int parts(void)
{
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) count += strstr(e->d_name, ".part") != NULL;
    closedir(d);
    return count;
}

static void is_replaced_whole(void **state)
{
    struct err err = { 0 };
    char *path = place("a.csv");
    assert_int_equal(file_out_write(path, "first", 5, &err), 0);
    holds(path, "first");
    FILE *f = file_out_open(path, &err);
    fputs("sec", f);
    fflush(f);
    holds(path, "first"); // until the new file is complete
    file_out_abandon(f, path);
    holds(path, "first");
    assert_int_equal(parts(), 0);
    f = file_out_open(path, &err);
    fputs("second", f);
    assert_int_equal(file_out_close(f, path, &err), 0);
    holds(path, "second");
    assert_int_equal(parts(), 0);
    free(path);
}

// A link remains a link; its target is replaced.
static void a_link_is_kept(void **state)
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

static void devices_are_written_to(void **state)
{
    struct err err = { 0 };
    struct stat st;
    assert_int_equal(file_out_write("/dev/null", "gone", 4, &err), 0);
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

// /dev/stdout may be a plain file: the output is added to what the program prints, in order.
static void standard_output_is_not_truncated(void **state)
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

static void refused(const char *path, const char *why)
{
    struct err err = { 0 };
    assert_int_equal(file_out_check(path, &err), -1);
    assert_int_equal(file_out_write(path, "new", 3, &err), -1);
    if (!strstr(err.text, why)) fail_msg("%s", err.text);
}

static char *foreign(const char *name, const void *bytes, size_t size)
{
    char *path = place(name);
    FILE *f = fopen(path, "w");
    fwrite(bytes, 1, size, f);
    fclose(f);
    return path;
}

static void foreign_files_are_kept(void **state)
{
    struct err err = { 0 };
    char *path = foreign("theirs.csv", "data", 4), *empty = foreign("empty.csv", "", 0);
    char *beside = foreign("mine.csv.part", "data", 4), *mine = place("mine.csv");
    refused(path, "--force");
    holds(path, "data");
    assert_int_equal(file_out_write(empty, "new", 3, &err), 0);
    assert_int_equal(file_out_write(mine, "new", 3, &err), 0);
    holds(beside, "data");
    assert_false(file_out_force(true));
    assert_int_equal(file_out_write(path, "forced", 6, &err), 0);
    assert_true(file_out_force(false));
    holds(path, "forced");
    free(path);
    free(empty);
    free(beside);
    free(mine);
}

// vlmsh's own output may be overwritten until somebody else changes it.
static void a_changed_output_is_kept(void **state)
{
    struct err err = { 0 };
    char *path = place("table.csv"), *moved = place("kept.csv");
    assert_int_equal(file_out_write(path, "first", 5, &err), 0);
    assert_int_equal(file_out_write(path, "other", 5, &err), 0);
    const struct timespec then[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
    refused(path, "changed");
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(file_out_write(path, "third", 5, &err), 0);
    refused(moved, "did not write");
    free(path);
    free(moved);
}

// Input files are not replaced even with --force, nor if vlmsh wrote them.
static void input_files_are_kept(void **state)
{
    struct err err = { 0 };
    char *path = place("read.csv"), *link = place("link-to-read.csv");
    assert_int_equal(file_out_write(path, "data", 4, &err), 0);
    assert_int_equal(symlink(path, link), 0);
    free(file_read(path, 64, NULL, &err));
    file_out_force(true);
    refused(path, "is read");
    refused(link, "is read");
    file_in_clear();
    assert_int_equal(file_out_write(link, "next", 4, &err), 0);
    file_out_force(false);
    holds(path, "next");
    free(path);
    free(link);
}

static void models_and_databases_stay(void **state)
{
    static const char weights[] = "\2\0\0\0\0\0\0\0{}";
    const struct {
        const char *name, *bytes;
        size_t size;
    } files[] = {
        { "weights", weights, sizeof weights - 1 },
        { "model.csv", "GGUF\3\0\0\0", 8 },
        { "cut.safetensors", "x", 1 },
        { "pytorch_model.bin", "PK\3\4", 4 },
        { "config.json", "{}", 2 },
        { "tokenizer.json", "{}", 2 },
        { "data.csv", "SQLite format 3", 16 },
        { "data.csv-wal", "", 0 },
        { "data.csv-journal", "x", 1 },
    };
    file_out_force(true);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *path = foreign(files[i].name, files[i].bytes, files[i].size);
        refused(path, i < 6 ? "of a model" : "database");
        free(path);
    }
    file_out_force(false);
}

// Replaces the C library's umask to count calls: each would change the permissions of files that
// other threads create.
static int masks;
mode_t umask(mode_t mask)
{
    masks++;
    return (mode_t)syscall(SYS_umask, mask);
}

static void permissions_follow_the_umask(void **state)
{
    struct err err = { 0 };
    struct stat st;
    struct folder_work work;
    char *path = place("new.csv"), *made = place("new");
    syscall(SYS_umask, 027);
    masks = 0;
    assert_int_equal(file_out_write(path, "x", 1, &err), 0);
    assert_int_equal(folder_begin(&work, made, &err), 0);
    assert_int_equal(folder_commit(&work, made, &err), 0);
    assert_int_equal(masks, 0);
    syscall(SYS_umask, 022);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(stat(made, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0750);
    free(path);
    free(made);
}

// A finished folder replaces the empty one that a link leads to; a path through a file cannot be
// written.
static void a_folder_goes_where_its_link_leads(void **state)
{
    struct err err = { 0 };
    struct stat st;
    struct folder_work work;
    char *real = place("disk"), *link = place("link"), *inside = place("link/x/y");
    assert_int_equal(mkdir(real, 0777), 0);
    assert_int_equal(symlink(real, link), 0);
    assert_int_equal(folder_begin(&work, link, &err), 0);
    assert_memory_equal(work.path, real, strlen(real));
    assert_int_equal(folder_write(work.path, "x", "x", 1, &err), 0);
    assert_int_equal(folder_commit(&work, link, &err), 0);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(folder_begin(&work, link, &err), -1);
    assert_non_null(strstr(err.text, "already exists"));
    assert_int_equal(folder_begin(&work, inside, &err), -1);
    assert_non_null(strstr(err.text, "Not a directory"));
    free(real);
    free(link);
    free(inside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_replaced_whole),
        cmocka_unit_test(a_link_is_kept),
        cmocka_unit_test(devices_are_written_to),
        cmocka_unit_test(standard_output_is_not_truncated),
        cmocka_unit_test(failures_name_the_file),
        cmocka_unit_test(foreign_files_are_kept),
        cmocka_unit_test(a_changed_output_is_kept),
        cmocka_unit_test(input_files_are_kept),
        cmocka_unit_test(models_and_databases_stay),
        cmocka_unit_test(permissions_follow_the_umask),
        cmocka_unit_test(a_folder_goes_where_its_link_leads),
    };
    folder = scratch_new();
    setenv("XDG_STATE_HOME", folder, 1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(folder);
    return failed;
}
