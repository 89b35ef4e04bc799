// tests/core/files/safetensors.c -- core/files/safetensors.c, safetensors_write.c: headers that
// follow the format, headers that break its rules, files written and read back, their hashes, and a
// mapped file that is truncated.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/files/safetensors.h"
#include "tests/core/scratch.h"

// Composes a file of the given header and `data` bytes 0, 1, 2, ...
static unsigned char *compose(const char *header, size_t length, size_t data, size_t *size)
{
    *size = 8 + length + data;
    unsigned char *bytes = xcalloc(1, *size);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data; i++) bytes[8 + length + i] = (unsigned char)i;
    return bytes;
}

static struct safetensors *parse(const char *header, size_t data, unsigned char **bytes,
                                 struct err *err)
{
    size_t size;
    *bytes = compose(header, strlen(header), data, &size);
    return safetensors_parse(*bytes, size, "test", err);
}

static void accept(const char *header, size_t data, int64_t count)
{
    unsigned char *bytes;
    struct err err = { "" };
    struct safetensors *f = parse(header, data, &bytes, &err);
    if (!f) fail_msg("%s refused: %s", header, err.text);
    assert_int_equal(f->count, count);
    safetensors_close(f);
    free(bytes);
}

// Expects a refusal whose message contains `why`.
static void refuse(const char *header, size_t data, const char *why)
{
    unsigned char *bytes;
    struct err err = { "" };
    struct safetensors *f = parse(header, data, &bytes, &err);
    if (f) fail_msg("%s accepted", header);
    if (!strstr(err.text, why)) fail_msg("%s: '%s' does not say '%s'", header, err.text, why);
    free(bytes);
}

#define T(type, shape, a, b) \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #a "," #b "]}"

static void reads_tensors(void **state)
{
    unsigned char *bytes;
    struct err err;
    struct safetensors *f = parse(
        "{\"__metadata__\":{\"format\":\"pt\",\"a\\u00e9\\n\":\"\\ud83d"
        "\\ude00\"},\"b\":" T("BF16", "[2,3]", 4, 16) ",\n \"a\" : " T("F32", "[]", 0, 4) "}   ",
        16, &bytes, &err);
    assert_non_null(f);
    const struct safetensor *a = safetensors_find(f, "a"), *b = safetensors_find(f, "b");
    assert_int_equal(a->rank, 0);
    assert_int_equal(a->dtype, DTYPE_F32);
    assert_int_equal(a->bytes, 4);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[1], 3);
    assert_string_equal(b->type, "BF16");
    assert_int_equal(*(const unsigned char *)b->data, 4);
    assert_null(safetensors_find(f, "c"));
    assert_string_equal(safetensors_metadata(f, "format"), "pt");
    assert_string_equal(safetensors_metadata(f, "a\xc3\xa9\n"), "\xf0\x9f\x98\x80");
    assert_null(safetensors_metadata(f, "pt"));
    safetensors_close(f);
    free(bytes);
}

static void accepts_valid_headers(void **state)
{
    accept("{}", 0, 0);
    accept("{} \n\t ", 0, 0);
    accept("{\"__metadata__\":{}}", 0, 0);
    accept("{\"i\":" T("I64", "[1,2]", 0, 16) "}", 16, 1);
    accept("{\"z\":" T("F32", "[3,0,7]", 0, 0) ",\"a\":" T("U8", "[2]", 0, 2) "}", 2, 2);
    accept("{\"z\":" T("F32", "[0]", 2, 2) ",\"a\":" T("U8", "[2]", 0, 2) "}", 2, 2);
    accept("{\"f\":" T("F4", "[4]", 0, 2) ",\"g\":" T("F6_E2M3", "[4]", 2, 5) "}", 5, 2);
    accept("{\"a\":" T("F8_E4M3", "[1]", 0, 1) ",\"b\":" T("BOOL", "[1]", 1, 2) "}", 2, 2);
    accept("{\"c\":" T("C64", "[1]", 0, 8) "}", 8, 1);
    accept("{\"\":" T("U8", "[1]", 0, 1) "}", 1, 1);
}

