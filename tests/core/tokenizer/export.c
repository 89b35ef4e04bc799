// tests/core/tokenizer/export.c -- tokenizers exported as lists and read back have the same tokens
// and give the same ids for random texts; exports that are refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/tokenizer/tokenizer.h"

// A text of random parts: characters of one to four bytes, words, white space.
static size_t random_text(char *text, size_t room, uint32_t *seed)
{
    static const char *const parts[] = {
        " ",  "  ", "\n", "the",  "ing", "A", "7",  "2024",
        "'s", ".",  "é",  "世界", "한",  "😀", "_x", "\t",
    };
    size_t n = 0;
    for (;;) {
        *seed = *seed * 1664525 + 1013904223;
        const char *part = parts[*seed >> 28];
        if (n + strlen(part) + 1 > room || (*seed >> 8 & 63) == 0) break;
        memcpy(text + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

static void same_ids(const char *name, const struct tokenizer *a, const struct tokenizer *b)
{
    struct ids x = { 0 }, y = { 0 };
    struct err err;
    char text[400];
    uint32_t seed = 1;
    for (int i = 0; i < 300; i++) {
        const size_t n = random_text(text, sizeof text, &seed);
        ids_clear(&x);
        ids_clear(&y);
        assert_int_equal(tokenizer_encode(a, text, n, i % 2, &x, &err), 0);
        assert_int_equal(tokenizer_encode(b, text, n, i % 2, &y, &err), 0);
        if (x.count != y.count || memcmp(x.data, y.data, x.count * sizeof *x.data) != 0)
            fail_msg("%s: the ids differ for '%.*s'", name, (int)n, text);
    }
    ids_release(&x);
    ids_release(&y);
}

// Both give the same ids; each token of `t` has the same text and kind in `again`.
static void same_tokenizer(const char *path, const struct tokenizer *t,
                           const struct tokenizer *again)
{
    same_ids(path, t, again);
    for (int32_t id = 0; id < tokenizer_size(t); id++) {
        const char *text = tokenizer_token(t, id), *other = tokenizer_token(again, id);
        if (text && *text && (!other || strcmp(text, other) != 0))
            fail_msg("%s: token %d is '%s', not '%s'", path, (int)id, other ? other : "", text);
        if (text && *text)
            assert_int_equal(tokenizer_is_special(t, id), tokenizer_is_special(again, id));
    }
}

static void check(const char *path, const char *model, const char *pre)
{
    struct err err;
    struct tokenizer *t = tokenizer_open(path, &err);
    if (!t) fail_msg("%s", err.text);
    struct token_export *e = tokenizer_export(t, tokenizer_size(t) + 3, model, &err);
    if (!e) fail_msg("%s: %s", path, err.text);
    const struct token_list *l = token_export_list(e);
    assert_string_equal(l->model, model);
    if (pre) assert_string_equal(l->pre, pre);
    struct tokenizer *again = tokenizer_from_list(l, path, &err);
    if (!again) fail_msg("%s", err.text);
    same_tokenizer(path, t, again);
    tokenizer_free(again);
    char *json = tokenizer_list_json(l, &err);
    if (!json) fail_msg("%s", err.text);
    again = tokenizer_parse(json, strlen(json), path, &err);
    if (!again) fail_msg("%s", err.text);
    same_tokenizer(path, t, again);
    free(json);
    tokenizer_free(again);
    token_export_free(e);
    tokenizer_free(t);
}

static void byte_level(void **state)
{
    (void)state;
    check("build/goldens/tokenizers/qwen2-151k/tokenizer.json", "gpt2", "qwen2");
    check("tests/goldens/llama-3.2/tokenizer.json", "gpt2", "llama-bpe");
    check("tests/goldens/qwen2/tokenizer.json", "gpt2", "qwen2");
}

static void sentencepiece(void **state)
{
    (void)state;
    check("tests/goldens/llava-1.5/tokenizer.json", "llama", NULL);
    check("tests/goldens/internvl2-internlm2", "llama", NULL);
    check("tests/goldens/tokenizers/llama", "llama", NULL);
    check("tests/goldens/gemma4/tokenizer.json", "gemma4", NULL);
}

// Lists of Gemma 4 put no space before a text.
static void a_list_without_a_leading_space_is_refused(void **state)
{
    struct err err;
    (void)state;
    struct tokenizer *t = tokenizer_open("tests/goldens/llava-1.5/tokenizer.json", &err);
    if (!t) fail_msg("%s", err.text);
    assert_null(tokenizer_export(t, tokenizer_size(t), "gemma4", &err));
    assert_non_null(strstr(err.text, "how its tokenizer treats spaces"));
    tokenizer_free(t);
}

static void ranks(void **state)
{
    (void)state;
    // The vocabulary is too small to identify the pre-tokenizer.
    check("tests/goldens/tokenizers/kimi", "gpt2", NULL);
}

static void a_unigram_model_is_refused(void **state)
{
    (void)state;
    struct err err;
    struct tokenizer *t = tokenizer_open("tests/goldens/tokenizers/t5-json", &err);
    if (!t) fail_msg("%s", err.text);
    assert_null(tokenizer_export(t, 1000000, "llama", &err));
    assert_non_null(strstr(err.text, "unigram"));
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level),
        cmocka_unit_test(sentencepiece),
        cmocka_unit_test(a_list_without_a_leading_space_is_refused),
        cmocka_unit_test(ranks),
        cmocka_unit_test(a_unigram_model_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
