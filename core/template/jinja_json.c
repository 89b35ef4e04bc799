// core/template/jinja_json.c -- JSON to values of templates. Unlike cJSON it distinguishes 1 from
// 1.0, which templates print differently.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/template/jinja_parts.h"

static const char too_much[] = "more values and keys than a rendering may take";

struct reader {
    struct jinja_arena *arena;
    const char *text;
    size_t at, size;
    int32_t source;
    int depth;
    const char *wrong; // NULL: no error
};

static struct jinja_value read_value(struct reader *j);

static char now(const struct reader *j)
{
    return j->at < j->size ? j->text[j->at] : '\0';
}

static void skip_space(struct reader *j)
{
    while (j->at < j->size && strchr(" \t\r\n", j->text[j->at]) && j->text[j->at]) j->at++;
}

static bool skip(struct reader *j, char c)
{
    skip_space(j);
    if (now(j) != c || j->at >= j->size) return false;
    j->at++;
    return true;
}

static bool word(struct reader *j, const char *text)
{
    const size_t n = strlen(text);
    if (j->size - j->at < n || memcmp(j->text + j->at, text, n) != 0) return false;
    j->at += n;
    return true;
}

static int32_t read_hex(struct reader *j)
{
    int32_t c = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *d = now(j) ? strchr(digits, now(j)) : NULL;
        if (!d) {
            j->wrong = "\\u needs four hexadecimal digits";
            return 0xFFFD;
        }
        c = 16 * c + (int32_t)(d - digits) - (d - digits > 15 ? 6 : 0);
        j->at++;
    }
    return c;
}

static void read_escape(struct reader *j, struct buf *out)
{
    static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    const char c = now(j);
    const char *found = c ? strchr(letters, c) : NULL;
    j->at++;
    if (found) {
        buf_putc(out, bytes[found - letters]);
        return;
    }
    if (c != 'u') {
        j->wrong = "a wrong escape in a string";
        return;
    }
    int32_t code = read_hex(j);
    if (code >= 0xD800 && code < 0xDC00 && word(j, "\\u")) {
        const int32_t low = read_hex(j);
        code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                                             : 0xFFFD;
    }
    utf8_put(out, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
}

static struct jinja_value read_text(struct reader *j, int32_t source)
{
    struct buf raw = { 0 }, valid = { 0 };
    while (!j->wrong && now(j) != '"') {
        if (j->at >= j->size || (unsigned char)now(j) < 0x20)
            j->wrong = "a string that does not end on its line";
        else if (now(j) == '\\')
            j->at++, read_escape(j, &raw);
        else
            buf_putc(&raw, j->text[j->at++]);
    }
    j->at++;
    utf8_repair(&valid, raw.data ? raw.data : "", raw.length);
    const struct jinja_value v =
        jinja_text(j->arena, valid.data ? valid.data : "", valid.length, source);
    buf_release(&raw);
    buf_release(&valid);
    return v;
}

static struct jinja_value read_number(struct reader *j)
{
    char digits[64];
    size_t n = 0;
    bool real = false;
    while (n < sizeof digits - 1 && now(j) && strchr("+-.eE0123456789", now(j))) {
        real |= strchr(".eE", now(j)) != NULL;
        digits[n++] = j->text[j->at++];
    }
    digits[n] = '\0';
    char *end = digits;
    errno = 0;
    const int64_t integer = real ? 0 : strtoll(digits, &end, 10);
    const double value = real || errno ? strtod(digits, &end) : 0;
    if (!n || *end || digits[0] == '+' || (now(j) && strchr(".eE0123456789", now(j))))
        j->wrong = "a number that is none";
    return real || errno ? jinja_value_real(value) : jinja_value_int(integer);
}

static struct jinja_value read_list(struct reader *j)
{
    struct jinja_list *list = jinja_list_new(j->arena);
    if (skip(j, ']')) return jinja_list_value(JINJA_LIST, list);
    do jinja_list_push(j->arena, list, read_value(j));
    while (!j->wrong && skip(j, ','));
    if (!j->wrong && !skip(j, ']')) j->wrong = "a list that does not end with ']'";
    return jinja_list_value(JINJA_LIST, list);
}

static struct jinja_value read_dict(struct reader *j)
{
    const struct jinja_value dict = jinja_dict(j->arena);
    if (skip(j, '}')) return dict;
    do {
        if (!skip(j, '"')) {
            j->wrong = "an object whose key is no string";
            break;
        }
        const struct jinja_value key = read_text(j, JINJA_TEMPLATE);
        if (!j->wrong && !skip(j, ':')) j->wrong = "a key without ':'";
        if (j->wrong) break;
        const char *name = jinja_keep(j->arena, key.text->bytes, key.text->length);
        jinja_set(j->arena, dict, name, read_value(j));
    } while (!j->wrong && skip(j, ','));
    if (!j->wrong && !skip(j, '}')) j->wrong = "an object that does not end with '}'";
    return dict;
}

static struct jinja_value read_value(struct reader *j)
{
    struct jinja_value v = jinja_value_none();
    if (!jinja_spend(j->arena, 1)) j->wrong = too_much;
    if (++j->depth > 100) j->wrong = "values nested more than 100 deep";
    skip_space(j);
    if (j->wrong)
        ;
    else if (skip(j, '"'))
        v = read_text(j, j->source);
    else if (skip(j, '['))
        v = read_list(j);
    else if (skip(j, '{'))
        v = read_dict(j);
    else if (word(j, "true") || word(j, "false"))
        v = jinja_bool(j->text[j->at - 2] == 'u');
    else if (word(j, "NaN"))
        v = jinja_value_real(NAN);
    else if (word(j, "Infinity") || word(j, "-Infinity"))
        v = jinja_value_real(j->at > 8 && j->text[j->at - 9] == '-' ? -INFINITY : INFINITY);
    else if (!word(j, "null"))
        v = read_number(j);
    j->depth--;
    return v;
}

int jinja_json(struct jinja_arena *arena, const char *json, size_t size, const char *name,
               int32_t source, struct jinja_value *value, struct err *err)
{
    struct reader j = { .arena = arena, .text = json, .size = size, .source = source };
    if (size >= 3 && !memcmp(json, "\xEF\xBB\xBF", 3)) j.at = 3;
    *value = read_value(&j);
    skip_space(&j);
    if (!j.wrong && j.at < size) j.wrong = "something behind the value";
    if (!j.wrong && arena->spent) j.wrong = too_much;
    if (!j.wrong) return 0;
    int line = 1;
    for (size_t i = 0; i < j.at && i < size; i++) line += json[i] == '\n';
    return err_set(err, "%s: line %d: %s", name, line, j.wrong);
}
