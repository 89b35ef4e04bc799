// core/settings/settings_values.c -- canonical spelling of typed values, and lists: layers
// (2-5,22-29 or 60%-80%), numbers, and files with factors.
//
// Without a model, a list of layers is checked for its form, ascending order and duplicates. The
// number of layers determines which layers it names (settings_layers).
#include "core/settings/settings.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/file_in.h"
#include "core/base/json.h"
#include "core/base/mem.h"

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b) || (a == '-' && b == '_');
}

// Finds the typed word among `words`, ignoring case; accepts "_" for "-". NULL: not found.
static const char *word_find(const char *const *words, const char *typed)
{
    for (; words && *words; words++) {
        size_t n = 0;
        while ((*words)[n] && same_letter((*words)[n], typed[n])) n++;
        if (!(*words)[n] && !typed[n]) return *words;
    }
    return NULL;
}

// Sets an error that lists the allowed values: `format`, then the row's words. Returns NULL.
__attribute__((format(printf, 4, 5))) static char *refuse(const struct setting *row,
                                                          const char *value, struct err *err,
                                                          const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    for (const char *const *w = row->choices; w && *w; w++)
        buf_printf(&b, "%s%s",
                   w > row->choices              ? ", "
                   : row->type == SETTING_CHOICE ? ""
                                                 : ", or ",
                   *w);
    err_set(err, "%s cannot be '%s': %s", row->key, value, b.data);
    buf_release(&b);
    return NULL;
}

// --- lists ---------------------------------------------------------------------------------------

enum { LAYERS_MOST = 100000 }; // no model has more: a larger number is a typo

// One element: a number, A-B with both ends, P% or P%-Q% without Q.
struct span {
    double from, to;
    bool percent, range;
};

static const char *skip_spaces(const char *p)
{
    return p + strspn(p, " \t");
}

// Rounds to the digits that list_spell writes: its text must stay a list.
static double as_spelled(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.15g", x);
    return strtod(text, NULL);
}

// Reads a number with an optional %; returns the text after it, or NULL.
static const char *end_read(const char *p, double *value, bool *percent)
{
    const size_t digits = strspn(p, "0123456789");
    char *end = (char *)p + digits; // reads only the 1 of 1e3
    if (!digits) return NULL;       // no sign, no "inf"
    *value = as_spelled(strtod(p, p[digits] == '.' ? &end : NULL));
    *percent = *end == '%';
    if (*percent) return *value <= 100 ? end + 1 : NULL;
    return *value <= LAYERS_MOST && *value == floor(*value) ? end : NULL;
}

// Reads the element at p; returns the text after it and its comma, or NULL if it is malformed.
static const char *span_read(const char *p, struct span *s)
{
    bool percent;
    *s = (struct span){ 0 };
    p = end_read(skip_spaces(p), &s->from, &s->percent);
    if (!p) return NULL;
    p = skip_spaces(p);
    s->to = s->from;
    if (*p == '-') {
        s->range = true;
        p = end_read(skip_spaces(p + 1), &s->to, &percent);
        if (!p || percent != s->percent || s->to < s->from || (percent && s->to == s->from))
            return NULL;
        p = skip_spaces(p);
    }
    if (*p == ',') return *skip_spaces(p + 1) ? p + 1 : NULL;
    return *p ? NULL : p;
}

static char *list_spell(const struct setting *row, const char *value, struct err *err)
{
    struct buf b = { 0 };
    struct span span, former = { .to = -1 };
    for (const char *p = value; p == value || *p; former = span) {
        p = span_read(p, &span);
        if (!p) {
            refuse(row, value, err,
                   "write numbers as 3 or 2-5,22-29, or a range of all as 60%%-80%%");
            goto refused;
        }
        const bool comparable = former.percent == span.percent || former.to < 0;
        // A range of percentages excludes its end: 20%-40%,40%-60% is fine.
        if (comparable &&
            (span.percent && former.range ? span.from < former.to : span.from <= former.to)) {
            err_set(err, "%s cannot be '%s': write numbers in ascending order, each once", row->key,
                    value);
            goto refused;
        }
        const char *unit = span.percent ? "%" : "";
        buf_printf(&b, "%s%.15g%s", b.length ? "," : "", span.from, unit);
        if (span.range) buf_printf(&b, "-%.15g%s", span.to, unit);
    }
    return buf_take(&b);
refused:
    buf_release(&b);
    return NULL;
}

