// tests/tui/wrap.c -- tui/wrap.c and canvas.c: word wrap, widths of characters, cells.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "tui/canvas.h"
#include "tui/wrap.h"

// Expects these lines, joined by "|".
static void expect_lines(const char *text, int width, const char *lines)
{
    struct buf b = { 0 };
    struct wrap w = wrap_begin(text, width);
    int count = 0;
    for (; wrap_next(&w); count++) {
        if (count) buf_putc(&b, '|');
        buf_add(&b, w.line, w.length);
    }
    assert_string_equal(b.data ? b.data : "", lines);
    assert_int_equal(wrap_count(text, width), count);
    buf_release(&b);
}

static void test_words(void **state)
{
    expect_lines("", 10, "");
    expect_lines("one two three", 7, "one two|three");
    expect_lines("one two three", 8, "one two |three");
    expect_lines("abcdefgh", 3, "abc|def|gh");
    expect_lines("a\n\nb\n", 5, "a||b|");
    expect_lines("well-known", 6, "well-|known");
    expect_lines("use --data-file x", 8,
                 // Words stay whole, or break at the edge if they are too long.
                 "use |--data-f|ile x");
    expect_lines("see scene-1.png", 12, "see |scene-1.png");
    expect_lines("see /a-b/c-d.png", 13, "see |/a-b/c-d.png");
    expect_lines("a (well-known) one", 8, "a (well-|known) |one");
    expect_lines("2026-11-25-what is", 16, "2026-11-25-what |is");
    expect_lines("press Ctrl-C twice", 11, "press |Ctrl-C |twice");
    expect_lines("press Ctrl-C twice", 12, "press Ctrl-C|twice");
    expect_lines("loaded, 0.13 s", 12, "loaded, |0.13 s");
    expect_lines("took 0.13 s", 10, "took |0.13 s");
    expect_lines("took 13 sheep", 8, "took 13 |sheep");
    expect_lines("end   ", 3, "end");
    expect_lines("a b", 0, "a|b"); // at least one column
}

// An overlong word breaks at the edge, not after its hyphens.
static void test_long(void **state)
{
    struct buf b = { 0 };
    for (int i = 0; i < 40; i++) buf_puts(&b, "a-");
    buf_puts(&b, "a");
    expect_lines(b.data, 40,
                 "a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-|"
                 "a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-|a");
    buf_clear(&b);
    for (int i = 0; i < 27; i++) buf_puts(&b, "aa-");
    buf_puts(&b, "aa");
    struct wrap w = wrap_begin(b.data, 41);
    assert_true(wrap_next(&w));
    assert_int_equal(w.length, 41);  // "aa-" x 13 and "aa"
    w = wrap_begin(b.data + 21, 41); // the word has 62 letters
    assert_true(wrap_next(&w));
    assert_int_equal(w.length, 39);
    buf_release(&b);
}

static void test_wide(void **state)
{
    // Ideographs are two wide, and a line may end between any two.
    expect_lines("\xe7\x8c\xab\xe7\x8c\xab\xe7\x8c\xab", 4,
                 "\xe7\x8c\xab\xe7\x8c\xab|\xe7\x8c\xab");
    expect_lines("\xe7\x8c\xab\xe7\x8c\xab", 3, "\xe7\x8c\xab|\xe7\x8c\xab");
    expect_lines("e\xcc\x81"
                 "a",
                 2,
                 "e\xcc\x81"
                 "a"); // the accent takes no cell
    expect_lines("\xf0\x9f\x98\x80!", 3, "\xf0\x9f\x98\x80!");
    expect_lines("\xff\xfe", 1, "\xff|\xfe"); // invalid bytes are one column wide each
}

