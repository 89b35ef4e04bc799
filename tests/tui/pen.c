// tests/tui/pen.c -- tui/pen.c: every style of every theme is readable if both colours are known.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

// Returns the contrast on terminals that brighten bold text in the first eight colours (as xterm
// does).
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
        for (int k = 0; k < 4; k++)
            for (int style = 0; style < STYLE_COUNT; style++) {
                const struct cell cell = { .code = 'x', .style = (uint8_t)style, .width = 1 };
                const struct pen pen = pen_of(theme, &cell, colours[k], false);
                if (pen.ink < 0 || pen.paper < 0) continue;
                if (pen_contrast(pen) < 4.5)
                    fail_msg("%s, style %d, %d colours: %d on %d: %.1f", theme->name, style,
                             colours[k], pen.ink, pen.paper, pen_contrast(pen));
            }
    }
}

// Checks the contrast of styles without a paper of their own; frames (STYLE_BORDER) and curves of
// earlier runs (STYLE_GHOST), which are no text, may be fainter.
static void check_background(const char *name, uint32_t paper, int colours)
{
    const struct theme *theme = theme_find(name);
    for (int style = 0; style < STYLE_COUNT; style++) {
        const struct cell cell = { .code = 'x', .style = (uint8_t)style, .width = 1 };
        const struct pen pen = pen_of(theme, &cell, colours, false);
        const double least = style == STYLE_BORDER || style == STYLE_GHOST ? 3 : 4.5;
        if (pen.paper >= 0 || pen.ink < 0) {
            assert_true(pen.paper < 0 || pen.ink >= 0);
            continue;
        }
        if (contrast(colour_of(pen.ink), paper) < least)
            fail_msg("%s, style %d, %d colours: %d on %06x: %.2f", theme->name, style, colours,
                     pen.ink, paper, contrast(colour_of(pen.ink), paper));
    }
}

static void test_background(void **state)
{
    static const int colours[] = { 16, 88, 256 };
    for (int k = 0; k < 3; k++) {
        check_background("default", 0xffffff, colours[k]);
        check_background("default", 0, colours[k]);
        check_background("light", 0xffffff, colours[k]);
        check_background("dark", 0, colours[k]);
    }
    check_background("dark", 0x1e1e1e, 256);
}

// With 16 colours, hues remain where a readable one exists.
static void test_sixteen(void **state)
{
    const struct cell error = { .style = STYLE_ERROR }, title = { .style = STYLE_TITLE },
                      dim = { .style = STYLE_DIM };
    const struct theme *light = theme_find("light"), *dark = theme_find("dark");
    assert_int_equal(pen_of(light, &error, 16, false).ink, 1);
    assert_int_equal(pen_of(light, &title, 16, false).ink, 4);
    assert_int_equal(pen_of(light, &dim, 16, false).ink, 0);
    assert_int_equal(pen_of(dark, &error, 16, false).ink, 9);
    assert_int_equal(pen_of(dark, &title, 16, false).ink, 6);
    assert_int_equal(pen_of(dark, &dim, 16, false).ink, 8);
    assert_int_equal(pen_of(theme_find("default"), &title, 16, false).ink, COLOUR_DEFAULT);
}

// Every style of `contrast` has its own ink and paper, outside the colours that schemes change.
static void test_contrast(void **state)
{
    const struct theme *theme = theme_find("contrast");
    for (int style = 0; style < STYLE_COUNT; style++) {
        const struct look *look = theme_look(theme, (enum style)style);
        assert_true(look->ink >= 16 && look->paper >= 16);
        if (contrast(colour_of(look->ink), colour_of(look->paper)) < 4.5)
            fail_msg("style %d: %d on %d", style, look->ink, look->paper);
    }
}

// The default theme follows the background that the terminal reports; the others stay.
static void test_follows_background(void **state)
{
    const struct theme *theme = theme_find("default");
    assert_string_equal(theme_on(theme, -1)->name, "default");
    assert_string_equal(theme_on(theme, 0)->name, "dark");
    assert_string_equal(theme_on(theme, 0x002b36)->name, "dark");
    assert_string_equal(theme_on(theme, 0xfdf6e3)->name, "light");
    assert_string_equal(theme_on(theme_find("contrast"), 0xffffff)->name, "contrast");
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
        cmocka_unit_test(test_contrast), cmocka_unit_test(test_follows_background),
        cmocka_unit_test(test_eight),    cmocka_unit_test(test_none),
        cmocka_unit_test(test_own),      cmocka_unit_test(test_sixteen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
