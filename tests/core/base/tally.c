// tests/core/base/tally.c -- core/base/tally.c, and its users: results_mean.c (deviations over
// samples), adapter.c (spread of weights). Numbers with large means and small deviations; Student's
// t.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapter_entry.h"
#include "core/base/tally.h"
#include "core/graph/arena.h"
#include "core/probes/results.h"
#include "tests/device.h"

static void deviations_of_large_numbers(void **state)
{
    struct tally all = { 0 }, half[2] = { 0 };
    assert_true(isnan(tally_mean(&all)) && isnan(tally_std(&all)));
    for (int i = 0; i < 1000; i++) {
        const double x = 1e9 + (i % 2);
        tally_add(&all, x);
        tally_add(&half[i >= 300], x);
    }
    assert_float_equal(tally_mean(&all), 1e9 + 0.5, 1e-6);
    assert_float_equal(tally_std(&all), 0.5, 1e-6);
    tally_merge(&half[0], &half[1]);
    tally_merge(&half[0], &(struct tally){ 0 });
    assert_int_equal(half[0].count, 1000);
    assert_float_equal(tally_mean(&half[0]), 1e9 + 0.5, 1e-6);
    assert_float_equal(tally_std(&half[0]), 0.5, 1e-6);
}

static void deviations_over_samples(void **state)
{
    struct results_mean m = { 0 };
    struct results mean = { 0 };
    for (int i = 0; i < 4; i++) {
        struct results r = { 0 };
        struct result_table *t = results_table(&r, "t", "key|a|b");
        // One sample lacks this row, so that the later rows' positions differ.
        if (i) result_row(t, "early")[0] = i;
        result_row(t, "x")[0] = 1e9 + (i % 2);
        if (i == 2) t->rows[1].value[1] = 7;
        results_mean_add(&m, &r);
        results_release(&r);
    }
    results_mean_take(&m, &mean);
    assert_float_equal(*results_value(&mean, "t", "x", "a"), 1e9 + 0.5, 1e-6);
    assert_float_equal(*results_value(&mean, "t.std", "x", "a"), 0.5, 1e-6);
    assert_float_equal(*results_value(&mean, "t", "early", "a"), 2, 1e-12);
    assert_float_equal(*results_value(&mean, "t.std", "early", "a"), sqrt(2.0 / 3), 1e-12);
    assert_float_equal(*results_value(&mean, "t", "x", "b"), 7, 1e-12);
    assert_true(*results_value(&mean, "t.std", "x", "b") == 0);
    assert_true(isnan(*results_value(&mean, "t", "early", "b")));
    results_release(&mean);
}

// Expected values are those of scipy.stats.t.
static void students_t(void **state)
{
    static const struct {
        double t, freedom, p;
    } cases[] = { { 0, 3, 1 },
                  { 2, 10, 0.07338803477074039 },
                  { -2, 10, 0.07338803477074039 },
                  { 12.706204736, 1, 0.05 },
                  { 6, 4, 0.003882537046960512 },
                  { 1.959963984540054, 1e7, 0.05000000 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_float_equal(student_p(cases[i].t, cases[i].freedom), cases[i].p, 1e-7);
    assert_true(student_p(30, 100) < 1e-50 && student_p(30, 100) > 1e-55);
    assert_true(isnan(student_p(NAN, 3)) && isnan(student_p(1, 0)));
    struct tally t = { 0 };
    double low, high;
    for (int i = 1; i <= 3; i++) {
        tally_interval(&t, &low, &high);
        assert_true(i > 2 || isnan(low));
        tally_add(&t, i);
    }
    tally_interval(&t, &low, &high); // 2 +- 4.30265 / sqrt(3)
    assert_float_equal(low, 2 - 2.484137711, 1e-8);
    assert_float_equal(high, 2 + 2.484137711, 1e-8);
}

static void spread_of_weights(void **state)
{
    const float numbers[] = { 8388608, -8388609, -8388608, 8388609 }; // 2^23 and its neighbour
    struct arena arena = { .backend = test_device() };
    struct adapter a = { .arena = &arena };
    void *data = arena_alloc(&arena, sizeof numbers);
    assert_non_null(data);
    test_device()->upload(data, numbers, sizeof numbers);
    const struct tensor t = { .data = data, .dtype = DTYPE_F32, .rank = 2, .shape = { 2, 2 } };
    const struct adapter_numbers n = adapter_measure(&a, &t);
    assert_float_equal(n.magnitude, 8388608.5, 1e-6);
    assert_float_equal(n.spread, 0.5, 1e-6);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deviations_of_large_numbers),
        cmocka_unit_test(deviations_over_samples),
        cmocka_unit_test(students_t),
        cmocka_unit_test(spread_of_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
