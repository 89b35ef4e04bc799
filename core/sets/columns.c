// core/sets/columns.c -- the user's names for columns.
#include "core/sets/columns.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

// Names of --columns, and the record's keys (core/sets/format.h). Choices have the names and keys A
// to Z.
static const struct {
    const char *name, *key;
} keys[] = { { "id", "index" },       { "question", "question" }, { "answer", "answer" },
             { "picture", "image" },  { "choices", "choices" },   { "hint", "hint" },
             { "subset", "category" } };

// Keys of several columns of pictures, in the user's order.
static const char *const pictures[] = { "image",   "image_2", "image_3", "image_4", "image_5",
                                        "image_6", "image_7", "image_8", NULL };
enum { PICTURES = sizeof pictures / sizeof *pictures - 1 };

static const char *key_of(const char *name, size_t size)
{
    static const char letters[][2] = { "A", "B", "C", "D", "E", "F", "G", "H", "I",
                                       "J", "K", "L", "M", "N", "O", "P", "Q", "R",
                                       "S", "T", "U", "V", "W", "X", "Y", "Z" };
    if (size == 1 && *name >= 'A' && *name <= 'Z') return letters[*name - 'A'];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i].name) == size && !strncmp(keys[i].name, name, size)) return keys[i].key;
    return NULL;
}

static int add_column(struct set_columns *c, const char *part, struct err *err)
{
    const size_t size = strcspn(part, "=");
    const char *key = key_of(part, size);
    if (!key || !part[size] || !part[size + 1])
        return err_set(err,
                       "--columns takes NAME=COLUMN, with id, question, answer, picture, choices, "
                       "A to Z, hint or subset as NAME, not '%s'",
                       part);
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->list[i].column, part + size + 1))
            return err_set(err, "--columns names the column '%s' twice", part + size + 1);
    for (int i = 1; !strcmp(key, pictures[i - 1]) && set_columns_of(c, key); i++) {
        if (i == PICTURES)
            return err_set(err, "--columns takes at most %d columns of pictures", PICTURES);
        key = pictures[i];
    }
    if (set_columns_of(c, key))
        return err_set(err, "--columns names '%.*s' twice", (int)size, part);
    if (c->count == SET_COLUMNS) return err_set(err, "--columns has too many names");
    c->list[c->count].key = key;
    c->list[c->count++].column = xstrdup(part + size + 1);
    return 0;
}

int set_columns_parse(struct set_columns *c, const char *text, struct err *err)
{
    *c = (struct set_columns){ 0 };
    char *copy = text ? xstrdup(text) : NULL, *rest = copy;
    int status = 0;
    for (char *part; status == 0 && (part = strsep(&rest, ","));) status = add_column(c, part, err);
    free(copy);
    if (status < 0) set_columns_release(c);
    return status;
}

void set_columns_release(struct set_columns *c)
{
    for (size_t i = 0; i < c->count; i++) free(c->list[i].column);
    *c = (struct set_columns){ 0 };
}

const char *set_columns_key(const struct set_columns *c, const char *column)
{
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->list[i].column, column)) return c->list[i].key;
    return set_columns_of(c, column) ? NULL : column;
}

const char *set_columns_of(const struct set_columns *c, const char *key)
{
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->list[i].key, key)) return c->list[i].column;
    return NULL;
}

// Returns the user's name for a key.
static const char *name_of(const char *key)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(keys[i].key, key)) return keys[i].name;
    return text_listed(pictures, key) ? "picture" : key;
}

static int refuse_unread(const struct set_columns *c, const char *name, const struct names *file,
                         const char *path, struct err *err)
{
    struct buf b = { 0 };
    buf_printf(&b, "this set does not read '%s' (--columns): it reads ", name);
    for (size_t i = 0, n = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!c->reads(c->self, keys[i].key)) continue;
        buf_printf(&b, "%s%s", n++ ? ", " : "", keys[i].name);
        if (!strcmp(keys[i].name, "choices")) buf_puts(&b, ", A, B ...");
    }
    buf_printf(&b, "; '%s' has ", path);
    names_put(&b, file, SET_COLUMNS);
    err_set(err, "%s", b.data);
    buf_release(&b);
    return -1;
}

int set_columns_check(const struct set_columns *c, const struct names *file, const char *path,
                      struct err *err)
{
    for (size_t i = 0, number; i < c->count; i++) {
        const char *name = name_of(c->list[i].key);
        if (c->reads && strcmp(name, "picture") != 0 && !c->reads(c->self, c->list[i].key))
            return refuse_unread(c, name, file, path, err);
        if (names_find(file, c->list[i].column, &number)) continue;
        struct buf b = { 0 };
        names_put(&b, file, SET_COLUMNS);
        err_set(err, "'%s' has no column '%s' (--columns): it has %s", path, c->list[i].column,
                b.length ? b.data : "none");
        buf_release(&b);
        return -1;
    }
    return 0;
}

void set_columns_rename(const struct set_columns *c, cJSON *row)
{
    const int count = c->count && cJSON_IsObject(row) ? cJSON_GetArraySize(row) : 0;
    cJSON *item = count ? row->child : NULL;
    // Renamed items move to the end, after the last one to check.
    for (int i = 0; i < count; i++) {
        cJSON *after = item->next;
        const char *key = set_columns_key(c, item->string);
        if (!key || strcmp(key, item->string) != 0) {
            char *name = key ? xstrdup(key) : xasprintf("%s (of the file)", item->string);
            cJSON_DetachItemViaPointer(row, item);
            cJSON_AddItemToObject(row, name, item);
            free(name);
        }
        item = after;
    }
}

const char *set_columns_picture(const struct set_columns *c, int number)
{
    return number < PICTURES && set_columns_of(c, pictures[number]) ? pictures[number] : NULL;
}
