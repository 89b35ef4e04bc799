// core/probes/masks.c -- finds the objects of a picture in a list of objects, in RefCOCO's rows or
// in COCO's instances. Stores only the positions of the objects in the file, and parses them on
// demand.
#include "core/probes/masks.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "core/base/text.h"

// --- pictures ------------------------------------------------------------------------------------

static size_t add_picture(struct masks *m, const char *path)
{
    bool known;
    const size_t number = names_add(&m->pictures, text_file_name(path), &known);
    m->picture = xgrow(m->picture, &m->picture_capacity, number, sizeof *m->picture);
    if (!known) m->picture[number] = (struct masks_picture){ 0 };
    return number;
}

static void add_item(struct masks *m, size_t picture, int64_t at)
{
    struct masks_picture *p = &m->picture[picture];
    const size_t i = m->item_count++;
    m->items = xgrow(m->items, &m->item_capacity, i, sizeof *m->items);
    m->items[i] = (struct masks_item){ .at = at };
    if (p->last)
        m->items[p->last - 1].next = i + 1;
    else
        p->first = i + 1;
    p->last = i + 1;
}

// Finds a picture of the list by the name of its file. The pictures of an exported session begin
// with a part of their hash (sessions/export.c): "849705a1ebb6-000000.png" is 000000.png, unless
// the list has that name, too.
static bool find_picture(const struct masks *m, const char *path, size_t *number)
{
    enum { HASH = 12 };
    const char *name = text_file_name(path);
    if (names_find(&m->pictures, name, number)) return true;
    const bool exported = strspn(name, "0123456789abcdef") == HASH && name[HASH] == '-';
    return exported && names_find(&m->pictures, name + HASH + 1, number);
}

static void take_size(struct masks *m, size_t picture, const cJSON *json)
{
    struct masks_picture *p = &m->picture[picture];
    const double width = cJSON_GetNumberValue(json_get(json, "width"));
    const double height = cJSON_GetNumberValue(json_get(json, "height"));
    if (!p->width && width >= 1) p->width = width;
    if (!p->height && height >= 1) p->height = height;
}

// RefCOCO numbers the objects of a picture: "COCO_train2014_000000581857_16.jpg" is the 17th of
// "COCO_train2014_000000581857.jpg". Returns NULL if the name has no such number; the caller frees
// it.
static char *unnumbered(const char *name)
{
    const char *dot = strrchr(name, '.'), *at = dot;
    size_t digits = 0;
    while (at && at > name && isdigit((unsigned char)at[-1])) at--;
    if (!dot || at == dot || at - name < 13 || at[-1] != '_') return NULL;
    for (const char *p = at - 1; p > name && isdigit((unsigned char)p[-1]); p--) digits++;
    return digits == 12 ? xasprintf("%.*s%s", (int)(at - 1 - name), name, dot) : NULL;
}

// --- the files -----------------------------------------------------------------------------------

static int read_lines(struct masks *m, const char *path, struct err *err)
{
    if (dataset_open(&m->lines, path, NULL, err) < 0) return -1;
    for (int64_t i = 0; i < m->lines.count; i++) {
        struct err ignored; // the picture of a broken line counts as not listed
        cJSON *json = dataset_json(&m->lines, i, &ignored);
        const char *file = cJSON_GetStringValue(json_get(json, "file_name"));
        const char *name = file ? file : cJSON_GetStringValue(json_get(json, "image"));
        char *whole = name ? unnumbered(text_file_name(name)) : NULL;
        const char *const names[] = { name, whole };
        for (int k = 0; k < 2 && names[k]; k++) {
            const size_t picture = add_picture(m, names[k]);
            take_size(m, picture, json);
            add_item(m, picture, i);
        }
        free(whole);
        cJSON_Delete(json);
    }
    return 0;
}

// The pictures of COCO's images.
struct images {
    struct names ids;
    size_t *picture; // [ids.count] number of the image's picture
    size_t capacity;
};

static int take_image(struct masks *m, struct images *images, const cJSON *json, struct err *err)
{
    const char *file = cJSON_GetStringValue(json_get(json, "file_name"));
    char id[24];
    if (!file || !json_id_text(json, "id", id))
        return err_set(err, "an image needs \"id\" and \"file_name\"");
    const size_t i = names_add(&images->ids, id, NULL), picture = add_picture(m, file);
    images->picture = xgrow(images->picture, &images->capacity, i, sizeof *images->picture);
    images->picture[i] = picture;
    take_size(m, picture, json);
    return 0;
}

static int take_category(struct masks *m, const cJSON *json, struct err *err)
{
    const char *name = cJSON_GetStringValue(json_get(json, "name"));
    char id[24];
    bool known;
    if (!name || !json_id_text(json, "id", id))
        return err_set(err, "a category needs \"id\" and \"name\"");
    names_add(&m->categories, id, &known);
    if (known) return err_set(err, "the category %s occurs twice", id);
    m->category = xreallocarray(m->category, m->categories.count, sizeof *m->category);
    m->category[m->categories.count - 1] = xstrdup(name);
    return 0;
}

