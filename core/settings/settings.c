// core/settings/settings.c -- the combined tables of settings, and sets of values.
#include "core/settings/settings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"

// A pattern's rows are made while other threads read the table: rows never move, and readers see a
// row only once it is complete.
enum { ROWS_MAX = 2048, NAME_MAX_LENGTH = 64 };
static const struct setting *rows[ROWS_MAX]; // [count]: the tables' rows, then the rows made
static int table_count;                      // rows of tables
static atomic_int count;
static atomic_bool offered[ROWS_MAX]; // rows made that users see in lists
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

struct settings {
    int count;   // later rows have their defaults
    char **text; // [count] plain spelling of each value
};

void settings_clear(void)
{
    for (int i = table_count; i < count; i++) {
        free((char *)(uintptr_t)rows[i]->key);
        free((struct setting *)(uintptr_t)rows[i]);
        offered[i] = false;
    }
    count = 0;
    table_count = 0;
}

void settings_add(const struct setting *more)
{
    for (; more->key; more++) {
        if (table_count == ROWS_MAX) BUG("more than %d settings", ROWS_MAX);
        rows[table_count++] = more;
    }
    count = table_count;
}

const struct setting *settings_row(int index)
{
    return index >= 0 && index < count ? rows[index] : NULL;
}

int settings_count(void)
{
    return count;
}

// --- patterns ------------------------------------------------------------------------------------

bool setting_is_pattern(const struct setting *row)
{
    return row->type == SETTING_VALUE && row->key[strlen(row->key) - 1] == '*';
}

// Returns the name that the key has in place of the pattern's "*"; NULL: the key does not match.
static const char *pattern_name(const struct setting *pattern, const char *key)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    const size_t n = strlen(pattern->key) - 1;
    if (!setting_is_pattern(pattern) || strncmp(key, pattern->key, n) != 0) return NULL;
    const char *name = key + n;
    const size_t length = strlen(name);
    const bool named = length && length <= NAME_MAX_LENGTH && strspn(name, letters) == length;
    return named && (*name < '0' || *name > '9') ? name : NULL;
}

static int find(const char *key)
{
    for (int i = 0; i < count; i++)
        if (*rows[i]->key == *key && !strcmp(rows[i]->key, key)) return i;
    return -1;
}

int settings_index(const char *key)
{
    const int index = find(key);
    if (index >= 0) return index;
    for (int i = 0; i < table_count; i++)
        if (pattern_name(rows[i], key)) return i;
    return -1;
}

int settings_make(const char *key)
{
    const int index = settings_index(key);
    if (index < 0 || !pattern_name(rows[index], key)) return index;
    pthread_mutex_lock(&making);
    int made = find(key); // perhaps made by another thread
    if (made < 0 && count < ROWS_MAX) {
        struct setting *row = xmalloc(sizeof *row);
        *row = *rows[index];
        row->key = xstrdup(key);
        made = count;
        rows[made] = row;
        count++;
    }
    pthread_mutex_unlock(&making);
    return made;
}

void settings_offer(const char *pattern, const char *const *names, size_t name_count)
{
    const struct setting *row = settings_find(pattern);
    for (int i = table_count; i < count; i++)
        if (pattern_name(row, rows[i]->key)) offered[i] = false;
    for (size_t i = 0; i < name_count; i++) {
        char *key = xasprintf("%.*s%s", (int)strlen(row->key) - 1, row->key, names[i]);
        const int index = settings_make(key);
        if (index >= table_count) offered[index] = true;
        free(key);
    }
}

const struct setting *settings_shown(int index)
{
    for (int i = 0; i < table_count; i++) {
        if (!setting_is_pattern(rows[i]) && !index--) return rows[i];
        if (!setting_is_pattern(rows[i])) continue;
        for (int k = table_count; k < count; k++)
            if (offered[k] && pattern_name(rows[i], rows[k]->key) && !index--) return rows[k];
    }
    return NULL;
}

bool setting_listed(const struct setting *row, const struct settings *s)
{
    if (row->type != SETTING_VALUE || (s && settings_changed(s, row->key))) return true;
    const int index = find(row->key);
    return index >= table_count && offered[index];
}

// --- rows by key ---------------------------------------------------------------------------------

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
    size_t best_distance = 4; // this distance and larger ones are not typos
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

// --- sets of values ------------------------------------------------------------------------------

// Adds the rows made since this set of values was made.
static void extend(struct settings *s)
{
    const int now = count;
    if (s->count >= now) return;
    s->text = xreallocarray(s->text, (size_t)now, sizeof *s->text);
    for (; s->count < now; s->count++) s->text[s->count] = xstrdup(rows[s->count]->def);
}

static const char *value_at(const struct settings *s, int index)
{
    return s && index < s->count ? s->text[index] : rows[index]->def;
}

static void store(struct settings *s, int index, char *text)
{
    extend(s);
    free(s->text[index]);
    s->text[index] = text;
}

struct settings *settings_new(void)
{
    struct settings *s = xcalloc(1, sizeof *s);
    extend(s);
    return s;
}

struct settings *settings_copy(const struct settings *from)
{
    struct settings *s = settings_new();
    for (int i = 0; from && i < from->count; i++) store(s, i, xstrdup(from->text[i]));
    return s;
}

void settings_free(struct settings *s)
{
    if (!s) return;
    for (int i = 0; i < s->count; i++) free(s->text[i]);
    free(s->text);
    free(s);
}

void settings_swap(struct settings *a, struct settings *b)
{
    extend(a);
    extend(b);
    for (int i = 0; i < a->count && i < b->count; i++) {
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
    const int index = settings_make(key);
    if (index < 0 && settings_index(key) >= 0)
        return err_set(err,
                       "cannot set '%s': vlmsh has used %d settings since it started: restart it",
                       key, ROWS_MAX);
    if (index < 0) return settings_unknown(key, err);
    char *text = setting_spell(rows[index], value, err);
    if (!text) return -1;
    store(s, index, text);
    return 0;
}

void settings_reset(struct settings *s, const char *key)
{
    const int index = must_find(key);
    store(s, index, xstrdup(rows[index]->def));
}

bool settings_changed(const struct settings *s, const char *key)
{
    const int index = must_find(key);
    return strcmp(value_at(s, index), rows[index]->def) != 0;
}

const char *settings_text(const struct settings *s, const char *key)
{
    return value_at(s, must_find(key));
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
