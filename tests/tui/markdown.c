// tests/tui/markdown.c -- tui/markdown.c and wrap_begin_marked: rendering an answer's Markdown,
// complete and while the answer grows, and mapping it back to the source.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tui/canvas.h"
#include "tui/markdown.h"
#include "tui/wrap.h"

// Returns the rendered text, with styles other than the answer's as {S:bold}, and wrapped lines
// joined by newlines.
static char *shown(const char *source, int width, unsigned options)
{
    static const char letters[STYLE_COUNT] = {
        [STYLE_STRONG] = 'S', [STYLE_EMPHASIS] = 'E', [STYLE_CODE] = 'C', [STYLE_TITLE] = 'T',
        [STYLE_BORDER] = 'B', [STYLE_KEY] = 'K',      [STYLE_DIM] = 'D',  [STYLE_CHANGED] = 'R',
    };
    struct markdown m = { 0 };
    struct buf b = { 0 };
    markdown_render(&m, source, NULL, 0, width, options);
    const char *text = m.text.data ? m.text.data : "";
    struct wrap w = wrap_begin_marked(text, width);
    for (int line = 0; wrap_next(&w); line++) {
        if (line) buf_putc(&b, '\n');
        for (int i = 0; i < w.indent; i++) buf_putc(&b, ' ');
        for (size_t i = 0; i < w.length; i++) {
            const size_t at = (size_t)(w.line - text) + i;
            const uint8_t style = m.styles[at];
            if (letters[style] && (!i || m.styles[at - 1] != style))
                buf_printf(&b, "{%c:", letters[style]);
            buf_putc(&b, text[at]);
            if (letters[style] && (i + 1 == w.length || m.styles[at + 1] != style))
                buf_putc(&b, '}');
        }
    }
    markdown_release(&m);
    return buf_take(&b);
}

static void expect(const char *source, int width, const char *text)
{
    char *got = shown(source, width, MARKDOWN_ON | MARKDOWN_ASCII);
    assert_string_equal(got, text);
    free(got);
}

static void test_spans(void **state)
{
    expect("a **bold** word", 80, "a {S:bold} word");
    expect("*it* _it_ ***both***", 80, "{E:it} {E:it} {S:both}");
    expect("`**code**` and ``a ` b``", 80, "{C:**code**} and {C:a ` b}");
    expect("**bold with `code`**", 80, "{S:bold with }{C:code}");
    expect("2 * 3 * 4 and a*b", 80, "2 * 3 * 4 and a*b");
    expect("snake_case_name __init__", 80, "snake_case_name {S:init}");
    expect("\\*no\\* \\`tick\\`", 80, "*no* `tick`");
    expect("see [the page](http://x.y/z) now", 80, "see {E:the page} {D:(http://x.y/z)} now");
    expect("[1] (no link) a[i](j k)", 80, "[1] (no link) a[i](j k)");
    // Words and products contain no emphasis; between ideographs, emphasis needs no spaces.
    expect("5*3 and 4*2, 2**3 and 4**2", 80, "5*3 and 4*2, 2**3 and 4**2");
    expect("(a+b)*c*(d)", 80, "(a+b)*c*(d)");
    expect("\xe7\x8c\xab**\xe7\x8c\xab**\xe7\x8c\xab", 80,
           "\xe7\x8c\xab{S:\xe7\x8c\xab}\xe7\x8c\xab");
    // Marks that are not closed (yet) stay as written.
    expect("**bo", 80, "**bo");
    expect("a `co", 80, "a `co");
    expect("*a **b", 80, "*a **b");
}

// Math is shown as written, on one line and over several.
static void test_math(void **state)
{
    static const char *const written[] = {
        "$$x*y*z$$",           "\\(x_1\\) and \\[ *a* \\]",
        "so $*a*$, $$ *b* $$", "\\[\n*a* \\\\\n# b\n\\]",
        "$$\n_a_\n$$",         "\\[ *a*\n*b* \\]",
    };
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        expect(written[i], 80, written[i]);
    expect("$5 *or* $6", 80, "$5 {E:or} $6");
    expect("$5 *or* 6$7", 80, "$5 {E:or} 6$7");
    expect("\\[\n*a*\n\n*b*", 80, "\\[\n*a*\n\n{E:b}"); // an empty line ends math
    expect("$$\na\n$$\n*b*", 80, "$$\na\n$$\n{E:b}");
    expect("\\(*a* \\[*b*", 80, "({E:a} [{E:b}"); // unclosed math
}

