// tests/core/base/file_in.c -- core/base/file_in.c: only regular files are opened as data; waiting
// for a pipe can be cancelled; standard input of several kinds.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "tests/core/scratch.h"

static char *folder;

static char *path_of(const char *name)
{
    return xasprintf("%s/%s", folder, name);
}

static void refuses(const char *path, const char *why)
{
    struct err err = { "" };
    size_t size;
    assert_int_equal(file_in_open(path, &err), -1);
    if (!strstr(err.text, path) || !strstr(err.text, why)) fail_msg("%s: %s", path, err.text);
    assert_null(file_read(path, 100, &size, &err));
    if (!strstr(err.text, path) || !strstr(err.text, why)) fail_msg("%s: %s", path, err.text);
}

static void make_socket(const char *path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (strlen(path) >= sizeof a.sun_path) fail_msg("'%s' is too long for a socket", path);
    strcpy(a.sun_path, path);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    close(fd);
}

static void opens_only_regular_files(void **state)
{
    struct err err = { "" };
    char *pipe = path_of("pipe"), *link = path_of("link"), *none = path_of("none");
    char *sock = path_of("s");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink("pipe", link), 0);
    make_socket(sock);
    refuses(pipe, "it is a pipe, not a file");
    refuses(link, "it is a pipe, not a file");
    refuses(sock, "it is a socket, not a file");
    refuses(folder, "it is a folder, not a file");
    refuses("/dev/zero", "it is a device, not a file");
    refuses("/proc/self/status", "it is a file of the kernel, not a data file");
    refuses(none, "No such file");
    scratch_text(folder, "plain", "text");
    free(link);
    link = path_of("plain");
    const int fd = file_in_open(link, &err);
    assert_true(fd >= 0);
    close(fd);
    // A script may be any source of bytes.
    assert_int_equal(file_in_open_any(folder, &err), -1);
    assert_non_null(strstr(err.text, "it is a folder, not a file"));
    const int any = file_in_open_any(pipe, &err);
    assert_true(any >= 0);
    close(any);
    free(pipe), free(link), free(none), free(sock);
}

static atomic_bool cancel;

static void *cancel_soon(void *self)
{
    usleep(50000);
    atomic_store(&cancel, true);
    return NULL;
}

static void *write_soon(void *path)
{
    usleep(50000);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "x", 1) == 1) close(fd);
    return NULL;
}

static void waits_until_data_or_cancel(void **state)
{
    struct err err = { "" };
    char byte, *pipe = path_of("waits");
    pthread_t thread;
    assert_int_equal(mkfifo(pipe, 0600), 0);
    const int fd = file_in_open_any(pipe, &err);
    atomic_store(&cancel, false);
    pthread_create(&thread, NULL, cancel_soon, NULL);
    assert_int_equal(file_in_wait(fd, &cancel, &err), -1);
    assert_string_equal(err.text, "cancelled");
    pthread_join(thread, NULL);
    atomic_store(&cancel, false);
    pthread_create(&thread, NULL, write_soon, pipe);
    assert_int_equal(file_in_wait(fd, &cancel, &err), 0);
    assert_int_equal(read(fd, &byte, 1), 1);
    pthread_join(thread, NULL);
    assert_int_equal(file_in_wait(fd, &cancel, &err), 0); // end of file
    assert_int_equal(read(fd, &byte, 1), 0);
    close(fd);
    free(pipe);
}

// Standard input from a pipe and from a file.
static void reads_standard_input(void **state)
{
    struct err err = { "" };
    size_t size;
    int ends[2];
    const int former = dup(STDIN_FILENO);
    assert_false(file_standard_was_read());
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "abc", 3), 3);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    atomic_store(&cancel, true); // the pipe still has a writer
    assert_null(file_read_standard(100, &size, &cancel, &err));
    assert_string_equal(err.text, "cancelled");
    assert_int_equal(write(ends[1], "defg", 4), 4);
    close(ends[1]);
    atomic_store(&cancel, false);
    char *text = file_read_standard(100, &size, &cancel, &err);
    assert_string_equal(text, "defg");
    assert_int_equal(size, 4);
    free(text);
    char *plain = path_of("plain");
    const int fd = open(plain, O_RDONLY | O_CLOEXEC);
    dup2(fd, STDIN_FILENO);
    close(fd);
    for (int i = 0; i < 2; i++) { // each read starts at the file's beginning
        text = file_read_standard(100, &size, &cancel, &err);
        assert_string_equal(text, "text");
        free(text);
    }
    assert_null(file_read_standard(3, &size, &cancel, &err));
    assert_non_null(strstr(err.text, "too large"));
    assert_true(file_standard_was_read());
    // Reading leaves the file position unchanged for others who read it line by line.
    assert_int_equal(lseek(STDIN_FILENO, 0, SEEK_CUR), 0);
    dup2(former, STDIN_FILENO);
    close(former);
    free(plain);
}

// Kinds of standard input that cannot be reopened through /dev/stdin.
static void reads_input_that_cannot_be_reopened(void **state)
{
    struct err err = { "" };
    size_t size;
    int ends[2];
    const int former = dup(STDIN_FILENO);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    atomic_store(&cancel, true); // the other end is still open
    assert_null(file_read_standard(100, &size, &cancel, &err));
    assert_string_equal(err.text, "cancelled");
    assert_int_equal(write(ends[1], "defg", 4), 4);
    close(ends[1]);
    atomic_store(&cancel, false);
    char *text = file_read_standard(100, &size, &cancel, &err);
    if (!text) fail_msg("%s", err.text);
    assert_string_equal(text, "defg");
    free(text);
    // An open file that only root could open again.
    char *closed = path_of("closed");
    scratch_text(folder, "closed", "text");
    const int fd = open(closed, O_RDONLY | O_CLOEXEC);
    dup2(fd, STDIN_FILENO);
    close(fd);
    assert_int_equal(chmod(closed, 0), 0);
    text = file_read_standard(100, &size, &cancel, &err);
    if (!text) fail_msg("%s", err.text);
    assert_string_equal(text, "text");
    free(text);
    dup2(former, STDIN_FILENO);
    close(former);
    free(closed);
}

static int begin(void **state)
{
    folder = scratch_new();
    return 0;
}

static int end(void **state)
{
    scratch_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_only_regular_files),
        cmocka_unit_test(waits_until_data_or_cancel),
        cmocka_unit_test(reads_standard_input),
        cmocka_unit_test(reads_input_that_cannot_be_reopened),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
