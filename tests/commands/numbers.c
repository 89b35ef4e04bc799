// tests/commands/numbers.c -- commands/parse.c: lists of token ids.
#include "commands/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_ids(const char *text, int64_t limit, const char *expected)
{
    struct ids ids = { 0 };
    struct err err = { "" };
    struct buf b = { 0 };
    char *copy = xstrdup(text);
    if (token_ids_read(&ids, 1, &copy, limit, &err) < 0)
        buf_printf(&b, "error: %s", err.text);
    else
        for (size_t i = 0; i < ids.count; i++) buf_printf(&b, "%d ", (int)ids.data[i]);
    assert_string_equal(b.data ? b.data : "", expected);
    buf_release(&b);
    ids_release(&ids);
    free(copy);
}

static void test_numbers(void **state)
{
    check_ids("1, 2,3 4", 5, "1 2 3 4 ");
    check_ids("[0,1]", 5, "0 1 ");
    check_ids("", 5, "");
    check_ids("5", 5, "error: token id 5 is not in the vocabulary (0 to 4)");
    check_ids("-1", 5, "error: '-1' is not a token id");
    check_ids("1x,2", 5, "error: '1x' is not a token id");
    check_ids("99999999999999999999", 5,
              "error: token id 99999999999999999999 is not in the vocabulary (0 to 4)");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_numbers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
