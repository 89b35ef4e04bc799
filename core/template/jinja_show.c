// core/template/jinja_show.c -- values to text in the formats of Python's str(), repr() and
// json.dumps; and JSON to values.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/template/jinja_parts.h"

// Writes the shortest decimals that read back as the same number, in Python's form.
static void show_real(char *text, size_t size, double real)
{
    char digits[40];
    int precision = 1;
    if (isnan(real) || isinf(real)) {
        snprintf(text, size, isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    do snprintf(digits, sizeof digits, "%.*e", precision - 1, real);
    while (strtod(digits, NULL) != real && precision++ < 17);
    const int exponent = (int)strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, size, "%.*e", precision - 1, real);
        return;
    }
    const int places = precision - 1 - exponent;
    snprintf(text, size, "%.*f", places > 1 ? places : 1, real);
}

// --- str and repr ------------------------------------------------------------------------------

static void put_quoted(struct builder *b, const struct jinja_string *s)
{
    const bool twice = memchr(s->bytes, '\'', s->length) && !memchr(s->bytes, '"', s->length);
    const char quote = twice ? '"' : '\'';
    jinja_put_words(b, s->safe ? "Markup(" : "");
    jinja_put_bytes(b, &quote, 1);
    for (size_t i = 0, n; i < s->length && jinja_step(b->r, 1); i += n) {
        const int32_t c = jinja_char_at(s->bytes + i, s->length - i, &n);
        char text[16];
        const char *sign = c > 0 && c < 128 ? strchr("\n\r\t", c) : NULL;
        if (c == '\\' || c == quote)
            snprintf(text, sizeof text, "\\%c", (char)c);
        else if (sign)
            snprintf(text, sizeof text, "\\%c", "nrt"[sign - "\n\r\t"]);
        else if (c >= 0 && !jinja_char_printable(c))
            snprintf(text, sizeof text,
                     c < 0x100     ? "\\x%02x"
                     : c < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                     (unsigned)c);
        else {
            jinja_put_piece(b, s, i, i + n);
            continue;
        }
        jinja_put_derived(b, text, strlen(text), s, i);
    }
    jinja_put_bytes(b, &quote, 1);
    jinja_put_words(b, s->safe ? ")" : "");
}

static void put_repr(struct builder *b, struct jinja_value v);

static void put_nested(struct builder *b, struct jinja_value v)
{
    const bool dict = v.kind == JINJA_DICT, tuple = v.kind == JINJA_TUPLE;
    const size_t count = dict ? v.dict->count : v.list->count;
    jinja_put_words(b, dict ? "{" : tuple ? "(" : "[");
    for (size_t i = 0; i < count && !b->r->failed; i++) {
        if (i) jinja_put_words(b, ", ");
        if (dict) put_repr(b, v.dict->entries[i].key);
        if (dict) jinja_put_words(b, ": ");
        put_repr(b, dict ? v.dict->entries[i].value : v.list->items[i]);
    }
    jinja_put_words(b, dict ? "}" : !tuple ? "]" : count == 1 ? ",)" : ")");
}

static void put_repr(struct builder *b, struct jinja_value v)
{
    char text[400];
    if (!jinja_step(b->r, 1)) return;
    switch (v.kind) {
    case JINJA_UNDEFINED: jinja_put_words(b, "Undefined"); return;
    case JINJA_NONE: jinja_put_words(b, "None"); return;
    case JINJA_BOOL: jinja_put_words(b, v.truth ? "True" : "False"); return;
    case JINJA_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.integer);
        jinja_put_words(b, text);
        return;
    case JINJA_REAL:
        jinja_step(b->r, 100); // up to 17 conversions to decimals and back
        show_real(text, sizeof text, v.real);
        jinja_put_words(b, text);
        return;
    case JINJA_TEXT: put_quoted(b, v.text); return;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        if (jinja_enter(b->r)) put_nested(b, v);
        b->r->depth--;
        return;
    default: jinja_fail(b->r, "%s cannot be printed", jinja_value_kind_name(v));
    }
}

void jinja_put_show(struct builder *b, struct jinja_value v)
{
    if (jinja_is_text(v))
        jinja_put_all(b, v.text);
    else if (v.kind != JINJA_UNDEFINED)
        put_repr(b, v);
}

// --- JSON --------------------------------------------------------------------------------------

static void json_string(struct builder *b, const struct jinja_string *s, bool ascii)
{
    size_t from = 0;
    jinja_put_words(b, "\"");
    for (size_t i = 0, n; i < s->length && jinja_step(b->r, 1); i += n) {
        static const char signs[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
        const int32_t c = jinja_char_at(s->bytes + i, s->length - i, &n);
        const char *sign = c > 0 && c < 128 ? strchr(signs, c) : NULL;
        char text[16];
        if (sign)
            snprintf(text, sizeof text, "\\%c", letters[sign - signs]);
        else if ((c >= 0 && c < 0x20) || (ascii && c >= 0x7F && c < 0x10000 && c != 0x7F))
            snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
        else if (ascii && c >= 0x10000)
            snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD7C0U + ((unsigned)c >> 10),
                     0xDC00U + ((unsigned)c & 0x3FF));
        else
            continue;
        jinja_put_piece(b, s, from, i);
        jinja_put_derived(b, text, strlen(text), s, i);
        from = i + n;
    }
    jinja_put_piece(b, s, from, s->length);
    jinja_put_words(b, "\"");
}