static int take_annotation(struct masks *m, const struct images *images, const cJSON *json,
                           int64_t at, struct err *err)
{
    char id[24];
    size_t i;
    if (!images->picture || !json_id_text(json, "image_id", id) ||
        !names_find(&images->ids, id, &i))
        return err_set(err, "its \"image_id\" is not in \"images\"");
    add_item(m, images->picture[i], at);
    return 0;
}

static int read_coco(struct masks *m, struct err *err)
{
    static const char *const keys[] = { "categories", "images", "annotations" };
    struct images images = { 0 };
    int status = 0;
    for (int k = 0; k < 3 && status == 0; k++) {
        const struct json_list *l = json_parts_list(&m->parts, keys[k]);
        for (size_t i = 0; l && i < l->count && status == 0; i++) {
            cJSON *item = json_parts_item(&m->parts, &l->items[i], err);
            status = !item    ? -1
                     : k == 0 ? take_category(m, item, err)
                     : k == 1 ? take_image(m, &images, item, err)
                              : take_annotation(m, &images, item, (int64_t)i, err);
            cJSON_Delete(item);
            if (status < 0) err_in(err, "'%s', \"%s\" %zu", m->parts.path, keys[k], i);
        }
    }
    names_release(&images.ids);
    free(images.picture);
    return status;
}

int masks_open(struct masks *m, const char *path, struct err *err)
{
    struct err ignored;
    *m = (struct masks){ .lines.file = -1 };
    // JSON lines are not one object: reading fails at the second line.
    if (json_parts_open(&m->parts, path, &ignored) == 0) {
        const struct json_list *images = json_parts_list(&m->parts, "images");
        const struct json_list *annotations = json_parts_list(&m->parts, "annotations");
        m->coco = images && images->list && annotations && annotations->list;
    }
    int status = m->coco ? read_coco(m, err) : read_lines(m, path, err);
    if (status == 0 && !m->item_count)
        status = err_set(err,
                         "'%s' lists no pictures: its lines need \"image\" and \"objects\", or "
                         "\"file_name\" and \"bbox\"; or COCO's \"images\" and \"annotations\"",
                         path);
    if (status < 0) masks_close(m);
    return status;
}

void masks_close(struct masks *m)
{
    if (m->lines.path) dataset_close(&m->lines);
    json_parts_close(&m->parts);
    for (size_t i = 0; i < m->categories.count; i++) free(m->category[i]);
    free(m->category);
    names_release(&m->categories);
    names_release(&m->pictures);
    free(m->picture);
    free(m->items);
    *m = (struct masks){ .lines.file = -1 };
}

// --- the objects of a picture --------------------------------------------------------------------

// True if the text contains the object's name; with query->named also if the name contains the
// text.
static bool occurs(const cJSON *name, const struct masks_query *query)
{
    const char *s = cJSON_GetStringValue(name);
    return s && *s && (strcasestr(query->text, s) || (query->named && strcasestr(s, query->text)));
}

// Returns an object's name, or its category's; NULL: it has none.
static const char *name_of(const struct masks *m, const cJSON *object)
{
    const char *name = cJSON_GetStringValue(json_get(object, "name"));
    char id[24];
    size_t category;
    if (m->coco && json_id_text(object, "category_id", id) &&
        names_find(&m->categories, id, &category))
        name = m->category[category];
    return name && *name ? name : NULL;
}

// True if the text contains the object's name, its category or one of its referring expressions;
// with query->whole, if the text is the name or category.
static bool named(const struct masks *m, const cJSON *object, const struct masks_query *query)
{
    static const char *const keys[] = { "name", "sent", "answer", "sentences", "expression" };
    const char *name = name_of(m, object);
    if (query->whole) return name && !strcmp(name, query->text);
    if (name && strcasestr(query->text, name)) return true;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const cJSON *value = json_get(object, keys[k]), *one;
        if (occurs(value, query)) return true;
        if (!cJSON_IsArray(value)) continue;
        cJSON_ArrayForEach(one, value)
        {
            if (occurs(one, query) || occurs(json_get(one, "sent"), query) ||
                occurs(json_get(one, "raw"), query))
                return true;
        }
    }
    return false;
}

// The objects of a picture: objects.jsonl lists them in the picture's line; in the other formats,
// each row or annotation of the picture is one object.
struct found {
    cJSON **json; // [count] owned
    size_t count, capacity;
    const cJSON **objects; // [object_count]
    size_t object_count, object_capacity;
};

static void add_object(struct found *f, const cJSON *object)
{
    f->objects = xgrow(f->objects, &f->object_capacity, f->object_count, sizeof *f->objects);
    f->objects[f->object_count++] = object;
}

