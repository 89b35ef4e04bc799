// core/base/json.c -- JSON values, with messages for the user.
#include "core/base/json.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

// When memory runs out, cJSON's own allocator returns NULL, which looks like invalid JSON or a
// missing member; xmalloc ends the program instead.
__attribute__((constructor)) static void use_xmalloc(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){ .malloc_fn = xmalloc, .free_fn = free });
}

// Returns the position of the quote that ends the string whose first quote is at i; at least
// `size`: the text ends first.
static size_t string_end(const char *text, size_t size, size_t i)
{
    for (i++; i < size && text[i] != '"'; i++) i += text[i] == '\\';
    return i;
}

const char *json_python(const char *text, size_t size)
{
    static const struct {
        const char *word, *why;
    } words[] = {
        { "NaN", ": it has NaN, which Python writes but JSON lacks: write null" },
        { "Infinity", ": it has Infinity, which Python writes but JSON lacks: write null" },
        { "None", ": it has None, as Python spells it: write null" },
        { "True", ": it has True, as Python spells it: write true" },
        { "False", ": it has False, as Python spells it: write false" },
    };
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"') i = string_end(text, size, i);
        for (size_t k = 0; i < size && k < sizeof words / sizeof *words; k++) {
            const size_t n = strlen(words[k].word);
            if (i + n <= size && !memcmp(text + i, words[k].word, n)) return words[k].why;
        }
    }
    return "";
}

// --- duplicate keys ------------------------------------------------------------------------------

// Returns the slot of the key, or the free slot for it.
static cJSON **find_key(cJSON **slots, size_t count, const char *key)
{
    for (size_t i = names_hash(key);; i++) {
        cJSON **slot = &slots[i & (count - 1)];
        if (!*slot || !strcmp((*slot)->string, key)) return slot;
    }
}

// Of several members with the same key, keeps only the last, as Python does; cJSON would find the
// first.
static void keep_last(cJSON *item)
{
    size_t count = 2;
    for (const cJSON *m = item->child; m; m = m->next) count++;
    while (count & (count - 1)) count += count & -count; // the next power of two
    cJSON **slots = cJSON_IsObject(item) ? xcalloc(2 * count, sizeof(cJSON *)) : NULL;
    for (cJSON *m = item->child; m; m = m->next) {
        if (m->child) keep_last(m);
        if (!slots) continue;
        cJSON **slot = find_key(slots, 2 * count, m->string);
        if (*slot) cJSON_Delete(cJSON_DetachItemViaPointer(item, *slot));
        *slot = m;
    }
    free(slots);
}

static cJSON *parse(const char *text, size_t size, const char *name, struct err *err)
{
    const char *end = size ? memchr(text, '\0', size) : NULL;
    // Refuses NUL, which JSON forbids and which would end the text early.
    cJSON *json = end ? NULL : cJSON_ParseWithLengthOpts(text, size, &end, false);
    // Only white space may follow the value.
    for (const char *p = end; json && p && p < text + size; p++)
        if (!strchr(" \t\r\n", *p)) {
            cJSON_Delete(json);
            json = NULL;
            end = p;
        }
    if (json) return json;
    int line = 1;
    for (const char *p = text; end && p < end && p < text + size; p++) line += *p == '\n';
    err_set(err, "'%s' is not valid JSON (near line %d)%s", name, line, json_python(text, size));
    return NULL;
}

cJSON *json_parse(const char *text, size_t size, const char *name, struct err *err)
{
    cJSON *json = parse(text, size, name, err);
    if (json) keep_last(json);
    return json;
}

bool json_has_nul(const char *text, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++) {
        if (text[i] != '\\' || text[++i] != 'u') continue; // skips the escaped character
        size_t n = 0;
        bool zero = true;
        for (; n < 4 && i + 1 + n < size && isxdigit((unsigned char)text[i + 1 + n]); n++)
            zero &= text[i + 1 + n] == '0';
        if (n < 4 || zero) return true;
    }
    return false;
}

// --- the text of numbers -------------------------------------------------------------------------

// A number's text is kept in its valuestring, which cJSON leaves NULL, but copies and frees if it
// is set.

static size_t digits(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && p[i] >= '0' && p[i] <= '9') i++;
    return i;
}