static void refuses_bad_layout(void **state)
{
    refuse("{\"a\":" T("U8", "[2]", 1, 3) "}", 3, "gap");
    refuse("{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 1, 3) "}", 3, "overlapping");
    refuse("{\"a\":" T("U8", "[2]", 0, 2) ",\"b\":" T("U8", "[2]", 3, 5) "}", 5, "gap");
    refuse("{\"a\":" T("U8", "[2]", 0, 2) "}", 1, "beyond");
    refuse("{\"a\":" T("U8", "[2]", 0, 2) "}", 3, "belong to no tensor");
    refuse("{}", 1, "belong to no tensor");
    refuse("{\"a\":" T("U8", "[2]", 2, 0) "}", 2, "before it starts");
    refuse("{\"a\":" T("F32", "[2]", 0, 4) "}", 4, "need 8 bytes");
    refuse("{\"a\":" T("F4", "[3]", 0, 2) "}", 2, "whole bytes");
    refuse("{\"a\":" T("U8", "[1]", 0, 1) ",\"a\":" T("U8", "[1]", 1, 2) "}", 2, "twice");
    refuse("{\"a\":" T("U8", "[1]", 0, 1) ",\"\\u0061\":" T("U8", "[1]", 1, 2) "}", 2, "twice");
}

static void refuses_overflow(void **state)
{
    refuse("{\"a\":" T("U8", "[4294967296,4294967296]", 0, 0) "}", 0, "2^63");
    refuse("{\"a\":" T("U8", "[4294967296,4294967296,0]", 0, 0) "}", 0, "2^63");
    refuse("{\"a\":" T("U8", "[0,4294967296,4294967296]", 0, 0) "}", 0, "2^63");
    refuse("{\"a\":" T("F64", "[4611686018427387904]", 0, 0) "}", 0, "2^63");
    refuse("{\"a\":" T("U8", "[18446744073709551616]", 0, 0) "}", 0, "2^63");
    refuse("{\"a\":" T("U8", "[2]", 0, 18446744073709551617) "}", 2, "2^63");
    refuse("{\"a\":" T("U8", "[-1]", 0, 1) "}", 1, "whole number");
    refuse("{\"a\":" T("U8", "[1]", -1, 0) "}", 1, "whole number");
}

static void refuses_bad_json(void **state)
{
    static const char *const headers[] = {
        "",
        " {}",
        "[]",
        "{",
        "{\"",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":{",
        "{}x",
        "{}{}",
        "{\"a\":1}",
        "{\"a\":null}",
        "{,}",
        "{\"a\":" T("U8", "[1]", 0, 1) ",}",
        "{\"a\":" T("U8", "[1,]", 0, 1) "}",
        "{\"a\":" T("U8", "[01]", 0, 1) "}",
        "{\"a\":" T("U8", "[1.0]", 0, 1) "}",
        "{\"a\":" T("U8", "[1e0]", 0, 1) "}",
        "{\"a\":" T("U8", "[\"1\"]", 0, 1) "}",
        "{\"a\":" T("U8", "[[1]]", 0, 1) "}",
        "{\"a\":" T("u8", "[1]", 0, 1) "}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}",
        "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}",
        "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":[]}",
        "{\"__metadata__\":{},\"__metadata__\":{}}",
        "{\"__metadata__\":{\"a\":\"1\",\"b\":\"\",\"a\":\"2\"}}",
        "{\"a\\u0000b\":" T("U8", "[1]", 0, 1) "}",
        "{\"a\\ud800\":" T("U8", "[1]", 0, 1) "}",
        "{\"a\\udc00\":" T("U8", "[1]", 0, 1) "}",
        "{\"a\\ud800\\u0041\":" T("U8", "[1]", 0, 1) "}",
        "{\"a\\x\":" T("U8", "[1]", 0, 1) "}",
        "{\"a\n\":" T("U8", "[1]", 0, 1) "}",
        "{\"a\xff\":" T("U8", "[1]", 0, 1) "}",
        "{\"a\xc0\x80\":" T("U8", "[1]", 0, 1) "}",
        "{\"a\xed\xa0\x80\":" T("U8", "[1]", 0, 1) "}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) refuse(headers[i], 1, "test");
}

