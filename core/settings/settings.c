// core/settings/settings.c -- the combined tables of settings, and sets of values.
#include "core/settings/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "core/settings/settings_values.h"

static const struct setting *const *lists; // NULL-terminated

struct settings {
    int count;
    char *text[]; // plain spelling of each value
};

void settings_hand_over(const struct setting *const *all)
{
    lists = all;
}

const struct setting *settings_row(int index)
{
    if (index < 0) return NULL;
    for (int i = 0; lists[i]; i++)
        for (const struct setting *row = lists[i]; row->key; row++)
            if (!index--) return row;
    return NULL;
}

int settings_count(void)
{
    int count = 0;
    for (int i = 0; lists[i]; i++)
        for (const struct setting *row = lists[i]; row->key; row++) count++;
    return count;
}

// Place of a key among all rows, -1 if unknown.
static int find(const char *key, const struct setting **found)
{
    int index = 0;
    for (int i = 0; lists[i]; i++)
        for (const struct setting *row = lists[i]; row->key; row++, index++)
            if (!strcmp(row->key, key)) {
                *found = row;
                return index;
            }
    return -1;
}

// The place and row of a key that the program itself names.
static int must_find(const char *key, const struct setting **row)
{
    const int index = find(key, row);
    if (index < 0) BUG("no setting %s", key);
    return index;
}

const struct setting *settings_find(const char *key)
{
    const struct setting *row;
    return find(key, &row) < 0 ? NULL : row;
}

const char *settings_nearest(const char *key)
{
    const char *best = NULL;
    size_t best_distance = 4; // a longer way is no typing error
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++) {
        // The part after the group's name alone is near as well: "top_p".
        const char *dot = strchr(row->key, '.');
        size_t distance = dot && !strcasecmp(dot + 1, key) ? 0 : text_distance(key, row->key);
        if (distance < best_distance) {
            best_distance = distance;
            best = row->key;
        }
    }
    return best;
}

struct settings *settings_new(void)
{
    const int count = settings_count();
    struct settings *s = xmalloc(sizeof *s + (size_t)count * sizeof *s->text);
    s->count = count;
    for (int i = 0; i < count; i++) s->text[i] = xstrdup(settings_row(i)->def);
    return s;
}

struct settings *settings_copy(const struct settings *from)
{
    struct settings *s = settings_new();
    for (int i = 0; from && i < s->count; i++) {
        free(s->text[i]);
        s->text[i] = xstrdup(from->text[i]);
    }
    return s;
}

void settings_free(struct settings *s)
{
    for (int i = 0; s && i < s->count; i++) free(s->text[i]);
    free(s);
}

// The word of `words` that was typed, in any case of letters; NULL if none.
static const char *word_find(const char *const *words, const char *typed)
{
    for (; words && *words; words++)
        if (!strcasecmp(*words, typed)) return *words;
    return NULL;
}

void settings_words(struct buf *b, const char *const *words)
{
    for (const char *const *w = words; *w; w++) buf_printf(b, "%s%s", w == words ? "" : ", ", *w);
}

static int refuse_choice(const struct setting *row, const char *value, struct err *err)
{
    struct buf b = { 0 };
    settings_words(&b, row->choices);
    err_set(err, "%s cannot be '%s': choose one of %s", row->key, value, b.data);
    buf_release(&b);
    return -1;
}

static char *spell_number(const struct setting *row, const char *value, struct err *err)
{
    bool whole = row->type == SETTING_INTEGER;
    char *end;
    const double x = strtod(value, &end) + 0.0; // -0 is 0
    if (*value && !*end && x >= row->min && x <= row->max && (!whole || x == floor(x)))
        return whole ? xasprintf("%.0f", x) : xasprintf("%.15g", x);
    struct buf b = { 0 };
    if (row->choices) {
        buf_puts(&b, " or ");
        settings_words(&b, row->choices);
    }
    err_set(err, "%s cannot be '%s': use a %s from %.16g to %.16g%s", row->key, value,
            whole ? "whole number" : "number", row->min, row->max, b.data ? b.data : "");
    buf_release(&b);
    return NULL;
}

// "" and "off" mean none if that is a value; a trailing / is not part of a folder's name.
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

// The plain spelling of a typed value; NULL with a message when it is not allowed.
static char *spell(const struct setting *row, const char *value, struct err *err)
{
    const char *word = word_find(row->choices, value);
    if (word) return xstrdup(word);
    switch (row->type) {
    case SETTING_FLAG:
        if (word_find(words_on, value)) return xstrdup("on");
        if (word_find(words_off, value)) return xstrdup("off");
        err_set(err, "%s cannot be '%s': use on or off", row->key, value);
        return NULL;
    case SETTING_INTEGER:
    case SETTING_REAL: return spell_number(row, value, err);
    case SETTING_CHOICE: refuse_choice(row, value, err); return NULL;
    case SETTING_TEXT: return xstrdup(value);
    case SETTING_PATH: return spell_path(row, value);
    case SETTING_LIST: return list_spell(row, value, err);
    case SETTING_REALS: return reals_spell(row, value, err);
    }
    BUG("setting %s has no type", row->key);
}

char *settings_stored(const char *key, const char *value)
{
    const struct setting *row = settings_find(key);
    char *end;
    const double share = strtod(value, &end); // which is none
    const bool number = isfinite(share) && end != value && !*end;
    const bool path =
        row && row->type == SETTING_PATH && !number && !word_find(row->choices, value);
    char *whole = path ? realpath(value, NULL) : NULL;
    return whole ? whole : xstrdup(value);
}

bool settings_group(const char *name)
{
    const struct setting *row;
    const size_t n = strlen(name);
    for (int i = 0; (row = settings_row(i)); i++)
        if (!strncmp(row->key, name, n) && row->key[n] == '.') return true;
    return false;
}

int settings_unknown(const char *key, struct err *err)
{
    const char *near = settings_nearest(key);
    if (settings_group(key))
        return err_set(err, "'%s' is a group of settings: /settings %s lists them", key, key);
    return near ? err_set(err, "no setting '%s': did you mean '%s'?", key, near)
                : err_set(err, "no setting '%s' (/settings lists them)", key);
}

int settings_set(struct settings *s, const char *key, const char *value, struct err *err)
{
    const struct setting *row;
    const int index = find(key, &row);
    if (index < 0) return settings_unknown(key, err);
    char *text = spell(row, value, err);
    if (!text) return -1;
    free(s->text[index]);
    s->text[index] = text;
    return 0;
}

void settings_reset(struct settings *s, const char *key)
{
    const struct setting *row;
    const int index = must_find(key, &row);
    free(s->text[index]);
    s->text[index] = xstrdup(row->def);
}

bool settings_changed(const struct settings *s, const char *key)
{
    const struct setting *row;
    const int index = must_find(key, &row);
    return strcmp(s->text[index], row->def) != 0;
}

const char *settings_text(const struct settings *s, const char *key)
{
    const struct setting *row;
    const int index = must_find(key, &row);
    return s ? s->text[index] : row->def;
}

bool settings_is(const struct settings *s, const char *key, const char *word)
{
    return !strcmp(settings_text(s, key), word);
}

bool settings_flag(const struct settings *s, const char *key)
{
    return settings_is(s, key, "on");
}

int64_t settings_integer(const struct settings *s, const char *key)
{
    return strtoll(settings_text(s, key), NULL, 10);
}

double settings_real(const struct settings *s, const char *key)
{
    return strtod(settings_text(s, key), NULL);
}
