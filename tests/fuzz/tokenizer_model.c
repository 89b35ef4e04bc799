// tests/fuzz/tokenizer_model.c -- reads arbitrary bytes as a tiktoken.model, a tokenizer.model and
// a merges.txt, with the small files beside them.
//
// The input is tokenizer_config.json, a zero byte and the file, then a line of "=" and the text.
// Members of the config replace other files: "vocab" the vocab.json beside a merges.txt, "json" a
// tokenizer.json, "map" special_tokens_map.json, "added" added_tokens.json, "model" config.json.
#include <cjson/cJSON.h>

#include "core/tokenizer/tokenizer_parts.h"
#include "tests/fuzz/tokens.h"

static void try_model(struct tokenizer *t, const char *text, size_t length)
{
    if (t) exercise(t, text, length);
    tokenizer_free(t);
}

// Takes an object out of the config; NULL: the member is absent or no object.
static cJSON *detach(cJSON *config, const char *key)
{
    cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(config, key);
    if (cJSON_IsObject(item)) return item;
    cJSON_Delete(item);
    return NULL;
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
    cJSON *vocab = detach(c.config, "vocab"), *json = detach(c.config, "json");
    cJSON *model = detach(c.config, "model");
    c.special = detach(c.config, "map");
    c.added = detach(c.config, "added");
    if (cJSON_IsObject(c.config)) {
        companions_infer(&c, model, json);
        tokenizer_config_complete(&c.config, c.special);
    }
    try_model(tokenizer_parse_ranks(file, size, &c, "fuzz", &err), text, length);
    try_model(tokenizer_parse_pieces(file, size, &c, "fuzz", &err), text, length);
    if (vocab) try_model(tokenizer_parse_merges(vocab, file, size, &c, "fuzz", &err), text, length);
    if (json) try_model(companions_read(json, FROM_FILE, &c, "fuzz", &err), text, length);
    cJSON_Delete(vocab);
    cJSON_Delete(json);
    cJSON_Delete(model);
    cJSON_Delete(c.special);
    cJSON_Delete(c.added);
    cJSON_Delete(c.config);
    return 0;
}