// Rounds half to even, as the reference implementation does.
static int64_t span_end(const struct span *s, double end, int64_t layers)
{
    return (int64_t)(s->percent ? rint(end / 100 * (double)layers) : end);
}

int settings_layers(const struct settings *s, const char *key, int64_t layers, bool *set,
                    struct err *err)
{
    return settings_numbers(s, key, layers, "model", "layer", set, err);
}

int settings_numbers(const struct settings *s, const char *key, int64_t layers, const char *of,
                     const char *what, bool *set, struct err *err)
{
    const char *text = settings_text(s, key);
    struct span span;
    for (const char *p = text; *p;)
        if (!(p = span_read(p, &span)))
            BUG("%s is '%s', which is not a list of numbers", key, text);
    return list_numbers(text, key, layers, of, what, set, err);
}

int list_numbers(const char *text, const char *key, int64_t layers, const char *of,
                 const char *what, bool *set, struct err *err)
{
    int64_t count = 0, least = 0, nearest = 0;
    memset(set, 0, (size_t)layers * sizeof *set);
    for (const char *p = text; p == text || *p;) {
        struct span span;
        p = span_read(p, &span);
        if (!p)
            return err_set(err,
                           "%s cannot be '%s': write %ss as 3 or 2-5,22-29, or a range of all as "
                           "60%%-80%%",
                           key, text, what);
        const int64_t from = span_end(&span, span.from, layers);
        const int64_t to = span_end(&span, span.to, layers) + !(span.percent && span.range);
        if (to > layers)
            return err_set(err, "%s is %s, but the %s's %lld %ss are 0 to %lld", key, text, of,
                           (long long)layers, what, (long long)layers - 1);
        if (from < least)
            return err_set(err, "%s is %s, which names %s %lld of %lld twice or out of order", key,
                           text, what, (long long)from, (long long)layers);
        for (int64_t i = from; i < to; i++) set[i] = true;
        count += to > from ? to - from : 0;
        nearest = (int64_t)((span.from + span.to) / 200 * (double)layers); // only for percentages
        least = to;
    }
    if (count) return (int)count;
    // Every range of percentages falls between two layers: use the nearest layer.
    set[nearest] = true;
    return 1;
}

bool settings_has_layer(const struct settings *s, const char *key, int64_t layers, int64_t layer)
{
    bool *set = xcalloc((size_t)layers + 1, sizeof *set);
    const bool has = layer >= 0 && layer < layers &&
                     settings_layers(s, key, layers, set, NULL) > 0 && set[layer];
    free(set);
    return has;
}

static double *reals_read(const struct setting *row, const char *text, size_t *count)
{
    double *list = NULL;
    *count = 0;
    for (const char *p = text;;) {
        char *end;
        const double x = strtod(p, &end) + 0.0; // -0 is 0
        if (end == p || !(x >= row->min && x <= row->max)) break;
        list = xreallocarray(list, *count + 1, sizeof *list);
        list[(*count)++] = x;
        p = skip_spaces(end);
        if (!*p) return list;
        if (*p++ != ',') break;
    }
    free(list);
    return NULL;
}

static char *reals_spell(const struct setting *row, const char *value, struct err *err)
{
    struct buf b = { 0 };
    size_t count;
    double *list = reals_read(row, value, &count);
    if (!list)
        return refuse(row, value, err, "write numbers from %.16g to %.16g as 0.5,0.25", row->min,
                      row->max);
    for (size_t i = 0; i < count; i++) buf_printf(&b, "%s%.15g", i ? "," : "", list[i]);
    free(list);
    return buf_take(&b);
}

double *settings_reals(const struct settings *s, const char *key, size_t *count)
{
    const struct setting *row = settings_find(key);
    double *list = row ? reals_read(row, settings_text(s, key), count) : NULL;
    if (!list) BUG("%s is not a list of numbers", key);
    return list;
}

// --- files with factors --------------------------------------------------------------------------

