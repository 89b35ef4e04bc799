// tests/core/draw/plot.c -- core/draw/plot.c: numbers on the axes, positions of curves, intervals
// and bars, gaps, many points, smoothing, means of repetitions.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/draw/plot.h"
#include "tests/core/quick.h"

static void check_ticks(double min, double max, int most, const char *expected)
{
    double ticks[16];
    char format[16];
    struct buf b = { 0 };
    const int count = plot_ticks(min, max, most, ticks, format);
    for (int i = 0; i < count; i++) {
        char text[64];
        snprintf(text, sizeof text, format, ticks[i]);
        buf_printf(&b, "%s%s", i ? " " : "", text);
    }
    char *got = buf_take(&b);
    assert_string_equal(got, expected);
    free(got);
}

static void axes_have_round_numbers(void **state)
{
    check_ticks(0, 100, 6, "0 20 40 60 80 100");
    check_ticks(0, 100, 5, "0 50 100");
    check_ticks(0.43, 3.31, 6, "0.5 1.0 1.5 2.0 2.5 3.0");
    check_ticks(-1, 1, 5, "-1.0 -0.5 0.0 0.5 1.0");
    check_ticks(0, 2e-5, 5, "0 5e-06 1e-05 1.5e-05 2e-05");
    check_ticks(1e9, 1.0002e9, 3, "1e+09 1.0001e+09 1.0002e+09");
}

// Width 30 and height 4 are the smallest allowed.
static void curves_are_drawn_where_they_belong(void **state)
{
    double x[] = { 0, 1, 2, 3 }, y[] = { 0, 1, 2, 3 }, z[] = { 3, NAN, 0, 0 };
    const struct plot_line lines[] = { { .name = "up", .x = x, .y = y, .count = 4 },
                                       { .name = "down", .x = x, .y = z, .count = 4 } };
    struct buf b = { 0 };
    plot_text(&b, NULL, lines, 2, 30, 4);
    char *rows[16] = { 0 }, *rest = NULL;
    int count = 0;
    for (char *row = strtok_r(b.data, "\n", &rest); row; row = strtok_r(NULL, "\n", &rest))
        rows[count++] = row;
    assert_int_equal(count, 7);
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): there are seven
    const char *axis = strchr(rows[4], '+') + 1;
    const size_t left = (size_t)(axis - rows[4]), w = strlen(axis);
    assert_int_equal(rows[3][left], '*');
    assert_int_equal(rows[0][left + w - 1], '*');
    assert_int_equal(rows[0][left], 'o'); // a gap follows
    assert_int_equal(rows[3][left + w - 1], 'o');
    assert_null(strchr(rows[1], 'o'));
    assert_non_null(strstr(rows[6], "* up   o down"));
    for (int i = 0; i < 4; i++) assert_true(strlen(rows[i]) <= 30);
    buf_release(&b);
}

// An interval is a vertical line through the mark of its point; after a bar, it is written in
// numbers.
static void intervals_are_drawn_around_points(void **state)
{
    double x[] = { 0, 1, 9 }, y[] = { 2, 3, NAN }, low[] = { 1, NAN, 1 }, high[] = { 4, 3, 9 };
    const struct plot_line line = {
        .name = "v", .x = x, .y = y, .low = low, .high = high, .count = 2
    };
    const char *const names[] = { "a", "b" };
    struct buf b = { 0 };
    plot_text(&b, NULL, &line, 1, 40, 7);
    // The rows are at 4, 3.5, ... 1; the first point is beside the axis.
    char *rest = NULL, *row = strtok_r(b.data, "\n", &rest);
    for (int i = 0; i < 7; i++, row = strtok_r(NULL, "\n", &rest)) {
        assert_non_null(row);
        // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): there is a row
        const char *axis = row + strcspn(row, "|+");
        assert_int_equal(axis[1], i == 4 ? '*' : '|');
        assert_null(strchr(axis + 2, '|')); // the second point has no interval
    }
    buf_clear(&b);
    plot_text(&b, &(struct plot_axes){ .names = names, .name_count = 2 }, &line, 1, 60, 7);
    assert_non_null(strstr(b.data, " (1 to 4)\n"));
    assert_null(strstr(b.data, "nan"));
    buf_release(&b);
}

static void odd_curves_do_no_harm(void **state)
{
    double x[] = { 5, 5, INFINITY }, y[] = { 1e308, -1e308, NAN }, same[] = { 2, 2, 2 };
    const struct plot_line lines[] = { { .name = "wild", .x = x, .y = y, .count = 3 },
                                       { .name = "none", .x = x, .y = y, .count = 0 },
                                       { .name = "", .x = x, .y = same, .count = 2 } };
    for (size_t i = 0; i < 3; i++) {
        struct buf b = { 0 };
        plot_text(&b, NULL, &lines[i], 1, 0, 0);
        assert_true(b.length > 100);
        buf_release(&b);
    }
}

