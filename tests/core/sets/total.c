// tests/core/sets/total.c -- core/sets/total.c: totals of small sets against numbers computed
// by hand, MME's against a second implementation; bootstrap samples.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/random.h"
#include "core/metrics/metric.h"
#include "core/sets/total.h"

// --- small sets, by hand -------------------------------------------------------------------------

static void test_totals(void **state)
{
    static const struct set_score mme[] = {
        { "count", "a", 1, -1, 0, 0 },          { "count", "a", 1, -1, 0, 0 },
        { "count", "b", 1, -1, 0, 0 },          { "count", "b", 0, -1, 0, 0 },
        { "code_reasoning", "a", 0, -1, 0, 0 }, { "code_reasoning", "a", 1, -1, 0, 0 },
    };
    static const struct set_score rotated[] = {
        { "x", "1", 1, -1, 0, 0 },
        { "x", "1", 0, -1, 0, 0 },
        { "y", "2", 1, -1, 0, 0 },
        { "y", "2", 1, -1, 0, 0 },
    };
    struct set_number n[SET_NUMBERS];
    double low, high;
    assert_int_equal(set_total_mme.count(&set_total_mme, mme, 6, NULL, n), 3);
    assert_true(fabs(n[0].value - (75 + 50)) < 1e-9);
    assert_true(fabs(n[1].value - 50) < 1e-9);
    set_total_circular.count(&set_total_circular, rotated, 4, NULL, n);
    assert_true(fabs(n[0].value - 0.5) < 1e-9);
    set_total_kinds.count(&set_total_kinds, rotated, 4, NULL, n);
    assert_true(fabs(n[0].value - 0.75) < 1e-9);
    set_total_interval(&set_total_circular, rotated, 4, NULL, &low, &high);
    assert_true(low == 0 && high == 1); // each is the result of a quarter of the draws
    set_total_interval(&set_total_circular, rotated, 2, NULL, &low, &high);
    assert_true(isnan(low) && isnan(high)); // there is only one group
    assert_int_equal(set_total_splits.count(&set_total_splits, rotated, 4, NULL, n), 2);
    assert_string_equal(n[1].name, "2");
    assert_true(n[0].value == 0.5 && n[1].value == 1);
    assert_int_equal(set_total_splits.count(&set_total_splits, rotated, 2, NULL, n),
                     0); // there is only one split
    set_total_interval(&set_total_splits, rotated, 4, NULL, &low, &high);
    assert_true(isnan(low) && isnan(high));
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j" };
    struct set_score many[10];
    for (int i = 0; i < 10; i++) many[i] = (struct set_score){ "x", names[i], i == 9, -1, 0, 0 };
    assert_int_equal(set_total_splits.count(&set_total_splits, many, 10, NULL, n), SET_NUMBERS);
    assert_string_equal(n[SET_NUMBERS - 2].name, "g");
    assert_string_equal(n[SET_NUMBERS - 1].name, "further splits");
    assert_true(fabs(n[SET_NUMBERS - 1].value - 1.0 / 3) < 1e-9);
    // A quarter of the bootstrap samples have only the caption that mentions no object: CHAIRi is
    // undefined.
    static const struct set_score captions[] = { { "", "", 0, 0, 0, 0 },
                                                 { "", "", 1, 4 << 12, 0, 0 } };
    set_total_interval(&set_total_chair, captions, 2, NULL, &low, &high);
    assert_true(isnan(low) && isnan(high));
}

// Bootstrap samples keep the parts of a total: here each number is the same in all samples.
static void test_draws_keep_parts(void **state)
{
    struct set_score splits[40], figures[6];
    static const char *const groups[][2] = {
        { "chart_0_1\nchart_0_1", "chart_0_1\nchart_0_2" },
        { "chart_1_1\nchart_1_1", "chart_1_1\nchart_1_2" },
        { "map_0_1\nmap_0_1", "map_0_1\nmap_0_2" },
    };
    for (int i = 0; i < 40; i++) // the first drawn question may be of either split
        splits[i] = (struct set_score){ "x", i % 2 ? "validation" : "dev", i % 2, -1, 0, 0 };
    for (int i = 0; i < 6; i++) // of two questions about a figure, one is answered right
        figures[i] = (struct set_score){ "VS", groups[i / 2][i % 2], i % 2, -1, 0, 0 };
    const struct {
        const struct set_total *total;
        const struct set_score *scores;
        size_t n;
        double numbers[4];
        int count;
    } cases[] = {
        { &set_total_splits, splits, 40, { 0, 1 }, 2 },
        { &set_total_hallusion, figures, 6, { 50, 0, 50, 100.0 / 3 }, 4 },
    };
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < cases[c].count; i++) {
            double draws[SET_DRAWS];
            assert_true(
                set_total_draws(cases[c].total, cases[c].scores, cases[c].n, 0, NULL, i, draws));
            for (int d = 0; d < SET_DRAWS; d++)
                assert_true(fabs(draws[d] - cases[c].numbers[i]) < 1e-9);
        }
}

