// tests/tui/typed.c -- text typed or pasted at once, as logical lines.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "tui/typed.h"

// Expects all lines of a text, each after a |.
static void expect(const char *text, const char *want)
{
    struct typed typed = { .history = history_open(NULL) };
    struct buf got = { 0 };
    char *line;
    typed_submit(&typed, text);
    while (typed_next(&typed, &line)) {
        buf_printf(&got, "|%s", line);
        free(line);
    }
    assert_string_equal(got.data ? got.data : "", want);
    typed_release(&typed);
    history_close(typed.history);
    buf_release(&got);
}

static void test_pasted_commands(void **state)
{
    expect("/set sample.seed 1\nA question?", "|/set sample.seed 1|A question?");
    expect("Two\nlines", "|Two\nlines");
}

// Comments of C, shell and Python code are part of the question.
static void test_pasted_code(void **state)
{
    expect("// adds\nint add(int a, int b)", "|\"\"\"// adds\nint add(int a, int b)\"\"\"");
    expect("  // adds\nint add;", "|\"\"\"  // adds\nint add;\"\"\"");
    expect("/* adds */\nint add;", "|\"\"\"/* adds */\nint add;\"\"\"");
    expect("# adds\ndef add(a, b):", "|\"\"\"# adds\ndef add(a, b):\"\"\"");
    // These texts contain """ and cannot be enclosed in it. A line that begins with two slashes
    // loses one, so one is added.
    expect("// adds \"\"\"\nint add;", "|/// adds \"\"\"\nint add;");
    expect("/* adds \"\"\" */\nint add;", "|//* adds \"\"\" */\nint add;");
}

static void test_one_line(void **state)
{
    expect("//etc is a folder", "|//etc is a folder");
    expect("# a comment", "|# a comment");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pasted_commands),
        cmocka_unit_test(test_pasted_code),
        cmocka_unit_test(test_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
