// tests/fuzz/tokens.h -- encodes a text and decodes ids with a tokenizer read from arbitrary bytes.
#ifndef TESTS_FUZZ_TOKENS_H
#define TESTS_FUZZ_TOKENS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/tokenizer/tokenizer.h"

static const char default_text[] =
    "Hello <s> don't\n\n  12345 caf\xC3\xA9 \xE4\xBD\xA0\xF0\x9F\x98\x80"
    "<|im_end|> \xFF\xE2\x96\x81"
    "aaaa  \t x";

// Expects that streaming gives the same text as decoding at once.
static void stream(const struct tokenizer *t, const struct ids *ids)
{
    struct buf all = { 0 }, parts = { 0 };
    struct detokenizer d;
    buf_puts(&all, "");
    buf_puts(&parts, "");
    tokenizer_decode(t, ids->data, ids->count, false, &all);
    detokenizer_start(&d, t, false);
    for (size_t i = 0; i < ids->count; i++) detokenizer_push(&d, ids->data[i], &parts);
    detokenizer_finish(&d, &parts);
    if (all.length != parts.length || memcmp(all.data, parts.data, all.length) != 0) abort();
    detokenizer_release(&d);
    buf_release(&all);
    buf_release(&parts);
}

static void exercise(const struct tokenizer *t, const char *text, size_t length)
{
    struct err err;
    struct ids ids = { 0 };
    for (int flags = 0; flags < 8; flags++) {
        ids_clear(&ids);
        if (tokenizer_encode(t, text, length, flags, &ids, &err) == 0) stream(t, &ids);
    }
    const struct text_range typed[] = { { length / 8, length / 4 }, { length / 2, length } };
    const struct text_hole holes[] = { { 0, true }, { length / 3, false }, { length, true } };
    const struct marked_text m = { text, length, typed, 2, holes, 3, 0 };
    ids_clear(&ids);
    if (tokenizer_encode_marked(t, &m, TOKENIZE_SPECIAL, &ids, &err) == 0) stream(t, &ids);
    ids_clear(&ids);
    for (int32_t i = -2; i < 300; i++) ids_add(&ids, i * 7 % 301);
    stream(t, &ids);
    ids_release(&ids);
}

// The text after a line of "=", if there is one; *size becomes the size of the part before that
// line.
static inline const char *cut_text(const char *file, size_t *size, size_t *length)
{
    const char *mark = memmem(file, *size, "\n=\n", 3);
    *length = mark ? *size - (size_t)(mark - file) - 3 : sizeof default_text - 1;
    if (mark) *size = (size_t)(mark - file);
    return mark ? mark + 3 : default_text;
}

#endif
