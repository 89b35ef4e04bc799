// tests/core/stages/stages.c -- layers distributed over stages: all of them, in order, and no other
// split has a smaller largest stage; which layers a process has.
#include "core/stages/stages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static double largest(const double *bytes, double first, double last, int count, const int *from)
{
    double most = 0;
    for (int k = 0; k < count; k++) {
        double sum = (k ? 0 : first) + (k == count - 1 ? last : 0);
        for (int l = from[k]; l < from[k + 1]; l++) sum += bytes[l];
        if (sum > most) most = sum;
    }
    return most;
}

// Returns the size of the largest stage in the best split, found by trying all first layers of
// stages k and later; `from` has those of earlier stages.
static double best(const double *bytes, int layers, double first, double last, int count, int *from,
                   int k)
{
    double least = -1;
    from[0] = 0;
    from[count] = layers;
    if (k == count) return largest(bytes, first, last, count, from);
    for (from[k] = from[k - 1] + 1; from[k] <= layers - (count - k); from[k]++) {
        const double one = best(bytes, layers, first, last, count, from, k + 1);
        if (least < 0 || one < least) least = one;
    }
    return least;
}

static void splits_minimise_the_largest_stage(void **state)
{
    unsigned seed = 1;
    for (int round = 0; round < 300; round++) {
        double bytes[9];
        int from[10], other[10];
        const int layers = 1 + rand_r(&seed) % 9, count = 1 + rand_r(&seed) % layers;
        const double first = rand_r(&seed) % 4 * 7, last = rand_r(&seed) % 3 * 5;
        for (int l = 0; l < layers; l++) bytes[l] = 1 + rand_r(&seed) % 9;
        stages_split_layers(bytes, layers, first, last, count, from);
        assert_int_equal(from[0], 0);
        assert_int_equal(from[count], layers);
        for (int k = 0; k < count; k++) assert_true(from[k] < from[k + 1]);
        assert_float_equal(largest(bytes, first, last, count, from),
                           best(bytes, layers, first, last, count, other, 1), 1e-9);
    }
}

// A model in one process is both first and last stage and has all layers; a stage has its own.
static void one_process_has_all_layers(void **state)
{
    struct decoder_part part = { .first_layer = 2, .end_layer = 5 };
    const struct decoder whole = { 0 }, middle = { .part = &part };
    assert_true(decoder_first(&whole) && decoder_last(&whole) && decoder_has(&whole, 7));
    assert_false(decoder_first(&middle) || decoder_last(&middle));
    assert_true(decoder_has(&middle, 2) && decoder_has(&middle, 4));
    assert_false(decoder_has(&middle, 1) || decoder_has(&middle, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(splits_minimise_the_largest_stage),
                                        cmocka_unit_test(one_process_has_all_layers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
