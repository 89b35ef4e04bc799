// tests/core/probes/results_conclude.c -- core/probes/results_conclude.c: the sentence that ends a
// measurement.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

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

// Losses: the lowest number, which is the finding, comes first.
static void losses_come_first(void **state)
{
    static const double values[][2] = { { -0.5, 0 }, { -7, 0 }, { 0.25, 0 } };
    struct results r = { 0 };
    table(&r, "knockout.windows", "layer|change", values, 3)->curve = true;
    check(&r, "change lowest in layer 1 (-7), highest in layer 2 (0.25)");
    table(&r, "ablate.ffn", "layer|change", values, 3)->ranked = 1;
    check(&r, "change lowest in layer 1 (-7), highest in layer 2 (0.25)");
}

static void add_shares(struct results *r, const double (*values)[2], int rows)
{
    static const int layers[] = { 0, 1, 3, 4 };
    struct result_table *t =
        results_table(r, "patch.layers", "layer|picture|question|last|answer|other|all");
    t->curve = true;
    for (int i = 0; i < rows; i++) {
        double *v = result_row(t, "%d", layers[i]);
        for (int c = 1; c < 5; c++) v[c] = 0;
        v[0] = values[i][0], v[2] = values[i][1], v[5] = 1;
    }
}

// The sentence of /patch names, for each group, the layers with a share of at least half (here,
// layer 2 is not measured); if none has that, the layer with the largest share.
static void patches_name_layers(void **state)
{
    static const double values[][2] = { { 1, 0 }, { 0.5, 0.6 }, { 0.9, 0.7 }, { 0.1, 1 } };
    static const double few[][2] = { { 0.1, 0 }, { 0.2, 0.125 } };
    struct results r = { 0 };
    add_shares(&r, values, 4);
    check(&r, "at least half comes back at picture in layers 0-1, 3; last in layers 1, 3-4");
    add_shares(&r, values, 1);
    check(&r, "at least half comes back at picture in layer 0");
    add_shares(&r, few, 2);
    check(&r, "most comes back at picture in layer 1 (20%)");
}

// The sentence of /faithful skips the controls, rejected maps and their corrected forms.
static void the_best_maps_are_named(void **state)
{
    static const struct {
        const char *name;
        double value[6];
    } rows[] = { { "gradient", { 0, 0, 0.6, 0.5, 0.75, 0.1 } },
                 { "rollout", { 0, 0, 0.9, 0.1, 0.99, 0.97 } },
                 { "corrected rollout", { 0, 0, 0.5, 0.2, 0.5, NAN } },
                 { "corrected gradient", { 0, 0, 0.5, 0.25, 0.5, NAN } },
                 { "a random map", { 0, 0, 0.95, 0, 1, NAN } },
                 { "the object itself", { 1, 1, 1, 0, 1, NAN } } };
    struct results r = { 0 };
    struct result_table *t = results_table(
        &r, "faithful", "map|pointing|soft Dice|AUC|deletion|insertion|rank correlation");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        memcpy(result_row(t, "%s", rows[i].name), rows[i].value, sizeof rows[i].value);
    results_table(&r, "faithful.deletion", "share of tokens|gradient")->curve = true;
    check(&r, "best map by AUC: gradient (0.6), deletion: corrected gradient (0.25), insertion: "
              "gradient (0.75)");
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
        cmocka_unit_test(losses_come_first),
        cmocka_unit_test(patches_name_layers),
        cmocka_unit_test(the_best_maps_are_named),
        cmocka_unit_test(conditions_have_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
