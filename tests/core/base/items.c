// tests/core/base/items.c -- core/base/items.c: lists in one text.
#include "core/base/items.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_same(void **state)
{
    assert_true(items_same("a=1, b=2", "b=2, a=1", ", "));
    assert_true(items_same("a=1\nb=2\n", "b=2\na=1", "\n"));
    assert_true(items_same("", "", ", "));
    assert_false(items_same("a=1, b=2", "a=1", ", "));
    assert_false(items_same("a=1", "a=1, b=2", ", "));
    assert_false(items_same("a=1", "a=10", ", "));
    assert_true(items_same("a=2-5,22-29, b=2", "b=2, a=2-5,22-29", ", "));
}

static void test_take(void **state)
{
    const char *at = "a=1\nb\n", *const expected[] = { "a=1", "b" };
    for (int i = 0; i < 2; i++) {
        char *one = items_take(&at, "\n");
        assert_string_equal(one, expected[i]);
        free(one);
    }
    assert_null(items_take(&at, "\n"));
}

static void test_key(void **state)
{
    char *one = items_with_key("ab=1, a=2", "a=7", ", ");
    assert_string_equal(one, "a=2");
    free(one);
    assert_null(items_with_key("ab=1, a=2", "b=1", ", "));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_same), cmocka_unit_test(test_take),
                                        cmocka_unit_test(test_key) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
