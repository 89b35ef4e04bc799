// core/sets/parts.c -- the parts of a large JSON object.
//
// The scan finds where values end: it counts brackets and skips strings. Parsing a part checks its
// content.
#include "core/sets/parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/cancel.h"
#include "core/base/file_in.h"
#include "core/base/text.h"

static const uint64_t part_max = 64 << 20;
// Beyond this offset, a scan checks every LOOK items whether it was cancelled.
static const uint64_t long_file = 64 << 20;
enum { LOOK = 1024 };

struct scan {
    struct json_parts *p;
    uint64_t at;
};

static int broken(const struct scan *s, struct err *err)
{
    return err_set(err, "'%s' is not valid JSON (at byte %llu)", s->p->path,
                   (unsigned long long)s->at);
}

static char here(const struct scan *s)
{
    return s->at < s->p->size ? s->p->map[s->at] : 0;
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->p->size && strchr(" \t\r\n", here(s)) && here(s)) s->at++;
}

// Skips a string and both its quotes.
static int skip_string(struct scan *s, struct err *err)
{
    for (s->at++; s->at < s->p->size && here(s) != '"'; s->at++)
        if (here(s) == '\\') s->at++;
    if (s->at >= s->p->size) return broken(s, err);
    s->at++;
    return 0;
}

// Skips one value of any type, and the white space after it.
static int skip_value(struct scan *s, struct json_part *part, struct err *err)
{
    static const char ends[] = " \t\r\n,\"[]{}"; // a number or a word
    int64_t depth = 0;
    part->at = s->at;
    if (here(s) && strchr("\"[{", here(s))) {
        do {
            const char c = here(s);
            depth += (c == '[' || c == '{') - (c == ']' || c == '}');
            if (c != '"')
                s->at++;
            else if (skip_string(s, err) < 0)
                return -1;
        } while (depth && s->at < s->p->size);
    } else {
        while (!strchr(ends, here(s))) s->at++;
    }
    part->size = s->at - part->at;
    skip_blanks(s);
    return s->at < s->p->size && part->size ? 0 : broken(s, err);
}

static void add_item(struct json_list *l, size_t *room, struct json_part item)
{
    if (l->count == *room) {
        *room = *room ? 2 * *room : 16;
        l->items = xreallocarray(l->items, *room, sizeof *l->items);
    }
    l->items[l->count++] = item;
}

// Skips a comma, and the white space after it. False: no comma.
static bool skip_comma(struct scan *s)
{
    if (here(s) != ',') return false;
    s->at++;
    skip_blanks(s);
    return true;
}

static int scan_items(struct scan *s, struct json_list *l, struct err *err)
{
    size_t room = 0;
    s->at++;
    skip_blanks(s);
    for (bool more = here(s) != ']'; more; more = skip_comma(s)) {
        struct json_part item;
        if (skip_value(s, &item, err) < 0) return -1;
        if (s->at > long_file && l->count % LOOK == 0 && cancel_requested())
            return err_set(err, "cancelled");
        add_item(l, &room, item);
    }
    if (here(s) != ']') return broken(s, err);
    s->at++;
    skip_blanks(s);
    return 0;
}

// Scans a member: "KEY": VALUE, and the white space after it.
static int scan_member(struct scan *s, struct err *err)
{
    struct json_parts *p = s->p;
    struct json_part key = { .at = s->at };
    size_t room = 0;
    if (here(s) != '"' || skip_string(s, err) < 0) return broken(s, err);
    key.size = s->at - key.at;
    cJSON *name = json_parts_item(p, &key, err);
    skip_blanks(s);
    if (!cJSON_IsString(name) || here(s) != ':') {
        cJSON_Delete(name);
        return broken(s, err);
    }
    s->at++;
    skip_blanks(s);
    p->lists = xgrow(p->lists, &p->capacity, p->count, sizeof *p->lists);
    struct json_list *l = &p->lists[p->count++];
    *l = (struct json_list){ .key = xstrdup(name->valuestring), .list = here(s) == '[' };
    cJSON_Delete(name);
    if (l->list) return scan_items(s, l, err);
    struct json_part value;
    if (skip_value(s, &value, err) < 0) return -1;
    add_item(l, &room, value);
    return 0;
}

static int scan(struct scan *s, struct err *err)
{
    skip_blanks(s);
    if (here(s) != '{') return broken(s, err);
    s->at++;
    skip_blanks(s);
    for (bool more = here(s) != '}'; more; more = skip_comma(s))
        if (scan_member(s, err) < 0) return -1;
    if (here(s) != '}') return broken(s, err);
    s->at++;
    skip_blanks(s);
    return s->at == s->p->size ? 0 : broken(s, err);
}

int json_parts_open(struct json_parts *p, const char *path, struct err *err)
{
    *p = (struct json_parts){ .path = xstrdup(path) };
    struct scan s = { .p = p };
    p->map = file_map(path, &p->size, err);
    if (p->map) s.at = text_mark(p->map, (size_t)p->size);
    if (p->map && scan(&s, err) == 0) return 0;
    json_parts_close(p);
    return -1;
}

void json_parts_close(struct json_parts *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->lists[i].key);
        free(p->lists[i].items);
    }
    free(p->lists);
    if (p->map) munmap((void *)(uintptr_t)p->map, (size_t)p->size);
    free(p->path);
    *p = (struct json_parts){ 0 };
}

const struct json_list *json_parts_list(const struct json_parts *p, const char *key)
{
    for (size_t i = 0; i < p->count; i++)
        if (!strcmp(p->lists[i].key, key)) return &p->lists[i];
    return NULL;
}

bool json_parts_has(const struct json_parts *p, const char *key)
{
    const struct json_list *l = json_parts_list(p, key);
    return l && l->list;
}

cJSON *json_parts_item(const struct json_parts *p, const struct json_part *item, struct err *err)
{
    if (item->size > part_max) {
        err_set(err, "a part of '%s' has more than %llu MB", p->path,
                (unsigned long long)(part_max >> 20));
        return NULL;
    }
    return json_parse_data(p->map + item->at, (size_t)item->size, p->path, err);
}

bool json_id_text(const cJSON *json, const char *key, char text[24])
{
    const cJSON *id = json_get(json, key);
    if (!cJSON_IsNumber(id) || !(id->valuedouble >= 0)) return false;
    char *written = json_number_text(id), *number = json_number_key(written);
    const size_t n = strlen(number);
    const bool fits = n < 24;
    if (fits) memcpy(text, number, n + 1);
    free(written);
    free(number);
    return fits;
}
