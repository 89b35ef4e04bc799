// tests/core/tokenizer/json.c -- core/tokenizer/json.c: invalid and unusual files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/core/quick.h"
#include "tests/core/tokenizer/tokenizers.h"

// A word listed twice encodes to the last id, and both ids decode to the word, as in tokenizers
// 0.23.
static void test_word_listed_twice(void **state)
{
    static const char text[] = "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":["
                               "[\"<unk>\",0],[\"a\",-5],[\"b\",-2],[\"a\",-3],"
                               "[\"ab\",-4],[\"ab\",-9]]}}";
    struct err err;
    struct tokenizer *t = tokenizer_parse(text, strlen(text), "twice.json", &err);
    if (!t) fail_msg("%s", err.text);
    struct ids ids = encode(t, "aab", 3, 0);
    assert_int_equal(ids.count, 3); // "ab" costs 9, "a" and "b" 5
    assert_int_equal(ids.data[0], 3);
    assert_int_equal(ids.data[1], 3);
    assert_int_equal(ids.data[2], 2);
    assert_string_equal(tokenizer_token(t, 1), "a");
    ids_release(&ids);
    tokenizer_free(t);
}

static void check_refused(const char *members, const char *model, const char *why)
{
    struct err err = { "" };
    struct tokenizer *t = small(members, model, &err);
    assert_null(t);
    if (!strstr(err.text, why)) fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void check_bad_file(const char *text, const char *why)
{
    struct err err = { "" };
    assert_null(tokenizer_parse(text, strlen(text), "bad.json", &err));
    if (!strstr(err.text, why) || !strstr(err.text, "bad.json"))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void test_wrong_files(void **state)
{
    check_refused(PRE("\"BertPreTokenizer\""), "", "BertPreTokenizer");
    check_refused(NORM("\"Precompiled\""), "", "Precompiled");
    check_refused(",\"decoder\":{\"type\":\"CTC\"}", "", "CTC");
    check_refused(",\"post_processor\":{\"type\":\"BertProcessing\"}", "", "BertProcessing");
    check_refused(",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}", "",
                  "text");
    check_refused(
        ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
        "{\"id\":\"q\"}}],\"special_tokens\":{\"q\":{\"ids\":[9999]}}}",
        "", "\"q\"");
    check_refused(SPLIT("\"Regex\":\"(a\"", "Isolated"), "", "pattern");
    check_refused(SPLIT("\"Regex\":\"[a\"", "Isolated"), "", "pattern");
    check_refused(SPLIT("\"Regex\":\"a\"", "Sideways"), "", "Sideways");
    check_refused("", ",\"continuing_subword_prefix\":\"##\"", "continuing_subword_prefix");
    check_refused("", ",\"unk_token\":\"nope\"", "nope");
    check_refused(",\"added_tokens\":[{\"content\":\"x\"}]", "", "added_tokens");
    check_refused(",\"added_tokens\":[{\"id\":2000000000,\"content\":\"x\"}]", "", "added_tokens");
    check_bad_file("{", "JSON");
    check_bad_file("[]", "tokenizer.json");
    check_bad_file("{}", "model");
    check_bad_file("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "Unigram");
    check_bad_file("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":3}}",
                   "unk_id");
    check_bad_file("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}", "unk_id");
    check_bad_file("{\"model\":{\"vocab\":[[\"a\"]],\"unk_id\":0}}", "entry 0");
    check_bad_file("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "WordPiece");
    check_refused(NORM("\"Precompiled\",\"precompiled_charsmap\":\"AB!=\""), "", "base64");
    check_refused(NORM("\"Precompiled\",\"precompiled_charsmap\":\"AAAA\""), "", "broken");
    check_refused("", ",\"dropout\":0.1", "dropout");
    check_bad_file("{\"model\":{\"vocab\":{\"a\":0}}}", "merges");
    check_bad_file("{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "id");
    check_bad_file("{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "same id");
    check_bad_file("{\"model\":{\"vocab\":{\"a\":1.5},\"merges\":[]}}", "id");
    check_bad_file("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "merge 0");
    check_bad_file("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", "\"aa\"");
    check_bad_file("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", "two tokens");
    check_bad_file("{\"model\":{\"vocab\":{\"\xFF\":0},\"merges\":[]}}", "UTF-8");
    struct err err;
    assert_null(tokenizer_open("tests/goldens/no-such-file.json", &err));
}

// Refuses files that make short texts long: the memory that these texts take must not depend on how
// often the file repeats them.
static void long_insertions_are_refused(void **state)
{
    char text[(1 << 16) + 2];
    struct buf special = { 0 };
    static const struct {
        const char *members; // with a text of this length, or special tokens
        int length;
        const char *why;
    } cases[] = {
        { NORM("\"Prepend\",\"prepend\":\"%s\""), 65, "65 bytes" },
        { PRE("\"Metaspace\",\"replacement\":\"%s\""), 65, "65 bytes" },
        { ",\"added_tokens\":[{\"id\":200,\"content\":\"%s\"}]", 1025, "1025 bytes" },
        { NORM("\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"") ",\"added_tokens\":"
                                                                                "[{\"id\":200,"
                                                                                "\"content\":\"a\"}"
                                                                                "]",
          1025, "replacements" },
        { ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[%s{\"Sequence\":{}}],"
          "\"special_tokens\":{\"s\":{\"ids\":[33]}}}",
          0, "more than 1024 special tokens" },
    };
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    char *long_token = xasprintf("{\"model\":{\"vocab\":{\"%s\":0},\"merges\":[]}}", text);
    check_bad_file(long_token, "65537 bytes");
    free(long_token);
    for (int k = 0; k < 1025; k++) buf_puts(&special, "{\"SpecialToken\":{\"id\":\"s\"}},");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *members = cases[i].members, *at = strstr(members, "%s");
        const int n = cases[i].length;
        char *file = xasprintf("%.*s%.*s%s", (int)(at - members), members,
                               n ? n : (int)special.length, n ? text : special.data, at + 2);
        check_refused(file, "", cases[i].why);
        free(file);
    }
    buf_release(&special);
}

// Texts whose hashes are equal without the seed; each would be compared with all others.
static void crafted_tokens_are_no_slower(void **state)
{
    enum { TOKENS = 1 << 16 };
    const uint64_t odd = UINT64_C(0xD6E8FEB86659FD93);
    uint64_t inverse = odd;
    struct buf file = { 0 };
    int found = 0;
    struct err err = { "" };
    for (int i = 0; i < 6; i++) inverse *= 2 - odd * inverse;
    buf_puts(&file, "{\"model\":{\"vocab\":{");
    for (uint64_t low = 0; found < TOKENS; low++) {
        uint64_t h = (UINT64_C(1) << 32 | low) * inverse;
        h = ((h ^ h >> 32) * inverse) ^ 8 * UINT64_C(0x9E3779B97F4A7C15);
        char text[9] = { 0 };
        memcpy(text, &h, 8);
        bool plain = true;
        for (int i = 0; i < 8; i++) plain &= text[i] > '"' && text[i] < 127 && text[i] != '\\';
        if (plain) buf_printf(&file, "%s\"%s\":%d", found ? "," : "", text, found);
        found += plain;
    }
    buf_puts(&file, "},\"merges\":[]}}");
    const clock_t before = clock();
    struct tokenizer *t = tokenizer_parse(file.data, file.length, "crafted.json", &err);
    const double seconds = processor_seconds(before);
    if (!t) fail_msg("%s", err.text);
    assert_int_equal(tokenizer_size(t), TOKENS);
    tokenizer_free(t);
    buf_release(&file);
    if (seconds > QUICK) fail_msg("%d tokens took %g s", TOKENS, seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_word_listed_twice),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(long_insertions_are_refused),
        cmocka_unit_test(crafted_tokens_are_no_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