static int find(const struct masks *m, const struct masks_picture *p, struct found *f,
                struct err *err)
{
    const struct json_list *l = m->coco ? json_parts_list(&m->parts, "annotations") : NULL;
    for (size_t i = p->first; i; i = m->items[i - 1].next) {
        const int64_t at = m->items[i - 1].at;
        cJSON *json =
            l ? json_parts_item(&m->parts, &l->items[at], err) : dataset_json(&m->lines, at, err);
        if (!json) return -1;
        f->json = xgrow(f->json, &f->capacity, f->count, sizeof *f->json);
        f->json[f->count++] = json;
        const cJSON *objects = json_get(json, "objects"), *object;
        if (!cJSON_IsArray(objects)) add_object(f, json);
        cJSON_ArrayForEach(object, objects) add_object(f, object);
    }
    return 0;
}

// Makes an empty mask. Its size is that of a run list, else the picture's size in the file, else
// the size in the query.
static int make_mask(struct image *mask, const struct found *f, const struct masks_picture *p,
                     const struct masks_query *query, struct err *err)
{
    double size[2] = { 0 };
    bool runs = false;
    for (size_t i = 0; i < f->object_count && !runs && !query->boxes; i++)
        runs = mask_runs_size(f->objects[i], size);
    if (!runs && p->width && p->height) size[0] = p->width, size[1] = p->height;
    if (!runs && !(p->width && p->height)) size[0] = query->width, size[1] = query->height;
    if (!(size[0] >= 1) || !(size[1] >= 1) || size[0] > IMAGE_MAX_SIDE ||
        size[1] > IMAGE_MAX_SIDE || size[0] * size[1] > IMAGE_MAX_AREA)
        return err_set(err, "%s of %g x %g pixels", runs ? "a mask" : "a picture", size[0],
                       size[1]);
    *mask = (struct image){ .width = (int64_t)size[0], .height = (int64_t)size[1], .channels = 3 };
    mask->pixels = xcalloc((size_t)(mask->width * mask->height), 3);
    return 0;
}

// Fails with a message that lists the objects' names.
static int not_named(const struct masks *m, const char *path, const char *picture, const char *text,
                     struct err *err)
{
    struct buf all = { 0 };
    size_t count;
    char **names = masks_names(m, picture, &count);
    for (size_t i = 0; i < count; i++) {
        buf_printf(&all, "%s%s", i ? ", " : ": it has ", names[i]);
        free(names[i]);
    }
    free(names);
    err_set(err, "'%s' lists no object '%s' of '%s'%s", path, text, picture,
            all.length ? all.data : "");
    buf_release(&all);
    return -1;
}

int masks_read(const struct masks *m, const struct masks_query *query, struct image *mask,
               struct err *err)
{
    const char *path = m->coco ? m->parts.path : m->lines.path,
               *name = text_file_name(query->picture);
    struct found f = { 0 };
    size_t number;
    bool any = false;
    *mask = (struct image){ 0 };
    if (!find_picture(m, query->picture, &number))
        return err_set(err, "'%s' does not list the picture '%s'", path, name);
    const struct masks_picture *p = &m->picture[number];
    int status = find(m, p, &f, err);
    if (status == 0 && !f.object_count)
        status = err_set(err, "'%s' lists no objects of '%s'", path, name);
    else if (status == 0 && (status = make_mask(mask, &f, p, query, err)) < 0)
        err_in(err, "'%s', '%s'", path, name);
    for (size_t i = 0; i < f.object_count; i++) any |= named(m, f.objects[i], query);
    if (status == 0 && query->named && !any) status = not_named(m, path, name, query->text, err);
    int64_t work = mask_work(mask);
    for (size_t i = 0; i < f.object_count && status == 0; i++) {
        if (any && !named(m, f.objects[i], query)) continue;
        status = mask_paint(mask, f.objects[i], query->boxes, &work, err);
        if (status < 0) err_in(err, "'%s', '%s'", path, name);
    }
    if (status == 0 && !memchr(mask->pixels, 255, (size_t)(3 * mask->width * mask->height)))
        status = err_set(err, "'%s': the objects of '%s' cover none of its %lld x %lld pixels",
                         path, name, (long long)mask->width, (long long)mask->height);
    if (status < 0) image_release(mask);
    for (size_t i = 0; i < f.count; i++) cJSON_Delete(f.json[i]);
    free(f.json);
    free(f.objects);
    return status;
}

char **masks_names(const struct masks *m, const char *picture, size_t *count)
{
    struct found f = { 0 };
    struct names all = { 0 };
    struct err ignored;
    size_t number, capacity = 0;
    char **list = NULL;
    *count = 0;
    if (find_picture(m, picture, &number) && find(m, &m->picture[number], &f, &ignored) == 0)
        for (size_t i = 0; i < f.object_count; i++) {
            const char *name = name_of(m, f.objects[i]);
            bool known = true;
            if (name) names_add(&all, name, &known);
            if (known) continue;
            list = xgrow(list, &capacity, *count, sizeof *list);
            list[(*count)++] = xstrdup(name);
        }
    for (size_t i = 0; i < f.count; i++) cJSON_Delete(f.json[i]);
    names_release(&all);
    free(f.json);
    free(f.objects);
    return list;
}
