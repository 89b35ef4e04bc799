// tests/core/base/base64.c -- core/base/base64.c: the vectors of RFC 4648, all bytes encoded and
// decoded, and refusals.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/base64.h"

static void test_vectors(void **state)
{
    static const char *const pairs[][2] = {
        { "f", "Zg==" },        { "fo", "Zm8=" },        { "foo", "Zm9v" },
        { "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" },
    };
    struct buf b = { 0 };
    base64_encode(&b, "", 0);
    assert_int_equal(b.length, 0);
    assert_int_equal(base64_decode(&b, "", 0), 0);
    assert_int_equal(b.length, 0);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        base64_encode(&b, pairs[i][0], strlen(pairs[i][0]));
        assert_string_equal(b.data, pairs[i][1]);
        buf_clear(&b);
        assert_int_equal(base64_decode(&b, pairs[i][1], strlen(pairs[i][1])), 0);
        assert_int_equal(b.length, strlen(pairs[i][0]));
        assert_string_equal(b.data, pairs[i][0]);
        buf_clear(&b);
    }
    buf_release(&b);
}

static void test_back_and_forth(void **state)
{
    unsigned char bytes[3001];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 167 + i / 256);
    for (size_t size = sizeof bytes - 5; size <= sizeof bytes; size++) {
        struct buf text = { 0 }, back = { 0 };
        base64_encode(&text, bytes, size);
        assert_int_equal(text.length, (size + 2) / 3 * 4);
        assert_int_equal(base64_decode(&back, text.data, text.length), 0);
        assert_int_equal(back.length, size);
        assert_memory_equal(back.data, bytes, size);
        buf_release(&text);
        buf_release(&back);
    }
}

static void test_refused(void **state)
{
    static const char *const texts[] = { "Zg",        "Zg=",  "Z===",    "====",
                                         "Zm9v\nZg=", "Zm-v", "Zg==Zg==" };
    struct buf b = { 0 };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(base64_decode(&b, texts[i], strlen(texts[i])), -1);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_vectors),
                                        cmocka_unit_test(test_back_and_forth),
                                        cmocka_unit_test(test_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
