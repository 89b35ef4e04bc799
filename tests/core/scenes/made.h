// tests/core/scenes/made.h -- makes and reads worlds for the tests of core/scenes/.
#ifndef TESTS_CORE_SCENES_MADE_H
#define TESTS_CORE_SCENES_MADE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/scenes/scenes.h"
#include "tests/core/scratch.h"

enum { SCENES = 150, LIMIT = 1 << 28 };

static inline void make(const char *folder, uint64_t seed, int size, unsigned parts)
{
    const struct scenes_request request = {
        .folder = folder, .count = SCENES, .seed = seed, .size = size, .most = 7, .parts = parts
    };
    struct scenes_report report;
    struct err err;
    if (scenes_write(&request, NULL, &report, &err) < 0) fail_msg("%s", err.text);
}

static inline char *read_text(const char *folder, const char *name, size_t *size)
{
    struct err err;
    char *path = xasprintf("%s/%s", folder, name), *text = file_read(path, LIMIT, size, &err);
    if (!text) fail_msg("%s", err.text);
    free(path);
    return text;
}

static inline cJSON *read_list(const char *folder, const char *name)
{
    struct err err;
    char *path = xasprintf("%s/%s", folder, name);
    cJSON *json = json_read(path, LIMIT, &err);
    if (!json) fail_msg("%s", err.text);
    free(path);
    assert_true(cJSON_IsArray(json));
    return json;
}

// Returns objects.jsonl as a list.
static inline cJSON *read_scenes(const char *folder)
{
    size_t size;
    char *text = read_text(folder, "objects.jsonl", &size), *rest = text;
    cJSON *list = cJSON_CreateArray();
    for (char *line; (line = strsep(&rest, "\n")) && *line;)
        cJSON_AddItemToArray(list, cJSON_Parse(line));
    free(text);
    assert_int_equal(cJSON_GetArraySize(list), SCENES);
    return list;
}

static inline const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItem(object, key);
    return cJSON_IsString(value) ? value->valuestring : "";
}

static const char *const places[] = { "top left",    "top",    "top right",
                                      "left",        "middle", "right",
                                      "bottom left", "bottom", "bottom right" };

static inline int place_index(const char *name)
{
    for (int i = 0; i < 9; i++)
        if (!strcmp(places[i], name)) return i;
    return -1;
}

#endif
