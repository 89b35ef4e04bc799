// core/base/json.h -- reads JSON files (cJSON). Messages on JSON that is not valid name the file
// and the line, messages on a member its key.
#ifndef CORE_BASE_JSON_H
#define CORE_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "core/base/err.h"
#include "core/base/mem.h"

// Parses a file, which must be UTF-8 and have at most 2^23 values, or a text; NULL on error
// ("'tokenizer.json' is not valid JSON (near line 3)"). Of several members with the same key the
// last one counts, as in Python. The caller frees the value with cJSON_Delete.
cJSON *json_read(const char *path, size_t limit, struct err *err);
cJSON *json_parse(const char *text, size_t size, const char *name, struct err *err);
// Like json_read, for the text of a file.
cJSON *json_parse_file(const char *text, size_t size, const char *path, struct err *err);
// Like json_read and json_parse, for data, which may have any number of values, and whose texts
// must not be cut off: these refuse invalid UTF-8, \u0000, which would end a C string, and \u
// without four hexadecimal digits. (A tokenizer's files may contain \u0000 in a token.)
cJSON *json_read_data(const char *path, size_t limit, struct err *err);
cJSON *json_parse_data(const char *text, size_t size, const char *name, struct err *err);
// Like json_read_data, for a file of at most 2^23 values.
cJSON *json_read_config(const char *path, size_t limit, struct err *err);
// Returns the end of the error message for a text that cannot be parsed: ": it has NaN, ..." if it
// has a word that Python writes (NaN, Infinity, None, True, False), else "".
const char *json_python(const char *text, size_t size);
// Returns whether any string in a JSON text has \u0000, or a \u without four hexadecimal digits,
// which cJSON reads as \u0000.
bool json_has_nul(const char *text, size_t size);

// These read optional members: *value becomes `otherwise` if the key is absent or null. They return
// -1 if the type or range is wrong, or if a whole number is beyond 2^53 and its text was not kept.
// `object` may be NULL (all keys absent).
int json_int(const cJSON *object, const char *key, int64_t min, int64_t max, int64_t otherwise,
             int64_t *value, struct err *err);
int json_real(const cJSON *object, const char *key, double otherwise, double *value,
              struct err *err);
int json_bool(const cJSON *object, const char *key, bool otherwise, bool *value, struct err *err);
// *value belongs to the object.
int json_text(const cJSON *object, const char *key, const char *otherwise, const char **value,
              struct err *err);
// Reads an object, which still belongs to `object`; *value is NULL if the key is absent or null.
int json_object(const cJSON *object, const char *key, const cJSON **value, struct err *err);
// Returns NULL if the key is absent or null, or if `object` is NULL.
const cJSON *json_get(const cJSON *object, const char *key);
// Returns whether a value is set: not absent, null, false, or an empty list or object.
bool json_is_on(const cJSON *item);

// Numbers that are only passed on (ids) keep their text: a double changes whole numbers beyond
// 2^53. json_parse_exact and json_parse_data keep the text of each number that a double might
// change; json_number_text and json_print write this text.
cJSON *json_parse_exact(const char *text, size_t size, const char *name, struct err *err);
char *json_number_text(const cJSON *item); // for a number, true or false; free() it
char *json_print(const cJSON *json);       // on one line; free() it
cJSON *json_whole_new(int64_t value);
// For comparing ids: returns a whole number up to 2^53 that is written as "1.0" or "1e3" in plain
// digits, and any other text unchanged. free() it.
char *json_number_key(const char *text);

// Returns the whole number of an item; `otherwise` if the item is NULL, not a whole number, or not
// known exactly.
int64_t json_whole(const cJSON *item, int64_t otherwise);

// Appends the text as a quoted JSON string. Bytes that are not UTF-8 (possible in file names)
// become U+FFFD.
void json_put_text(struct buf *b, const char *text);

#endif
