// tests/fuzz/tokenizer_model.c -- reads arbitrary bytes as a tiktoken.model, a tokenizer.model and
// a merges.txt.
//
// The input is tokenizer_config.json (whose "vocab" replaces the vocab.json beside a merges.txt), a
// zero byte and the file, then a line of "=" and the text.
#include <cjson/cJSON.h>

#include "core/tokenizer/tokenizer_parts.h"
#include "tests/fuzz/tokens.h"

static void try_model(struct tokenizer *t, const char *text, size_t length)
{
    if (t) exercise(t, text, length);
    tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length;
    struct err err;
    const char *input = (const char *)data, *text = cut_text(input, &size, &length);
    const char *zero = memchr(input, 0, size);
    if (!zero) return 0;
    const char *file = zero + 1;
    size -= (size_t)(file - input);
    struct companions c = { .config = cJSON_ParseWithLength(input, (size_t)(zero - input)) };
    try_model(tokenizer_parse_ranks(file, size, &c, "fuzz", &err), text, length);
    try_model(tokenizer_parse_pieces(file, size, &c, "fuzz", &err), text, length);
    cJSON *vocab = cJSON_DetachItemFromObjectCaseSensitive(c.config, "vocab");
    if (vocab) try_model(tokenizer_parse_merges(vocab, file, size, &c, "fuzz", &err), text, length);
    cJSON_Delete(vocab);
    cJSON_Delete(c.config);
    return 0;
}
