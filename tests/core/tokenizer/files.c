// tests/core/tokenizer/files.c -- core/tokenizer/folder.c, list.c and unigram.c: folders with
// tokenizer.model, tiktoken.model, vocab.json, or a unigram model in a tokenizer.json. Vectors are
// those of SentencePiece, tiktoken and tokenizers (tests/goldens/tokenizers/make.py).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/base/json.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/tokenizer_parts.h"
#include "tests/core/scratch.h"

static struct tokenizer *open_folder(const char *name)
{
    struct err err = { "" };
    char *folder = xasprintf("tests/goldens/tokenizers/%s", name);
    struct tokenizer *t = tokenizer_open_folder(folder, &err);
    free(folder);
    if (!t) fail_msg("%s", err.text);
    return t;
}

// --- vectors -----------------------------------------------------------------------------------

static const struct {
    const char *name;
    int flags;
} folders[] = {
    { "llama", TOKENIZE_PLAIN },         { "bpe-rules", TOKENIZE_PLAIN }, { "t5", TOKENIZE_PLAIN },
    { "unigram-bytes", TOKENIZE_PLAIN }, { "kimi", TOKENIZE_PLAIN },      { "t5-json", 0 },
};
enum { FOLDERS = 6 };

static void check_ids(const struct tokenizer *t, const char *text, int flags,
                      const int32_t *expected, size_t count)
{
    struct ids ids = { 0 };
    struct err err = { "" };
    if (tokenizer_encode(t, text, strlen(text), flags, &ids, &err) < 0) fail_msg("%s", err.text);
    if (ids.count != count ||
        (count && memcmp(ids.data, expected, count * sizeof *expected) != 0)) {
        struct buf b = { 0 };
        buf_puts(&b, "");
        for (size_t i = 0; i < ids.count; i++) buf_printf(&b, " %d", ids.data[i]);
        fail_msg("\"%s\" gives%s", text, b.data);
    }
    ids_release(&ids);
}

// Decodes at once and token by token.
static void check_text(const struct tokenizer *t, const int32_t *ids, size_t count,
                       const char *expected)
{
    struct buf text = { 0 }, parts = { 0 };
    struct detokenizer d;
    buf_puts(&text, "");
    buf_puts(&parts, "");
    tokenizer_decode(t, ids, count, false, &text);
    if (expected) assert_string_equal(text.data, expected);
    detokenizer_start(&d, t, false);
    for (size_t i = 0; i < count; i++) {
        detokenizer_push(&d, ids[i], &parts);
        assert_true(parts.length <= text.length);
        assert_memory_equal(parts.data, text.data, parts.length);
        assert_true(((unsigned char)text.data[parts.length] & 0xC0) != 0x80);
    }
    detokenizer_finish(&d, &parts);
    assert_string_equal(parts.data, text.data);
    detokenizer_release(&d);
    buf_release(&text);
    buf_release(&parts);
}

static void check_vector(const struct tokenizer *t, const cJSON *v, int flags)
{
    struct ids ids = { 0 };
    const cJSON *text = json_get(v, "text"), *id;
    cJSON_ArrayForEach(id, json_get(v, "ids")) ids_add(&ids, id->valueint);
    if (text) check_ids(t, text->valuestring, flags, ids.data, ids.count);
    check_text(t, ids.data, ids.count, json_get(v, "decoded")->valuestring);
    ids_release(&ids);
}

static void test_vectors(void **state)
{
    for (int i = 0; i < FOLDERS; i++) {
        struct err err = { "" };
        struct tokenizer *t = open_folder(folders[i].name);
        char *path = xasprintf("tests/goldens/tokenizers/%s/vectors.json", folders[i].name);
        cJSON *json = json_read(path, 1 << 20, &err);
        if (!json) fail_msg("%s", err.text);
        assert_int_equal(cJSON_GetArraySize(json), 100);
        const cJSON *v;
        cJSON_ArrayForEach(v, json) check_vector(t, v, folders[i].flags);
        cJSON_Delete(json);
        free(path);
        tokenizer_free(t);
    }
}

