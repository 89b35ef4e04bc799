// tests/core/base/event.c -- core/base/event.c: tables as sinks receive them.
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/event.h"
#include "core/base/mem.h"

// Appends "name: column#, column / cell, cell / cell, cell"; # marks a numeric column.
static void describe(void *self, const struct event *e)
{
    const struct event_table *t = e->table;
    struct buf *b = self;
    buf_printf(b, "%s:", t->name);
    for (int c = 0; c < t->column_count; c++)
        buf_printf(b, "%s %s%s", c ? "," : "", t->columns[c], t->numeric[c] ? "#" : "");
    for (int i = 0; i < t->row_count * t->column_count; i++)
        buf_printf(b, "%s %s", i % t->column_count ? "," : " /", t->cells[i]);
}

static void rows_are_split_into_cells(void **state)
{
    struct buf b = { 0 };
    struct sinks sinks = { 0 };
    struct table_builder t;
    sinks_add(&sinks, (struct sink){ .emit = describe, .self = &b });
    table_begin(&t, "norms", "layer#|mean ||x||#|kind");
    table_row(&t, "%d|%.2f|%s", -1, 0.5, "a|b%d");
    table_row(&t, "%" PRId64 "|%.3g%%|plain", INT64_C(1) << 40, 12.5);
    table_row(&t, "%zu of %d||%-3s", (size_t)7, 8, "x");
    const char *volatile none = NULL;
    table_row(&t, "1|2|%s", none);
    table_emit(&t, &sinks);
    assert_string_equal(b.data, "norms: layer#, mean |x|#, kind / -1, 0.50, a|b%d / 1099511627776, "
                                "12.5%, plain / 7 of 8, , x   / 1, 2, ");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_split_into_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
