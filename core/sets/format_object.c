// core/sets/format_object.c -- JSON objects: TextVQA, DocVQA and InfoVQA ("data"), VQAv2
// ("questions", with annotations in a second file), SEED-Bench ("questions" with choice_a ...),
// captions of COCO ("images" and "annotations") and its instances (with "categories"), Karpathy's
// splits of COCO and Flickr30k ("images" with "sentences"), ScienceQA (problems.json, with
// pid_splits.json in the same folder), GQA's questions and MM-Vet (members by id).
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/names.h"
#include "core/data/dialogue.h"
#include "core/sets/annotated.h"
#include "core/sets/format.h"
#include "core/sets/parts.h"

// A row of the joined list, with the id that both lists share.
struct join {
    int64_t id;
    size_t item;
};

struct object {
    const struct object_kind *kind;
    struct json_parts parts, other; // other: the annotations' file; may be empty
    const struct json_list *rows, *joined;
    const struct json_parts *joined_in;
    struct join *joins; // [join_count] sorted by id, then by item
    size_t join_count;
    size_t *chosen;         // [count] rows (or members) of the test split; NULL: all
    struct annotated world; // of COCO's instances
    const char *folder;
    char *subtype;
    int64_t count;
};

struct object_kind {
    const char *list,
        *with;          // the list of rows, and another list that the object must have, or NULL
    const char *member; // list NULL: a key of the object's members, which are the rows
    struct set_names names[7];
    // Chooses rows and joins the other list; NULL: takes all rows.
    int (*open)(struct object *o, const char *path, struct err *err);
    // Adds pictures and answers to the record.
    int (*read)(const struct object *o, struct set_record *r, struct err *err);
};

// --- joining -------------------------------------------------------------------------------------

