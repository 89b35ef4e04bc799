// tests/tui/word_diff.c -- tui/word_diff.c: shared words are left out, wherever they are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tui/word_diff.h"

// Writes both texts with their differences in brackets: "[a] c | [b] c".
static void check(const char *a, const char *b, const char *expected)
{
    const char *const text[] = { a, b };
    struct word_diff d = word_diff_of(a, b);
    struct buf out = { 0 };
    for (int k = 0; k < 2; k++) {
        size_t at = 0;
        if (k) buf_puts(&out, " | ");
        for (size_t i = 0; i < d.side[k].count; i++) {
            const struct span s = d.side[k].spans[i];
            buf_add(&out, text[k] + at, s.begin - at);
            buf_printf(&out, "[%.*s]", (int)(s.end - s.begin), text[k] + s.begin);
            at = s.end;
        }
        buf_puts(&out, text[k] + at);
    }
    char *got = buf_take(&out);
    assert_string_equal(got, expected);
    free(got);
    word_diff_release(&d);
}

static void only_differences_are_marked(void **state)
{
    check("a red circle and a green H", "a blue circle and a green H",
          "a [red] circle and a green H | a [blue] circle and a green H");
    check("the cat", "the cat", "the cat | the cat");
    check("", "one two", " | [one two]");
    check("a b c d", "b c d e", "[a] b c d | b c d [e]");
    check("Yes.", "Yes, two.", "Yes. | Yes[, two].");
    check("x y", "p q r", "[x y] | [p q r]");
    check(
        "\xe7\xba\xa2\xe8\x89\xb2\xe7\x9a\x84\xe5\x9c\x86\xe3\x80\x82", // a red, and a blue circle
        "\xe8\x93\x9d\xe8\x89\xb2\xe7\x9a\x84\xe5\x9c\x86\xe3\x80\x82",
        "[\xe7\xba\xa2]\xe8\x89\xb2\xe7\x9a\x84\xe5\x9c\x86\xe3\x80\x82 | "
        "[\xe8\x93\x9d]\xe8\x89\xb2\xe7\x9a\x84\xe5\x9c\x86\xe3\x80\x82");
    check("  caf\xc3\xa9  au", "caf\xc3\xa9 lait", "  caf\xc3\xa9  [au] | caf\xc3\xa9 [lait]");
}

// A comparison of long texts is bounded: only the common beginning is shared.
static void long_texts_share_their_beginning(void **state)
{
    struct buf a = { 0 }, b = { 0 };
    for (int i = 0; i < WORD_DIFF_MOST + 1; i++) {
        buf_printf(&a, "w%d ", i);
        buf_printf(&b, "w%d ", i == 10 ? -1 : i);
    }
    struct word_diff d = word_diff_of(a.data, b.data);
    assert_int_equal(d.side[0].count, 1);
    assert_int_equal(d.side[0].spans[0].begin, strlen("w0 ") * 10);
    assert_int_equal(d.side[0].spans[0].end, a.length - 1);
    word_diff_release(&d);
    buf_release(&a);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_differences_are_marked),
        cmocka_unit_test(long_texts_share_their_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
