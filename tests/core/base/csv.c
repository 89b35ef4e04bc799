// tests/core/base/csv.c -- core/base/csv.c: quotes, line ends, refusals; files are read back as
// written.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/csv.h"
#include "tests/core/scratch.h"

static int parse(struct csv *t, const char *text, struct err *err)
{
    return csv_parse(t, text, strlen(text), NULL, "test", err);
}

static void fields_may_be_quoted(void **state)
{
    struct csv t;
    struct err err;
    assert_int_equal(parse(&t, "a,\"b, c\",d\r\n1,\"say \"\"no\"\"\",\n\n\"x\ny\",,3", &err), 0);
    assert_int_equal(t.column_count, 3);
    assert_int_equal(t.row_count, 2);
    assert_int_equal(csv_column(&t, "b, c"), 1);
    assert_int_equal(csv_column(&t, "b"), -1);
    assert_string_equal(csv_cell(&t, 0, 1), "say \"no\"");
    assert_string_equal(csv_cell(&t, 0, 2), "");
    assert_string_equal(csv_cell(&t, 1, 0), "x\ny");
    assert_string_equal(csv_cell(&t, 1, 2), "3");
    csv_release(&t);
}

static void empty_files_are_empty_tables_and_byte_order_marks_are_skipped(void **state)
{
    struct csv t;
    struct err err;
    assert_int_equal(parse(&t, "", &err), 0);
    assert_int_equal(t.column_count, 0);
    assert_int_equal(t.row_count, 0);
    assert_int_equal(csv_find_column(&t, "a", "test", &err), -1);
    csv_release(&t);
    assert_int_equal(parse(&t, "\xef\xbb\xbf", &err), 0);
    assert_int_equal(t.column_count, 0);
    csv_release(&t);
    assert_int_equal(parse(&t,
                           "\xef\xbb\xbf"
                           "a,b\n1,2\n",
                           &err),
                     0);
    assert_int_equal(csv_column(&t, "a"), 0);
    assert_string_equal(csv_cell(&t, 0, 1), "2");
    csv_release(&t);
}

// Lines are counted from the text's first, which has no names.
static void names_of_columns_may_be_given(void **state)
{
    struct csv t;
    struct err err;
    static const char text[] = "\xef\xbb\xbf"
                               "1,2\n3\n";
    assert_int_equal(csv_parse(&t, text, sizeof text - 1, "a,b", "test", &err), -1);
    assert_string_equal(err.text,
                        "test: line 2 has 1 field, not the 2 of a file without a head line");
    assert_int_equal(csv_parse(&t, text, sizeof text - 3, "a,b", "test", &err), 0);
    assert_int_equal(t.row_count, 1);
    assert_string_equal(csv_cell(&t, 0, csv_column(&t, "b")), "2");
    csv_release(&t);
}

static void odd_files_are_refused(void **state)
{
    struct csv t;
    struct err err;
    assert_int_equal(parse(&t, "a,b\n1,2\n3\n", &err), -1);
    assert_non_null(strstr(err.text, "line 3 has 1 field, but the first line has 2"));
    assert_int_equal(parse(&t, "a,\"b\n1,2\n", &err), -1);
    assert_non_null(strstr(err.text, "closing quote"));
    assert_int_equal(csv_parse(&t, "a\0b", 3, NULL, "test", &err), -1);
    char many[5000];
    memset(many, ',', sizeof many - 1);
    many[sizeof many - 1] = 0;
    assert_int_equal(parse(&t, many, &err), -1);
    assert_non_null(strstr(err.text, "more than"));
    assert_int_equal(csv_read(&t, "/no/such/file.csv", &err), -1);
    csv_release(&t); // after any failure the table is empty
}

static void a_table_is_read_as_it_was_written(void **state)
{
    struct csv t = { 0 }, back;
    struct err err;
    char *folder = scratch_new(), *path = xasprintf("%s/t.csv", folder);
    const int first = csv_need_column(&t, "first");
    csv_set(&t, csv_add_row(&t), first, "a \"quoted\", word");
    const int later = csv_need_column(&t, "later");
    csv_set(&t, csv_add_row(&t), later, "two\nlines");
    csv_add_row(&t);
    csv_drop_row(&t, 2);
    assert_int_equal(csv_need_column(&t, "first"), first);
    assert_int_equal(csv_write(&t, path, &err), 0);
    assert_int_equal(csv_read(&back, path, &err), 0);
    assert_int_equal(back.row_count, 2);
    for (size_t r = 0; r < 2; r++)
        for (int c = 0; c < 2; c++) assert_string_equal(csv_cell(&back, r, c), csv_cell(&t, r, c));
    assert_int_equal(csv_find_column(&back, "none", "t.csv", &err), -1);
    assert_non_null(strstr(err.text, "first, later"));
    assert_int_equal(csv_write(&t, "/no/such/folder/t.csv", &err), -1);
    csv_release(&t);
    csv_release(&back);
    free(path);
    scratch_remove(folder);
}

// A second byte order mark is part of the first column's name.
static void a_second_byte_order_mark_is_kept(void **state)
{
    struct csv t, back;
    struct err err;
    char *folder = scratch_new(), *path = xasprintf("%s/t.csv", folder);
    assert_int_equal(parse(&t,
                           "\xef\xbb\xbf\xef\xbb\xbf"
                           "a\n1\n",
                           &err),
                     0);
    assert_string_equal(t.columns[0], "\xef\xbb\xbf"
                                      "a");
    assert_int_equal(csv_write(&t, path, &err), 0);
    assert_int_equal(csv_read(&back, path, &err), 0);
    assert_string_equal(back.columns[0], t.columns[0]);
    csv_release(&t);
    csv_release(&back);
    free(path);
    scratch_remove(folder);
}

static void values_are_compared_and_read(void **state)
{
    double v;
    assert_true(csv_is("b", "a|b"));
    assert_false(csv_is("a|b", "a|b"));
    assert_true(csv_is("", "a||c"));
    assert_false(csv_is("ab", "a|b"));
    assert_true(csv_number("-2e-3", &v) && v == -2e-3);
    assert_false(csv_number("", &v));
    assert_false(csv_number("3 of 4", &v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_may_be_quoted),
        cmocka_unit_test(empty_files_are_empty_tables_and_byte_order_marks_are_skipped),
        cmocka_unit_test(names_of_columns_may_be_given),
        cmocka_unit_test(odd_files_are_refused),
        cmocka_unit_test(a_table_is_read_as_it_was_written),
        cmocka_unit_test(a_second_byte_order_mark_is_kept),
        cmocka_unit_test(values_are_compared_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
