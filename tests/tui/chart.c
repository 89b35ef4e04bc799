// tests/tui/chart.c -- tui/chart.c: round numbers on both axes, percentages, marks, curves beyond
// the range, crowds of points; the numbers of core/base/text.h.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/text.h"
#include "tests/core/quick.h"
#include "tui/chart.h"

static char *draw(bool percent, double max, double mark)
{
    static const double y[] = { 0, 0.25, 0.5, 0.75, 1 };
    struct canvas c = { .ascii = true };
    struct buf text = { 0 };
    canvas_resize(&c, 7, 26);
    const struct chart chart =
        chart_begin_as(&c, (struct area){ 0, 0, 26, 7 }, 0, 4, 0, max, percent);
    chart_line(&chart, STYLE_CURVE1, NULL, y, 5);
    chart_mark(&chart, STYLE_FOCUS, mark);
    canvas_write(&c, &text);
    canvas_release(&c);
    return buf_take(&text);
}

static void axes_have_round_numbers(void **state)
{
    char *text = draw(true, 1, 2);
    assert_string_equal(text, "100%+          :      ****\n"
                              "    |          :   ****\n"
                              " 50%+          :***\n"
                              "    |      *****\n"
                              "    |   ****   :\n"
                              "  0%+***       :\n"
                              "     0    1    2    3    4\n");
    free(text);
}

static void curves_run_along_the_edge(void **state)
{
    char *text = draw(false, 0.5, -1);
    char *first = strtok(text, "\n");
    assert_int_equal(strspn(strchr(first, '*'), "*"), strlen(strchr(first, '*')));
    free(text);
}

static void check(double value, bool percent, const char *expected)
{
    char text[32];
    text_number(text, value, percent);
    assert_string_equal(text, expected);
}

static void numbers_have_three_digits(void **state)
{
    check(0.393302, true, "39.3%");
    check(0.85, true, "85%");
    check(0.000259, true, "0.0259%");
    check(0.0258972, false, "0.0259");
    check(1234.5, false, "1234");
    check(-999.7, false, "-1000");
    check(12345678, false, "1.23e+07");
    check(0, false, "0");
}

// A noisy curve of very many points becomes a thin line of means with faint dots around it, in
// ASCII characters too.
static void crowds_become_thin_lines(void **state)
{
    enum { COUNT = 8000 };
    double *x = xcalloc(COUNT, sizeof *x), *y = xcalloc(COUNT, sizeof *y);
    for (int i = 0; i < COUNT; i++) {
        x[i] = i;
        y[i] = 0.5 + (i % 2 ? 0.4 : -0.4);
    }
    for (int ascii = 0; ascii < 2; ascii++) {
        struct canvas c = { .ascii = ascii };
        const struct area all = { 0, 0, 50, 21 };
        int line = 0, faint = 0;
        canvas_resize(&c, 21, 50);
        canvas_fill(&c, all, STYLE_TEXT, ' ');
        const struct chart chart = chart_begin(&c, all, 0, COUNT - 1, 0, 1);
        chart_crowd(&chart, STYLE_CURVE1, x, y, COUNT);
        for (int v = 0; v < chart.area.height; v++)
            for (int u = 0; u < chart.area.width; u++) {
                const struct cell *cell = canvas_at(&c, chart.area.x + u, chart.area.y + v);
                line += cell->style == STYLE_CURVE1;
                faint += cell->style == STYLE_GHOST;
                if (cell->style == STYLE_CURVE1) assert_in_range(v, 9, 10);
            }
        assert_in_range(line, chart.area.width - 2, 2 * chart.area.width);
        assert_in_range(faint, 12 * chart.area.width, 17 * chart.area.width);
        canvas_release(&c);
    }
    free(x);
    free(y);
}

// Ranges beyond the largest number; drawing them point by point would take minutes.
static void huge_ranges_are_drawn(void **state)
{
    const clock_t since = clock();
    static const double y[] = { -1e308, 1e308, 0, NAN };
    const struct area all = { 0, 0, 40, 12 };
    struct canvas c = { .ascii = true };
    struct buf text = { 0 };
    canvas_resize(&c, 12, 40);
    const struct chart chart = chart_begin(&c, all, 0, 3, -1e308, 1e308);
    for (int i = 0; i < 100; i++) chart_line(&chart, STYLE_CURVE1, NULL, y, 4);
    chart_mark(&chart, STYLE_FOCUS, NAN);
    canvas_write(&c, &text);
    assert_non_null(strchr(text.data, '*'));
    assert_null(strchr(text.data, ':'));
    buf_clear(&text);
    canvas_fill(&c, all, STYLE_TEXT, ' ');
    chart_begin(&c, all, -1e308, 1e308, 0, 1);
    canvas_write(&c, &text);
    assert_non_null(strstr(text.data, "1e+308"));
    buf_release(&text);
    canvas_release(&c);
    assert_true(processor_seconds(since) < QUICK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_have_round_numbers),   cmocka_unit_test(curves_run_along_the_edge),
        cmocka_unit_test(numbers_have_three_digits), cmocka_unit_test(crowds_become_thin_lines),
        cmocka_unit_test(huge_ranges_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
