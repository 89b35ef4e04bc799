// tests/core/tokenizer/tokenizers.h -- shared by the tests of tokenizers: opening them, checking
// ids and texts, and tokenizers of a few tokens.
#ifndef TESTS_CORE_TOKENIZER_TOKENIZERS_H
#define TESTS_CORE_TOKENIZER_TOKENIZERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/tokenizer/tokenizer.h"

static inline struct tokenizer *open_file(const char *path)
{
    struct err err = { "" };
    struct tokenizer *t = tokenizer_open(path, &err);
    if (!t) fail_msg("%s", err.text);
    return t;
}

static inline struct tokenizer *open_golden(const char *folder)
{
    char *path = xasprintf("tests/goldens/%s/tokenizer.json", folder);
    struct tokenizer *t = open_file(path);
    free(path);
    return t;
}

static inline struct ids encode(const struct tokenizer *t, const char *text, size_t length,
                                int flags)
{
    struct ids ids = { 0 };
    struct err err = { "" };
    if (tokenizer_encode(t, text, length, flags, &ids, &err) < 0) fail_msg("%s", err.text);
    return ids;
}

static inline void check_ids(const struct tokenizer *t, const char *text, size_t length, int flags,
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

// Decodes at once and token by token; every part consists of complete characters.
static inline void check_text(const struct tokenizer *t, const int32_t *ids, size_t count,
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
        // The next byte, if any, begins a character.
        assert_true(((unsigned char)text.data[parts.length] & 0xC0) != 0x80);
    }
    assert_int_equal(parts.length, text.length);
    detokenizer_release(&d);
    buf_release(&text);
    buf_release(&parts);
}

// --- small files -------------------------------------------------------------------------------

// A tokenizer over single characters and a few merges; adds `members` to the file, and `model` to
// its model.
static inline struct tokenizer *small(const char *members, const char *model, struct err *err)
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

// Expects the text's tokens, separated by " / ".
static inline void check_tokens(const char *members, const char *model, const char *text,
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

#define MARK       "\xE2\x96\x81"
#define PRE(kind)  ",\"pre_tokenizer\":{\"type\":" kind "}"
#define NORM(kind) ",\"normalizer\":{\"type\":" kind "}"
#define SPLIT(pattern, behavior) \
    PRE("\"Split\",\"pattern\":{" pattern "},\"behavior\":\"" behavior "\",\"invert\":false")

#endif
