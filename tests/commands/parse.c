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

static struct variable variables[] = { { .name = "PIC", .value = "my \"cat\".png" },
                                       { .name = "NAME", .value = "${PIC}" } };
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

// Parses the arguments of most commands, and of those that may end in a question.
static int parse_words(struct words *w, const char *text, const struct shell *s, struct err *err)
{
    return words_parse(w, text, false, s, err);
}

static int parse_question(struct words *w, const char *text, const struct shell *s, struct err *err)
{
    return words_parse(w, text, true, s, err);
}

static void test_words(void **state)
{
    check(parse_words, "", "");
    check(parse_words, "  \t ", "");
    check(parse_words, "a  b\tc\nd ", "[a][b][c][d]");
    check(parse_words, "C:\\dir\\x it\"s a#b", "[C:\\dir\\x][it\"s][a#b]");
    check(parse_words, "my\\ cat.png x", "[my cat.png][x]");
    setenv("HOME", "/home/me", 1);
    check(parse_words, "~/a.png ~b a~/c \"~/q\"", "[/home/me/a.png][~b][a~/c][~/q]");
}

// Single quotes enclose arguments and values; in what may be a question, only those of options.
static void test_single_quotes(void **state)
{
    parser *const both[] = { parse_words, parse_question };
    for (int i = 0; i < 2; i++) {
        check(both[i], "--csv 'my file.csv' x", "[--csv][my file.csv][x]");
        check(both[i], "--csv='my file.csv' --out '' x", "[--csv=my file.csv][--out][][x]");
        check(both[i], "--out 'it's a\\b.png'", "[--out][it's a\\b.png]");
        check(both[i], "--out it's.png --limit '2'", "[--out][it's.png][--limit][2]");
        check(both[i], "--out 'open x", "[--out]['open][x]");
        check(both[i], "--system \"'yes' or 'no'\"", "[--system]['yes' or 'no']");
        check(both[i], "--out '${PIC} b'", "[--out][my \"cat\".png b]");
        check(both[i], "--out '${NO:-a' b} c' d", "[--out][a' b][c'][d]");
        check(both[i], "'my file' it's", "[my file][it's]");
        check(both[i], "model='my model' | off", "[model=my model][|][off]");
        check(both[i], "a='b\\n' --c=\"d\\n\" e", "[a=b\\n][--c=d\n][e]");
    }
    check(parse_words, "a 'my file' b='c d'", "[a][my file][b=c d]");
    check(parse_words, "e=\"f g\" h=i='j k'", "[e=f g][h=i='j][k']");
    check(parse_words, "='a b' c'd e' 'f'g h'", "[='a][b'][c'd][e'][f'g h]");
    check_error(parse_words, "a=\"b\"c", "space is missing after");
    check(parse_question, "what is 'this' a='b' c=\"d\" --e=f 'g' -- 'h'",
          "[what][is]['this'][a='b'][c=\"d\"][--e=f]['g'][--]['h']");
}

static void test_quotes(void **state)
{
    check(parse_words, "\"a b\" \"\" c", "[a b][][c]");
    check(parse_words, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "[\"\\/\b\f\n\r\t]");
    check(parse_words, "\"\\u00e4\\u20AC\\u0041\"",
          "[\xc3\xa4\xe2\x82\xac"
          "A]");
    check(parse_words, "\"\\ud83d\\ude00\"", "[\xf0\x9f\x98\x80]");
    check_error(parse_words, "\"abc", "closing quote");
    check_error(parse_words, "\"abc\\", "closing quote");
    check_error(parse_words, "\"a\\x\"", "unknown escape '\\x'");
    check_error(parse_words, "\"a\"b", "space is missing after");
    check_error(parse_words, "\"\\u12g4\"", "hexadecimal");
    check_error(parse_words, "\"\\u12", "hexadecimal");
    check_error(parse_words, "\"\\ud83d\"", "half of a surrogate pair");
    check_error(parse_words, "\"\\ud83d\\u0041\"", "half of a surrogate pair");
    check_error(parse_words, "\"\\ude00\"", "half of a surrogate pair");
    check_error(parse_words, "\"\\u0000\"", "\\u0000");
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
    check(parse_words, "${PIC} x${PIC}y", "[my \"cat\".png][xmy \"cat\".pngy]");
    check(parse_words, "\"a ${PIC}\" b", "[a my \"cat\".png][b]");
    check(parse_words, "${NAME}", "[${PIC}]"); // a variable's value is not expanded again
    check(rest_parse, "see ${PIC}!", "[see my \"cat\".png!]");
    check(text_parse, "  see ${PIC} ", "[  see my \"cat\".png ]");
    check(text_parse, "$5 $$ ${PIC",
          "error: '${' needs a name and a closing '}'; write $${ for a literal ${");
    check(text_parse, "$5 $PIC $$ $", "[$5 $PIC $$ $]");
    check(text_parse, "$${PIC} $$${PIC}", "[${PIC} $${PIC}]");
    check(rest_parse, "\"\\u0024{PIC}\"", "[${PIC}]");
    setenv("VLMSH_TEST_VARIABLE", "from outside", 1);
    check(parse_words, "${VLMSH_TEST_VARIABLE}", "[from outside]");
    unsetenv("VLMSH_TEST_VARIABLE");
    check_error(parse_words, "${VLMSH_TEST_VARIABLE}", "unknown variable 'VLMSH_TEST_VARIABLE'");
    check_error(parse_words, "${}", "name");
    check_error(parse_words, "${1A}", "name");
    check_error(parse_words, "\"${PIC\"", "name");
}

static void test_triple(void **state)
{
    check(rest_parse, "\"\"\"\nfirst \"x\"\nsecond\\n\n\"\"\"", "[first \"x\"\nsecond\\n]");
    check(rest_parse, "\"\"\"one line\"\"\"  ", "[one line]");
    check(rest_parse, "\"\"\"\"\"\"", "[]");
    check(parse_words, "\"\"\"a b\n\nc ${PIC}\"\"\"", "[a b\n\nc my \"cat\".png]");
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