// A header truncated anywhere is refused, and so is a file truncated anywhere.
static void refuses_truncation(void **state)
{
    const char *header = "{\"__metadata__\":{\"k\":\"\\u00e9\"},\"a\":" T("U8", "[2]", 0, 2) "}";
    size_t size;
    struct err err;
    for (size_t n = 0; n < strlen(header); n++) {
        unsigned char *bytes = compose(header, n, 2, &size);
        assert_null(safetensors_parse(bytes, size, "test", &err));
        free(bytes);
    }
    unsigned char *bytes = compose(header, strlen(header), 2, &size);
    for (size_t n = 0; n < size; n++) {
        unsigned char *part = xmalloc(n); // a separate block: the sanitizer detects reads beyond it
        memcpy(part, bytes, n);
        assert_null(safetensors_parse(part, n, "test", &err));
        free(part);
    }
    free(bytes);
}

static void refuses_bad_length(void **state)
{
    unsigned char bytes[16] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}' };
    struct err err;
    assert_null(safetensors_parse(bytes, sizeof bytes, "test", &err));
    assert_non_null(strstr(err.text, "the format allows"));
    memset(bytes, 0, 8);
    bytes[0] = 9;
    assert_null(safetensors_parse(bytes, sizeof bytes, "test", &err));
    assert_non_null(strstr(err.text, "longer than the file"));
    assert_null(safetensors_parse("version https://git-lfs", 23, "test", &err));
    assert_non_null(strstr(err.text, "git lfs pull"));
}

static void refuses_folders_and_pipes(void **state)
{
    struct err err;
    char *folder = scratch_new(), *fifo = xasprintf("%s/fifo", folder);
    assert_null(safetensors_open("no/such/file", &err));
    assert_non_null(strstr(err.text, "no/such/file"));
    assert_null(safetensors_open(folder, &err));
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_null(safetensors_open(fifo, &err));
    scratch_text(folder, "empty", "");
    char *empty = xasprintf("%s/empty", folder);
    assert_null(safetensors_open(empty, &err));
    assert_non_null(strstr(err.text, "is empty"));
    free(empty);
    free(fifo);
    scratch_remove(folder);
}

static void writes_and_reads_back(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/out.safetensors", folder);
    struct err err = { "" };
    const mode_t mask = umask(027);
    struct safetensors_writer *w = safetensors_writer_new(path);
    float values[6] = { 1, 2, 3, 4, 5, 6 };
    safetensors_writer_metadata(w, "quote\"\\", "tab\t\xff end");
    safetensors_writer_declare(w, "x", DTYPE_F32, 2, (int64_t[]){ 2, 3 });
    safetensors_writer_declare(w, "empty", DTYPE_F16, 1, (int64_t[]){ 0 });
    safetensors_writer_declare(w, "one", DTYPE_U8, 0, NULL);
    assert_int_equal(safetensors_writer_data(w, values, 10, &err), 0);
    assert_int_equal(safetensors_writer_data(w, (char *)values + 10, 14, &err), 0);
    assert_int_equal(access(path, F_OK), -1); // the file does not exist before it is complete
    assert_int_equal(safetensors_writer_data(w, "!", 1, &err), 0);
    assert_int_equal(safetensors_writer_finish(w, &err), 0);
    struct safetensors *f = safetensors_open(path, &err);
    assert_non_null(f);
    assert_int_equal(f->count, 3);
    const struct safetensor *x = safetensors_find(f, "x");
    assert_memory_equal(x->data, values, sizeof values);
    assert_int_equal((uintptr_t)x->data % 64, 0);
    assert_int_equal(safetensors_find(f, "one")->rank, 0);
    assert_string_equal(safetensors_metadata(f, "quote\"\\"), "tab\t\xef\xbf\xbd end");
    safetensors_close(f);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    umask(mask);
    free(path);
    scratch_remove(folder);
}

