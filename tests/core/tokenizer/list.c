// tests/core/tokenizer/list.c -- core/tokenizer/list.c: lists of tokens as in GGUF files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/tokenizer/tokenizer.h"

enum { MOST = 64 };

struct list {
    struct token_text tokens[MOST], merges[MOST];
    uint8_t types[MOST];
    float scores[MOST];
    struct token_list l;
};

static void add(struct list *s, const char *token, enum token_type type, float score)
{
    s->tokens[s->l.count] = (struct token_text){ token, strlen(token) };
    s->types[s->l.count] = (uint8_t)type;
    s->scores[s->l.count++] = score;
}

static void merge(struct list *s, const char *text)
{
    s->merges[s->l.merge_count++] = (struct token_text){ text, strlen(text) };
}

static void start(struct list *s, const char *model, const char *pre)
{
    *s = (struct list){ .l = { .model = model, .pre = pre, .bos = -1, .eos = -1, .prefix = true } };
    s->l.tokens = s->tokens;
    s->l.types = s->types;
    s->l.scores = s->scores;
    s->l.merges = s->merges;
}

// Expects the text's tokens, separated by "|".
static void expect(const struct list *s, const char *text, int flags, const char *want)
{
    struct err err = { "" };
    struct ids ids = { 0 };
    struct buf got = { 0 };
    struct tokenizer *t = tokenizer_from_list(&s->l, "test", &err);
    if (!t) fail_msg("%s", err.text);
    assert_int_equal(tokenizer_encode(t, text, strlen(text), flags, &ids, &err), 0);
    for (size_t i = 0; i < ids.count; i++)
        buf_printf(&got, "%s%s", i ? "|" : "", tokenizer_token(t, ids.data[i]));
    if (strcmp(got.data, want) != 0)
        fail_msg("%s, %s: %s, not %s", s->l.pre ? s->l.pre : "no pre", text, got.data, want);
    buf_release(&got);
    ids_release(&ids);
    tokenizer_free(t);
}

// A list whose merges join whatever a pre-tokenizer leaves together.
static void words(struct list *s, const char *pre)
{
    static const char *const tokens[] = { "1",   "2", "3",  "4",  "12", "123", "1234",
                                          "34",  "a", "B",  "aB", "'",  "s",   "'s",
                                          "a's", "!", "!a", "/",  "!/" };
    static const char *const merges[] = { "1 2", "3 4", "12 3", "12 34", "123 4",
                                          "' s", "a B", "a 's", "! a",   "! /" };
    start(s, "gpt2", pre);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        add(s, tokens[i], TOKEN_TYPE_NORMAL, 0);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) merge(s, merges[i]);
}

static void words_are_cut(void **state)
{
    static const struct {
        const char *pre, *numbers, *capital, *suffix, *sign;
    } kinds[] = {
        { NULL, "123|4", "aB", "a|'|s", "!|a" },
        { "gpt-2", "1234", "aB", "a|'s", "!|a" },
        { "llama-bpe", "123|4", "aB", "a|'s", "!a" },
        { "glm4", "123|4", "aB", "a|'s", "!a" },
        { "qwen2", "1|2|3|4", "aB", "a|'s", "!a" },
        { "smollm", "1|2|3|4", "aB", "a|'s", "!|a" },
        { "tekken", "1|2|3|4", "a|B", "a|'s", "!a" },
        { "gpt-4o", "123|4", "a|B", "a's", "!a" },
        { "kimi-k2", "123|4", "a|B", "a's", "!a" },
        { "deepseek-v3", "123|4", "aB", "a|'s", "!a" },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct list s;
        words(&s, kinds[i].pre);
        expect(&s, "1234", 0, kinds[i].numbers);
        expect(&s, "aB", 0, kinds[i].capital);
        expect(&s, "a's", 0, kinds[i].suffix);
        expect(&s, "!a", 0, kinds[i].sign);
    }
}

static void special_tokens(void **state)
{
    struct list s;
    words(&s, "llama-bpe");
    s.l.bos = (int32_t)s.l.count;
    s.l.add_bos = tokenizer_list_begins("gpt2", "llama-bpe");
    add(&s, "<s>", TOKEN_TYPE_CONTROL, 0);
    add(&s, "[PAD]", TOKEN_TYPE_UNUSED, 0);
    add(&s, "aa", TOKEN_TYPE_USER, 0);
    expect(&s, "aaa", TOKENIZE_SPECIAL, "<s>|aa|a");
    expect(&s, "a<s>a", TOKENIZE_PLAIN, "a|s|a"); // typed <s>: the bytes < and > have no token here
    assert_false(tokenizer_list_begins("gpt2", "qwen2"));
    assert_true(tokenizer_list_begins("llama", NULL));
}