static int by_id(const void *a, const void *b)
{
    const struct join *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

// Returns the id as a number, or -1 if it is absent, negative or not a 64-bit integer.
static int64_t number_of(const cJSON *json, const char *key)
{
    const cJSON *item = json_get(json, key);
    if (!cJSON_IsString(item)) return json_whole(item, -1);
    char *end;
    errno = 0;
    const long long id = strtoll(item->valuestring, &end, 10);
    return *item->valuestring && !*end && !errno && id >= 0 ? id : -1;
}

static int join_by(struct object *o, const struct json_parts *in, const char *rows, const char *key,
                   struct err *err)
{
    const struct json_list *list = o->joined = json_parts_list(in, rows);
    o->joined_in = in;
    o->joins = xreallocarray(NULL, list->count + 1, sizeof *o->joins);
    for (size_t i = 0; i < list->count; i++) {
        cJSON *item = json_parts_item(in, &list->items[i], err);
        if (!item) return -1;
        o->joins[o->join_count++] = (struct join){ number_of(item, key), i };
        cJSON_Delete(item);
    }
    qsort(o->joins, o->join_count, sizeof *o->joins, by_id);
    return 0;
}

// Returns the first of the *count joined rows with the id, or NULL.
static const struct join *find_joined(const struct object *o, int64_t id, size_t *count)
{
    size_t low = 0, high = id < 0 ? 0 : o->join_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (o->joins[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low;
    while (id >= 0 && end < o->join_count && o->joins[end].id == id) end++;
    *count = end - low;
    return *count ? o->joins + low : NULL;
}

static int add_file(const struct object *o, struct set_record *r, const char *key)
{
    const char *file = set_text_of(r->json, key, NULL);
    if (file) set_add_picture(r, file, o->folder);
    return file ? 0 : -1;
}

// --- TextVQA -------------------------------------------------------------------------------------

static int read_data(const struct object *o, struct set_record *r, struct err *err)
{
    const char *image = set_text_of(r->json, "image_id", NULL);
    if (image) {
        set_add_picture(r, scratch_printf(&r->scratch, "%s.jpg", image), o->folder);
        return 0;
    }
    if (add_file(o, r, "image") == 0 || add_file(o, r, "image_local_name") == 0) return 0;
    return err_set(err, "\"image_id\", \"image\" and \"image_local_name\" are missing");
}

// --- VQAv2 and SEED-Bench ------------------------------------------------------------------------

// Joins "v2_mscoco_val2014_annotations.json" (VQAv2) or "mscoco_val2014_annotations.json" in the
// same folder; test splits have no such file.
static int open_questions(struct object *o, const char *path, struct err *err)
{
    const struct json_list *subtype = json_parts_list(&o->parts, "data_subtype");
    cJSON *name =
        subtype && subtype->count ? json_parts_item(&o->parts, &subtype->items[0], err) : NULL;
    const char *text = cJSON_GetStringValue(name);
    if (text) o->subtype = xstrdup(text);
    cJSON_Delete(name);
    if (!o->subtype || strchr(o->subtype, '/')) return 0;
    char *folder = path_folder(path);
    char *file = xasprintf("%s/v2_mscoco_%s_annotations.json", folder, o->subtype);
    int status = 0;
    if (access(file, F_OK) < 0) { // OK-VQA
        free(file);
        file = xasprintf("%s/mscoco_%s_annotations.json", folder, o->subtype);
    }
    if (access(file, F_OK) == 0) {
        status = json_parts_open(&o->other, file, err);
        if (status == 0 && !json_parts_has(&o->other, "annotations"))
            status = err_set(err, "'%s' has no list \"annotations\"", file);
        if (status == 0) status = join_by(o, &o->other, "annotations", "question_id", err);
    }
    free(file);
    free(folder);
    return status;
}

static int read_question(const struct object *o, struct set_record *r, struct err *err)
{
    size_t count;
    const struct join *j = find_joined(o, number_of(r->json, "index"), &count);
    cJSON *note = count ? json_parts_item(o->joined_in, &o->joined->items[j->item], err) : NULL;
    if (count && !note) return -1;
    if (set_put_answers(r, json_get(note, "answers"), "answer"))
        set_put(r, "category", set_text_of(note, "answer_type", ""));
    cJSON_Delete(note);
    if (add_file(o, r, "data_id") == 0) {
        // LLaVA's script looks up SEED-Bench's answers by number if the id is numeric.
        r->number = true;
        return 0;
    }
    const int64_t id = number_of(r->json, "image_id");
    if (!o->subtype)
        return err_set(err, "neither \"data_id\" nor \"data_subtype\" names the picture");
    if (id < 0) return err_set(err, "\"image_id\" is not a whole number");
    set_add_picture(r, scratch_printf(&r->scratch, "COCO_%s_%012" PRId64 ".jpg", o->subtype, id),
                    o->folder);
    return 0;
}

// --- captions ------------------------------------------------------------------------------------

// Refuses a picture that is listed twice: each entry would join the same captions again.
static int open_captions(struct object *o, const char *path, struct err *err)
{
    struct names ids = { 0 };
    int status = join_by(o, &o->parts, "annotations", "image_id", err);
    for (size_t i = 0; i < o->rows->count && status == 0; i++) {
        cJSON *row = json_parts_item(&o->parts, &o->rows->items[i], err);
        const int64_t id = number_of(row, "id");
        char text[24];
        bool known = false;
        snprintf(text, sizeof text, "%" PRId64, id);
        if (id >= 0) names_add(&ids, text, &known);
        if (known) err_set(err, "'%s' lists the picture %s twice: remove one entry", path, text);
        if (known || !row) status = -1;
        cJSON_Delete(row);
    }
    names_release(&ids);
    return status;
}

static int read_captions(const struct object *o, struct set_record *r, struct err *err)
{
    size_t count;
    const struct join *j = find_joined(o, number_of(r->json, "index"), &count);
    cJSON *notes = cJSON_CreateArray();
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        cJSON *note = json_parts_item(o->joined_in, &o->joined->items[j[i].item], err);
        if (note) cJSON_AddItemToArray(notes, note);
        if (!note) status = -1;
    }
    set_put_answers(r, notes, "caption");
    cJSON_Delete(notes);
    if (status < 0) return -1;
    return add_file(o, r, "file_name") == 0 ? 0 : err_set(err, "\"file_name\" is missing");
}

// --- instances -----------------------------------------------------------------------------------

static int open_instances(struct object *o, const char *path, struct err *err)
{
    return annotated_open(&o->world, path, err);
}

static int read_instances(const struct object *o, struct set_record *r, struct err *err)
{
    if (add_file(o, r, "file_name") < 0) return err_set(err, "\"file_name\" is missing");
    return annotated_record(&o->world, set_text_of(r->json, "index", ""), r->json, err);
}

// --- Karpathy's splits ---------------------------------------------------------------------------

static int open_karpathy(struct object *o, const char *path, struct err *err)
{
    o->chosen = xcalloc(o->rows->count + 1, sizeof *o->chosen);
    for (size_t i = 0; i < o->rows->count; i++) {
        cJSON *row = json_parts_item(&o->parts, &o->rows->items[i], err);
        if (!row) return -1;
        if (!strcmp(set_text_of(row, "split", "test"), "test")) o->chosen[o->count++] = i;
        cJSON_Delete(row);
    }
    return o->count ? 0 : err_set(err, "'%s' has no picture of the split \"test\"", path);
}

static int read_karpathy(const struct object *o, struct set_record *r, struct err *err)
{
    const char *file = set_text_of(r->json, "filename", NULL);
    const char *folder = set_text_of(r->json, "filepath", NULL);
    set_put_answers(r, json_get(r->json, "sentences"), "raw");
    if (!file) return err_set(err, "\"filename\" is missing");
    if (folder) file = scratch_printf(&r->scratch, "%s/%s", folder, file);
    set_add_picture(r, file, o->folder);
    return 0;
}

// --- ScienceQA -----------------------------------------------------------------------------------

// Chooses the problems of the split "test", in the split's order.
static int open_problems(struct object *o, const char *path, struct err *err)
{
    const struct json_list *first = o->parts.count ? o->parts.lists : NULL;
    if (!first || first->list || !first->count || o->parts.map[first->items[0].at] != '{')
        return err_set(err,
                       "'%s' is a JSON object, but not an evaluation set: it has none of \"data\", "
                       "\"questions\" and \"images\", nor ScienceQA's problems",
                       path);
    char *folder = path_folder(path), *file = xasprintf("%s/pid_splits.json", folder);
    cJSON *splits = json_read_data(file, (size_t)64 << 20, err), *id;
    const cJSON *test = json_get(splits, "test");
    struct names known = { 0 };
    size_t *member = xcalloc(o->parts.count, sizeof *member); // of each name
    for (size_t i = 0; i < o->parts.count; i++) {
        bool twice;
        const size_t n = names_add(&known, o->parts.lists[i].key, &twice);
        if (!twice) member[n] = i;
    }
    o->chosen = xcalloc((size_t)cJSON_GetArraySize(test) + 1, sizeof *o->chosen);
    int status = splits ? 0 : -1;
    cJSON_ArrayForEach(id, test)
    {
        size_t n;
        const char *name = cJSON_GetStringValue(id);
        if (name && names_find(&known, name, &n) && !o->parts.lists[member[n]].list)
            o->chosen[o->count++] = member[n];
        else if (status == 0)
            status =
                err_set(err,
                        "'%s' lists the problem \"%.40s\" under \"test\", which '%s' lacks: remove "
                        "it from the list, or use all problems",
                        file, name ? name : "(not a text)", path);
    }
    names_release(&known);
    free(member);
    if (status == 0 && !o->count)
        status = err_set(err, "'%s' lists no problem of '%s' under \"test\"", file, path);
    cJSON_Delete(splits);
    free(file);
    free(folder);
    return status;
}

static int read_problem(const struct object *o, struct set_record *r, struct err *err)
{
    const cJSON *choices = json_get(r->json, "choices");
    const char *image = set_text_of(r->json, "image", NULL);
    const int64_t right = number_of(r->json, "answer");
    if (!cJSON_IsArray(choices) || right < 0 || right >= cJSON_GetArraySize(choices) || right > 25)
        return err_set(err, "needs \"choices\" and the number of the right one as \"answer\"");
    set_put(r, "answer", (const char[]){ (char)('A' + right), 0 });
    if (image)
        set_add_picture(
            r, scratch_printf(&r->scratch, "%s/%s", set_text_of(r->json, "index", ""), image),
            o->folder);
    return 0;
}

// --- GQA's questions and MM-Vet, by their ids ----------------------------------------------------

static int open_members(struct object *o, const char *path, struct err *err)
{
    for (size_t i = 0; i < o->parts.count; i++) {
        const struct json_list *l = &o->parts.lists[i];
        if (l->list || !l->count || o->parts.map[l->items[0].at] != '{')
            return err_set(err, "'%s', member \"%s\", is not an object", path, l->key);
    }
    o->count = (int64_t)o->parts.count;
    return 0;
}

static int read_gqa(const struct object *o, struct set_record *r, struct err *err)
{
    const char *image = set_text_of(r->json, "imageId", NULL);
    if (!image) return err_set(err, "\"imageId\" is missing");
    set_add_picture(r, scratch_printf(&r->scratch, "%s.jpg", image), o->folder);
    return 0;
}

static int read_mmvet(const struct object *o, struct set_record *r, struct err *err)
{
    return add_file(o, r, "imagename") == 0 ? 0 : err_set(err, "\"imagename\" is missing");
}

// True if the object's first member has this key.
static bool has_member(const struct object *o, const char *key)
{
    struct err ignored;
    const struct json_list *l = o->parts.count ? o->parts.lists : NULL;
    if (!l || l->list || !l->count) return false;
    cJSON *first = json_parts_item(&o->parts, l->items, &ignored);
    const bool has = json_get(first, key) != NULL;
    cJSON_Delete(first);
    return has;
}

// --- the format ----------------------------------------------------------------------------------

static const struct object_kind kinds[] = {
    { .list = "data",
      .names = { { "index", { "question_id", "questionId" } }, { "answer", { "answers" } } },
      .read = read_data },
    { .list = "questions",
      .names = { { "index", { "question_id" } },
                 { "A", { "choice_a" } },
                 { "B", { "choice_b" } },
                 { "C", { "choice_c" } },
                 { "D", { "choice_d" } },
                 { "category", { "question_type_id" } } },
      .open = open_questions,
      .read = read_question },
    { .list = "images",
      .with = "categories",
      .names = { { "index", { "id" } } },
      .open = open_instances,
      .read = read_instances },
    { .list = "images",
      .with = "annotations",
      .names = { { "index", { "id" } } },
      .open = open_captions,
      .read = read_captions },
    { .list = "images",
      .names = { { "index", { "imgid" } } },
      .open = open_karpathy,
      .read = read_karpathy },
    { .member = "imageId", .names = { { "index" } }, .open = open_members, .read = read_gqa },
    { .member = "imagename", .names = { { "index" } }, .open = open_members, .read = read_mmvet },
    { .names = { { "index" }, { "category", { "subject" } } },
      .open = open_problems,
      .read = read_problem },
};

static bool is_object(const char *path, const char *head, size_t size)
{
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", head[i])) i++;
    return i < size && head[i] == '{';
}

static void object_close(void *self)
{
    struct object *o = self;
    json_parts_close(&o->parts);
    json_parts_close(&o->other);
    annotated_release(&o->world);
    free(o->joins);
    free(o->chosen);
    free(o->subtype);
    free(o);
}

static int open_kind(struct object *o, const char *path, struct err *err)
{
    const struct object_kind *k = kinds;
    while ((k->list || k->member) &&
           !(k->list ? json_parts_has(&o->parts, k->list) &&
                           (!k->with || json_parts_has(&o->parts, k->with))
                     : has_member(o, k->member)))
        k++;
    o->kind = k;
    if (k->list) o->rows = json_parts_list(&o->parts, k->list);
    if (k->open && k->open(o, path, err) < 0) return -1;
    if (o->rows && !o->chosen) o->count = (int64_t)o->rows->count;
    return o->count ? 0 : err_set(err, "'%s' contains no samples", path);
}

static void *object_open(const char *path, const char *folder, const struct set_columns *columns,
                         int64_t *count, struct err *err)
{
    struct object *o = xcalloc(1, sizeof *o);
    o->folder = folder;
    if (json_parts_open(&o->parts, path, err) < 0 || open_kind(o, path, err) < 0) {
        object_close(o);
        return NULL;
    }
    *count = o->count;
    return o;
}

static int object_read(void *self, int64_t index, struct set_record *r, struct err *err)
{
    const struct object *o = self;
    const size_t i = o->chosen ? o->chosen[index] : (size_t)index;
    // Rows of a list, or members of the object itself.
    const struct json_list *member = &o->parts.lists[o->rows ? 0 : i];
    const struct json_part *part = o->rows ? &o->rows->items[i] : &member->items[0];
    if (set_record_of(r, json_parts_item(&o->parts, part, err), o->kind->names, err) < 0) return -1;
    if (!o->rows) {
        r->number = false;
        set_put(r, "index", member->key);
    }
    return o->kind->read(o, r, err);
}

const struct set_format set_format_object = {
    .name = "a JSON object (TextVQA, DocVQA, InfoVQA, VQAv2, SEED-Bench, COCO, Flickr30k, "
            "ScienceQA, GQA, MM-Vet)",
    .is = is_object,
    .open = object_open,
    .read = object_read,
    .close = object_close,
};