enum { FILES_MOST = 100 }; // of one setting; each is compared with all others

// Reads "PATH=FACTOR" at p, up to the next comma; returns the text after it and its comma, or NULL
// if it is malformed. The last "=" separates the two.
static const char *factor_read(const char *p, struct file_factor *f)
{
    const size_t length = strcspn(p, ",");
    if (p[length] && !*skip_spaces(p + length + 1)) return NULL;
    char *text = xstrndup(p, length), *equals = strrchr(text, '='), *end = NULL;
    *f = (struct file_factor){ 0 };
    if (equals && equals > text) {
        f->factor = strtod(equals + 1, &end) + 0.0; // -0 is 0
        if (end == equals + 1 || *skip_spaces(end)) end = NULL;
        *equals = '\0';
    }
    if (!end) {
        free(text);
        return NULL;
    }
    const char *name = skip_spaces(text);
    size_t n = strlen(name);
    while (n > 1 && (name[n - 1] == ' ' || name[n - 1] == '\t')) n--;
    f->path = xstrndup(name, n);
    free(text);
    return p[length] ? p + length + 1 : p + length;
}

void file_factors_free(struct file_factor *list, size_t count)
{
    for (size_t i = 0; i < count; i++) free(list[i].path);
    free(list);
}

// Reads all files up to the first malformed one; returns false if there is one, or no file.
static bool factors_read(const char *value, struct file_factor **list, size_t *count)
{
    struct file_factor f;
    *list = NULL;
    *count = 0;
    for (const char *p = value; *p;) {
        if (!(p = factor_read(p, &f))) return false;
        *list = xreallocarray(*list, *count + 1, sizeof **list);
        (*list)[(*count)++] = f;
    }
    return *count > 0;
}

struct file_factor *file_factors(const char *value, size_t *count)
{
    struct file_factor *list;
    factors_read(value, &list, count); // a word: no files
    return list;
}

static char *factors_spell(const struct setting *row, const char *value, struct err *err)
{
    struct buf b = { 0 };
    struct file_factor *list;
    size_t count;
    bool good = factors_read(value, &list, &count), again = false;
    if (count > FILES_MOST) {
        err_set(err, "%s can have at most %d files, not %zu", row->key, FILES_MOST, count);
        file_factors_free(list, count);
        return NULL;
    }
    for (size_t i = 0; good && i < count; i++) {
        good &= *list[i].path && list[i].factor >= row->min && list[i].factor <= row->max;
        for (size_t k = 0; good && k < i; k++) again |= file_same(list[k].path, list[i].path);
    }
    if (!good)
        refuse(row, value, err,
               "write FILE=NUMBER, several separated by commas, with numbers from "
               "%.16g to %.16g",
               row->min, row->max);
    else if (again)
        err_set(err, "%s cannot be '%s': name each file once", row->key, value);
    for (size_t i = 0; good && !again && i < count; i++)
        if (list[i].factor != 0)
            buf_printf(&b, "%s%s=%.15g", b.length ? "," : "", list[i].path, list[i].factor);
    if (good && !again && !b.length) buf_puts(&b, row->choices[0]);
    file_factors_free(list, count);
    return b.length ? buf_take(&b) : NULL;
}

// --- all types -----------------------------------------------------------------------------------

static char *spell_number(const struct setting *row, const char *value, struct err *err)
{
    bool whole = row->type == SETTING_INTEGER;
    char *end;
    const double x = strtod(value, &end) + 0.0; // -0 is 0
    if (*value && !*end && x >= row->min && x <= row->max && (!whole || x == floor(x)))
        return whole ? xasprintf("%.0f", x) : xasprintf("%.15g", x);
    return refuse(row, value, err, "use a %s from %.16g to %.16g",
                  whole ? "whole number" : "number", row->min, row->max);
}

// "" and "off" mean "none" if the setting accepts that word; drops a folder's trailing slashes.
static char *spell_path(const struct setting *row, const char *value)
{
    const char *none = word_find(row->choices, "none");
    size_t length = strlen(value);
    if (none && (!length || !strcasecmp(value, "off"))) return xstrdup(none);
    while (length > 1 && value[length - 1] == '/') length--;
    return xstrndup(value, length);
}

