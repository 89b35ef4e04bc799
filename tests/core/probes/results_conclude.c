// tests/core/probes/results_conclude.c -- core/probes/results_conclude.c: the sentence that ends a
// measurement.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/probes/results.h"

static struct result_table *table(struct results *r, const char *name, const char *columns,
                                  const double (*values)[2], int rows)
{
    struct result_table *t = results_table(r, name, columns);
    for (int i = 0; i < rows; i++)
        for (int c = 0; c + 1 < t->column_count; c++)
            (c ? t->rows[i].value : result_row(t, "%d", i))[c] = values[i][c];
    return t;
}

static void check(struct results *r, const char *expected)
{
    results_conclude(r);
    if (expected)
        assert_string_equal(r->notes[r->note_count - 1], expected);
    else
        assert_int_equal(r->note_count, 0);
    results_release(r);
}

static void columns_are_named(void **state)
{
    static const double values[][2] = { { 0.5, NAN }, { 1234, 2 }, { -0.25, 2 } };
    struct results r = { 0 };
    table(&r, "redundancy", "layer|visual|text", values, 3)->curve = true;
    check(&r, "visual highest in layer 1 (1234), lowest in layer 2 (-0.25); text 2 in every layer");
}

static void shares_are_percentages(void **state)
{
    static const double values[][2] = { { 0.1084, 1 }, { 0.8662, 1 } };
    struct results r = { 0 };
    table(&r, "attention", "layer|to the pictures|max", values, 2)->curve = true;
    check(&r, "most attention to the picture in layer 1 (86.6%), least in layer 0 (10.8%)");
    table(&r, "attention", "layer|to the pictures|max", values + 1, 1);
    check(&r, "attention to the picture in layer 0 (86.6%); --layer all compares the layers");
}

static void other_tables(void **state)
{
    struct results r = { 0 };
    struct result_table *t = results_table(&r, "patch.ranked", "head|share");
    t->ranked = -1;
    *result_row(t, "3.1") = 0.5;
    *result_row(t, "position 2 (token 0)") = -0.125;
    check(&r, "share highest in head 3.1 (50%), lowest in head position 2 (token 0; -12.5%)");
    *result_row(results_table(&r, "dice", "what|value"), "soft Dice") = 0.412;
    check(&r, "soft Dice 41.2%");
    results_table(&r, "info", "what|value|more");
    check(&r, NULL);
}

// Each condition has its sentence.
static void conditions_have_their_own(void **state)
{
    static const double values[][2] = { { 1, 0 }, { 2, 0 } };
    static const char *const names[] = { "off", "half" };
    struct results list[2] = { { 0 }, { 0 } }, all = { 0 };
    table(&list[0], "redundancy", "layer|visual", values, 2)->curve = true;
    table(&list[1], "redundancy", "layer|visual", values, 1)->curve = true;
    results_join(&all, names, list, 2);
    results_conclude(&all);
    assert_int_equal(all.note_count, 2);
    assert_string_equal(all.notes[0], "off: visual highest in layer 1 (2), lowest in layer 0 (1)");
    assert_string_equal(all.notes[1], "half: visual in layer 0 (1)");
    results_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_named),
        cmocka_unit_test(shares_are_percentages),
        cmocka_unit_test(other_tables),
        cmocka_unit_test(conditions_have_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
