// tests/core/text/tokenizer.c -- core/text/tokenizer*.c: the reference's ids and texts, every kind
// of stage a file may ask for, streaming, and files that are wrong.
#include "core/text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/base/cancel.h"
#include "core/base/json.h"

static const char *const folders[] = { "llava-1.5",        "llava-siglip-llama3",
                                       "llama-3.2",        "qwen2",
                                       "internvl3",        "internvl2-internlm2",
                                       "internvl2.5-qwen2" };
enum { FOLDERS = sizeof folders / sizeof *folders };

static struct tokenizer *open_file(const char *path)
{
    struct err err = { "" };
    struct tokenizer *t = tokenizer_open(path, &err);
    if (!t) fail_msg("%s", err.text);
    return t;
}

static struct tokenizer *open_golden(const char *folder)
{
    char *path = xasprintf("tests/goldens/%s/tokenizer.json", folder);
    struct tokenizer *t = open_file(path);
    free(path);
    return t;
}

static cJSON *read_golden(const char *tree, const char *folder, const char *file)
{
    struct err err = { "" };
    char *path = xasprintf("%s/goldens/%s/%s", tree, folder, file);
    cJSON *json = json_read(path, 64 << 20, &err);
    free(path);
    if (!json) fail_msg("%s", err.text);
    return json;
}

static struct ids encode(const struct tokenizer *t, const char *text, size_t length, int flags)
{
    struct ids ids = { 0 };
    struct err err = { "" };
    if (tokenizer_encode(t, text, length, flags, &ids, &err) < 0) fail_msg("%s", err.text);
    return ids;
}

static void check_ids(const struct tokenizer *t, const char *text, size_t length, int flags,
                      const int32_t *expected, size_t count)
{
    struct ids ids = encode(t, text, length, flags);
    bool same =
        ids.count == count && (!count || !memcmp(ids.data, expected, count * sizeof *expected));
    if (!same) {
        struct buf b = { 0 };
        for (size_t i = 0; i < ids.count && i < 40; i++) buf_printf(&b, " %d", ids.data[i]);
        fail_msg("\"%s\" (flags %d) gives%s", text, flags, b.data ? b.data : " nothing");
    }
    ids_release(&ids);
}

static struct ids read_ids(const cJSON *list)
{
    struct ids ids = { 0 };
    const cJSON *item;
    cJSON_ArrayForEach(item, list) ids_add(&ids, item->valueint);
    return ids;
}

// Decoding at once and token by token; every part that comes is whole characters.
static void check_text(const struct tokenizer *t, const int32_t *ids, size_t count,
                       bool skip_special, const char *expected)
{
    struct buf text = { 0 }, parts = { 0 };
    buf_puts(&text, "");
    tokenizer_decode(t, ids, count, skip_special, &text);
    if (expected) assert_string_equal(text.data, expected);
    struct detokenizer d;
    detokenizer_start(&d, t, skip_special);
    buf_puts(&parts, "");
    for (size_t i = 0; i <= count; i++) {
        if (i < count)
            detokenizer_push(&d, ids[i], &parts);
        else
            detokenizer_finish(&d, &parts);
        assert_true(parts.length <= text.length);
        assert_memory_equal(parts.data, text.data, parts.length);
        // The next byte, if there is one, begins a character.
        assert_true(((unsigned char)text.data[parts.length] & 0xC0) != 0x80);
    }
    assert_int_equal(parts.length, text.length);
    detokenizer_release(&d);
    buf_release(&text);
    buf_release(&parts);
}

// --- goldens -----------------------------------------------------------------------------------

static void check_case(const struct tokenizer *t, const cJSON *c)
{
    const char *text = json_get(c, "text")->valuestring;
    struct ids special = read_ids(json_get(c, "ids")),
               ids = read_ids(json_get(c, "ids_no_special"));
    // cJSON ends a text at U+0000; that case has a test of its own.
    if (*text || !ids.count) {
        check_ids(t, text, strlen(text), TOKENIZE_SPECIAL, special.data, special.count);
        check_ids(t, text, strlen(text), 0, ids.data, ids.count);
        check_text(t, ids.data, ids.count, false, json_get(c, "decoded")->valuestring);
        check_text(t, special.data, special.count, true,
                   json_get(c, "decoded_skip_special")->valuestring);
    }
    ids_release(&special);
    ids_release(&ids);
}