static void writes_nothing_on_failure(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/out.safetensors", folder);
    struct err err = { "" };
    scratch_text(folder, "out.safetensors", "former");
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_declare(w, "x", DTYPE_U8, 1, (int64_t[]){ 4 });
    assert_int_equal(safetensors_writer_data(w, "abc", 3, &err), 0);
    assert_int_equal(safetensors_writer_finish(w, &err), -1);
    assert_non_null(strstr(err.text, "3 of 4 bytes"));
    w = safetensors_writer_new(path);
    safetensors_writer_declare(w, "x", DTYPE_U8, 1, (int64_t[]){ 4 });
    assert_int_equal(safetensors_writer_data(w, "abc", 3, &err), 0);
    safetensors_writer_abandon(w);
    size_t size;
    char *kept = file_read(path, 100, &size, &err);
    assert_string_equal(kept, "former");
    free(kept);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); // no temporary file is left
    free(path);
    free(folder);
    w = safetensors_writer_new("/nonexistent/x");
    assert_int_equal(safetensors_writer_finish(w, &err), -1);
    assert_non_null(strstr(err.text, "/nonexistent/x"));
}

// The hash detects a changed byte in the header or the data, even one that the reader does not
// notice.
static void the_hash_covers_every_byte(void **state)
{
    const float values[64] = { 1, 2, 3 };
    char *folder = scratch_new(), *path = xasprintf("%s/hashed", folder);
    struct err err = { "" };
    size_t size;
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_hash(w);
    safetensors_writer_metadata(w, "step", "4");
    safetensors_writer_declare(w, "x", DTYPE_F32, 1, (int64_t[]){ 64 });
    assert_int_equal(safetensors_writer_data(w, values, sizeof values, &err), 0);
    assert_int_equal(safetensors_writer_finish(w, &err), 0);
    struct safetensors *f = safetensors_open(path, &err);
    assert_int_equal(safetensors_check_hash(f, &err), 0);
    assert_string_not_equal(safetensors_metadata(f, "hash"), "");
    char *of_step = strstr((char *)f->map + 8, "\"4\"") + 1; // the header is text
    const size_t places[] = { 40, (size_t)(of_step - (char *)f->map), f->size - 1, f->header };
    safetensors_close(f);
    char *bytes = file_read(path, 1 << 20, &size, &err);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        bytes[places[i]] ^= 1;
        FILE *out = fopen(path, "w");
        assert_true(out && fwrite(bytes, size, 1, out) == 1 && fclose(out) == 0);
        f = safetensors_open(path, &err);
        assert_int_equal(safetensors_check_hash(f, &err), -1);
        assert_non_null(strstr(err.text, "hashed' is damaged"));
        safetensors_close(f);
        bytes[places[i]] ^= 1;
    }
    free(bytes);
    free(path);
    scratch_remove(folder);
}

// If a mapped file is truncated, the program ends with its own message, not a bare SIGBUS.
static void says_when_a_mapped_file_shrinks(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/f", folder);
    size_t size;
    const char *header = "{\"a\":" T("U8", "[100000]", 0, 100000) "}";
    unsigned char *bytes = compose(header, strlen(header), 100000, &size);
    scratch_write(folder, "f", bytes, size);
    free(bytes);
    struct safetensors *f = safetensors_open(path, NULL);
    assert_non_null(f);
    int out[2];
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
        dup2(out[1], 2);
        signal(SIGABRT, SIG_DFL);
        file_in_guard();
        if (truncate(path, 4096) == 0) _exit(((const volatile char *)f->tensors[0].data)[90000]);
        _exit(1);
    }
    int status;
    char text[400] = "";
    waitpid(child, &status, 0);
    assert_true(read(out[0], text, sizeof text - 1) > 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "truncated"));
    close(out[0]);
    close(out[1]);
    safetensors_close(f);
    free(path);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tensors),
        cmocka_unit_test(accepts_valid_headers),
        cmocka_unit_test(refuses_bad_layout),
        cmocka_unit_test(refuses_overflow),
        cmocka_unit_test(refuses_bad_json),
        cmocka_unit_test(refuses_truncation),
        cmocka_unit_test(refuses_bad_length),
        cmocka_unit_test(refuses_folders_and_pipes),
        cmocka_unit_test(writes_and_reads_back),
        cmocka_unit_test(the_hash_covers_every_byte),
        cmocka_unit_test(writes_nothing_on_failure),
        cmocka_unit_test(says_when_a_mapped_file_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
