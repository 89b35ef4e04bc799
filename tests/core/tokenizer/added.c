// tests/core/tokenizer/added.c -- added tokens of a tokenizer.json.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/core/quick.h"
#include "tests/core/tokenizer/tokenizers.h"

#define FIRST_PLAIN                                                                        \
    ",\"added_tokens\":[{\"id\":200,\"content\":\"ab\"},"                                  \
    "{\"id\":201,\"content\":\"bc\",\"normalized\":false},{\"id\":202,\"content\":\"cd\"," \
    "\"lstrip\":true}]"

static void test_added_tokens(void **state)
{
#define ADDED(flags) \
    ",\"added_tokens\":[{\"id\":200,\"content\":\"ab\",\"special\":false" flags "}]"
    check_tokens(ADDED(""), "", "c abc", "c /   / ab / c");
    struct err err = { "" };
    // The spaces beside the token belong to it.
    check_tokens(ADDED(",\"lstrip\":true"), "", "c  ab c", "c / ab /   / c");
    check_tokens(ADDED(",\"rstrip\":true"), "", "c ab  c", "c /   / ab / c");
    check_tokens(ADDED(",\"single_word\":true"), "", "xab ab", "x / ab /   / ab");
    // The leftmost match wins; at one position, the longest.
    struct tokenizer *t =
        small(",\"added_tokens\":[{\"id\":200,\"content\":\"<a\"},"
              "{\"id\":201,\"content\":\"<a>\"},{\"id\":202,\"content\":\"a>b\"}]",
              "", &err);
    assert_non_null(t);
    check_ids(t, "<a>b<a<", 7, 0, (int32_t[]){ 201, 'b', 200, '<' }, 4);
    tokenizer_free(t);
    // Tokens that are not normalised match before the others, with or without a normaliser.
    for (int i = 0; i < 2; i++) {
        t = small(i ? FIRST_PLAIN NORM("\"NFC\"") : FIRST_PLAIN, "", &err);
        assert_non_null(t);
        check_ids(t, "abc", 3, 0, (int32_t[]){ 'a', 201 }, 2);
        check_ids(t, "ababcab", 7, 0, (int32_t[]){ 3, 'a', 201, 3 }, 4);
        check_ids(t, "abcd", 4, 0, (int32_t[]){ 'a', 201, 'd' }, 3);
        check_ids(t, "abc cd", 6, 0, (int32_t[]){ 'a', 201, 202 }, 3);
        tokenizer_free(t);
    }
}

// Merging typed text never gives a special token.
static void test_merged_special(void **state)
{
    struct err err = { "" };
    const char *members = ",\"added_tokens\":[{\"id\":4,\"content\":\"abc\",\"special\":true}]";
    for (int ignore = 0; ignore < 2; ignore++) {
        struct tokenizer *t = small(members, ignore ? ",\"ignore_merges\":true" : "", &err);
        assert_non_null(t);
        check_ids(t, "abc", 3, 0, (int32_t[]){ 4 }, 1);
        check_ids(t, "abc", 3, TOKENIZE_PLAIN, (int32_t[]){ 3, 'c' }, 2);
        tokenizer_free(t);
    }
}

// An added token that was found in normalised text decodes to that normalised text: its mark
// becomes the space before the token (tokenizers 0.23).
static void test_decoded_normalised(void **state)
{
#define MARKS_IN                                                                  \
    NORM("\"Sequence\",\"normalizers\":["                                         \
         "{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"},{\"type\":\"Replace\"," \
         "\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}]")
#define MARKS_OUT                                                                     \
    ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":["                              \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},\"content\":\" \"}," \
    "{\"type\":\"Fuse\"},"                                                            \
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"
    static const char added[] = ",\"added_tokens\":[{\"id\":200,\"content\":\"fox\"},"
                                "{\"id\":201,\"content\":\"<x>\",\"special\":true},"
                                "{\"id\":3,\"content\":\"ab\"},"
                                "{\"id\":202,\"content\":\"cat\"},"
                                "{\"id\":202,\"content\":\"dog\",\"normalized\":false}]";
    struct err err = { "" };
    char *members = xasprintf("%s%s", MARKS_IN MARKS_OUT, added);
    struct tokenizer *t = small(members, "", &err);
    free(members);
    if (!t) fail_msg("%s", err.text);
    const int32_t ids[] = { 201, 5, 200, 3, 1, 'b' };
    check_ids(t, "<x>a fox ab b", 13, 0, ids, 6);
    check_text(t, ids, 6, false, "<x> a fox ab b");
    check_text(t, ids, 6, true, "a fox ab b");
    check_text(t, &ids[2], 1, true, "fox");
    check_text(t, (int32_t[]){ 202 }, 1, true, "dog"); // the id is listed twice
    assert_string_equal(tokenizer_token(t, 200), "fox");
    assert_int_equal(tokenizer_id(t, "fox"), 200);
    tokenizer_free(t);
}

// A token that strips the white space after it, in white space that consists of such tokens.
static void stripped_spaces_are_read_once(void **state)
{
    enum { SPACES = 1 << 16 };
    struct err err = { "" };
    struct tokenizer *t =
        small(",\"added_tokens\":[{\"id\":200,\"content\":\" \",\"rstrip\":true}]", "", &err);
    if (!t) fail_msg("%s", err.text);
    char *text = xmalloc(SPACES + 1);
    memset(text, ' ', SPACES);
    text[SPACES] = 'a';
    const clock_t before = clock();
    struct ids ids = encode(t, text, SPACES + 1, 0);
    const double seconds = processor_seconds(before);
    assert_int_equal(ids.count, SPACES + 1);
    assert_int_equal(ids.data[SPACES - 1], ' '); // the vocabulary's id
    assert_int_equal(ids.data[SPACES], 'a');
    ids_release(&ids);
    free(text);
    tokenizer_free(t);
    if (seconds > QUICK) fail_msg("%d spaces took %g s", SPACES, seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_merged_special),
        cmocka_unit_test(test_decoded_normalised),
        cmocka_unit_test(stripped_spaces_are_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