static void pieces(void **state)
{
    struct list s;
    static char bytes[256][8];
    static struct token_text tokens[300];
    static uint8_t types[300];
    static float scores[300];
    static const struct {
        const char *text;
        enum token_type type;
        float score;
    } more[] = { { "<unk>", TOKEN_TYPE_UNKNOWN, 0 },
                 { "<s>", TOKEN_TYPE_CONTROL, 0 },
                 { "\xE2\x96\x81", TOKEN_TYPE_NORMAL, -5 },
                 { "a", TOKEN_TYPE_NORMAL, -6 },
                 { "b", TOKEN_TYPE_NORMAL, -7 },
                 { "ab", TOKEN_TYPE_NORMAL, -2 },
                 { "\xE2\x96\x81"
                   "a",
                   TOKEN_TYPE_NORMAL, -1 } };
    start(&s, "llama", NULL);
    s.l.tokens = tokens, s.l.types = types, s.l.scores = scores;
    for (int i = 0; i < 256; i++) {
        snprintf(bytes[i], sizeof bytes[i], "<0x%02X>", (unsigned)i);
        tokens[i] = (struct token_text){ bytes[i], 6 };
        types[i] = TOKEN_TYPE_BYTE;
    }
    s.l.count = 256;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++, s.l.count++) {
        tokens[s.l.count] = (struct token_text){ more[i].text, strlen(more[i].text) };
        types[s.l.count] = (uint8_t)more[i].type;
        scores[s.l.count] = more[i].score;
    }
    s.l.bos = 257, s.l.add_bos = true;
    expect(&s, "ab", TOKENIZE_SPECIAL,
           "<s>|\xE2\x96\x81"
           "a|b");
    expect(&s, "c", 0, "\xE2\x96\x81|<0x63>");
    s.l.prefix = false;
    expect(&s, "ab", 0, "ab");
}

// Merges, not scores, decide. Two newlines are one token, although the list calls it ordinary and
// no merge gives it.
static void pieces_with_merges(void **state)
{
    struct list s;
    (void)state;
    start(&s, "gemma4", NULL);
    add(&s, "<unk>", TOKEN_TYPE_UNKNOWN, -1000);
    add(&s, "<bos>", TOKEN_TYPE_CONTROL, -1000);
    add(&s, "\n", TOKEN_TYPE_NORMAL, -1000);
    add(&s, "\n\n", TOKEN_TYPE_NORMAL, -1000);
    add(&s, "\xE2\x96\x81", TOKEN_TYPE_NORMAL, -1000);
    add(&s, "a", TOKEN_TYPE_NORMAL, -1000);
    add(&s, "b", TOKEN_TYPE_NORMAL, -1000);
    add(&s, "ab", TOKEN_TYPE_NORMAL, -1000);
    add(&s, "ba", TOKEN_TYPE_NORMAL, -1000);
    add(&s, "<0x63>", TOKEN_TYPE_BYTE, -1000);
    merge(&s, "b a");
    merge(&s, "a b");
    expect(&s, "aba ab\n\n\nc", 0, "a|ba|\xE2\x96\x81|ab|\n\n|\n|<0x63>");
    s.l.bos = 1, s.l.add_bos = true;
    expect(&s, "<bos>a", TOKENIZE_SPECIAL, "<bos>|<bos>|a");
}

static void refuse(struct list *s, const char *why)
{
    struct err err = { "" };
    assert_null(tokenizer_from_list(&s->l, "test", &err));
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
}

static void bad_lists_are_refused(void **state)
{
    struct list s;
    words(&s, "klingon");
    refuse(&s, "pre-tokenizer 'klingon' is not supported (known: default gpt-2");
    words(&s, "qwen2");
    s.types[3] = 0;
    refuse(&s, "token 3 has the unknown type 0");
    words(&s, "qwen2");
    s.tokens[3] = (struct token_text){ "a\0b", 3 };
    refuse(&s, "zero byte");
    words(&s, "qwen2");
    merge(&s, "a z");
    refuse(&s, "is not in the vocabulary");
    words(&s, "qwen2");
    add(&s, "a", TOKEN_TYPE_NORMAL, 0);
    refuse(&s, "appears twice");
    words(&s, "qwen2");
    s.l.bos = 5000, s.l.add_bos = true;
    refuse(&s, "id without a token");
    words(&s, "qwen2");
    s.l.model = "bert";
    refuse(&s, "model 'bert' is not supported (known: gpt2, llama, gemma4)");
    start(&s, "llama", NULL);
    add(&s, "a", TOKEN_TYPE_NORMAL, 0);
    refuse(&s, "one unknown piece");
    words(&s, "qwen2");
    s.l.count = (1 << 18) + 1;
    s.l.tokens = xcalloc(s.l.count, sizeof *s.l.tokens);
    s.l.types = memset(xmalloc(s.l.count), TOKEN_TYPE_CONTROL, s.l.count);
    refuse(&s, "262145 tokens are special or user-defined");
    free((void *)(uintptr_t)s.l.tokens);
    free((void *)(uintptr_t)s.l.types);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_cut),
        cmocka_unit_test(special_tokens),
        cmocka_unit_test(pieces),
        cmocka_unit_test(pieces_with_merges),
        cmocka_unit_test(bad_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
