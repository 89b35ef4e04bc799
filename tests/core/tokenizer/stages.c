// tests/core/tokenizer/stages.c -- the stages of a tokenizer.json: normalisers, pre-tokenizers
// and their patterns, decoders.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/cancel.h"
#include "tests/core/tokenizer/tokenizers.h"

#define WORDS                                                        \
    PRE("\"Sequence\",\"pretokenizers\":[{\"type\":\"Whitespace\"}," \
        "{\"type\":\"Metaspace\",\"prepend_scheme\":\"always\"}]")

// The expected tokens are those of the reference library (tokenizers 0.23).
static void test_stages(void **state)
{
    check_tokens("", "", "abcab", "abc / ab");
    check_tokens(PRE("\"Metaspace\",\"prepend_scheme\":\"always\""), "", "ab a",
                 MARK " / ab / " MARK "a");
    check_tokens(PRE("\"Metaspace\",\"prepend_scheme\":\"never\",\"split\":false"), "", "ab a",
                 "ab / " MARK "a");
    check_tokens(
        PRE("\"Metaspace\",\"prepend_scheme\":\"first\"") ",\"added_tokens\":[{\"id\":200,"
                                                          "\"content\":\"<x>\",\"special\":true}]",
        "", "a<x>a", MARK "a / <x> / a");
    check_tokens(
        PRE("\"Metaspace\",\"prepend_scheme\":\"always\"") ",\"added_tokens\":[{\"id\":200,"
                                                           "\"content\":\"<x>\",\"special\":true}]",
        "", "a<x>a", MARK "a / <x> / " MARK "a");
    check_tokens(PRE("\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true"), "", "ab ab's",
                 "\xC4\xA0 / ab / \xC4\xA0 / ab / ' / s");
    check_tokens(SPLIT("\"String\":\"b\"", "Isolated"), "", "abcab", "a / b / c / a / b");
    check_tokens(SPLIT("\"String\":\"b\"", "Removed"), "", "abcab", "a / c / a");
    check_tokens(SPLIT("\"String\":\"b\"", "MergedWithPrevious"), "", "abcab", "ab / c / ab");
    check_tokens(SPLIT("\"String\":\"b\"", "MergedWithNext"), "", "abcab", "a / b / c / a / b");
    check_tokens(SPLIT("\"Regex\":\"[ab]\"", "Contiguous"), "", "abcab", "ab / c / ab");
    check_tokens(PRE("\"Digits\",\"individual_digits\":true"), "", "a12b", "a / 1 / 2 / b");
    check_tokens(PRE("\"Punctuation\""), "", "ab,ab", "ab / , / ab");
    check_tokens(PRE("\"WhitespaceSplit\""), "", "ab ab", "ab / ab");
    // The joiners are word characters, unlike ².
    check_tokens(WORDS, ",\"unk_token\":\"?\"", "a\u200db a\u200cb",
                 MARK "a / ? / b / " MARK "a / ? / b");
    check_tokens(WORDS, ",\"unk_token\":\"?\"", "x²,x",
                 MARK " / x / " MARK " / ? / , / " MARK " / x");
    check_tokens(NORM("\"Lowercase\""), "", "ABC", "abc");
    check_tokens(NORM("\"Strip\",\"strip_left\":true,\"strip_right\":false"), "", "  ab ",
                 "ab /  ");
    check_tokens(NORM("\"Replace\",\"pattern\":{\"Regex\":\"[x-z]+\"},\"content\":\"b\""), "",
                 "axyzc", "abc");
    check_tokens(NORM("\"NFKC\""), "", "\xEF\xBD\x81\xEF\xBD\x82", "ab");
    check_tokens(NORM("\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"},{\"type\":"
                      "\"Prepend\",\"prepend\":\"a\"}]"),
                 "", "BC", "abc");
    check_tokens("", ",\"ignore_merges\":true", "abc", "abc");
    check_tokens("", ",\"unk_token\":\"?\"",
                 "a\xC3\xA9\xC3\xA9"
                 "b",
                 "a / ? / ? / b");
    check_tokens("", ",\"unk_token\":\"?\",\"fuse_unk\":true",
                 "a\xC3\xA9\xC3\xA9"
                 "b",
                 "a / ? / b");
    check_tokens("", "",
                 "a\xC3\xA9"
                 "b",
                 "ab");
}

// --- patterns ------------------------------------------------------------------------------------

