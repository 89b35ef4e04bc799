// tests/tui/event_text.c -- tui/event_text.c: a long cell stays whole, and widens no other row.
#include "tui/event_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"

static void long_cells_do_not_widen_rows(void **state)
{
    enum { LONG = 100000, ROWS = 100 };
    const char *const columns[] = { "name", "n" };
    const bool numeric[] = { false, true };
    char *word = xmalloc(LONG + 1);
    const char *cells[2 * ROWS];
    memset(word, 'x', LONG);
    word[LONG] = 0;
    for (int i = 0; i < ROWS; i++) cells[2 * i] = i ? "a" : word, cells[2 * i + 1] = "1";
    const struct event_table table = { .name = "t",
                                       .columns = columns,
                                       .numeric = numeric,
                                       .cells = cells,
                                       .column_count = 2,
                                       .row_count = ROWS };
    void *copy = table_copy_new(&table);
    char *text = table_copy_text(copy, 80);
    assert_non_null(strstr(text, word));
    assert_true(strlen(text) < LONG + 1010 * (ROWS + 1));
    free(text);
    table_copy_free(copy);
    free(word);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(long_cells_do_not_widen_rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
