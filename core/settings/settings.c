// core/settings/settings.c -- the combined tables of settings, and sets of values.
#include "core/settings/settings.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"

static const struct setting **rows; // [count], in display order
static int count;

struct settings {
    int count;
    char *text[]; // plain spelling of each value
};

void settings_clear(void)
{
    count = 0;
}

void settings_add(const struct setting *more)
{
    for (; more->key; more++) {
        rows = xreallocarray(rows, (size_t)count + 1, sizeof *rows);
        rows[count++] = more;
    }
}

const struct setting *settings_row(int index)
{
    return index >= 0 && index < count ? rows[index] : NULL;
}

int settings_count(void)
{
    return count;
}

int settings_index(const char *key)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i]->key, key)) return i;
    return -1;
}

const struct setting *settings_find(const char *key)
{
    return settings_row(settings_index(key));
}

// Finds a key that the program itself names; it must exist.
static int must_find(const char *key)
{
    const int index = settings_index(key);
    if (index < 0) BUG("no setting %s", key);
    return index;
}

const struct setting *settings_used(enum setting_use use)
{
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (row->use == use) return row;
    BUG("no setting of use %d", use);
}

const char *settings_nearest(const char *key)
{
    const char *best = NULL;
    size_t best_distance = 4; // more differences are not a typo
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++) {
        // A key without its group matches too: "top_p".
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
    struct settings *s = xmalloc(sizeof *s + (size_t)count * sizeof *s->text);
    s->count = count;
    for (int i = 0; i < count; i++) s->text[i] = xstrdup(rows[i]->def);
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

void settings_swap(struct settings *a, struct settings *b)
{
    for (int i = 0; i < a->count; i++) {
        if (!strcmp(a->text[i], b->text[i])) continue;
        char *text = a->text[i];
        a->text[i] = b->text[i];
        b->text[i] = text;
    }
}

char *setting_effective(const struct setting *row, const struct model *model,
                        const struct backend *backend, const struct settings *s)
{
    if (row->effective) return row->effective(model, backend, s);
    return xstrdup(settings_text(s, row->key));
}

bool setting_in(const struct setting *row, const char *group)
{
    const size_t n = strlen(group);
    return !strncmp(row->key, group, n) && row->key[n] == '.';
}

bool settings_group(const char *name)
{
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (setting_in(row, name)) return true;
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
    const int index = settings_index(key);
    if (index < 0) return settings_unknown(key, err);
    char *text = setting_spell(rows[index], value, err);
    if (!text) return -1;
    free(s->text[index]);
    s->text[index] = text;
    return 0;
}

void settings_reset(struct settings *s, const char *key)
{
    const int index = must_find(key);
    free(s->text[index]);
    s->text[index] = xstrdup(rows[index]->def);
}

bool settings_changed(const struct settings *s, const char *key)
{
    const int index = must_find(key);
    return strcmp(s->text[index], rows[index]->def) != 0;
}

const char *settings_text(const struct settings *s, const char *key)
{
    const int index = must_find(key);
    return s ? s->text[index] : rows[index]->def;
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