// The opening fence decides which line closes it; no other text is hidden.
static void test_fences(void **state)
{
    expect("```x = 1```\nThen *this*", 80, "{C:x = 1}\nThen {E:this}");
    expect("````\n```c\na\n```\n````\nend", 80, "{C:\t```c}\n{C:\ta}\n{C:\t```}\nend");
    expect("~~~\n```\n~~~\nend", 80, "{C:\t```}\nend");
    expect("```\n``` x\n``\n````\nend", 80, "{C:\t``` x}\n{C:\t``}\nend");
    expect("~~~ a`b`\nc\n~~~ \r\nend", 80, "{C:\tc}\nend");
}

static void test_lines(void **state)
{
    expect("# Title\ntext", 80, "{T:Title}\ntext");
    expect("#hashtag", 80, "#hashtag");
    expect("- one\n- two **b**\n  - deep", 80, "{K:* }one\n{K:* }two {S:b}\n  {K:* }deep");
    expect("1. one\n2) two", 80, "1. one\n2) two");
    expect("> said\n---", 6, "{B:| }said\n{B:------}");
    expect("```c\nint a;\n  b\n```\nend", 80, "{C:\tint a;}\n{C:\t  b}\nend");
    expect("```\nopen", 80, "{C:\topen}");
    expect("    deep text", 80, "    deep text"); // not code: nested lists are indented like this
    expect("a\n\nb\n", 80, "a\n\nb");
    expect("", 80, "");
}

// Continuation lines of an item align with its words; ideographs are two cells wide.
static void test_wrapping(void **state)
{
    expect("- one two three", 9, "{K:* }one two\n  three");
    expect("10. one two", 8, "10. one \n    two");
    expect("- \xe7\x8c\xab\xe7\x8c\xab\xe7\x8c\xab", 6,
           "{K:* }\xe7\x8c\xab\xe7\x8c\xab\n  \xe7\x8c\xab");
    expect("use --data scene-1.png", 14, "use --data \nscene-1.png");
}

static void test_tables(void **state)
{
    expect("|a|long **h**|\n|-:|---|\n|12|x|\n| 3 |`y`|\nafter", 80,
           " {T:a}{B: | }{T:long }{S:h}\n{B:---+-------}\n12{B: | }x\n 3{B: | }{C:y}\nafter");
    expect("a | b\n--|--\n1 | 2", 80, "{T:a}{B: | }{T:b}\n{B:--+--}\n1{B: | }2");
    expect("a | b\nno table", 80, "a | b\nno table");
    // A table too wide for columns becomes lines of words.
    expect("|name|text|\n|-|-|\n|x|one two three|", 12,
           "{T:name}{B: | }{T:text}\nx{B: | }one two \nthree");
    // Wide characters take two columns.
    expect("|\xe7\x8c\xab|b|\n|-|-|\n|x|y|", 80,
           "{T:\xe7\x8c\xab}{B: | }{T:b}\n{B:---+--}\nx {B: | }y");
}

// More columns than can be aligned: the lines stay as written, with every column.
static void test_many_columns(void **state)
{
    for (int columns = 24; columns <= 25; columns++) {
        struct buf b = { 0 };
        for (int line = 0; line < 3; line++) {
            for (int i = 0; i < columns; i++) buf_printf(&b, line == 1 ? "|---" : "|c%02d", i);
            buf_puts(&b, "|\n");
        }
        char *got = shown(b.data, 400, MARKDOWN_ON | MARKDOWN_ASCII);
        if (columns == 24) assert_non_null(strstr(got, "\n{B:----"));
        if (columns == 25) assert_memory_equal(got, b.data, b.length - 1);
        free(got);
        buf_release(&b);
    }
}

static void test_off(void **state)
{
    char *got = shown("# **x**\n```\n    y", 80, 0);
    assert_string_equal(got, "# **x**\n```\n    y");
    free(got);
}