// --- MME, computed in a different way ------------------------------------------------------------

enum { MME_KINDS = 14, MME_ROWS = 400 };

// Like MME's calculation.py, which goes category by category and picture by picture, but by
// comparing all rows.
static double mme_category(const struct set_score *s, int n, const char *kind)
{
    double rows = 0, right = 0, pictures = 0, both = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(s[i].kind, kind) != 0) continue;
        int of_picture = 0, right_of_picture = 0;
        bool first = true;
        for (int k = 0; k < n; k++) {
            if (strcmp(s[k].kind, kind) != 0 || strcmp(s[k].group, s[i].group) != 0) continue;
            if (k < i) first = false;
            of_picture++;
            right_of_picture += s[k].score == 1;
        }
        rows++;
        right += s[i].score == 1;
        pictures += first;
        both += first && of_picture == 2 && right_of_picture == 2;
    }
    return rows > 0 ? 100 * right / rows + 100 * both / pictures : 0;
}

static void test_mme_against_second_implementation(void **state)
{
    static const char *const kinds[MME_KINDS] = { "existence",
                                                  "count",
                                                  "position",
                                                  "color",
                                                  "posters",
                                                  "celebrity",
                                                  "scene",
                                                  "landmark",
                                                  "artwork",
                                                  "OCR",
                                                  "commonsense_reasoning",
                                                  "numerical_calculation",
                                                  "text_translation",
                                                  "code_reasoning" };
    static char groups[MME_ROWS][16];
    struct set_score s[MME_ROWS];
    for (uint64_t seed = 0; seed < 50; seed++) {
        const int n = (int)(random_bits(seed, RANDOM_SAMPLE, 1) % MME_ROWS) + 1;
        double want[2] = { 0 };
        // Two rows per picture, but the last picture may have one; several categories have pictures
        // of the same name.
        for (int i = 0; i < n; i++) {
            const int name = i / 2 % 20, again = i / 2 / 20;
            const uint64_t bits = random_bits(seed, RANDOM_SAMPLE, (uint64_t)name + 2);
            snprintf(groups[i], sizeof groups[i], "%d.png", name);
            s[i] = (struct set_score){ .kind = kinds[(bits + (uint64_t)again) % MME_KINDS],
                                       .group = groups[i],
                                       .class = -1 };
            s[i].score = random_unit(seed, RANDOM_SPLIT, (uint64_t)i) < 0.7;
        }
        for (int i = n - 1; i > 0; i--) { // rows in any order
            const int k = (int)(random_bits(seed, RANDOM_SHUFFLE, (uint64_t)i) % (uint64_t)(i + 1));
            const struct set_score row = s[i];
            s[i] = s[k];
            s[k] = row;
        }
        for (int k = 0; k < MME_KINDS; k++) want[k >= 10] += mme_category(s, n, kinds[k]);
        struct set_number got[SET_NUMBERS];
        assert_int_equal(set_total_mme.count(&set_total_mme, s, (size_t)n, NULL, got), 3);
        assert_true(fabs(got[0].value - want[0]) < 1e-6);
        assert_true(fabs(got[1].value - want[1]) < 1e-6);
        assert_true(fabs(got[2].value - want[0] - want[1]) < 1e-6);
    }
}

// POPE's classes: 0 said yes, is yes; 1 said no, is yes; 3 said yes, is no; 4 said no, is no.
static void test_f1(void **state)
{
    static const struct set_score s[] = {
        { "random", "", 1, 0, 0, 0 },         { "random", "", 0, 3, 0, 0 },
        { "random", "", 1, 4, 0, 0 },         { "popular", "", 1, 0, 0, 0 },
        { "random,popular", "", 0, 1, 0, 0 },
    };
    struct set_number n[SET_NUMBERS];
    const struct metric *m = metric_find("pope-llava");
    set_total_f1.count(&set_total_f1, s, 5, m, n);
    // random: 1 hit, 1 false, 1 missed: 1/2; popular: 1 hit, 1 missed: 2/3.
    assert_true(fabs(n[0].value - (0.5 + 2.0 / 3) / 2) < 1e-9);
    set_total_f1_all.count(&set_total_f1_all, s, 5, m, n);
    // 2 hits, 1 false, 2 missed: the miss of two splits counts twice.
    assert_true(fabs(n[0].value - 4.0 / 7) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_draws_keep_parts),
        cmocka_unit_test(test_mme_against_second_implementation),
        cmocka_unit_test(test_f1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