// Returns whether the n characters at p are a number in JSON; cJSON also accepts "007" and "1.".
// *whole: the number has no fraction and no exponent.
static bool is_number(const char *p, size_t n, bool *whole)
{
    size_t i = n && *p == '-', count = digits(p + i, n - i);
    if (!count || (count > 1 && p[i] == '0')) return false;
    i += count;
    *whole = i == n;
    if (i < n && p[i] == '.') {
        if (!(count = digits(p + i + 1, n - i - 1))) return false;
        i += 1 + count;
    }
    if (i < n && (p[i] == 'e' || p[i] == 'E')) {
        i += 1 + (i + 1 < n && (p[i + 1] == '+' || p[i + 1] == '-'));
        if (!(count = digits(p + i, n - i))) return false;
        i += count;
    }
    return i == n;
}

struct numbers {
    const char *at, *end;
};

// Moves to the next number outside of strings. Returns its length, 0 at the end.
static size_t next_number(struct numbers *s)
{
    for (; s->at < s->end; s->at++) {
        if (*s->at == '"') {
            for (s->at++; s->at < s->end && *s->at != '"'; s->at++) s->at += *s->at == '\\';
        } else if (*s->at == '-' || (*s->at >= '0' && *s->at <= '9')) {
            size_t n = 0;
            while (s->at + n < s->end && s->at[n] && strchr("0123456789+-.eE", s->at[n])) n++;
            return n;
        }
    }
    return 0;
}

// Stores the text of numbers that a double or cJSON might change. The numbers of the tree have the
// order of the file.
static void keep(cJSON *item, struct numbers *s)
{
    enum { EXACT = 15 }; // digits that a double keeps and cJSON writes
    bool whole;
    for (; item; item = item->next) {
        if (item->child) keep(item->child, s);
        if (!cJSON_IsNumber(item)) continue;
        const size_t n = next_number(s);
        if (is_number(s->at, n, &whole) && (!whole || n > EXACT))
            item->valuestring = xstrndup(s->at, n);
        s->at += n;
    }
}

cJSON *json_parse_exact(const char *text, size_t size, const char *name, struct err *err)
{
    cJSON *json = parse(text, size, name, err);
    struct numbers numbers = { text, text + size };
    if (!json) return NULL;
    keep(json, &numbers); // before keep_last drops members, because keep needs all of them
    keep_last(json);
    return json;
}

cJSON *json_parse_data(const char *text, size_t size, const char *name, struct err *err)
{
    if (text_check(text, size, name, err) < 0) return NULL;
    if (!json_has_nul(text, size)) return json_parse_exact(text, size, name, err);
    err_set(
        err,
        "'%s' has a character \\u0000, which texts must not contain, or \\u without four digits",
        name);
    return NULL;
}

char *json_number_text(const cJSON *item)
{
    if (item->valuestring) return xstrdup(item->valuestring);
    char *printed = cJSON_PrintUnformatted(item), *text = xstrdup(printed ? printed : "null");
    cJSON_free(printed);
    return text;
}

cJSON *json_whole_new(int64_t value)
{
    cJSON *item = cJSON_CreateNumber((double)value);
    if (!item) fatal("out of memory for a number");
    item->valuestring = xasprintf("%" PRId64, value);
    return item;
}

// Turns numbers with a stored text into raw items, whose text cJSON writes unchanged.
static void make_raw(cJSON *item)
{
    for (; item; item = item->next) {
        if (cJSON_IsNumber(item) && item->valuestring) item->type ^= cJSON_Number ^ cJSON_Raw;
        if (item->child) make_raw(item->child);
    }
}

char *json_print(const cJSON *json)
{
    cJSON *copy = cJSON_Duplicate(json, true);
    if (copy) make_raw(copy);
    char *printed = copy ? cJSON_PrintUnformatted(copy) : NULL;
    if (!printed) fatal("out of memory for a JSON text");
    char *text = xstrdup(printed);
    cJSON_free(printed);
    cJSON_Delete(copy);
    return text;
}

char *json_number_key(const char *text)
{
    bool whole;
    char *end;
    if (!is_number(text, strlen(text), &whole) || whole) return xstrdup(text);
    const double x = strtod(text, &end);
    const bool exact = x == floor(x) && fabs(x) <= 0x1p53;
    return exact ? xasprintf("%.0f", x) : xstrdup(text);
}

