// tests/core/base/names.c -- core/base/names.c: names to numbers, many of them.
#include "core/base/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void test_names(void **state)
{
    struct names n = { 0 };
    char name[32];
    bool known;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < 5000; i++) {
            snprintf(name, sizeof name, "%zu", i * 7919);
            assert_int_equal(names_add(&n, name, &known), i);
            assert_int_equal(known, round);
            assert_string_equal(n.list[i], name);
        }
    assert_int_equal(names_add(&n, "", &known), 5000);
    assert_false(known);
    assert_int_equal(names_add(&n, "", NULL), 5000);
    assert_int_equal(n.count, 5001);
    names_release(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_names) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