static const char *const words_on[] = { "on", "true", "yes", "1", NULL };
static const char *const words_off[] = { "off", "false", "no", "0", NULL };

// Returns the value as JSON if it is spelled as a JSON value; the caller frees it. NULL: a text.
static char *value_json(const char *value)
{
    cJSON *json = strchr("\"[{-0123456789", *value) && *value
                      ? json_parse_data(value, strlen(value), "value", NULL)
                      : NULL;
    if (!json) return NULL;
    char *text = json_print(json);
    cJSON_Delete(json);
    return text;
}

// "on" and "yes" mean true, as in other settings. A text is plain, or quoted if it would be read as
// something else.
static char *spell_value(const struct setting *row, const char *value)
{
    const bool number = *value >= '0' && *value <= '9';
    if (!number && word_find(words_on, value)) return xstrdup("true");
    if (!number && word_find(words_off, value)) return xstrdup("false");
    char *json = value_json(value);
    if (!json) return *value ? xstrdup(value) : xstrdup("\"\"");
    if (*json != '"') return json;
    cJSON *text = json_parse_data(json, strlen(json), "value", NULL);
    const char *plain = text->valuestring;
    char *other = value_json(plain);
    if (*plain && !other && !word_find(row->choices, plain) && !word_find(words_on, plain) &&
        !word_find(words_off, plain)) {
        free(json);
        json = xstrdup(plain);
    }
    free(other);
    cJSON_Delete(text);
    return json;
}

char *settings_json(const struct settings *s, const char *key)
{
    const struct setting *row = settings_find(key);
    const char *value = settings_text(s, key);
    if (!strcmp(value, row->def)) return NULL;
    if (!strcmp(value, "true") || !strcmp(value, "false")) return xstrdup(value);
    char *json = value_json(value);
    if (json) return json;
    cJSON *text = cJSON_CreateString(value);
    json = json_print(text);
    cJSON_Delete(text);
    return json;
}

char *setting_spell(const struct setting *row, const char *value, struct err *err)
{
    const char *word = word_find(row->choices, value);
    if (word) return xstrdup(word);
    switch (row->type) {
    case SETTING_FLAG:
        if (word_find(words_on, value)) return xstrdup("on");
        if (word_find(words_off, value)) return xstrdup("off");
        return refuse(row, value, err, "use on or off");
    case SETTING_INTEGER:
    case SETTING_REAL: return spell_number(row, value, err);
    case SETTING_CHOICE: return refuse(row, value, err, "choose one of ");
    case SETTING_TEXT: return xstrdup(value);
    case SETTING_PATH: return spell_path(row, value);
    case SETTING_LIST: return list_spell(row, value, err);
    case SETTING_REALS: return reals_spell(row, value, err);
    case SETTING_FACTORS: return factors_spell(row, value, err);
    case SETTING_VALUE: return spell_value(row, value);
    }
    BUG("setting %s has no type", row->key);
}

// Makes the paths absolute. A path whose folder has a comma stays as it is: the comma would end the
// path when the value is read again.
static char *factors_stored(const char *value)
{
    struct buf b = { 0 };
    size_t count;
    struct file_factor *list = file_factors(value, &count);
    for (size_t i = 0; i < count; i++) {
        char *whole = realpath(list[i].path, NULL);
        const bool use = whole && !strchr(whole, ',');
        buf_printf(&b, "%s%s=%.15g", i ? "," : "", use ? whole : list[i].path, list[i].factor);
        free(whole);
    }
    file_factors_free(list, count);
    return count ? buf_take(&b) : xstrdup(value);
}

char *settings_stored(const char *key, const char *value)
{
    const struct setting *row = settings_find(key);
    if (row && row->type == SETTING_FACTORS) return factors_stored(value);
    char *end;
    const double share = strtod(value, &end); // a number is not a path
    const bool number = isfinite(share) && end != value && !*end;
    const bool path =
        row && row->type == SETTING_PATH && !number && !word_find(row->choices, value);
    char *whole = path ? realpath(value, NULL) : NULL;
    return whole ? whole : xstrdup(value);
}
