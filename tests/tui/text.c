// tests/tui/text.c -- tui/text.c: filtering of control sequences; widths of characters.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "tui/text.h"

static void expect_printable(const char *text, const char *shown)
{
    struct buf b = { 0 };
    text_printable(&b, text);
    assert_string_equal(b.data, shown);
    buf_release(&b);
}

static void test_printable(void **state)
{
    expect_printable("a\tb\n", "a\tb\n");
    expect_printable("\x1b[31mred\x07\x7f", "^[[31mred^G^?");
    expect_printable("one\rtwo", "one^Mtwo");
    expect_printable("\xc2\x9b"
                     "31m",
                     "\xef\xbf\xbd"
                     "31m"); // CSI as one character
    expect_printable("\x9b\xc3\xa4", "\xef\xbf\xbd\xc3\xa4");
}

static void test_width(void **state)
{
    assert_int_equal(text_width("abc"), 3);
    assert_int_equal(text_width("\xc3\xa4"), 1);     // one letter, two bytes
    assert_int_equal(text_width("e\xcc\x81"), 1);    // combining accent
    assert_int_equal(text_width("\xe7\x8c\xab"), 2); // wide
    assert_int_equal(text_width("\xff"), 1);
    assert_int_equal(text_fit("abc", 2), 2);
    assert_int_equal(text_fit("a\xe7\x8c\xab", 2), 1); // half a wide character does not fit
    assert_int_equal(text_fit("a\xe7\x8c\xab", 3), 4);
    assert_int_equal(text_fit("", 0), 0);
    assert_string_equal(text_tail("abc", 2), "bc");
    assert_string_equal(text_tail("\xe7\x8c\xab\xc3\xa4", 2), "\xc3\xa4");
    assert_string_equal(text_tail("abc", 3), "abc");
    assert_string_equal(text_tail("abc", -1), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
