// tests/tui/flow.c -- tui/flow.c, commands/help_text.c, tui/hints.c: help texts at many widths,
// with unbroken words; words on the screen that name keys.
#include "tui/flow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "commands/command.h"
#include "commands/help_text.h"
#include "tui/hints.h"
#include "tui/text.h"

static void expect(const char *text, int width, const char *lines)
{
    struct flow f = { 0 };
    struct buf b = { 0 };
    flow_add_text(&f, text, width);
    for (size_t i = 0; i < f.count; i++) buf_printf(&b, "%s\n", f.lines[i].text);
    assert_string_equal(b.data ? b.data : "", lines);
    buf_release(&b);
    flow_release(&f);
}

static void test_parts(void **state)
{
    expect("one\ntwo three\n\nfour", 80, "one two three\n\nfour\n");
    expect("one two three four", 9, "one two\nthree\nfour\n");
    expect("--a  first\n     more\n--long X  second\nafter", 60,
           "--a       first more\n--long X  second\n\nafter\n");
    expect("--a  one two\n--data FILE  three four", 14,
           "--a  one two\n--data FILE\n     three\n     four\n");
    expect("text\n    /an example\nmore", 40, "text\n    /an example\nmore\n");
    expect("", 10, "");
}

static char *words_of(const char *text)
{
    struct buf b = { 0 };
    for (; *text; text++)
        if (*text != ' ' && *text != '\n') buf_putc(&b, *text);
    return b.data ? buf_take(&b) : xstrdup("");
}

// True if the line is one word that does not fit, or the rest of such a word; other lines must not
// be wider.
static bool is_long_word(const char *line)
{
    line += strspn(line, " ");
    return !strchr(line, ' ');
}

static void test_commands(void **state)
{
    const struct command *c;
    for (int i = 0; (c = command_at(i)); i++) {
        char *details = command_details(c);
        for (int width = 20; *details && width < 130; width += 7) {
            struct flow f = { 0 };
            struct buf all = { 0 };
            flow_add_text(&f, details, width);
            for (size_t k = 0; k < f.count; k++) {
                const char *line = f.lines[k].text;
                if (text_width(line) > width && !is_long_word(line))
                    fail_msg("/%s at %d: '%s'", c->name, width, line);
                buf_printf(&all, "%s\n", line);
            }
            char *want = words_of(details), *got = words_of(all.data);
            assert_string_equal(got, want);
            free(want);
            free(got);
            buf_release(&all);
            flow_release(&f);
        }
        free(details);
    }
}

// The explanation of an option is an item, not part of a paragraph (except for /plot and
// measurements).
static void test_items(void **state)
{
    const struct command *c;
    for (int i = 0; (c = command_at(i)); i++) {
        struct help_part part;
        char *details = command_details(c);
        for (const char *at = details; help_part_next(&at, &part);) {
            if (part.kind == HELP_PARAGRAPH && !c->probe && !strncmp(part.text, "--", 2) &&
                strcmp(c->name, "plot") != 0)
                fail_msg("/%s: %.60s", c->name, part.text);
            help_part_release(&part);
        }
        free(details);
    }
}

static const char *key_at(const char *line, int x)
{
    static char name[32];
    struct canvas c = { 0 };
    canvas_resize(&c, 1, 80);
    const struct area all = { 0, 0, 80, 1 };
    canvas_text(&c, all, 0, 0, STYLE_STATUS, line);
    assert_false(hint_key(&c, x, 0, name)); // not marked as hints
    canvas_hints(&c, all);
    if (!hint_key(&c, x, 0, name)) name[0] = '\0';
    canvas_release(&c);
    return name;
}

static void test_hints(void **state)
{
    const char status[] = "model cpu  161/2048  28 MB   Ctrl-P find  F1 keys";
    assert_string_equal(key_at(status, 31), "Ctrl-P");
    assert_string_equal(key_at(status, 37), "Ctrl-P");
    assert_string_equal(key_at(status, 46), "F1");
    assert_string_equal(key_at(status, 2), "");
    assert_string_equal(key_at(status, 25), "");
    assert_string_equal(key_at(status, 79), "");
    const char foot[] = "Esc: back  Left Right: token  h: head  [ ]: picture  n N: next, previous";
    assert_string_equal(key_at(foot, 1), "Esc");
    assert_string_equal(key_at(foot, 12), "Left");
    assert_string_equal(key_at(foot, 18), "Right");
    assert_string_equal(key_at(foot, 25), "Right");
    assert_string_equal(key_at(foot, 30), "h");
    assert_string_equal(key_at(foot, 39), "[");
    assert_string_equal(key_at(foot, 41), "]");
    assert_string_equal(key_at(foot, 55), "N");
    assert_string_equal(key_at("12 lines below: PageDown", 3), "PageDown");
    assert_string_equal(key_at("first 0.5 s  the end", 8), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
