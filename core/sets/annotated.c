// core/sets/annotated.c -- reads annotations: COCO's instances part by part, the demo world line by
// line.
#include "core/sets/annotated.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/data/dataset.h"
#include "core/sets/parts.h"

// --- pictures ------------------------------------------------------------------------------------

static int add_picture(struct annotated *a, const char *id, const char *file, struct err *err)
{
    bool known;
    const size_t i = names_add(&a->ids, id, &known);
    if (known) return err_set(err, "the picture '%s' occurs twice", id);
    if (i % 256 == 0) a->picture = xreallocarray(a->picture, i + 256, sizeof *a->picture);
    a->picture[i] = (struct annotated_picture){ .file = xstrdup(file) };
    return 0;
}

static int name_of(struct annotated *a, const char *name, int *number, struct err *err)
{
    *number = (int)names_add(&a->names, name, NULL);
    if (a->names.count <= ANNOTATED_NAMES_MAX) return 0;
    return err_set(err, "more than %d kinds of objects", ANNOTATED_NAMES_MAX);
}

// Adds an object to a picture once, however often it is annotated.
static void add_object(struct annotated_picture *p, int object)
{
    size_t at = 0;
    while (at < p->count && p->objects[at] < object) at++;
    if (at < p->count && p->objects[at] == object) return;
    p->objects = xreallocarray(p->objects, p->count + 1, sizeof *p->objects);
    memmove(p->objects + at + 1, p->objects + at, (p->count - at) * sizeof *p->objects);
    p->objects[at] = object;
    p->count++;
}

void annotated_release(struct annotated *a)
{
    for (size_t i = 0; i < a->ids.count; i++) {
        free(a->picture[i].file);
        free(a->picture[i].objects);
    }
    free(a->picture);
    names_release(&a->names);
    names_release(&a->ids);
    *a = (struct annotated){ 0 };
}

// --- COCO ----------------------------------------------------------------------------------------

struct coco {
    struct annotated *a;
    struct names categories; // ids
    int *number;             // [categories.count] index of each category's name in a->names
};

static int take_category(struct coco *c, const cJSON *json, struct err *err)
{
    const char *name = cJSON_GetStringValue(json_get(json, "name"));
    char id[24];
    bool known;
    if (!name || !*name || !json_id_text(json, "id", id))
        return err_set(err, "a category needs \"id\" and \"name\"");
    const size_t i = names_add(&c->categories, id, &known);
    c->number = xreallocarray(c->number, c->categories.count, sizeof *c->number);
    return name_of(c->a, name, &c->number[i], err);
}

static int take_image(struct coco *c, const cJSON *json, struct err *err)
{
    const char *file = cJSON_GetStringValue(json_get(json, "file_name"));
    char id[24];
    if (!file || !json_id_text(json, "id", id))
        return err_set(err, "an image needs \"id\" and \"file_name\"");
    return add_picture(c->a, id, file, err);
}

static int take_instance(struct coco *c, const cJSON *json, struct err *err)
{
    char image[24], category[24];
    size_t i, k;
    if (!json_id_text(json, "image_id", image) || !names_find(&c->a->ids, image, &i))
        return err_set(err, "its \"image_id\" is not in \"images\"");
    if (!c->number || !json_id_text(json, "category_id", category) ||
        !names_find(&c->categories, category, &k))
        return err_set(err, "its \"category_id\" is not in \"categories\", so its object has no "
                            "name");
    add_object(&c->a->picture[i], c->number[k]);
    return 0;
}

static int each(struct coco *c, const struct json_parts *p, const char *key,
                int (*take)(struct coco *c, const cJSON *json, struct err *err), struct err *err)
{
    const struct json_list *l = json_parts_list(p, key);
    for (size_t i = 0; i < l->count; i++) {
        cJSON *item = json_parts_item(p, &l->items[i], err);
        const int status = item ? take(c, item, err) : -1;
        cJSON_Delete(item);
        if (status < 0) return err_in(err, "'%s', \"%s\" %zu", p->path, key, i);
    }
    return 0;
}

static int read_coco(struct annotated *a, const struct json_parts *p, struct err *err)
{
    struct coco c = { .a = a };
    int status = each(&c, p, "categories", take_category, err);
    if (status == 0) status = each(&c, p, "images", take_image, err);
    if (status == 0) status = each(&c, p, "annotations", take_instance, err);
    names_release(&c.categories);
    free(c.number);
    return status;
}

// --- the demo world ------------------------------------------------------------------------------

static int take_scene(struct annotated *a, const cJSON *json, struct err *err)
{
    const char *id = cJSON_GetStringValue(json_get(json, "id"));
    const char *file = cJSON_GetStringValue(json_get(json, "image"));
    const cJSON *objects = json_get(json, "objects"), *object;
    if (!id || !file || !cJSON_IsArray(objects))
        return err_set(err, "needs \"id\", \"image\" and a list \"objects\"");
    if (add_picture(a, id, file, err) < 0) return -1;
    cJSON_ArrayForEach(object, objects)
    {
        const char *name = cJSON_GetStringValue(json_get(object, "name"));
        int number;
        if (!name || !*name) return err_set(err, "an object has no \"name\"");
        if (name_of(a, name, &number, err) < 0) return -1;
        add_object(&a->picture[a->ids.count - 1], number);
    }
    return 0;
}

static int read_scenes(struct annotated *a, const char *path, struct err *err)
{
    struct dataset d;
    int status = dataset_open(&d, path, NULL, err);
    if (status < 0) return -1;
    for (int64_t i = 0; i < d.count && status == 0; i++) {
        cJSON *json = dataset_json(&d, i, err);
        status = json ? take_scene(a, json, err) : -1;
        cJSON_Delete(json);
        if (status < 0) err_in(err, "'%s', line %lld", path, (long long)i + 1);
    }
    dataset_close(&d);
    return status;
}

int annotated_open(struct annotated *a, const char *path, struct err *err)
{
    struct json_parts parts = { 0 };
    struct err ignored;
    *a = (struct annotated){ 0 };
    // A line of the demo world has none of COCO's three lists.
    const bool coco = json_parts_open(&parts, path, &ignored) == 0 &&
                      json_parts_has(&parts, "categories") && json_parts_has(&parts, "images") &&
                      json_parts_has(&parts, "annotations");
    int status = coco ? read_coco(a, &parts, err) : read_scenes(a, path, err);
    json_parts_close(&parts);
    if (status == 0 && !a->ids.count) status = err_set(err, "'%s' has no pictures", path);
    if (status < 0) annotated_release(a);
    return status;
}

int annotated_record(const struct annotated *a, const char *id, cJSON *record, struct err *err)
{
    size_t i;
    char *key = json_number_key(id);
    const bool known = names_find(&a->ids, key, &i);
    free(key);
    if (!known) return err_set(err, "the picture '%s' is not annotated", id);
    cJSON_DeleteItemFromObjectCaseSensitive(record, "answer");
    cJSON_DeleteItemFromObjectCaseSensitive(record, "choices");
    cJSON *answer = cJSON_AddArrayToObject(record, "answer");
    cJSON *choices = cJSON_AddArrayToObject(record, "choices");
    const struct annotated_picture *p = &a->picture[i];
    for (size_t k = 0; k < p->count; k++)
        cJSON_AddItemToArray(answer, cJSON_CreateString(a->names.list[p->objects[k]]));
    for (size_t k = 0; k < a->names.count; k++)
        cJSON_AddItemToArray(choices, cJSON_CreateString(a->names.list[k]));
    return 0;
}
