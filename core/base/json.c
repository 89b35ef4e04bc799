// core/base/json.c -- JSON values, with messages for people.
#include "core/base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"

cJSON *json_parse(const char *text, size_t size, const char *name, struct err *err)
{
    const char *end = size ? memchr(text, '\0', size) : NULL;
    // JSON holds no NUL: it would hide the rest of a text.
    cJSON *json = end ? NULL : cJSON_ParseWithLengthOpts(text, size, &end, false);
    // What follows the value must be blank.
    for (const char *p = end; json && p && p < text + size; p++)
        if (!strchr(" \t\r\n", *p)) {
            cJSON_Delete(json);
            json = NULL;
            end = p;
        }
    if (json) return json;
    int line = 1;
    for (const char *p = text; end && p < end && p < text + size; p++) line += *p == '\n';
    err_set(err, "'%s' is not valid JSON (near line %d)", name, line);
    return NULL;
}

bool json_has_nul(const char *text, size_t size)
{
    static const char nul[] = "\\u0000";
    for (size_t i = 0; i + sizeof nul - 1 <= size; i++) {
        if (text[i] != '\\') continue;
        if (!memcmp(text + i, nul, sizeof nul - 1)) return true;
        i++; // what is escaped
    }
    return false;
}

cJSON *json_parse_data(const char *text, size_t size, const char *name, struct err *err)
{
    if (!json_has_nul(text, size)) return json_parse(text, size, name, err);
    err_set(err, "'%s' has a character \\u0000, which no text may hold", name);
    return NULL;
}

cJSON *json_read(const char *path, size_t limit, struct err *err)
{
    size_t size;
    char *text = file_read(path, limit, &size, err);
    if (!text) return NULL;
    cJSON *json = json_parse(text, size, path, err);
    free(text);
    return json;
}

const cJSON *json_get(const cJSON *object, const char *key)
{
    const cJSON *item = object ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
    return item && !cJSON_IsNull(item) ? item : NULL;
}

int json_int(const cJSON *object, const char *key, int64_t min, int64_t max, int64_t otherwise,
             int64_t *value, struct err *err)
{
    const cJSON *item = json_get(object, key);
    if (!item) {
        *value = otherwise;
        return 0;
    }
    double x = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    // INT64_MAX as a double is 2^63, which no int64_t holds.
    if (!(x >= (double)min && x <= (double)max && x < 0x1p63) || x != floor(x))
        return err_set(err, "\"%s\" must be a whole number from %lld to %lld", key, (long long)min,
                       (long long)max);
    *value = (int64_t)x;
    return 0;
}

int64_t json_whole(const cJSON *item, int64_t otherwise)
{
    const bool fits = cJSON_IsNumber(item) && fabs(item->valuedouble) < 0x1p63;
    return fits ? (int64_t)item->valuedouble : otherwise;
}

int json_real(const cJSON *object, const char *key, double otherwise, double *value,
              struct err *err)
{
    const cJSON *item = json_get(object, key);
    *value = item ? item->valuedouble : otherwise;
    if (item && (!cJSON_IsNumber(item) || !isfinite(*value)))
        return err_set(err, "\"%s\" must be a number", key);
    return 0;
}

int json_bool(const cJSON *object, const char *key, bool otherwise, bool *value, struct err *err)
{
    const cJSON *item = json_get(object, key);
    *value = item ? cJSON_IsTrue(item) : otherwise;
    if (item && !cJSON_IsBool(item)) return err_set(err, "\"%s\" must be true or false", key);
    return 0;
}

int json_object(const cJSON *object, const char *key, const cJSON **value, struct err *err)
{
    *value = json_get(object, key);
    return !*value || cJSON_IsObject(*value) ? 0 : err_set(err, "\"%s\" must be an object", key);
}

int json_text(const cJSON *object, const char *key, const char *otherwise, const char **value,
              struct err *err)
{
    const cJSON *item = json_get(object, key);
    *value = item && cJSON_IsString(item) ? item->valuestring : otherwise;
    if (item && !cJSON_IsString(item)) return err_set(err, "\"%s\" must be a string", key);
    return 0;
}

void json_put_text(struct buf *b, const char *text)
{
    buf_putc(b, '"');
    for (size_t i = 0, size = strlen(text); i < size;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                              (utf8proc_ssize_t)(size - i), &code);
        if (n <= 0)
            buf_puts(b, "\\ufffd");
        else if (code < 0x20)
            buf_printf(b, "\\u%04x", (unsigned)code);
        else if (code == '"' || code == '\\')
            buf_printf(b, "\\%c", (char)code);
        else
            buf_add(b, text + i, (size_t)n);
        i += n > 0 ? (size_t)n : 1;
    }
    buf_putc(b, '"');
}
