// core/sets/form_lines.c -- JSON lines and JSON lists: LLaVA's question files, POPE's label files,
// HellaSwag, LLaVA's list for ScienceQA (llava_test_CQM-A.json).
//
// What LLaVA's question files leave out (the answers) is looked up beside them: labels of POPE in
// coco_pope_*.json, answers of TextVQA in TextVQA_0.5.1_val.json, of ScienceQA in problems.json.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/dataset.h"
#include "core/sets/annotated.h"
#include "core/sets/beside.h"
#include "core/sets/form.h"

struct lines {
    struct dataset data;
    char *folder;
    struct set_beside *beside;
    struct annotated world; // of a demo world's objects.jsonl; else empty
};

static bool is_lines(const char *path, const char *head, size_t size)
{
    size_t i = 0;
    while (i < size && isspace((unsigned char)head[i])) i++;
    if (i == size) return false;
    if (head[i] == '[') return true;
    if (head[i] != '{') return false;
    // A whole object in the first line.
    const char *stop = memchr(head + i, '\n', size - i);
    const char *end = stop ? stop : head + size;
    cJSON *json = json_parse(head + i, (size_t)(end - head) - i, "data", NULL);
    const bool good = cJSON_IsObject(json) && !json_get(json, "annotations") &&
                      !json_get(json, "questions") && !cJSON_IsArray(json_get(json, "data")) &&
                      !cJSON_IsArray(json_get(json, "images")) && !cJSON_IsObject(json->child);
    cJSON_Delete(json);
    return good;
}

static void lines_close(void *self)
{
    struct lines *l = self;
    dataset_close(&l->data);
    set_beside_free(l->beside);
    annotated_release(&l->world);
    free(l->folder);
    free(l);
}

// Does the first line list objects, and ask nothing? A question with its own answer keeps it, also
// where it lists objects too.
static bool annotates(const struct dataset *d)
{
    static const char *const asking[] = { "question", "text", "conversations", "answer", "label" };
    struct err ignored;
    cJSON *first = d->count ? dataset_json(d, 0, &ignored) : NULL;
    bool annotates = cJSON_IsArray(json_get(first, "objects"));
    for (size_t i = 0; i < sizeof asking / sizeof *asking; i++)
        if (json_get(first, asking[i])) annotates = false;
    cJSON_Delete(first);
    return annotates;
}

static void *lines_open(const char *path, const char *folder, int64_t *count, struct err *err)
{
    struct lines *l = xcalloc(1, sizeof *l);
    l->folder = xstrdup(folder);
    if (dataset_open(&l->data, path, NULL, err) < 0) {
        free(l->folder);
        free(l);
        return NULL;
    }
    l->beside = set_beside_new(path);
    *count = l->data.count;
    if (!annotates(&l->data) || annotated_open(&l->world, path, err) == 0) return l;
    lines_close(l);
    return NULL;
}

static void rename_key(cJSON *json, const char *from, const char *to)
{
    if (json_get(json, to) || !json_get(json, from)) return;
    cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(json, from);
    cJSON_AddItemToObject(json, to, item);
}

// Numbers as texts, as everything is in a table.
static void number_texts(cJSON *json)
{
    static const char *const keys[] = { "index", "answer", "category", "question_id", "image_id" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const cJSON *item = json_get(json, keys[i]);
        if (!cJSON_IsNumber(item)) continue;
        char *text = json_number_text(item);
        cJSON_ReplaceItemInObjectCaseSensitive(json, keys[i], cJSON_CreateString(text));
        free(text);
    }
}

static const char *trailing_letter(const char *text)
{
    // "The answer is B."
    const char *p = strstr(text, "The answer is ");
    return p ? p + strlen("The answer is ") : text;
}

// LLaVA's conversation: the question of the first turn, the letter of the answer after it.
static void take_turns(cJSON *json)
{
    const cJSON *turns = json_get(json, "conversations");
    const char *question = cJSON_GetStringValue(json_get(cJSON_GetArrayItem(turns, 0), "value"));
    const char *answer = cJSON_GetStringValue(json_get(cJSON_GetArrayItem(turns, 1), "value"));
    if (question && !json_get(json, "question")) {
        const char *mark = strstr(question, "<image>");
        struct buf b = { 0 };
        buf_add(&b, question, mark ? (size_t)(mark - question) : strlen(question));
        if (mark) buf_puts(&b, mark + strlen("<image>") + (mark[strlen("<image>")] == '\n'));
        cJSON_AddStringToObject(json, "question", b.data ? b.data : "");
        buf_release(&b);
    }
    if (answer && !json_get(json, "answer")) {
        const char *letter = trailing_letter(answer);
        const char text[] = { *letter, 0 };
        if (*letter >= 'A' && *letter <= 'Z') cJSON_AddStringToObject(json, "answer", text);
    }
}

static void add_picture(struct set_record *r, const cJSON *item, const char *folder)
{
    char *name = dialogue_picture(item);
    if (name && *name) set_add_picture(r, name, folder);
    free(name);
}

static int lines_read(void *self, int64_t index, struct set_record *r, struct err *err)
{
    const struct lines *l = self;
    *r = (struct set_record){ .json = dataset_json(&l->data, index, err) };
    if (!r->json) return -1;
    if (!cJSON_IsObject(r->json)) return err_set(err, "a sample must be an object");
    rename_key(r->json, "question_id", "index");
    rename_key(r->json, "id", "index");
    rename_key(r->json, "ind", "index"); // HellaSwag
    rename_key(r->json, "text", "question");
    rename_key(r->json, "label", "answer");
    take_turns(r->json);
    r->number = cJSON_IsNumber(json_get(r->json, "index"));
    number_texts(r->json);
    set_beside_add(l->beside, r->json);
    r->faults = set_beside_faults(l->beside);
    const cJSON *image = json_get(r->json, "image"), *item;
    if (!cJSON_IsArray(image)) add_picture(r, image, l->folder);
    if (cJSON_IsArray(image)) cJSON_ArrayForEach(item, image) add_picture(r, item, l->folder);
    if (!l->world.ids.count) return 0;
    const char *id = cJSON_GetStringValue(json_get(r->json, "index"));
    return annotated_record(&l->world, id ? id : "", r->json, err);
}

const struct set_form set_form_lines = {
    .name = "JSON lines or a JSON list (LLaVA, POPE, HellaSwag)",
    .is = is_lines,
    .open = lines_open,
    .read = lines_read,
    .close = lines_close,
};
