// tests/tui/pen.c -- tui/pen.c: every style of every theme is readable if both colours are known.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tui/pen.h"

// --- contrast (WCAG 2.1: relative luminance, contrast ratio) -------------------------------------

static double luminance(uint32_t rgb)
{
    static const double shares[] = { 0.0722, 0.7152, 0.2126 };
    double sum = 0;
    for (int k = 0; k < 3; k++) {
        const double v = (rgb >> (8 * k) & 255) / 255.0;
        sum += shares[k] * (v <= 0.03928 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static double contrast(uint32_t a, uint32_t b)
{
    const double x = luminance(a), y = luminance(b);
    return ((x > y ? x : y) + 0.05) / ((x > y ? y : x) + 0.05);
}

// Contrast on terminals that brighten bold text in the first eight colours (as xterm does).
static double pen_contrast(struct pen pen)
{
    const bool bright = pen.attributes & LOOK_BOLD && pen.ink >= 0 && pen.ink < 8;
    return contrast(colour_of(bright ? pen.ink + 8 : pen.ink), colour_of(pen.paper));
}

static void test_readable(void **state)
{
    static const int colours[] = { 8, 16, 88, 256 };
    for (int i = 0; theme_names[i]; i++) {
        const struct theme *theme = theme_find(theme_names[i]);
        const double least = i == 2 ? 5 : 4; // the theme `contrast`, and the others
        for (int k = 0; k < 4; k++)
            for (int style = 0; style < STYLE_COUNT; style++) {
                const struct cell cell = { .code = 'x', .style = (uint8_t)style, .width = 1 };
                const struct pen pen = pen_of(theme, &cell, colours[k], false);
                if (pen.ink < 0 || pen.paper < 0) continue;
                if (pen_contrast(pen) < least)
                    fail_msg("%s, style %d, %d colours: %d on %d: %.1f", theme->name, style,
                             colours[k], pen.ink, pen.paper, pen_contrast(pen));
            }
    }
}

// On the terminal's own background, black or white; lines may be fainter than text.
static void test_background(void **state)
{
    static const uint32_t papers[] = { 0xffffff, 0 };
    for (int i = 0; i < 2; i++) { // `default` must suit both backgrounds, `light` only white
        const struct theme *theme = theme_find(theme_names[i]);
        for (int style = 0; style < STYLE_COUNT; style++)
            for (int k = 0; k < 2 - i; k++) {
                const struct cell cell = { .code = 'x', .style = (uint8_t)style, .width = 1 };
                const struct pen pen = pen_of(theme, &cell, 256, false);
                if (style == STYLE_BORDER || style == STYLE_GHOST) continue;
                if (pen.paper >= 0 || pen.ink < 0) {
                    assert_true(pen.paper < 0 || pen.ink >= 0);
                    continue;
                }
                if (contrast(colour_of(pen.ink), papers[k]) < 3.7)
                    fail_msg("%s, style %d: %d on %06x: %.1f", theme->name, style, pen.ink,
                             papers[k], contrast(colour_of(pen.ink), papers[k]));
            }
    }
}

// With eight colours, hues stay, and greys become the terminal's default.
static void test_eight(void **state)
{
    const struct theme *theme = theme_find("default");
    const struct cell title = { .style = STYLE_TITLE }, dim = { .style = STYLE_DIM },
                      prompt = { .style = STYLE_PROMPT }, error = { .style = STYLE_ERROR },
                      status = { .style = STYLE_STATUS };
    assert_int_equal(pen_of(theme, &title, 8, false).ink, 6);
    assert_int_equal(pen_of(theme, &prompt, 8, false).ink, 2);
    assert_int_equal(pen_of(theme, &error, 8, false).ink, 1);
    assert_int_equal(pen_of(theme, &dim, 8, false).ink, COLOUR_DEFAULT);
    assert_true(pen_of(theme, &status, 8, false).attributes & LOOK_REVERSE);
}

// Without colours the theme `contrast` has no faint text.
static void test_none(void **state)
{
    const struct cell notice = { .style = STYLE_NOTICE }, match = { .style = STYLE_MATCH };
    assert_true(pen_of(theme_find("default"), &notice, 0, false).attributes & LOOK_DIM);
    assert_false(pen_of(theme_find("contrast"), &notice, 0, false).attributes & LOOK_DIM);
    assert_true(pen_of(theme_find("contrast"), &match, 0, false).attributes & LOOK_REVERSE);
}

static void test_own(void **state)
{
    const struct theme *theme = theme_find("default");
    const struct cell cell = { .ink = CELL_RGB, .paper = CELL_RGB | 0x102030 };
    struct pen pen = pen_of(theme, &cell, 256, true);
    assert_int_equal(pen.ink, CELL_RGB);
    assert_int_equal(pen.paper, CELL_RGB | 0x102030);
    pen = pen_of(theme, &cell, 256, false);
    assert_int_equal(pen.ink, 16);
    assert_in_range(pen.paper, 16, 255);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readable), cmocka_unit_test(test_background),
        cmocka_unit_test(test_eight),    cmocka_unit_test(test_none),
        cmocka_unit_test(test_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
