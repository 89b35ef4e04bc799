// tests/core/tokenizer/tokenizer.c -- core/tokenizer/tokenizer*.c: the reference's ids and texts,
// streaming, typed and continued texts, and long ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/base/json.h"
#include "tests/core/tokenizer/tokenizers.h"

static const char *const folders[] = { "llava-1.5",        "llava-siglip-llama3",
                                       "llama-3.2",        "qwen2",
                                       "internvl3",        "internvl2-internlm2",
                                       "internvl2.5-qwen2" };
enum { FOLDERS = sizeof folders / sizeof *folders };

static cJSON *read_golden(const char *tree, const char *folder, const char *file)
{
    struct err err = { "" };
    char *path = xasprintf("%s/goldens/%s/%s", tree, folder, file);
    cJSON *json = json_read(path, 64 << 20, &err);
    free(path);
    if (!json) fail_msg("%s", err.text);
    return json;
}

static struct ids read_ids(const cJSON *list)
{
    struct ids ids = { 0 };
    const cJSON *item;
    cJSON_ArrayForEach(item, list) ids_add(&ids, item->valueint);
    return ids;
}

// --- goldens -------------------------------------------------------------------------------------

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

// --- invalid UTF-8 -------------------------------------------------------------------------------

static void test_bytes(void **state)
{
    struct tokenizer *t = open_golden("qwen2"), *llama = open_golden("llava-1.5");
    check_ids(t, "\0\x01\x7F", 3, 0, (int32_t[]){ 188, 189, 221 }, 3);
    check_ids(llama, "\0\x01\x7F", 3, 0, (int32_t[]){ 345, 3, 4, 130 }, 4);
    // A truncated character becomes one U+FFFD; of an overlong form or a surrogate, each byte does.
    struct ids ids = encode(t, "\xE4\xBD|\xC0\x80|\xED\xA0\x80|\xF0\x9F\x98", 12, TOKENIZE_PLAIN);
    check_text(
        t, ids.data, ids.count, false,
        "\xEF\xBF\xBD|\xEF\xBF\xBD\xEF\xBF\xBD|\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD|\xEF\xBF\xBD");
    ids_release(&ids);
    tokenizer_free(t);
    tokenizer_free(llama);
}

// Streaming random ids equals decoding them at once. Odd rounds have ids below 260, which include
// byte tokens; even rounds have any ids, including some that do not exist.
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

// A character is emitted exactly when its last byte arrives.
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

// Texts are C strings: a NUL byte from the model does not hide the text after it.
static void test_nul(void **state)
{
    struct err err;
    struct buf text = { 0 };
    struct tokenizer *t =
        tokenizer_open("tests/goldens/llava-1.5/tokenizer.json", &err); // token 3 is <0x00>
    assert_non_null(t);
    tokenizer_decode(t, (int32_t[]){ 3, 290 }, 2, false, &text);
    assert_true(text.length > 3 && !memcmp(text.data, "\xEF\xBF\xBD", 3));
    assert_int_equal(strlen(text.data), text.length);
    buf_release(&text);
    tokenizer_free(t);
}

// --- flags ---------------------------------------------------------------------------------------

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

    // A part of the first token is typed.
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

    // Holes: the text after a picture gets a mark, as after a special token, but the text after an
    // answer does not; invalid bytes do not move the holes.
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

    // A hole inside a character leaves two broken characters.
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

// --- long texts ----------------------------------------------------------------------------------

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
        // A generous limit, for sanitizers; quadratic time would take hours.
        assert_true(now() - start < 20);
        buf_release(&back);
        ids_release(&ids);
        free(text);
        tokenizer_free(t);
    }
}

// A text with more tokens than allowed is refused, even if it is one word.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),    cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_bytes),      cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_promptness), cmocka_unit_test(test_nul),
        cmocka_unit_test(test_plain),      cmocka_unit_test(test_continuation),
        cmocka_unit_test(test_long_word),  cmocka_unit_test(test_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