// Limits the memory: a value of two bytes ("0,") takes 80, a member of six ("":"",) 150. The
// tokenizer.json of Gemma 3, one of the largest, has about 2 million.
enum { VALUES_MOST = 1 << 23 };

// Counts the commas and opening brackets outside of strings: all values but the first follow one.
static size_t count_values(const char *text, size_t size)
{
    size_t count = 1;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"')
            i = string_end(text, size, i);
        else
            count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return count;
}

static int check_values(const char *text, size_t size, const char *path, struct err *err)
{
    if (size <= VALUES_MOST || count_values(text, size) <= VALUES_MOST) return 0;
    return err_set(err, "'%s' has more than the supported %d values: is it the right file?", path,
                   VALUES_MOST);
}

cJSON *json_parse_file(const char *text, size_t size, const char *path, struct err *err)
{
    if (text_check(text, size, path, err) < 0 || check_values(text, size, path, err) < 0)
        return NULL;
    return json_parse(text, size, path, err);
}

static cJSON *parse_config(const char *text, size_t size, const char *path, struct err *err)
{
    return check_values(text, size, path, err) < 0 ? NULL : json_parse_data(text, size, path, err);
}

static cJSON *read_file(const char *path, size_t limit,
                        cJSON *(*parsed)(const char *, size_t, const char *, struct err *),
                        struct err *err)
{
    size_t size;
    char *text = file_read(path, limit, &size, err);
    cJSON *json = text ? parsed(text, size, path, err) : NULL;
    free(text);
    return json;
}

cJSON *json_read(const char *path, size_t limit, struct err *err)
{
    return read_file(path, limit, json_parse_file, err);
}

cJSON *json_read_config(const char *path, size_t limit, struct err *err)
{
    return read_file(path, limit, parse_config, err);
}

cJSON *json_read_data(const char *path, size_t limit, struct err *err)
{
    return read_file(path, limit, json_parse_data, err);
}

const cJSON *json_get(const cJSON *object, const char *key)
{
    const cJSON *item = object ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
    return item && !cJSON_IsNull(item) ? item : NULL;
}

bool json_is_on(const cJSON *item)
{
    if (!item || cJSON_IsNull(item) || cJSON_IsFalse(item)) return false;
    return !(cJSON_IsArray(item) || cJSON_IsObject(item)) || item->child;
}

// Sets *value to the whole number of an item if it is known exactly: from its kept text, or from a
// double below 2^53, beyond which several whole numbers share a double.
static bool exact_whole(const cJSON *item, int64_t *value)
{
    if (!cJSON_IsNumber(item)) return false;
    char *end = NULL;
    errno = 0;
    const long long kept = item->valuestring ? strtoll(item->valuestring, &end, 10) : 0;
    const bool exact = end && !*end && !errno;
    const double x = item->valuedouble;
    if (!exact && !(fabs(x) < 0x1p53 && x == floor(x))) return false;
    *value = exact ? kept : (int64_t)x;
    return true;
}

int json_int(const cJSON *object, const char *key, int64_t min, int64_t max, int64_t otherwise,
             int64_t *value, struct err *err)
{
    const cJSON *item = json_get(object, key);
    if (!item) {
        *value = otherwise;
        return 0;
    }
    if (exact_whole(item, value) && *value >= min && *value <= max) return 0;
    return err_set(err, "\"%s\" must be a whole number from %lld to %lld", key, (long long)min,
                   (long long)max);
}

int64_t json_whole(const cJSON *item, int64_t otherwise)
{
    int64_t value;
    return exact_whole(item, &value) ? value : otherwise;
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
    for (size_t i = 0, n, size = strlen(text); i < size; i += n) {
        int32_t c;
        n = utf8_next(text + i, size - i, &c);
        if (c < 0) {
            buf_puts(b, "\\ufffd");
            n = 1;
        } else if (c < 0x20) {
            buf_printf(b, "\\u%04x", (unsigned)c);
        } else {
            if (c == '"' || c == '\\') buf_putc(b, '\\');
            buf_add(b, text + i, n);
        }
    }
    buf_putc(b, '"');
}
