// tests/core/base/mem.c -- core/base/mem.c, core/base/err.c, core/base/hash.c: growing text, lists,
// checked products, messages, SHA-256.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/hash.h"
#include "core/base/mem.h"

static void text_grows(void **state)
{
    struct buf b = { 0 };
    buf_add(&b, NULL, 0);
    assert_string_equal(b.data, "");
    for (int i = 0; i < 1000; i++) buf_printf(&b, "%03d,", i);
    assert_int_equal(b.length, 4000);
    assert_memory_equal(b.data + 3996, "999,", 5);
    buf_clear(&b);
    buf_add(&b, "a\0b", 3);
    buf_putc(&b, 'c');
    buf_puts(&b, "d");
    assert_int_equal(b.length, 5);
    assert_memory_equal(b.data, "a\0bcd", 6);
    char *taken = buf_take(&b);
    assert_null(b.data);
    free(taken);
    taken = buf_take(&b); // of an empty buffer
    assert_string_equal(taken, "");
    free(taken);
    buf_clear(&b);
    buf_release(&b);
    char *text = xasprintf("%s-%d", "x", 5), *part = xstrndup("abcdef", 3);
    assert_string_equal(text, "x-5");
    assert_string_equal(part, "abc");
    free(text);
    free(part);
}

static void lists_grow(void **state)
{
    struct ids list = { 0 };
    for (int32_t i = 0; i < 100; i++) ids_add(&list, i);
    ids_append(&list, NULL, 0);
    ids_append(&list, (int32_t[]){ -1, -2 }, 2);
    assert_int_equal(list.count, 102);
    assert_int_equal(list.data[99], 99);
    assert_int_equal(list.data[101], -2);
    ids_clear(&list);
    assert_int_equal(list.count, 0);
    ids_release(&list);
    assert_null(list.data);
}

static void products_are_checked(void **state)
{
    size_t n;
    assert_false(mul_overflows(3, 5, &n));
    assert_int_equal(n, 15);
    assert_true(mul_overflows(SIZE_MAX / 2, 3, &n));
    assert_false(mul_overflows(SIZE_MAX, 0, &n));
    free(xmalloc(0));
    free(xcalloc(0, 0));
}

static void messages_gain_context(void **state)
{
    struct err err;
    assert_int_equal(err_set(&err, "cannot read '%s'", "f"), -1);
    assert_int_equal(err_in(&err, "load %d", 1), -1);
    assert_string_equal(err.text, "load 1: cannot read 'f'");
    assert_int_equal(err_set(NULL, "x"), -1);
    assert_int_equal(err_in(NULL, "x"), -1);
    char longer[2000];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    err_set(&err, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    err_in(&err, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    // A truncated text ends with a whole character.
    memcpy(longer + sizeof err.text - 3, "\xF0\x9F\x98\x80", 4);
    err_set(&err, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 3);
    memcpy(longer + sizeof err.text - 3, "\xC3\xA9", 2);
    err_set(&err, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

// Values of FIPS 180-2, appendix B, and that of the empty text.
static void hashes(void **state)
{
    char hex[HASH_HEX];
    hash_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    struct hash h;
    hash_start(&h);
    hash_add(&h, "abcdbcdecdefdefgefghfghighijhijk", 32);
    hash_add(&h, "ijkljklmklmnlmnomnopnopq", 24);
    hash_end(&h, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows),
        cmocka_unit_test(lists_grow),
        cmocka_unit_test(products_are_checked),
        cmocka_unit_test(messages_gain_context),
        cmocka_unit_test(hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
