// tests/fuzz/tokenizer.c -- reads arbitrary bytes as a tokenizer.json, then encodes a text and
// decodes ids with it.
//
// The input is the file, a line of "=", and the text.
#include "tests/fuzz/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length;
    const char *text = cut_text((const char *)data, &size, &length);
    struct err err;
    struct tokenizer *t = tokenizer_parse((const char *)data, size, "fuzz", &err);
    if (!t) return 0;
    exercise(t, text, length);
    tokenizer_free(t);
    return 0;
}
