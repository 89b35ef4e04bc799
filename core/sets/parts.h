// core/sets/parts.h -- finds the parts of a large JSON object in one pass over the mapped file, and
// parses them one at a time. Parsed as a whole, VQAv2's annotations would take more than a
// gigabyte.
//
//   struct json_parts p;
//   if (json_parts_open(&p, "v2_mscoco_val2014_annotations.json", &err) < 0) ...
//   const struct json_list *l = json_parts_list(&p, "annotations");   // NULL: missing
//   cJSON *item = json_parts_item(&p, &l->items[3], &err);
//   json_parts_close(&p);
#ifndef CORE_SETS_PARTS_H
#define CORE_SETS_PARTS_H

#include "core/base/json.h"

struct json_part {
    uint64_t at, size; // bytes of the file
};

// A member of the object.
struct json_list {
    char *key;
    bool list;               // a list; otherwise one value, items[0]
    struct json_part *items; // [count]
    size_t count;
};

struct json_parts {
    char *path;
    const char *map;
    uint64_t size;
    struct json_list *lists; // [count] in the order of the file
    size_t count, capacity;
};

int json_parts_open(struct json_parts *p, const char *path, struct err *err);
void json_parts_close(struct json_parts *p); // also accepts a zeroed one
const struct json_list *json_parts_list(const struct json_parts *p, const char *key);
bool json_parts_has(const struct json_parts *p, const char *key); // a member that is a list
// Parses an item; NULL if it is not JSON, contains \u0000 or has more than 64 MB. The caller frees
// it with cJSON_Delete.
cJSON *json_parts_item(const struct json_parts *p, const struct json_part *item, struct err *err);
// Writes a numeric id as text (json_number_key); false for negative numbers and other values.
bool json_id_text(const cJSON *json, const char *key, char text[24]);

#endif