static void test_goldens(void **state)
{
    for (int i = 0; i < FOLDERS; i++) {
        struct tokenizer *t = open_golden(folders[i]);
        cJSON *json = read_golden("build", folders[i], "golden.json");
        const cJSON *golden = json_get(json, "tokenizer"), *c;
        assert_true(cJSON_GetArraySize(json_get(golden, "cases")) > 50);
        cJSON_ArrayForEach(c, json_get(golden, "cases")) check_case(t, c);
        cJSON_ArrayForEach(c, json_get(golden, "decode_cases"))
        {
            struct ids ids = read_ids(json_get(c, "ids"));
            check_text(t, ids.data, ids.count, false, json_get(c, "decoded")->valuestring);
            ids_release(&ids);
        }
        const cJSON *forward = json_get(json, "forward");
        struct ids answer = read_ids(json_get(forward, "gen_ids"));
        assert_int_equal(answer.count, 24);
        check_text(t, answer.data, answer.count, false, NULL);
        check_text(t, answer.data, answer.count, true, NULL);
        ids_release(&answer);
        cJSON_Delete(json);
        tokenizer_free(t);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_vectors(void **state)
{
    struct tokenizer *t = open_file("build/goldens/tokenizers/qwen2-151k/tokenizer.json");
    cJSON *json = read_golden("tests", "tokenizers/qwen2-151k", "vectors.json");
    const cJSON *v;
    cJSON_ArrayForEach(v, json)
    {
        const char *text = json_get(v, "text")->valuestring;
        struct ids ids = read_ids(json_get(v, "ids"));
        check_ids(t, text, strlen(text), 0, ids.data, ids.count);
        check_ids(t, text, strlen(text), TOKENIZE_PLAIN, ids.data, ids.count);
        ids_release(&ids);
    }
    assert_int_equal(tokenizer_id(t, "<|im_end|>"), 151645);
    assert_true(tokenizer_is_special(t, 151645));
    assert_string_equal(tokenizer_token(t, 151645), "<|im_end|>");
    assert_int_equal(tokenizer_id(t, "Hello"), 9707);
    assert_false(tokenizer_is_special(t, 9707));
    assert_int_equal(tokenizer_id(t, "no such token"), -1);
    assert_null(tokenizer_token(t, -1));
    assert_null(tokenizer_token(t, tokenizer_size(t)));
    cJSON_Delete(json);
    tokenizer_free(t);
}

// --- texts that are not text -------------------------------------------------------------------

static void test_bytes(void **state)
{
    struct tokenizer *t = open_golden("qwen2"), *llama = open_golden("llava-1.5");
    check_ids(t, "\0\x01\x7F", 3, 0, (int32_t[]){ 188, 189, 221 }, 3);
    check_ids(llama, "\0\x01\x7F", 3, 0, (int32_t[]){ 345, 3, 4, 130 }, 4);
    // Each invalid stretch is one U+FFFD: a cut character, an overlong form (two bytes, each
    // wrong), a surrogate (three).
    struct ids ids = encode(t, "\xE4\xBD|\xC0\x80|\xED\xA0\x80|\xF0\x9F\x98", 12, TOKENIZE_PLAIN);
    check_text(
        t, ids.data, ids.count, false,
        "\xEF\xBF\xBD|\xEF\xBF\xBD\xEF\xBF\xBD|\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD|\xEF\xBF\xBD");
    ids_release(&ids);
    tokenizer_free(t);
    tokenizer_free(llama);
}

// Every id and random ones, byte tokens among them: streaming equals decoding at once.
static void test_streaming(void **state)
{
    uint32_t x = 1;
    for (int i = 0; i < FOLDERS; i++) {
        struct tokenizer *t = open_golden(folders[i]);
        for (int round = 0; round < 2000; round++) {
            int32_t ids[64];
            size_t count = 1 + (x >> 16) % 64;
            uint32_t range = round % 2 ? 260 : (uint32_t)tokenizer_size(t) + 3;
            for (size_t k = 0; k < count; k++) {
                x = x * 1664525 + 1013904223;
                ids[k] = (int32_t)((x >> 8) % range) - (round % 2 ? 0 : 1);
            }
            check_text(t, ids, count, round % 3 == 0, NULL);
        }
        tokenizer_free(t);
    }
}

// A character comes when its last byte has come, not before and not later.
static void test_promptness(void **state)
{
    struct tokenizer *t = open_golden("qwen2");
    const int32_t ids[] = { 160, 121, 254, 66 }; // E4 BD A0, "c"
    const size_t expected[] = { 0, 0, 3, 4 };
    struct buf out = { 0 };
    struct detokenizer d;
    detokenizer_start(&d, t, true);
    for (int i = 0; i < 4; i++) {
        detokenizer_push(&d, ids[i], &out);
        assert_int_equal(out.length, expected[i]);
    }
    detokenizer_finish(&d, &out);
    assert_int_equal(out.length, 4);
    detokenizer_release(&d);
    buf_release(&out);
    tokenizer_free(t);
}

// --- flags -------------------------------------------------------------------------------------

static void test_plain(void **state)
{
    struct tokenizer *t = open_golden("llava-siglip-llama3");
    int32_t eot = tokenizer_id(t, "<|eot_id|>");
    struct ids ids = encode(t, "a<|eot_id|>b", 12, 0), plain = encode(t, "a<|eot_id|>b", 12, 4);
    int specials = 0;
    for (size_t i = 0; i < ids.count; i++) specials += ids.data[i] == eot;
    assert_int_equal(specials, 1);
    for (size_t i = 0; i < plain.count; i++) assert_int_not_equal(plain.data[i], eot);
    check_text(t, plain.data, plain.count, true, "a<|eot_id|>b");
    ids_release(&ids);
    ids_release(&plain);

    // Only the first one is typed.
    const char text[] = "<|eot_id|><|eot_id|>";
    const struct text_range typed = { 2, 5 };
    const struct marked_text m = { text, 20, &typed, 1, NULL, 0, 0 };
    ids = (struct ids){ 0 };
    assert_int_equal(tokenizer_encode_marked(t, &m, 0, &ids, NULL), 0);
    assert_int_equal(ids.data[ids.count - 1], eot);
    for (size_t i = 0; i + 1 < ids.count; i++) assert_int_not_equal(ids.data[i], eot);
    ids_release(&ids);
    tokenizer_free(t);
}

static void test_continuation(void **state)
{
    struct tokenizer *t = open_golden("llava-1.5");
    struct ids first = encode(t, "a b", 3, 0), next = encode(t, "a b", 3, TOKENIZE_CONTINUATION);
    assert_string_equal(tokenizer_token(t, first.data[0]), "\xE2\x96\x81"
                                                           "a");
    assert_string_equal(tokenizer_token(t, next.data[0]), "a");
    ids_release(&first);
    ids_release(&next);

    // Holes: the text behind a picture is marked as behind a special token, that behind an answer
    // is not; invalid bytes do not move them.
    const struct text_hole holes[] = { { 1, false }, { 2, true } };
    const struct marked_text m = { "\xFF"
                                   "aa",
                                   3,
                                   NULL,
                                   0,
                                   holes,
                                   2,
                                   0 };
    struct ids ids = { 0 };
    assert_int_equal(tokenizer_encode_marked(t, &m, 0, &ids, NULL), 0);
    size_t i = 0;
    while (ids.data[i] >= 0) i++;
    assert_int_equal(ids.data[i], -1);
    assert_string_equal(tokenizer_token(t, ids.data[i + 1]), "\xE2\x96\x81"
                                                             "a");
    assert_int_equal(ids.data[i + 2], -2);
    assert_string_equal(tokenizer_token(t, ids.data[i + 3]), "a");
    assert_int_equal(ids.count, i + 4);
    ids_release(&ids);

    // A hole inside a character leaves two broken ones.
    const struct text_hole inside = { 1, true };
    const struct marked_text cut = { "\xC3\xA9", 2, NULL, 0, &inside, 1, 0 };
    struct buf text = { 0 };
    ids = (struct ids){ 0 };
    assert_int_equal(tokenizer_encode_marked(t, &cut, 0, &ids, NULL), 0);
    tokenizer_decode(t, ids.data, ids.count, false, &text);
    assert_string_equal(text.data, "\xEF\xBF\xBD\xEF\xBF\xBD");
    buf_release(&text);
    ids_release(&ids);
    tokenizer_free(t);
}

// --- small files -------------------------------------------------------------------------------

// A tokenizer over single characters and a few merges, with the given members put in.
static struct tokenizer *small(const char *members, const char *model, struct err *err)
{
    struct buf b = { 0 };
    buf_puts(&b, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int c = 33; c < 127; c++)
        buf_printf(&b, "\"%s%c\":%d,", c == '"' || c == '\\' ? "\\" : "", c, c);
    buf_puts(&b, "\"\xE2\x96\x81\":1,\"\xC4\xA0\":2,\"ab\":3,\"abc\":4,\"\xE2\x96\x81"
                 "a\":5,\" \":32},"
                 "\"merges\":[\"a b\",[\"ab\",\"c\"],[\"\xE2\x96\x81\",\"a\"]]");
    buf_printf(&b, "%s}%s}", model, members);
    struct tokenizer *t = tokenizer_parse(b.data, b.length, "small", err);
    buf_release(&b);
    return t;
}

// Tokens of the text, with a stroke between them.
static void check_tokens(const char *members, const char *model, const char *text,
                         const char *expected)
{
    struct err err = { "" };
    struct tokenizer *t = small(members, model, &err);
    if (!t) fail_msg("%s: %s", members, err.text);
    struct ids ids = encode(t, text, strlen(text), 0);
    struct buf b = { 0 };
    buf_puts(&b, "");
    for (size_t i = 0; i < ids.count; i++)
        buf_printf(&b, "%s%s", i ? " / " : "", tokenizer_token(t, ids.data[i]));
    assert_string_equal(b.data, expected);
    buf_release(&b);
    ids_release(&ids);
    tokenizer_free(t);
}

// A word listed twice encodes to the last id, and both decode to it, as in tokenizers 0.23.
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

#define MARK       "\xE2\x96\x81"
#define PRE(kind)  ",\"pre_tokenizer\":{\"type\":" kind "}"
#define NORM(kind) ",\"normalizer\":{\"type\":" kind "}"
#define SPLIT(pattern, behavior) \
    PRE("\"Split\",\"pattern\":{" pattern "},\"behavior\":\"" behavior "\",\"invert\":false")

#define WORDS                                                        \
    PRE("\"Sequence\",\"pretokenizers\":[{\"type\":\"Whitespace\"}," \
        "{\"type\":\"Metaspace\",\"prepend_scheme\":\"always\"}]")

// Expected ids are the reference library's (tokenizers 0.23).
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
    // The joiners are of a word, unlike ².
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
    // The spaces beside it are its own.
    check_tokens(ADDED(",\"lstrip\":true"), "", "c  ab c", "c / ab /   / c");
    check_tokens(ADDED(",\"rstrip\":true"), "", "c ab  c", "c /   / ab / c");
    check_tokens(ADDED(",\"single_word\":true"), "", "xab ab", "x / ab /   / ab");
    // The leftmost, of those the longest.
    struct tokenizer *t =
        small(",\"added_tokens\":[{\"id\":200,\"content\":\"<a\"},"
              "{\"id\":201,\"content\":\"<a>\"},{\"id\":202,\"content\":\"a>b\"}]",
              "", &err);
    assert_non_null(t);
    check_ids(t, "<a>b<a<", 7, 0, (int32_t[]){ 201, 'b', 200, '<' }, 4);
    tokenizer_free(t);
    // Those that are not normalised before the others, with a normaliser or without.
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

// A special token does not come about by merging what a person typed.
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

// Differences between Oniguruma and PCRE2.
static void test_patterns(void **state)
{
#define REGEX(pattern) SPLIT("\"Regex\":\"" pattern "\"", "Removed")
    check_tokens(REGEX("\\\\s"), "",
                 "a\xE1\xA0\x8E"
                 "b a\xC2\x85"
                 "b",
                 "ab / a / b"); // U+180E is not white
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

// What the pattern leaves of the text, characters that the vocabulary lacks as "?".
static void test_kinds_of_characters(void **state)
{
    static const struct {
        const char *regex, *text, *rest;
    } cases[] = {
        { "\\\\w", "a²½ⓐ́_⅓©", "? / ?" }, // below U+0100 other ones than in a set
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
    // However many matches a text has.
    int32_t many[200];
    char expected[201] = "";
    for (int i = 0; i < 200; i++) many[i] = 'x';
    memset(expected, 'y', 200);
    check_decoded("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\","
                  "\"pattern\":{\"Regex\":\"x\"},\"content\":\"y\"}]}",
                  many, 200, expected);
}

// An added token that was found in normalised text decodes to its normalised text: its mark is the
// space before it (tokenizers 0.23).
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
    check_text(t, (int32_t[]){ 202 }, 1, true, "dog"); // an id that is listed twice
    assert_string_equal(tokenizer_token(t, 200), "fox");
    assert_int_equal(tokenizer_id(t, "fox"), 200);
    tokenizer_free(t);
}

// --- long words and hostile patterns -----------------------------------------------------------

static void test_long_word(void **state)
{
    for (int i = 0; i < FOLDERS; i++) {
        struct tokenizer *t = open_golden(folders[i]);
        size_t length = 1 << 20;
        char *text = xmalloc(length + 1);
        for (size_t k = 0; k < length; k++) text[k] = "abcdefgh"[(k * k / 7) % 8];
        text[length] = 0;
        double start = now();
        struct ids ids = encode(t, text, length, 0);
        struct buf back = { 0 };
        tokenizer_decode(t, ids.data, ids.count, false, &back);
        assert_string_equal(back.data, text);
        assert_true(now() - start < 20); // generous: also under sanitizers; n squared takes hours
        buf_release(&back);
        ids_release(&ids);
        free(text);
        tokenizer_free(t);
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

// Time without end: in what PCRE2 counts, and in what it does not.
static void test_hostile_pattern(void **state)
{
    static const char *const regexes[] = { "(a+)+[x-z]", "(?:(?=\\\\p{L}*+)a)*+[bc]",
                                           "(?:(?=(?:(?=\\\\p{L}*+)a)*+)a)*+[bc]" };
    for (size_t i = 0; i < sizeof regexes / sizeof *regexes; i++) {
        struct err err = { "" };
        assert_int_equal(encode_with(regexes[i], 'a', 60000, &err), -1);
        if (!strstr(err.text, "pattern")) fail_msg("%s: %s", regexes[i], err.text);
    }
    // Ctrl-C ends it.
    const atomic_bool flag = true;
    struct err err = { "" };
    cancel_watch(&flag);
    assert_int_equal(encode_with(regexes[2], 'a', 60000, &err), -1);
    assert_string_equal(err.text, "cancelled");
    assert_int_equal(encode_with("a+", 'a', 60000, &err), 0);
    cancel_unwatch(&flag);
}

// What a parenthesis or a quantifier may begin still compiles with callouts in it.
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

// A text far beyond the context is given up before all of its tokens are computed, also within one
// word.
static void test_most(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct err err = { "" };
        struct ids ids = { 0 };
        struct tokenizer *t = open_golden(folders[0]);
        const size_t length = 1 << 20;
        char *text = xmalloc(length + 1);
        for (size_t k = 0; k < length; k++) text[k] = i && k % 2 ? ' ' : 'a';
        text[length] = '\0';
        const struct marked_text m = { .text = text, .length = length, .most = 1000 };
        assert_int_equal(tokenizer_encode_marked(t, &m, 0, &ids, &err), -1);
        assert_non_null(strstr(err.text, "more than 1000 tokens"));
        assert_int_equal(ids.count, 0);
        ids_release(&ids);
        free(text);
        tokenizer_free(t);
    }
}

// Texts are C strings: a NUL byte of the model hides nothing behind it.
static void test_nul(void **state)
{
    struct err err;
    struct buf text = { 0 };
    struct tokenizer *t =
        tokenizer_open("tests/goldens/llava-1.5/tokenizer.json", &err); // <0x00> is token 3
    assert_non_null(t);
    tokenizer_decode(t, (int32_t[]){ 3, 290 }, 2, false, &text);
    assert_true(text.length > 3 && !memcmp(text.data, "\xEF\xBF\xBD", 3));
    assert_int_equal(strlen(text.data), text.length);
    buf_release(&text);
    tokenizer_free(t);
}

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
    // Nor can one of nothing, which is between all characters.
    t = small(",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\"},\"content\":"
              "\"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\"}",
              "", &err);
    assert_non_null(t);
    char *text = xmalloc(100000);
    memset(text, 'a', 100000);
    assert_int_equal(tokenizer_encode(t, text, 100000, 0, &ids, &err), -1);
    assert_non_null(strstr(err.text, "replacements make this text longer than 6314 KB"));
    free(text);
    ids_release(&ids);
    tokenizer_free(t);
}

// --- wrong files -------------------------------------------------------------------------------

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
    check_bad_file("{\"model\":{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}", "twice");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_promptness),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_continuation),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_word_listed_twice),
        cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_merged_special),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_kinds_of_characters),
        cmocka_unit_test(test_decoders),
        cmocka_unit_test(test_decoded_normalised),
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_hostile_pattern),
        cmocka_unit_test(test_pattern_forms),
        cmocka_unit_test(test_most),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_hostile_replacement),
        cmocka_unit_test(test_wrong_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