static void bars_have_names_and_axes_may_be_logarithmic(void **state)
{
    static const char *const names[] = { "left", "right" };
    const struct plot_axes bars = { .names = names, .name_count = 2 }, logs = { .log_x = true };
    double x[] = { 0, 1 }, y[] = { 2, 4 }, tens[] = { 1, 10, 0, 100 }, up[] = { 1, 2, 9, 3 };
    const struct plot_line of[] = { { .name = "a", .x = x, .y = y, .count = 2 },
                                    { .name = "up", .x = tens, .y = up, .count = 4 } };
    struct buf b = { 0 };
    plot_text(&b, &bars, of, 1, 60, 4);
    const char *left = strstr(b.data, " left"), *right = strstr(b.data, "right");
    assert_non_null(left);
    assert_non_null(right);
    const long short_bar = (long)strspn(strchr(left, '*'), "*");
    const long long_bar = (long)strspn(strchr(right, '*'), "*");
    assert_true(short_bar > 5 && labs(long_bar - 2 * short_bar) <= 1);
    buf_clear(&b);
    // 10 is half-way between 1 and 100; 0 is not drawn.
    plot_text(&b, &logs, &of[1], 1, 60, 8);
    char *line = b.data;
    for (int i = 0; i < 9; i++) line = strchr(line, '\n') + 1;
    const char *one = strchr(line, '1'), *ten = strstr(line, " 10"), *hundred = strstr(line, "100");
    assert_non_null(hundred);
    assert_true(labs((hundred - ten) - (ten - one)) <= 3);
    buf_release(&b);
}

// The axis contains neither a power of ten (it reaches from 13 to 17) nor 2 or 5 times one.
static void narrow_logarithmic_axes_have_numbers(void **state)
{
    double x[] = { 0, 1, 2 }, y[] = { 13, 15, 17 };
    const struct plot_line line = { .name = "a", .x = x, .y = y, .count = 3 };
    const struct plot_axes logs = { .log_y = true };
    struct buf b = { 0 };
    plot_text(&b, &logs, &line, 1, 60, 12);
    assert_non_null(strstr(b.data, "14 +"));
    assert_non_null(strstr(b.data, "16 +"));
    buf_clear(&b);
    plot_text(&b, NULL, &line, 1, 60, 200); // more lines than an axis has numbers
    assert_non_null(strstr(b.data, "15.0 +"));
    buf_release(&b);
}

// A curve that falls from 10 to 1 with noise of +-0.5, a spike and a gap, with far more points than
// columns: one mark per column along the mean, dots around it, the spike in the band, and the gap
// stays open.
static void many_points_are_drawn_as_mean_and_band(void **state)
{
    enum { COUNT = 20000 };
    double *x = xcalloc(COUNT, sizeof *x), *y = xcalloc(COUNT, sizeof *y);
    for (int i = 0; i < COUNT; i++) {
        x[i] = i + 1;
        y[i] = 10 - 9.0 * i / COUNT + (i % 2 ? 0.5 : -0.5);
        if (i >= 12000 && i < 14000) y[i] = NAN;
    }
    y[8000] = 30;
    const struct plot_line line = { .name = "loss", .x = x, .y = y, .count = COUNT };
    struct plot_bins b;
    assert_true(plot_bin(&b, &line, false, 1, COUNT, 100));
    assert_int_equal(b.count, 100);
    for (size_t i = 0; i < b.count; i++) {
        if (isnan(b.mean[i])) continue;
        const bool spike = b.most[i] == 30;
        assert_true(fabs(b.mean[i] - (10 - 9 * b.x[i] / COUNT)) < (spike ? 0.2 : 0.02));
        assert_true(b.least[i] < b.mean[i] - 0.4 && b.most[i] > b.mean[i] + 0.4);
        assert_true(b.x[i] < 12050 || b.x[i] > 13950);
    }
    plot_bins_release(&b);
    struct buf text = { 0 };
    plot_text(&text, NULL, &line, 1, 80, 18);
    const char *axis = strstr(text.data, "+---");
    assert_non_null(axis);
    int marks = 0, faint = 0;
    for (const char *p = text.data; p < axis; p++) marks += *p == '*', faint += *p == '.';
    assert_in_range(marks, 55, 80); // one per column, except in the gap
    assert_in_range(faint, 60, 400);
    buf_release(&text);
    // Lines of few points, of unjoined points, and with decreasing x stay unchanged.
    struct plot_line other = { .name = "", .x = x, .y = y, .count = 150 };
    assert_false(plot_bin(&b, &other, false, 1, COUNT, 100));
    other = line;
    other.points = true;
    assert_false(plot_bin(&b, &other, false, 1, COUNT, 100));
    x[500] = 1;
    assert_false(plot_bin(&b, &line, false, 1, COUNT, 100));
    free(x);
    free(y);
}