static void test_streaming(void **state)
{
    uint32_t x = 1;
    for (int i = 0; i < FOLDERS; i++) {
        struct tokenizer *t = open_folder(folders[i].name);
        for (int round = 0; round < 1000; round++) {
            int32_t ids[32];
            size_t count = 1 + (x >> 16) % 32;
            uint32_t range = round % 2 ? 260 : (uint32_t)tokenizer_size(t) + 3;
            for (size_t k = 0; k < count; k++) {
                x = x * 1664525 + 1013904223;
                ids[k] = (int32_t)((x >> 8) % range) - 1;
            }
            check_text(t, ids, count, NULL);
        }
        tokenizer_free(t);
    }
}

// A text without spaces is one word: quadratic time would take hours.
static void test_long_texts(void **state)
{
    const size_t length = 1 << 20;
    char *text = xmalloc(length + 1);
    for (int i = 0; i < FOLDERS; i++) {
        struct tokenizer *t = open_folder(folders[i].name);
        for (size_t k = 0; k < length; k++) text[k] = "abcdefo-"[(k * k / 7) % 8];
        text[length] = 0;
        struct ids ids = { 0 };
        struct buf back = { 0 };
        struct err err = { "" };
        assert_int_equal(tokenizer_encode(t, text, length, TOKENIZE_PLAIN, &ids, &err), 0);
        assert_true(ids.count > 1000);
        tokenizer_decode(t, ids.data, ids.count, false, &back);
        assert_memory_equal(back.data, text, length);
        ids_release(&ids);
        buf_release(&back);
        tokenizer_free(t);
    }
    free(text);
}

// --- special tokens ----------------------------------------------------------------------------

static void test_llama(void **state)
{
    struct tokenizer *t = open_folder("llama");
    const int32_t a = tokenizer_id(t, MARK "a"), image = tokenizer_id(t, "<image>");
    assert_int_equal(image, 902);
    assert_true(tokenizer_is_special(t, image));
    assert_true(tokenizer_is_special(t, tokenizer_id(t, "<ctl>")));  // a control piece
    assert_false(tokenizer_is_special(t, tokenizer_id(t, "<sep>"))); // a user-defined one
    assert_int_equal(tokenizer_size(t), 903);
    check_ids(t, "a<image>a", TOKENIZE_SPECIAL, (int32_t[]){ 1, a, 902, a }, 4);
    check_ids(t, "<s>", 0, (int32_t[]){ 1 }, 1);
    // No mark is put before a text that follows other tokens.
    check_ids(t, "a", TOKENIZE_CONTINUATION, (int32_t[]){ tokenizer_id(t, "a") }, 1);
    check_text(t, (int32_t[]){ 1, a, 902, a, 0 }, 5, "<s> a<image> a \xE2\x81\x87 ");
    struct ids ids = { 0 };
    assert_int_equal(tokenizer_encode(t, "<s><image>", 10, TOKENIZE_PLAIN, &ids, NULL), 0);
    for (size_t i = 0; i < ids.count; i++) assert_false(tokenizer_is_special(t, ids.data[i]));
    ids_release(&ids);
    tokenizer_free(t);
}

static void test_kimi(void **state)
{
    struct tokenizer *t = open_folder("kimi");
    const int32_t a = tokenizer_id(t, "a");
    check_ids(t, "a<|im_end|>a", TOKENIZE_SPECIAL, (int32_t[]){ a, 902, a }, 3);
    assert_int_equal(tokenizer_id(t, "<|im_user|>"), 903);
    // Each byte of an incomplete character is held back until it is known to be invalid.
    const int32_t cut[] = { tokenizer_id(t, "\xC3\xA4"), tokenizer_id(t, "\xC2\xBD"), a };
    check_text(t, cut, 3,
               "\xEF\xBF\xBD"
               "a");
    tokenizer_free(t);
}

