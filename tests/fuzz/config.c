// tests/fuzz/config.c -- reads arbitrary bytes as the JSON files of a model folder: config.json, a
// NUL byte, preprocessor_config.json, a NUL byte, generation_config.json. A family may refuse them;
// if it accepts them, it must be able to count a picture's tokens.
#include <string.h>

#include "core/model/families/family.h"
#include "core/template/message.h"

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
    struct err err;
    const char *at = (const char *)bytes, *end = at + size;
    struct checkpoint c = { .folder = (char *)"fuzz" };
    c.config = next_part(&at, end);
    c.preprocessor = next_part(&at, end);
    c.generation = next_part(&at, end);
    const struct family *family = c.config ? family_find(c.config, &err) : NULL;
    if (family) {
        struct model m = { .name = (char *)"fuzz", .checkpoint = &c, .family = family };
        m.arena.backend = backend_cpu();
        if (family->configure(&m, &c, &err) == 0 && family->pictures)
            family->pictures->tokens(&m, (struct picture_shape){ .width = 640, .height = 480 });
        ids_release(&m.eos);
        arena_release(&m.arena);
    }
    cJSON_Delete(c.config);
    cJSON_Delete(c.preprocessor);
    cJSON_Delete(c.generation);
    return 0;
}