// Remarks appear where they were made and belong to no token.
static void test_remarks(void **state)
{
    struct remark remarks[] = { { 6, "ira.on = on" }, { 14, "stopped" } };
    struct markdown m = { 0 };
    size_t first, last;
    for (unsigned options = 0; options <= MARKDOWN_ON; options++) {
        markdown_render(&m, "one **two** th", remarks, 2, 80, options | MARKDOWN_ASCII);
        assert_string_equal(m.text.data, options ? "one <ira.on = on>two th <stopped>"
                                                 : "one **<ira.on = on>two** th <stopped>");
        assert_true(markdown_find(&m, 6, 9, &first, &last));
        assert_memory_equal(m.text.data + first, "two", last - first);
        assert_int_equal(last - first, 3);
    }
    assert_false(markdown_find(&m, 4, 6, &first, &last)); // the stars are not shown
    markdown_release(&m);
}

static const char document[] =
    "# H\n\nSome **bold *and it* x** `code`, [l](u).\n\n1. a\n2. b\n   - "
    "c\n\n|a|b|\n|:-|-:|\n|1|**2**|\n"
    "|3|\n\n```py\nx = '|'\n```\n\\(a*b*c\\) $x_1$\n\\[\ny\n\\]\n> q\n***\n\xe7\x8c\xab "
    "**\xe7\x8c\xab**\n";

// For every prefix of an answer, at several widths: each byte shown has a place in the source, in
// ascending order, and a known style.
static void test_growing(void **state)
{
    for (size_t n = 0; n < sizeof document; n++) {
        char *part = xstrndup(document, n);
        for (int width = 0; width < 30; width += 3) {
            struct markdown m = { 0 };
            markdown_render(&m, part, NULL, 0, width,
                            n % 2 ? MARKDOWN_ON : MARKDOWN_ON | MARKDOWN_ASCII);
            for (size_t i = 0; i < m.text.length; i++) {
                assert_true(m.from[i] <= n && m.styles[i] < STYLE_COUNT);
                assert_true(!i || m.from[i - 1] <= m.from[i]);
            }
            struct wrap w = wrap_begin_marked(m.text.data ? m.text.data : "", width);
            while (wrap_next(&w)) assert_true(w.length <= m.text.length);
            markdown_release(&m);
        }
        free(part);
    }
}

// Escape sequences of an answer stay bytes, which the canvas makes visible.
static void test_untrusted(void **state)
{
    struct canvas c = { 0 };
    struct markdown m = { 0 };
    struct buf b = { 0 };
    markdown_render(&m,
                    "**\033]52;c;eA==\a** `\033[2J` \xc2\x9b"
                    "31m |\033|",
                    NULL, 0, 80, MARKDOWN_ON);
    canvas_resize(&c, 1, 80);
    canvas_text(&c, (struct area){ 0, 0, 80, 1 }, 0, 0, STYLE_ANSWER, m.text.data);
    canvas_write(&c, &b);
    assert_string_equal(b.data, "^[]52;c;eA==^G ^[[2J \xef\xbf\xbd"
                                "31m |^[|\n");
    buf_release(&b);
    markdown_release(&m);
    canvas_release(&c);
}

// 100 KB of unclosed marks: the text stays short, and rendering would be slow if its time were
// quadratic.
static void test_hostile(void **state)
{
    static const char *const pieces[] = { "*a ",  "**",  "_a",       "`",     "[",
                                          "[a](", "|",   "***a**b*", "``a`",  "$a ",
                                          "$$ ",  "\\(", "\\[",      "```\n", "$$\n~~~\n" };
    for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
        struct buf b = { 0 };
        struct markdown m = { 0 };
        while (b.length < 100000) buf_puts(&b, pieces[k]);
        markdown_render(&m, b.data, NULL, 0, 80, MARKDOWN_ON);
        assert_true(m.text.length <= 4 * b.length);
        markdown_release(&m);
        buf_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans),    cmocka_unit_test(test_lines),
        cmocka_unit_test(test_wrapping), cmocka_unit_test(test_tables),
        cmocka_unit_test(test_off),      cmocka_unit_test(test_remarks),
        cmocka_unit_test(test_growing),  cmocka_unit_test(test_untrusted),
        cmocka_unit_test(test_hostile),  cmocka_unit_test(test_math),
        cmocka_unit_test(test_fences),   cmocka_unit_test(test_many_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