static void test_t5(void **state)
{
    struct tokenizer *t = open_folder("t5");
    struct ids ids = { 0 };
    assert_int_equal(tokenizer_encode(t, "a", 1, TOKENIZE_SPECIAL, &ids, NULL), 0);
    assert_int_equal(ids.data[ids.count - 1], tokenizer_id(t, "</s>"));
    assert_int_equal(ids.data[0], tokenizer_id(t, MARK "a"));
    ids_release(&ids);
    tokenizer_free(t);
}

// An empty file is called empty; for other content, the error names the expected format.
static void errors_name_the_expected_format(void **state)
{
    static const struct {
        const char *name, *text, *why;
    } cases[] = {
        { "tiktoken.model", "", "is empty" },
        { "tokenizer.model", "", "is empty" },
        { "tokenizer.json", "", "is empty" },
        { "tokenizer.json", "\xff\xfe{", "is UTF-16: convert it" },
        { "tokenizer.json", "{\"_\":\n\"\xe9\"}", "line 2, byte 2 is 0xE9, which is not UTF-8" },
        { "tiktoken.model", "aaa\n", "line 1 is not a token in base64 and its rank" },
        { "odd.tiktoken", "\x01\x02", "line 1 is not a token in base64 and its rank" },
        { "odd.model", "\x01\x02", "SentencePiece" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err;
        char *folder = scratch_new(), *path = xasprintf("%s/%s", folder, cases[i].name);
        scratch_write(folder, cases[i].name, cases[i].text, strlen(cases[i].text));
        assert_null(tokenizer_open(path, &err));
        if (!strstr(err.text, cases[i].why)) fail_msg("%s: %s", cases[i].name, err.text);
        free(path);
        scratch_remove(folder);
    }
}

// A truncated file, or one with a changed byte, is read or refused with a message that names it.
static void test_damaged_files(void **state)
{
    static const char *const paths[] = { "tests/goldens/tokenizers/llama/tokenizer.model",
                                         "tests/goldens/tokenizers/t5/tokenizer.model",
                                         "tests/goldens/tokenizers/kimi/tiktoken.model" };
    const struct companions none = { 0 };
    uint32_t x = 3;
    for (int i = 0; i < 3; i++) {
        size_t size;
        struct err err = { "" };
        char *file = file_read(paths[i], 1 << 20, &size, &err);
        assert_non_null(file);
        for (int round = 0; round < 300; round++) {
            char *copy = xmalloc(size);
            size_t length = size;
            memcpy(copy, file, size);
            x = x * 1664525 + 1013904223;
            if (round % 2)
                length = x % size;
            else
                copy[x % size] = (char)(x >> 24);
            err.text[0] = 0;
            struct tokenizer *t =
                i == 2 ? tokenizer_parse_ranks(copy, length, &none, "damaged", &err)
                       : tokenizer_parse_pieces(copy, length, &none, "damaged", &err);
            if (!t) assert_non_null(strstr(err.text, "damaged"));
            tokenizer_free(t);
            free(copy);
        }
        free(file);
    }
}

// --- ranks -------------------------------------------------------------------------------------

// A file of all single bytes, then the given lines.
static struct tokenizer *parse_ranks(const char *lines, const char *config, struct err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct buf b = { 0 };
    for (int i = 0; i < 256; i++)
        buf_printf(&b, "%c%c== %d\n", digits[i >> 2], digits[(i & 3) << 4], i);
    buf_puts(&b, lines);
    struct companions c = { .config = cJSON_Parse(config) };
    struct tokenizer *t = tokenizer_parse_ranks(b.data, b.length, &c, "small.ranks", err);
    cJSON_Delete(c.config);
    buf_release(&b);
    return t;
}

static void check_ranks(const char *lines, const char *config, const char *why)
{
    struct err err = { "" };
    assert_null(parse_ranks(lines, config, &err));
    if (!strstr(err.text, why) || !strstr(err.text, "small.ranks"))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void test_ranks(void **state)
{
    struct err err = { "" };
    // "ab" 300, "bc" 299, "abcd" 298: "abcd" is found as a whole word, but no merge leads to it.
    struct tokenizer *t = parse_ranks("YWI= 300\r\nYmM= 299\n\nYWJjZA== 298", "{}", &err);
    if (!t) fail_msg("%s", err.text);
    check_ids(t, "abc", 0, (int32_t[]){ 'a', 299 }, 2);
    check_ids(t, "abcd", 0, (int32_t[]){ 298 }, 1);
    check_ids(t, "abcde", 0, (int32_t[]){ 'a', 299, 'd', 'e' }, 4);
    check_ids(t,
              "\xE4\xBD\xA0"
              "ab",
              0, (int32_t[]){ 0xE4, 0xBD, 0xA0, 300 }, 4);
    assert_int_equal(tokenizer_size(t), 301);
    assert_null(tokenizer_token(t, 260));
    tokenizer_free(t);
    t = parse_ranks("", "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", &err);
    if (!t) fail_msg("%s", err.text);
    tokenizer_free(t);
    // A special token may be spelled like the character that represents a byte.
    t = parse_ranks("", "{\"bos_token\":\"\xC3\xA9\"}", &err);
    if (!t) fail_msg("%s", err.text);
    tokenizer_free(t);
    check_ranks("YWI 300\n", "{}", "base64");
    check_ranks("Y=I= 300\n", "{}", "base64");
    check_ranks("YWI= x\n", "{}", "line 257");
    check_ranks("YWI=\n", "{}", "line 257");
    check_ranks("YWI= 99999999999999999999\n", "{}", "line 257");
    check_ranks("YWI= 2000000000\n", "{}", "id");
    check_ranks("YWI= 300\nYWI= 301\n", "{}", "twice");
    check_ranks("YWI= 7\n", "{}", "same id");
    check_ranks("", "{\"tokenizer_class\":\"OddTokenizer\"}", "OddTokenizer");
    check_ranks("", "{\"added_tokens_decoder\":{\"-1\":{\"content\":\"x\"}}}",
                "added_tokens_decoder");
    const struct companions none = { 0 };
    assert_null(tokenizer_parse_ranks("YQ== 0\n", 7, &none, "x", &err));
    assert_non_null(strstr(err.text, "byte 0x00"));
    assert_null(tokenizer_parse_ranks("", 0, &none, "x", &err));
    assert_non_null(strstr(err.text, "empty"));
}

// --- folders -----------------------------------------------------------------------------------

static void copy_file(const char *from, const char *folder, const char *name)
{
    size_t size;
    struct err err = { "" };
    char *text = file_read(from, 1 << 20, &size, &err);
    if (!text) fail_msg("%s", err.text);
    char *path = xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    free(path);
    free(text);
}

static void check_size(const char *folder, int32_t size)
{
    struct err err = { "" };
    struct tokenizer *t = tokenizer_open_folder(folder, &err);
    if (!t) fail_msg("%s", err.text);
    assert_int_equal(tokenizer_size(t), size);
    tokenizer_free(t);
}

// The first existing one of tokenizer.json, tiktoken.model and tokenizer.model counts; small files
// beside it add tokens.
static void test_folders(void **state)
{
    struct err err = { "" };
    const char *tmp = getenv("TMPDIR");
    char *folder = xasprintf("%s/tokenizer-files-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    assert_null(tokenizer_open_folder(folder, &err));
    assert_non_null(strstr(err.text, "tiktoken.model"));
    copy_file("tests/goldens/tokenizers/llama/tokenizer.model", folder, "tokenizer.model");
    check_size(folder, 900);
    // Before added_tokens_decoder existed, two other files named the added tokens.
    char *added = xasprintf("%s/added_tokens.json", folder);
    FILE *f = fopen(added, "w");
    fputs("{\"<image>\": 900, \"<plain>\": 901}", f);
    fclose(f);
    char *map = xasprintf("%s/special_tokens_map.json", folder);
    f = fopen(map, "w");
    fputs("{\"additional_special_tokens\": [\"<image>\"], \"bos_token\": {\"content\": \"</s>\"}}",
          f);
    fclose(f);
    struct tokenizer *t = tokenizer_open_folder(folder, &err);
    if (!t) fail_msg("%s", err.text);
    assert_true(tokenizer_is_special(t, tokenizer_id(t, "<image>")));
    assert_false(tokenizer_is_special(t, tokenizer_id(t, "<plain>")));
    check_ids(t, "<plain>", TOKENIZE_SPECIAL, (int32_t[]){ 2, 901 }, 2);
    tokenizer_free(t);
    copy_file("tests/goldens/tokenizers/kimi/tiktoken.model", folder, "tiktoken.model");
    copy_file("tests/goldens/tokenizers/kimi/tokenizer_config.json", folder,
              "tokenizer_config.json");
    check_size(folder, 904);
    copy_file("tests/goldens/tokenizers/t5-json/tokenizer.json", folder, "tokenizer.json");
    check_size(folder, 604);
    free(added);
    free(map);
    free(folder);
}

// The golden's own vocab.json and merges.txt give the ids of its tokenizer.json.
static void test_merges(void **state)
{
    struct err err = { "" };
    struct tokenizer *t = tokenizer_open("tests/goldens/qwen2/vocab.json", &err);
    struct tokenizer *own = tokenizer_open("tests/goldens/qwen2/tokenizer.json", &err);
    if (!t || !own) fail_msg("%s", err.text);
    cJSON *json = json_read("build/goldens/qwen2/golden.json", 64 << 20, &err);
    const cJSON *c, *cases = json_get(json_get(json, "tokenizer"), "cases");
    assert_true(cJSON_GetArraySize(cases) > 50);
    cJSON_ArrayForEach(c, cases)
    {
        const char *text = json_get(c, "text")->valuestring;
        struct ids ids = { 0 };
        assert_int_equal(tokenizer_encode(own, text, strlen(text), 1, &ids, &err), 0);
        check_ids(t, text, 1, ids.data, ids.count);
        check_text(t, ids.data, ids.count, NULL);
        ids_release(&ids);
    }
    assert_true(tokenizer_is_special(t, tokenizer_id(t, "<|im_end|>")));
    cJSON_Delete(json);
    tokenizer_free(t);
    tokenizer_free(own);
}

static void check_merges(const char *config, const char *merges, const char *why)
{
    struct err err = { "" };
    struct companions c = { .config = cJSON_Parse(config) };
    cJSON *vocab = cJSON_Parse("{\"a\":0,\"b\":1,\"ab\":2}");
    struct tokenizer *t =
        tokenizer_parse_merges(vocab, merges, strlen(merges), &c, "small.vocab", &err);
    if (*why && (t || !strstr(err.text, why) || !strstr(err.text, "small.vocab")))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
    if (!*why && !t) fail_msg("%s", err.text);
    if (t) check_ids(t, "ab", 0, (int32_t[]){ 2 }, 1);
    tokenizer_free(t);
    cJSON_Delete(vocab);
    cJSON_Delete(c.config);
}

static void test_small_merges(void **state)
{
    const char *gpt2 = "{\"tokenizer_class\":\"GPT2TokenizerFast\"}";
    check_merges(gpt2, "#version: 0.2\r\na b\r\n\n", "");
    check_merges(gpt2, "a b", "");
    check_merges(gpt2, "a c\n", "merge 0");
    check_merges(gpt2, "ab\n", "two tokens");
    check_merges("{}", "a b\n", "tokenizer_class");
    check_merges("{\"tokenizer_class\":\"CLIPTokenizer\"}", "a b\n", "CLIPTokenizer");
    check_merges("{\"tokenizer_class\":\"GPT2Tokenizer\",\"added_tokens_decoder\":{\"3\":{}}}",
                 "a b\n", "content");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_kimi),
        cmocka_unit_test(test_t5),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_merges),
        cmocka_unit_test(errors_name_the_expected_format),
        cmocka_unit_test(test_small_merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
