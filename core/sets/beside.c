// core/sets/beside.c -- answers that lie beside a question file.
//
// All are kept under a key of their question: picture and question for POPE and TextVQA, the
// problem's number for ScienceQA. A file that cannot be read has no answers, and questions without
// an answer say why: the set is not refused, as the file may belong to another one.
#include "core/sets/beside.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/names.h"
#include "core/data/dataset.h"

struct set_beside {
    struct names keys;
    cJSON *answers; // [keys.count] items: a text, a list, or {"answer", "choices"}
    cJSON **list;   // the same, for direct access
    struct buf faults;
};

static const size_t file_max = (size_t)256 << 20;

// "[SPLIT\n]PICTURE\nQUESTION": the file's name without folder and ending, the first line in lower
// case. split "": none.
static char *key_of(const char *split, const char *picture, const char *question)
{
    const char *slash = strrchr(picture, '/'), *name = slash ? slash + 1 : picture;
    struct buf b = { 0 };
    if (*split) buf_printf(&b, "%s\n", split);
    buf_add(&b, name, strcspn(name, "."));
    buf_putc(&b, '\n');
    for (const char *p = question; *p && *p != '\n'; p++)
        buf_putc(&b, (char)tolower((unsigned char)*p));
    return buf_take(&b);
}

// Takes the answer. The first of a key stays.
static void add(struct set_beside *b, const char *key, cJSON *answer)
{
    bool known;
    names_add(&b->keys, key, &known);
    if (known)
        cJSON_Delete(answer);
    else
        cJSON_AddItemToArray(b->answers, answer ? answer : cJSON_CreateNull());
}

static void add_fault(struct set_beside *b, const char *why)
{
    buf_printf(&b->faults, "%s%s", b->faults.length ? "; " : "", why);
}

// Of what an entry lacks, one is named.
static void add_fault_of(struct set_beside *b, const char *path, int64_t entry, const char *needs)
{
    char *why = xasprintf("'%s', entry %lld, needs %s", path, (long long)entry, needs);
    add_fault(b, why);
    free(why);
}

// Parses the file; NULL if it is absent or cannot be read, which is noted as a fault.
static cJSON *read_file(struct set_beside *b, const char *path)
{
    struct err err;
    cJSON *all = access(path, F_OK) == 0 ? json_read_data(path, file_max, &err) : NULL;
    if (!all && access(path, F_OK) == 0) add_fault(b, err.text);
    return all;
}

// Under their split too: two splits may ask the same of a picture.
static void read_labels(struct set_beside *b, const char *path, const char *split)
{
    struct dataset d;
    struct err err;
    bool faulty = false;
    if (access(path, F_OK) < 0) return;
    if (dataset_open(&d, path, NULL, &err) < 0) {
        add_fault(b, err.text);
        return;
    }
    for (int64_t i = 0; i < d.count; i++) {
        cJSON *line = dataset_json(&d, i, &err);
        const char *image = cJSON_GetStringValue(json_get(line, "image"));
        const char *text = cJSON_GetStringValue(json_get(line, "text"));
        const char *label = cJSON_GetStringValue(json_get(line, "label"));
        if (image && text && label) {
            const char *const under[] = { split, "" };
            for (int k = 0; k < 2; k++) {
                char *key = key_of(under[k], image, text);
                add(b, key, cJSON_CreateString(label));
                free(key);
            }
        } else if (!faulty && !line) {
            err_in(&err, "'%s'", path);
            add_fault(b, err.text);
        } else if (!faulty) {
            add_fault_of(b, path, i, "\"image\", \"text\" and \"label\"");
        }
        faulty |= !image || !text || !label;
        cJSON_Delete(line);
    }
    dataset_close(&d);
}