// Differences between Oniguruma and PCRE2.
static void test_patterns(void **state)
{
#define REGEX(pattern) SPLIT("\"Regex\":\"" pattern "\"", "Removed")
    check_tokens(REGEX("\\\\s"), "",
                 "a\xE1\xA0\x8E"
                 "b a\xC2\x85"
                 "b",
                 "ab / a / b"); // U+180E is not white space
    check_tokens(REGEX("\\\\h"), "", "axb", "x");
    check_tokens(REGEX("[a-z&&[^bc]]"), "", "abcd", "b / c");
    check_tokens(REGEX("[a[c-d]]"), "", "abcd", "b");
    check_tokens(REGEX("[^\\\\S]+"), "", "a b", "a / b");
    check_tokens(REGEX("(a{1,2}+b)"), "", "xaaabx", "x / x");
    check_tokens(REGEX("\\\\p{Han}"), "",
                 "a\xE4\xBD\xA0"
                 "b",
                 "a / b");
    check_tokens(REGEX("(?i:B)"), "", "abB", "a");
}

// The parts that the pattern leaves of the text; characters that the vocabulary lacks are "?".
static void test_kinds_of_characters(void **state)
{
    static const struct {
        const char *regex, *text, *rest;
    } cases[] = {
        { "\\\\w", "a²½ⓐ́_⅓©", "? / ?" }, // below U+0100, \\w and [\\w] match different characters
        { "[\\\\w]", "a²½ⓐ́_⅓©", "? / ? / ? / ?" },
        { "\\\\W", "a²⅓", "a / ?" },
        { "[^\\\\W\\\\d_]+", "aहि1_²", "1 / _ / ?" },
        { "[^\\\\Wb]", "abc-", "b / -" },
        { "[b\\\\W]", "abc-é", "a / c / ?" },
        { "[^\\\\H]", "a-g", "- / g" },
        { "\\\\b.", "हिन्दी a² ab", "? / ? / ? / ? / ? / ? / b" },
        { "\\\\B.", "हि a² ab", "? /   / a /   / a" },
        { "\\\\v", "a\n\vb", "a / ? / b" },
        { "[[:punct:]]", "a,©$b", "a / b" },
        { "\\\\p{Punct}", "a,©$b", "a / ? / $ / b" },
        { "[[:alpha:]]+", "नि1²_", "1 / ? / _" },
        { "[[:^alpha:]]", "नि1²_", "? / ?" },
        { "[^[:alnum:]]", "नि1²_", "? / ? / 1" },
        { "\\\\p{Alnum}+", "नि1²_", "? / _" },
        { "\\\\P{Alnum}", "नि1²_", "? / ? / 1" },
        { "[[:upper:]]", "AÀaǅⒶ", "a / ?" },
        { "[[:lower:]]", "Aàaªⓐ", "A" },
        { "[[:blank:]]", "a\u180e\u00a0\tb", "a / ? / b" },
        { "[[:space:]]", "a\u180e\u2028b", "a / ? / b" },
        { "(?m:a.)b", "a\nb-a\nc", "- / a / ? / c" },
        { "(?m-i:a.)b", "a\nb-a\nc", "- / a / ? / c" },
        { "a.b", "a\nb", "a / ? / b" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *split = xasprintf(REGEX("%s"), cases[i].regex);
        check_tokens(split, ",\"unk_token\":\"?\"", cases[i].text, cases[i].rest);
        free(split);
    }
}

static int encode_with(const char *regex, char letter, size_t length, struct err *err)
{
    struct ids ids = { 0 };
    char *members = xasprintf(SPLIT("\"Regex\":\"%s\"", "Isolated"), regex);
    struct tokenizer *t = small(members, "", err);
    if (!t) fail_msg("%s: %s", regex, err->text);
    char *text = xmalloc(length + 1);
    memset(text, letter, length);
    text[length] = '\0';
    const int status = tokenizer_encode(t, text, length, 0, &ids, err);
    if (status < 0) assert_int_equal(ids.count, 0);
    ids_release(&ids);
    free(text);
    free(members);
    tokenizer_free(t);
    return status;
}

// Nearly endless matching: in steps that PCRE2 counts, and in steps that it does not count.
static void test_hostile_pattern(void **state)
{
    static const char *const regexes[] = { "(a+)+[x-z]", "(?:(?=\\\\p{L}*+)a)*+[bc]",
                                           "(?:(?=(?:(?=\\\\p{L}*+)a)*+)a)*+[bc]" };
    for (size_t i = 0; i < sizeof regexes / sizeof *regexes; i++) {
        struct err err = { "" };
        assert_int_equal(encode_with(regexes[i], 'a', 60000, &err), -1);
        if (!strstr(err.text, "pattern")) fail_msg("%s: %s", regexes[i], err.text);
    }
    // Ctrl-C ends the matching.
    const atomic_bool flag = true;
    struct err err = { "" };
    cancel_watch(&flag, NULL);
    assert_int_equal(encode_with(regexes[2], 'a', 60000, &err), -1);
    assert_string_equal(err.text, "cancelled");
    assert_int_equal(encode_with("a+", 'a', 60000, &err), 0);
    cancel_unwatch(&flag);
}

// Patterns with many forms of parentheses and quantifiers still compile after callouts are
// inserted.
static void test_pattern_forms(void **state)
{
    static const char *const regexes[] = { "((?R)?a)*b",
                                           "(?#a+b)a",
                                           "(a)(?(1)a|b)",
                                           "(a)?(?(?=a)a|b)",
                                           "(?(DEFINE)(?<x>a+))(?&x)",
                                           "\\\\(?a+\\\\)?",
                                           "(?<n>a)+?\\\\k<n>",
                                           "(?i)a+",
                                           "(?P<q>a)(?P=q)",
                                           "(?'q'a)b?",
                                           "(?<=a)a|(?<!b)b",
                                           "[(?+]a{2}+",
                                           "a{,3}b",
                                           "(?x: a + (?#c+) b )",
                                           "{a",
                                           "a|b*|",
                                           "(?>a+)",
                                           "(?|a|(b))",
                                           "a(*FAIL)|a??b*+" };
    for (size_t i = 0; i < sizeof regexes / sizeof *regexes; i++) {
        struct err err = { "" };
        if (encode_with(regexes[i], 'a', 5, &err) < 0) fail_msg("%s: %s", regexes[i], err.text);
    }
}

// --- replacements --------------------------------------------------------------------------------

// A replacement cannot fill the memory.
static void test_hostile_replacement(void **state)
{
    struct err err = { "" };
    struct buf b = { 0 };
    buf_puts(&b, ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 4; i++) {
        buf_printf(&b, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"",
                   i ? "," : "");
        for (int k = 0; k < 2000; k++) buf_putc(&b, 'a');
        buf_puts(&b, "\"}");
    }
    buf_puts(&b, "]}");
    struct tokenizer *t = small(b.data, "", &err);
    struct ids ids = { 0 };
    assert_non_null(t);
    assert_int_equal(tokenizer_encode(t, "aaa", 3, 0, &ids, &err), -1);
    assert_non_null(strstr(err.text, "replacements"));
    assert_int_equal(ids.count, 0);
    ids_release(&ids);
    buf_release(&b);
    tokenizer_free(t);
    // Nor can one of the empty string, which matches between all characters.
    t = small(",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\"},\"content\":"
              "\"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\"}",
              "", &err);
    assert_non_null(t);
    char *text = xmalloc(100000);
    memset(text, 'a', 100000);
    assert_int_equal(tokenizer_encode(t, text, 100000, 0, &ids, &err), -1);
    assert_non_null(strstr(err.text, "replacements make this text longer than 6465536 bytes"));
    free(text);
    ids_release(&ids);
    tokenizer_free(t);
}

// --- decoders ------------------------------------------------------------------------------------

static void check_decoded(const char *decoder, const int32_t *ids, size_t count,
                          const char *expected)
{
    struct err err = { "" };
    char *members = xasprintf(",\"decoder\":%s", decoder);
    struct tokenizer *t = small(members, "", &err);
    if (!t) fail_msg("%s: %s", decoder, err.text);
    check_text(t, ids, count, false, expected);
    tokenizer_free(t);
    free(members);
}

static void test_decoders(void **state)
{
    const int32_t ids[] = { 5, 'x', 1, 5 };
    check_decoded("null", ids, 4, MARK "a x " MARK " " MARK "a");
    check_decoded("{\"type\":\"Metaspace\",\"prepend_scheme\":\"always\"}", ids, 4, "ax  a");
    check_decoded("{\"type\":\"Metaspace\",\"prepend_scheme\":\"never\"}", ids, 4, " ax  a");
    check_decoded("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Strip\","
                  "\"content\":\"a\",\"start\":0,\"stop\":2}]}",
                  ids, 4, MARK "ax" MARK MARK);
    check_decoded("{\"type\":\"Strip\",\"content\":\"a\",\"start\":0,\"stop\":1}", ids, 4,
                  MARK "x" MARK MARK);
    check_decoded("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\","
                  "\"pattern\":{\"String\":\"x" MARK "\"},\"content\":\"-\"}]}",
                  ids, 4, MARK "a-" MARK "a");
    // All of 200 matches are replaced.
    int32_t many[200];
    char expected[201] = "";
    for (int i = 0; i < 200; i++) many[i] = 'x';
    memset(expected, 'y', 200);
    check_decoded("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\","
                  "\"pattern\":{\"Regex\":\"x\"},\"content\":\"y\"}]}",
                  many, 200, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_kinds_of_characters),
        cmocka_unit_test(test_hostile_pattern),
        cmocka_unit_test(test_pattern_forms),
        cmocka_unit_test(test_hostile_replacement),
        cmocka_unit_test(test_decoders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