static void json_line(struct builder *b, const struct json_style *style, int level)
{
    if (!style->lines) return;
    jinja_put_words(b, "\n");
    for (int i = 0; i < level && !b->r->failed; i++) jinja_put_spaces(b, style->indent);
}

// Writes a list or a dict.
static void json_items(struct builder *b, struct jinja_value v, const struct json_style *style,
                       int level)
{
    const bool dict = v.kind == JINJA_DICT;
    const size_t count = dict ? v.dict->count : v.list->count;
    jinja_put_words(b, dict ? "{" : "[");
    for (size_t i = 0; i < count && !b->r->failed; i++) {
        if (i) jinja_put_words(b, style->item);
        json_line(b, style, level + 1);
        if (dict) {
            const struct jinja_value key = v.dict->entries[i].key;
            const bool text = jinja_is_text(key);
            if (!text && key.kind != JINJA_NONE && !jinja_is_number(key))
                jinja_fail(b->r, "tojson: the keys of a dict must be text or numbers, not %s",
                           jinja_value_kind_name(key));
            if (!text) jinja_put_words(b, "\"");
            jinja_put_json(b, key, style, level + 1);
            if (!text) jinja_put_words(b, "\"");
            jinja_put_words(b, style->key);
        }
        jinja_put_json(b, dict ? v.dict->entries[i].value : v.list->items[i], style, level + 1);
    }
    if (count) json_line(b, style, level);
    jinja_put_words(b, dict ? "}" : "]");
}

void jinja_put_json(struct builder *b, struct jinja_value v, const struct json_style *style,
                    int level)
{
    if (!jinja_step(b->r, 1)) return;
    if (level > JINJA_DEPTH) {
        jinja_fail(b->r, "tojson: values are nested too deeply");
        return;
    }
    switch (v.kind) {
    case JINJA_NONE: jinja_put_words(b, "null"); return;
    case JINJA_BOOL: jinja_put_words(b, v.truth ? "true" : "false"); return;
    case JINJA_INT:
    case JINJA_REAL:
        if (v.kind == JINJA_REAL && !isfinite(v.real))
            jinja_put_words(b, isnan(v.real) ? "NaN" : v.real < 0 ? "-Infinity" : "Infinity");
        else
            jinja_put_show(b, v);
        return;
    case JINJA_TEXT: json_string(b, v.text, style->ascii); return;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT: json_items(b, v, style, level); return;
    default: jinja_fail(b->r, "tojson cannot write %s", jinja_value_kind_name(v));
    }
}

// Returns a real for a number with a point or an exponent or beyond int64_t, else an integer:
// templates print 1 and 1.0 differently.
static struct jinja_value number_of(const cJSON *item)
{
    const char *text = item->valuestring;
    const double number = item->valuedouble;
    if (!text) // a short integer, or a number like 007.5, which is not JSON but which cJSON accepts
        return fabs(number) < 0x1p53 && trunc(number) == number ? jinja_value_int((int64_t)number)
                                                                : jinja_value_real(number);
    errno = 0;
    const int64_t integer = strtoll(text, NULL, 10);
    return strpbrk(text, ".eE") || errno ? jinja_value_real(number) : jinja_value_int(integer);
}

static struct jinja_value value_of(struct jinja_arena *arena, const cJSON *json, int32_t source)
{
    const cJSON *item;
    if (!jinja_spend(arena, 1) || cJSON_IsNull(json)) return jinja_value_none();
    if (cJSON_IsBool(json)) return jinja_bool(cJSON_IsTrue(json));
    if (cJSON_IsNumber(json)) return number_of(json);
    if (cJSON_IsString(json))
        return jinja_text(arena, json->valuestring, strlen(json->valuestring), source);
    struct jinja_list *list = jinja_list_new(arena);
    const struct jinja_value dict = jinja_dict(arena);
    cJSON_ArrayForEach(item, json)
    {
        const struct jinja_value v = value_of(arena, item, source);
        if (cJSON_IsArray(json))
            jinja_list_push(arena, list, v);
        else
            jinja_set(arena, dict, item->string, v);
    }
    return cJSON_IsArray(json) ? jinja_list_value(JINJA_LIST, list) : dict;
}

int jinja_json(struct jinja_arena *arena, const char *json, size_t size, const char *name,
               int32_t source, struct jinja_value *value, struct err *err)
{
    cJSON *parsed = json_parse_data(json, size, name, err);
    if (!parsed) return -1;
    *value = value_of(arena, parsed, source);
    cJSON_Delete(parsed);
    if (!arena->spent) return 0;
    return err_set(err, "'%s' has more values and keys than a rendering may have", name);
}