static void read_textvqa(struct set_beside *b, const char *path)
{
    cJSON *all = read_file(b, path), *item;
    const cJSON *data = json_get(all, "data");
    int64_t entry = 0;
    bool faulty = false;
    if (all && !cJSON_IsArray(data)) {
        char *why = xasprintf("'%s' has no list \"data\"", path);
        add_fault(b, why);
        free(why);
    }
    cJSON_ArrayForEach(item, data)
    {
        const char *image = cJSON_GetStringValue(json_get(item, "image_id"));
        const char *question = cJSON_GetStringValue(json_get(item, "question"));
        const bool good = image && question && json_get(item, "answers");
        if (!good && !faulty)
            add_fault_of(b, path, entry, "\"image_id\", \"question\" and \"answers\"");
        faulty |= !good;
        entry++;
        if (!good) continue;
        char *key = key_of("", image, question);
        add(b, key, cJSON_DetachItemFromObjectCaseSensitive(item, "answers"));
        free(key);
    }
    cJSON_Delete(all);
}

static void read_problems(struct set_beside *b, const char *path)
{
    cJSON *all = read_file(b, path), *item;
    int64_t entry = 0;
    bool faulty = false;
    cJSON_ArrayForEach(item, all)
    {
        const int64_t answer = json_whole(json_get(item, "answer"), -1);
        const bool good = item->string && answer >= 0 && answer <= 25;
        if (!good && !faulty)
            add_fault_of(b, path, entry,
                         "a number and the number of the right choice as \"answer\"");
        faulty |= !good;
        entry++;
        if (!good) continue;
        const char letter[] = { (char)('A' + answer), 0 };
        cJSON *known = cJSON_CreateObject();
        cJSON_AddStringToObject(known, "answer", letter);
        cJSON_AddItemToObject(known, "choices",
                              cJSON_DetachItemFromObjectCaseSensitive(item, "choices"));
        add(b, item->string, known);
    }
    cJSON_Delete(all);
}

struct set_beside *set_beside_new(const char *path)
{
    static const char *const splits[] = { "random", "popular", "adversarial" };
    static const char *const places[] = { "", "coco/" };
    enum { FILES = 6 };
    struct set_beside *b = xcalloc(1, sizeof *b);
    char *folder = path_folder(path);
    b->answers = cJSON_CreateArray();
    for (int i = 0; i < FILES; i++) {
        char *file = xasprintf("%s/%scoco_pope_%s.json", folder, places[i / 3], splits[i % 3]);
        read_labels(b, file, splits[i % 3]);
        free(file);
    }
    char *textvqa = xasprintf("%s/TextVQA_0.5.1_val.json", folder);
    char *problems = xasprintf("%s/problems.json", folder);
    read_textvqa(b, textvqa);
    read_problems(b, problems);
    free(problems);
    free(textvqa);
    free(folder);
    b->list = xcalloc(b->keys.count + 1, sizeof(cJSON *));
    size_t n = 0;
    cJSON *item;
    cJSON_ArrayForEach(item, b->answers) b->list[n++] = item;
    return b;
}

static const cJSON *find(const struct set_beside *b, const cJSON *question)
{
    const char *image = cJSON_GetStringValue(json_get(question, "image"));
    const char *text = cJSON_GetStringValue(json_get(question, "question"));
    const char *index = cJSON_GetStringValue(json_get(question, "index"));
    const char *split = cJSON_GetStringValue(json_get(question, "category"));
    size_t number;
    bool by_text = false;
    for (int k = split && *split ? 0 : 1; image && text && k < 2 && !by_text; k++) {
        char *key = key_of(k ? "" : split, image, text);
        by_text = names_find(&b->keys, key, &number);
        free(key);
    }
    if (by_text || (index && names_find(&b->keys, index, &number))) return b->list[number];
    return NULL;
}

const char *set_beside_faults(const struct set_beside *b)
{
    return b->faults.data;
}

void set_beside_add(const struct set_beside *b, cJSON *question)
{
    const cJSON *known = find(b, question), *item;
    if (!known || cJSON_IsNull(known)) return;
    if (!cJSON_IsObject(known)) {
        if (!json_get(question, "answer"))
            cJSON_AddItemToObject(question, "answer", cJSON_Duplicate(known, true));
        return;
    }
    cJSON_ArrayForEach(item, known) if (!json_get(question, item->string))
        cJSON_AddItemToObject(question, item->string, cJSON_Duplicate(item, true));
}

void set_beside_free(struct set_beside *b)
{
    if (!b) return;
    names_release(&b->keys);
    cJSON_Delete(b->answers);
    free(b->list);
    buf_release(&b->faults);
    free(b);
}
