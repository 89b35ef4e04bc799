// tests/fuzz/config.c -- reads arbitrary bytes as the JSON files of a model folder: config.json,
// preprocessor_config.json, generation_config.json and processor_config.json, with a NUL byte
// between them.
#include <string.h>

#include "tests/fuzz/family.h"

// Returns the part up to the next NUL byte as JSON; NULL if it is not a JSON object.
static cJSON *next_part(const char **at, const char *end)
{
    size_t size = strnlen(*at, (size_t)(end - *at));
    cJSON *json = json_parse(*at, size, "fuzz", NULL);
    *at += *at + size < end ? size + 1 : size;
    if (cJSON_IsObject(json)) return json;
    cJSON_Delete(json);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const char *at = (const char *)bytes, *end = at + size;
    struct checkpoint c = { .folder = (char *)"fuzz" };
    c.config = next_part(&at, end);
    c.preprocessor = next_part(&at, end);
    c.generation = next_part(&at, end);
    c.processor = next_part(&at, end);
    configure_family(&c);
    cJSON_Delete(c.config);
    cJSON_Delete(c.processor);
    cJSON_Delete(c.preprocessor);
    cJSON_Delete(c.generation);
    return 0;
}