static void test_code(void **state)
{
    struct wrap w = wrap_begin("text\n```\n  a  b\n```\nmore", 20);
    const bool code[] = { false, true, true, true, false };
    for (int i = 0; i < 5; i++) {
        assert_true(wrap_next(&w));
        assert_int_equal(w.code, code[i]);
    }
    assert_false(wrap_next(&w));
    // A list item may indent its fence; backticks that close on their line are no fence.
    static const struct {
        const char *line;
        bool code, fenced;
    } lines[] = { { "- item", false, false },
                  { "  ```c", true, true },
                  { "a long line", true, true },
                  { "  ```", true, false },
                  { "```x``` is text", false, false },
                  { "``", false, false },
                  { "  \tx", true, false },
                  { "", false, false } };
    bool fenced = false;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(wrap_is_code(lines[i].line, strlen(lines[i].line), &fenced),
                         lines[i].code);
        assert_int_equal(fenced, lines[i].fenced);
    }
    expect_lines(" ```\na bcd\n ```\na bcd", 4, " ```|a bc|d| ```|a |bcd");
    expect_lines("    a b c d", 7, "    a b| c d"); // spaces are kept, cut at the edge
}

static void expect_canvas(const struct canvas *c, const char *text)
{
    struct buf b = { 0 };
    canvas_write(c, &b);
    assert_string_equal(b.data, text);
    buf_release(&b);
}

static void test_canvas(void **state)
{
    struct canvas c = { 0 };
    canvas_resize(&c, 2, 6);
    const struct area all = { 0, 0, 6, 2 }, right = { 4, 0, 2, 1 };
    assert_int_equal(canvas_text(&c, all, 0, 0, STYLE_TEXT, "a\xe7\x8c\xab"), 3);
    canvas_text(&c, right, 0, 0, STYLE_TEXT, "xyz"); // no further than its area
    expect_canvas(&c, "a\xe7\x8c\xab xy\n\n");
    canvas_put(&c, all, 2, 0, STYLE_TEXT, '-'); // overwrites the second half of the wide character
    expect_canvas(&c, "a - xy\n\n");
    // Half of the character would be outside.
    canvas_text(&c, all, 5, 1, STYLE_TEXT, "\xe7\x8c\xab");
    expect_canvas(&c, "a - xy\n\n");
    canvas_text(&c, all, 0, 1, STYLE_TEXT, "\033[1m");
    expect_canvas(&c, "a - xy\n^[[1m\n");
    canvas_text(&c, all, -1, 1, STYLE_TEXT, "\xe7\x8c\xab"); // begins left of the area
    canvas_text(&c, all, 0, -1, STYLE_TEXT, "no");
    canvas_text(&c, all, 0, 7, STYLE_TEXT, "no");
    canvas_release(&c);
}

static void test_tiny(void **state)
{
    struct canvas c = { 0 };
    for (int lines = 0; lines < 4; lines++)
        for (int columns = 0; columns < 8; columns++) {
            canvas_resize(&c, lines, columns);
            const struct area all = { 0, 0, c.columns, c.lines };
            const struct area inner = canvas_box(&c, all, "title", true);
            canvas_bar(&c, all, 0, 0, 20, 0.0 / 0.0);
            canvas_fill(&c, inner, STYLE_TEXT, 'x');
        }
    canvas_release(&c);
}

// A frame shows those words that fit completely.
static void test_foot(void **state)
{
    static const char *const feet[] = { "", " Esc: back ", " Esc: back  o: view ",
                                        " Esc: back  o: view  k: kind " };
    static const int least[] = { 0, 15, 24, 33 }; // number of columns from which each word fits
    for (int columns = 5; columns < 40; columns++) {
        struct canvas c = { 0 };
        canvas_resize(&c, 1, columns);
        canvas_foot(&c, (struct area){ 0, 0, columns, 1 }, "Esc: back  o: view  k: kind");
        int which = 3;
        while (columns < least[which]) which--;
        char *line = xasprintf("%s%s", which ? "  " : "", feet[which]);
        for (size_t n = strlen(line); n && line[n - 1] == ' ';) line[--n] = '\0';
        char *all = xasprintf("%s\n", line);
        expect_canvas(&c, all);
        free(all);
        free(line);
        canvas_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foot), cmocka_unit_test(test_words),  cmocka_unit_test(test_wide),
        cmocka_unit_test(test_code), cmocka_unit_test(test_canvas), cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
