// tests/commands/parse.c -- commands/parse.c: quotes, escapes, variables, rest of line, """.
#include "commands/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "commands/command.h"

static struct variable variables[] = { { "PIC", "my \"cat\".png" }, { "NAME", "${PIC}" } };
static const struct shell shell = { .variables = variables, .variable_count = 2 };

typedef int parser(struct words *w, const char *text, const struct shell *s, struct err *err);

// Expects the arguments, each in [], or "error: ..." with the parser's message.
static void check(parser *parse, const char *text, const char *expected)
{
    struct words w = { 0 };
    struct err err = { "" };
    struct buf b = { 0 };
    buf_puts(&b, "");
    if (parse(&w, text, &shell, &err) < 0)
        buf_printf(&b, "error: %s", err.text);
    else
        for (int i = 0; i < w.count; i++) buf_printf(&b, "[%s]", w.list[i]);
    assert_string_equal(b.data ? b.data : "", expected);
    buf_release(&b);
    words_release(&w);
}

// Expects an error whose message contains the words.
static void check_error(parser *parse, const char *text, const char *words)
{
    struct words w = { 0 };
    struct err err = { "" };
    assert_int_equal(parse(&w, text, &shell, &err), -1);
    if (!strstr(err.text, words)) fail_msg("'%s' does not say '%s'", err.text, words);
    words_release(&w);
}

static void test_words(void **state)
{
    check(words_parse, "", "");
    check(words_parse, "  \t ", "");
    check(words_parse, "a  b\tc\nd ", "[a][b][c][d]");
    check(words_parse, "C:\\dir\\x it\"s a#b", "[C:\\dir\\x][it\"s][a#b]");
    check(words_parse, "my\\ cat.png x", "[my cat.png][x]");
    setenv("HOME", "/home/me", 1);
    check(words_parse, "~/a.png ~b a~/c \"~/q\"", "[/home/me/a.png][~b][a~/c][~/q]");
}

// Single quotes enclose the values of options, and are literal elsewhere.
static void test_single_quotes(void **state)
{
    check(words_parse, "--csv 'my file.csv' x", "[--csv][my file.csv][x]");
    check(words_parse, "--csv='my file.csv' --out '' x", "[--csv=my file.csv][--out][][x]");
    check(words_parse, "--out 'it's a\\b.png'", "[--out][it's a\\b.png]");
    check(words_parse, "--out it's.png --limit '2'", "[--out][it's.png][--limit][2]");
    check(words_parse, "--out 'open x", "[--out]['open][x]");
    check(words_parse, "--system \"'yes' or 'no'\"", "[--system]['yes' or 'no']");
    check(words_parse, "what is 'this' a='b' --c=d 'e' -- 'f'",
          "[what][is]['this'][a='b'][--c=d]['e'][--]['f']");
    check(words_parse, "--out '${PIC} b'", "[--out][my \"cat\".png b]");
    check(words_parse, "--out '${NO:-a' b} c' d", "[--out][a' b][c'][d]");
}

static void test_quotes(void **state)
{
    check(words_parse, "\"a b\" \"\" c", "[a b][][c]");
    check(words_parse, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "[\"\\/\b\f\n\r\t]");
    check(words_parse, "\"\\u00e4\\u20AC\\u0041\"",
          "[\xc3\xa4\xe2\x82\xac"
          "A]");
    check(words_parse, "\"\\ud83d\\ude00\"", "[\xf0\x9f\x98\x80]");
    check_error(words_parse, "\"abc", "closing quote");
    check_error(words_parse, "\"abc\\", "closing quote");
    check_error(words_parse, "\"a\\x\"", "unknown escape '\\x'");
    check_error(words_parse, "\"a\"b", "space is missing after");
    check_error(words_parse, "\"\\u12g4\"", "hexadecimal");
    check_error(words_parse, "\"\\u12", "hexadecimal");
    check_error(words_parse, "\"\\ud83d\"", "half of a surrogate pair");
    check_error(words_parse, "\"\\ud83d\\u0041\"", "half of a surrogate pair");
    check_error(words_parse, "\"\\ude00\"", "half of a surrogate pair");
    check_error(words_parse, "\"\\u0000\"", "\\u0000");
}

static void test_rest(void **state)
{
    check(rest_parse, "", "");
    check(rest_parse, "   ", "");
    check(rest_parse, "  two  words ", "[two  words ]");
    check(rest_parse, "\"a\\nb\"", "[a\nb]");
    check(rest_parse, "\"a\\nb\"  ", "[a\nb]");
    check(rest_parse, "\"\"", "[]");
    check(rest_parse, "\"a\" and \"b\"", "[\"a\" and \"b\"]");
    check(rest_parse, "\"open", "[\"open]");
    check(rest_parse, "a\\nb \\ c", "[a\\nb \\ c]");
    check_error(rest_parse, "\"C:\\dir\"", "unknown escape '\\d'");
}

static void test_variables(void **state)
{
    check(words_parse, "${PIC} x${PIC}y", "[my \"cat\".png][xmy \"cat\".pngy]");
    check(words_parse, "\"a ${PIC}\" b", "[a my \"cat\".png][b]");
    check(words_parse, "${NAME}", "[${PIC}]"); // a variable's value is not expanded again
    check(rest_parse, "see ${PIC}!", "[see my \"cat\".png!]");
    check(text_parse, "  see ${PIC} ", "[  see my \"cat\".png ]");
    check(text_parse, "$5 $$ ${PIC",
          "error: '${' needs a name and a closing '}'; write $${ for a literal ${");
    check(text_parse, "$5 $PIC $$ $", "[$5 $PIC $$ $]");
    check(text_parse, "$${PIC} $$${PIC}", "[${PIC} $${PIC}]");
    check(rest_parse, "\"\\u0024{PIC}\"", "[${PIC}]");
    setenv("VLMSH_TEST_VARIABLE", "from outside", 1);
    check(words_parse, "${VLMSH_TEST_VARIABLE}", "[from outside]");
    unsetenv("VLMSH_TEST_VARIABLE");
    check_error(words_parse, "${VLMSH_TEST_VARIABLE}", "unknown variable 'VLMSH_TEST_VARIABLE'");
    check_error(words_parse, "${}", "name");
    check_error(words_parse, "${1A}", "name");
    check_error(words_parse, "\"${PIC\"", "name");
}

static void test_triple(void **state)
{
    check(rest_parse, "\"\"\"\nfirst \"x\"\nsecond\\n\n\"\"\"", "[first \"x\"\nsecond\\n]");
    check(rest_parse, "\"\"\"one line\"\"\"  ", "[one line]");
    check(rest_parse, "\"\"\"\"\"\"", "[]");
    check(words_parse, "\"\"\"a b\n\nc ${PIC}\"\"\"", "[a b\n\nc my \"cat\".png]");
    check(rest_parse, "\"\"\"say \"\"\" there\"\"\"", "[say \"\"\" there]");
    check_error(rest_parse, "\"\"\"open", "closing \"\"\"");
    assert_null(triple_start("what is \"\"\"?"));
    assert_null(triple_start("//\"\"\"x"));
    assert_string_equal(triple_start("  \"\"\"x"), "x");
    assert_string_equal(triple_start("/system  \"\"\"x"), "x");
    assert_null(triple_start("/system a \"\"\"x"));
    assert_false(triple_closed("\"\"", 2));
    assert_true(triple_closed("\"\"\" ", 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),     cmocka_unit_test(test_single_quotes),
        cmocka_unit_test(test_quotes),    cmocka_unit_test(test_rest),
        cmocka_unit_test(test_variables), cmocka_unit_test(test_triple),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