static void smoothing_skips_gaps(void **state)
{
    double y[] = { 1, 2, NAN, 4, 5 };
    plot_smooth(y, 5, 3);
    assert_true(y[0] == 1.5 && y[1] == 1.5 && isnan(y[2]) && y[3] == 4.5 && y[4] == 4.5);
    double even[] = { 1, 2, 4, 8 }; // the value before, and the value itself
    plot_smooth(even, 4, 2);
    assert_true(even[0] == 1 && even[1] == 1.5 && even[2] == 3 && even[3] == 6);
    plot_smooth(NULL, 0, 3); // a series without points (SAN=1)
}

// Each takes half a minute if the time grows with the window, or with bars times points.
static void many_values_are_smoothed_and_drawn(void **state)
{
    const clock_t since = clock();
    enum { COUNT = 1 << 20, BARS = 10000, EDGE = 300000 };
    double *x = xreallocarray(NULL, COUNT, sizeof *x), *y = xreallocarray(NULL, COUNT, sizeof *y);
    for (int i = 0; i < COUNT; i++) y[i] = i % 8 ? i : NAN;
    plot_smooth(y, COUNT, 2 * EDGE + 1);
    assert_true(isnan(y[8]) && fabs(y[EDGE + 1] - EDGE - 1) < 1 && fabs(y[1] - EDGE / 2) < 5);
    assert_true(fabs(y[COUNT - 1] - (COUNT - EDGE / 2)) < 5);
    char *name = xmalloc(COUNT);
    const char **names = xreallocarray(NULL, BARS, sizeof *names);
    for (int i = 0; i < BARS; i++) names[i] = i ? "a" : name;
    memset(name, 'x', COUNT - 1);
    name[COUNT - 1] = 0;
    for (int i = 0; i < COUNT; i++) x[i] = i < BARS ? i : BARS - 1, y[i] = i % 64 ? NAN : 1;
    const struct plot_line line = { .name = "v", .x = x, .y = y, .count = COUNT };
    struct buf b = { 0 };
    plot_text(&b, &(struct plot_axes){ .names = names, .name_count = BARS }, &line, 1, 60, 7);
    assert_in_range(b.length, COUNT / 64 * 1000L, COUNT / 64 * 1100L); // few wide lines
    buf_release(&b);
    free(names);
    free(name);
    free(x);
    free(y);
    assert_true(processor_seconds(since) < QUICK);
}

static void points_that_cannot_be_drawn_are_counted(void **state)
{
    double x[] = { 0, 1, 2, 3, NAN }, y[] = { 1, 0, -1, 5, 6 };
    const struct plot_line lines[] = { { .x = x, .y = y, .count = 5 },
                                       { .x = x, .y = y, .count = 1 } };
    static const char *const names[] = { "a", "b", "c", "d", "e" };
    const struct plot_axes log_y = { .log_y = true }, both = { .log_x = true, .log_y = true };
    const struct plot_axes bars = { .log_x = true, .names = names, .name_count = 5 };
    size_t lost;
    assert_int_equal(plot_count(NULL, lines, 2, &lost), 5);
    assert_int_equal(lost, 0);
    assert_int_equal(plot_count(&log_y, lines, 2, &lost), 3);
    assert_int_equal(lost, 2);
    assert_int_equal(plot_count(&both, lines, 2, &lost), 1);
    assert_int_equal(lost, 4);
    assert_int_equal(plot_count(&bars, lines, 1, &lost), 4);
    assert_int_equal(lost, 0);
}

// Points with the same x are replaced by their mean with its interval, sorted by x.
static void repetitions_become_means(void **state)
{
    double x[] = { 2, 1, 2, 1, 3, 2, 4 }, y[] = { 1, 5, 2, 5, 7, 3, NAN };
    struct plot_line l = { .x = x, .y = y, .count = 7 };
    plot_mean(&l);
    assert_int_equal(l.count, 3);
    assert_true(l.x[0] == 1 && l.y[0] == 5 && l.low[0] == 5 && l.high[0] == 5);
    assert_true(l.x[1] == 2 && l.y[1] == 2);
    assert_float_equal(l.low[1], 2 - 2.484137711, 1e-8);
    assert_true(l.x[2] == 3 && l.y[2] == 7 && isnan(l.low[2]));
    free(l.low);
    free(l.high);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_have_round_numbers),
        cmocka_unit_test(curves_are_drawn_where_they_belong),
        cmocka_unit_test(intervals_are_drawn_around_points),
        cmocka_unit_test(odd_curves_do_no_harm),
        cmocka_unit_test(bars_have_names_and_axes_may_be_logarithmic),
        cmocka_unit_test(narrow_logarithmic_axes_have_numbers),
        cmocka_unit_test(many_points_are_drawn_as_mean_and_band),
        cmocka_unit_test(smoothing_skips_gaps),
        cmocka_unit_test(many_values_are_smoothed_and_drawn),
        cmocka_unit_test(repetitions_become_means),
        cmocka_unit_test(points_that_cannot_be_drawn_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
