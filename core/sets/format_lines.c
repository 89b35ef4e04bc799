// core/sets/format_lines.c -- JSON lines and JSON lists: LLaVA's question files, POPE's label
// files, HellaSwag, LLaVA's list for ScienceQA (llava_test_CQM-A.json).
//
// LLaVA's question files lack the answers; other files in their folder have them: POPE's label
// files (coco_pope_*.json, there or in coco/), TextVQA_0.5.1_val.json, problems.json of ScienceQA,
// testdev_balanced_questions.json of GQA. Answers are looked up by picture and question (POPE,
// TextVQA) or by the question's number (ScienceQA, GQA). An unreadable file does not fail the set,
// because it may belong to another set; questions left without an answer report the reason.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/data/dataset.h"
#include "core/picture/source.h"
#include "core/sets/annotated.h"
#include "core/sets/format.h"

// --- answers in other files ----------------------------------------------------------------------

struct beside {
    struct names keys;
    cJSON **answers; // [keys.count] a text, a list, or {"answer", "choices"}
    size_t capacity;
    struct buf faults;
};

static const size_t file_max = (size_t)256 << 20;

// Returns "[SPLIT\n]PICTURE\nQUESTION": PICTURE is the file's name without folder and ending,
// QUESTION the first line of the question in lower case. split "": none.
static char *key_of(const char *split, const char *picture, const char *question)
{
    const char *name = text_file_name(picture);
    struct buf b = { 0 };
    if (*split) buf_printf(&b, "%s\n", split);
    buf_add(&b, name, strcspn(name, "."));
    buf_putc(&b, '\n');
    for (const char *p = question; *p && *p != '\n'; p++)
        buf_putc(&b, (char)tolower((unsigned char)*p));
    return buf_take(&b);
}

// Takes ownership of key and answer. The first answer of a key counts.
static void add(struct beside *b, char *key, cJSON *answer)
{
    bool known;
    const size_t i = names_add(&b->keys, key, &known);
    free(key);
    if (known) {
        cJSON_Delete(answer);
        return;
    }
    b->answers = xgrow(b->answers, &b->capacity, i, sizeof(cJSON *));
    b->answers[i] = answer;
}

// `why` NULL: reports that entry `entry` lacks keys.
static void add_fault(struct beside *b, const char *why, const char *path, int64_t entry,
                      const char *needs)
{
    if (b->faults.length) buf_puts(&b->faults, "; ");
    if (why)
        buf_puts(&b->faults, why);
    else
        buf_printf(&b->faults, "'%s', entry %lld, needs %s", path, (long long)entry, needs);
}

// --- the files -----------------------------------------------------------------------------------

// Each function adds the answer of one entry; false if the entry lacks keys.

// Adds a POPE label with and without its split, because splits may answer the same question
// differently.
static bool take_label(struct beside *b, cJSON *line, const char *split)
{
    const char *image = set_text_of(line, "image", NULL), *text = set_text_of(line, "text", NULL);
    const char *label = set_text_of(line, "label", NULL);
    if (!image || !text || !label) return false;
    add(b, key_of(split, image, text), cJSON_CreateString(label));
    add(b, key_of("", image, text), cJSON_CreateString(label));
    return true;
}

static bool take_textvqa(struct beside *b, cJSON *item, const char *split)
{
    const char *image = set_text_of(item, "image_id", NULL);
    const char *question = set_text_of(item, "question", NULL);
    if (!image || !question || !json_get(item, "answers")) return false;
    add(b, key_of("", image, question), cJSON_DetachItemFromObjectCaseSensitive(item, "answers"));
    return true;
}

static bool take_problem(struct beside *b, cJSON *item, const char *split)
{
    const int64_t answer = json_whole(json_get(item, "answer"), -1);
    if (!item->string || answer < 0 || answer > 25) return false;
    const char letter[] = { (char)('A' + answer), 0 };
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "answer", letter);
    cJSON_AddItemToObject(entry, "choices",
                          cJSON_DetachItemFromObjectCaseSensitive(item, "choices"));
    add(b, xstrdup(item->string), entry);
    return true;
}

static bool take_gqa(struct beside *b, cJSON *item, const char *split)
{
    const char *answer = set_text_of(item, "answer", NULL);
    if (!item->string || !answer) return false;
    add(b, xstrdup(item->string), cJSON_CreateString(answer));
    return true;
}

// Reads a label file line by line; reports only the first faulty line.
static void read_labels(struct beside *b, const char *path, const char *split)
{
    struct dataset d;
    struct err err;
    bool good = true;
    if (access(path, F_OK) < 0) return;
    if (dataset_open(&d, path, NULL, &err) < 0) {
        add_fault(b, err.text, path, 0, NULL);
        return;
    }
    for (int64_t i = 0; i < d.count; i++) {
        cJSON *line = dataset_json(&d, i, &err);
        const bool taken = line && take_label(b, line, split);
        if (!line) err_in(&err, "'%s'", path);
        if (!taken && good)
            add_fault(b, line ? NULL : err.text, path, i, "\"image\", \"text\" and \"label\"");
        good &= taken;
        cJSON_Delete(line);
    }
    dataset_close(&d);
}

// Reads the entries of a JSON file, or of its list `list`; reports only the first faulty entry.
static void read_entries(struct beside *b, const char *path, const char *list,
                         bool (*take)(struct beside *b, cJSON *item, const char *split),
                         const char *needs)
{
    struct err err;
    if (access(path, F_OK) < 0) return;
    cJSON *all = json_read_data(path, file_max, &err), *item;
    const cJSON *entries = list ? json_get(all, list) : all;
    int64_t entry = 0;
    bool good = true;
    if (!all) add_fault(b, err.text, path, 0, NULL);
    if (all && list && !cJSON_IsArray(entries)) {
        err_set(&err, "'%s' has no list \"%s\"", path, list);
        add_fault(b, err.text, path, 0, NULL);
    }
    cJSON_ArrayForEach(item, entries)
    {
        const bool taken = take(b, item, "");
        if (!taken && good) add_fault(b, NULL, path, entry, needs);
        good &= taken;
        entry++;
    }
    cJSON_Delete(all);
}

static struct beside *open_beside(const char *path)
{
    static const char *const splits[] = { "random", "popular", "adversarial" };
    static const char *const folders[] = { "", "coco/" };
    struct beside *b = xcalloc(1, sizeof *b);
    struct scratch s = { 0 };
    const char *folder = scratch_keep(&s, path_folder(path));
    for (int i = 0; i < 6; i++)
        read_labels(
            b, scratch_printf(&s, "%s/%scoco_pope_%s.json", folder, folders[i / 3], splits[i % 3]),
            splits[i % 3]);
    read_entries(b, scratch_printf(&s, "%s/TextVQA_0.5.1_val.json", folder), "data", take_textvqa,
                 "\"image_id\", \"question\" and \"answers\"");
    read_entries(b, scratch_printf(&s, "%s/testdev_balanced_questions.json", folder), NULL,
                 take_gqa, "\"answer\"");
    read_entries(b, scratch_printf(&s, "%s/problems.json", folder), NULL, take_problem,
                 "a number and the number of the right choice as \"answer\"");
    scratch_release(&s);
    return b;
}

static const cJSON *find(const struct beside *b, const cJSON *question)
{
    const char *image = set_text_of(question, "image", NULL);
    const char *text = set_text_of(question, "question", NULL);
    const char *index = set_text_of(question, "index", NULL);
    const char *split = set_text_of(question, "category", "");
    size_t number;
    bool found = false;
    for (int k = *split ? 0 : 1; image && text && k < 2 && !found; k++) {
        char *key = key_of(k ? "" : split, image, text);
        found = names_find(&b->keys, key, &number);
        free(key);
    }
    if (!found) found = index && names_find(&b->keys, index, &number);
    return found ? b->answers[number] : NULL;
}

// Adds "answer" (and "choices") to a question that has none, if its answer is known.
static void add_beside(const struct beside *b, cJSON *question)
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

static void close_beside(struct beside *b) // NULL is fine
{
    if (!b) return;
    for (size_t i = 0; i < b->keys.count; i++) cJSON_Delete(b->answers[i]);
    names_release(&b->keys);
    free(b->answers);
    buf_release(&b->faults);
    free(b);
}

// --- the format ----------------------------------------------------------------------------------

struct lines {
    struct dataset data;
    const char *folder;
    const struct set_columns *columns;
    struct beside *beside;
    struct annotated world; // of a demo world's objects.jsonl; else empty
};

static bool is_lines(const char *path, const char *head, size_t size)
{
    size_t i = 0;
    while (i < size && isspace((unsigned char)head[i])) i++;
    if (i == size) return false;
    if (head[i] == '[') return true;
    if (head[i] != '{') return false;
    // The first line must be a complete object.
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
    close_beside(l->beside);
    annotated_release(&l->world);
    free(l);
}

// True if the first line lists objects but has no question. A question that also lists objects
// keeps its own answer.
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

// Checks the user's columns against the keys of the first rows.
static int check_columns(const struct dataset *d, const struct set_columns *columns,
                         struct err *err)
{
    enum { ROWS = 100 };
    struct names keys = { 0 };
    struct err ignored;
    for (int64_t i = 0; columns->count && i < d->count && i < ROWS; i++) {
        cJSON *row = dataset_json(d, i, &ignored);
        for (const cJSON *item = cJSON_IsObject(row) ? row->child : NULL; item; item = item->next)
            names_add(&keys, item->string, NULL);
        cJSON_Delete(row);
    }
    const int status = set_columns_check(columns, &keys, d->path, err);
    names_release(&keys);
    return status;
}

static void *lines_open(const char *path, const char *folder, const struct set_columns *columns,
                        int64_t *count, struct err *err)
{
    struct lines *l = xcalloc(1, sizeof *l);
    l->folder = folder;
    l->columns = columns;
    if (dataset_open(&l->data, path, NULL, err) == 0 &&
        check_columns(&l->data, columns, err) == 0 &&
        (!annotates(&l->data) || annotated_open(&l->world, path, err) == 0)) {
        l->beside = open_beside(path);
        *count = l->data.count;
        return l;
    }
    lines_close(l);
    return NULL;
}

static const struct set_names names[] = {
    // ind: HellaSwag; idx: CV-Bench; query: ChartQA; capitals: MME-RealWorld.
    { "index", { "question_id", "id", "ind", "idx", "Question_id" } },
    { "question", { "text", "query", "sent", "Text" } },
    { "answer", { "label", "Ground truth" } },
    { "image", { "Image" } },
    { "multi-choice options", { "Answer choices" } },
    { "choices", { "candidates" } }, // MVBench
    { 0 },
};

// Takes the question from the first turn of LLaVA's conversation, and the letter from the answer in
// the second.
static void take_turns(struct set_record *r)
{
    static const char says[] = "The answer is ", mark[] = "<image>";
    const cJSON *turns = json_get(r->json, "conversations");
    const char *question = set_text_of(cJSON_GetArrayItem(turns, 0), "value", NULL);
    const char *answer = set_text_of(cJSON_GetArrayItem(turns, 1), "value", NULL);
    if (question && !json_get(r->json, "question")) {
        const char *at = strstr(question, mark), *rest = at ? at + strlen(mark) : "";
        const size_t before = at ? (size_t)(at - question) : strlen(question);
        if (*rest == '\n') rest++;
        set_put(r, "question", scratch_printf(&r->scratch, "%.*s%s", (int)before, question, rest));
    }
    if (answer && !json_get(r->json, "answer")) {
        const char *sentence = strstr(answer, says);
        if (sentence) answer = sentence + strlen(says);
        if (*answer >= 'A' && *answer <= 'Z') set_put(r, "answer", (const char[]){ *answer, 0 });
    }
}

enum { FRAMES = 64 };

// Adds all pictures of a folder, in the order of their names; returns how many it added, at most
// FRAMES + 1.
static int add_folder(struct set_record *r, const char *folder)
{
    char **files = folder_list(folder);
    int count = 0;
    for (char **name = files; *name && count <= FRAMES; name++) {
        if (!text_ends_with_any(*name, picture_endings)) continue;
        set_add_picture(r, *name, folder);
        count++;
    }
    folder_list_free(files);
    return count;
}

// Adds the frames of MVBench's video "x.mp4": the pictures in folder x, beside the file or in the
// user's folder of pictures. Videos of two tasks may have the same name, so that those of TASK.json
// may be in a subfolder TASK. Folders of TVQA's frames are videos without an ending.
static int add_frames(const struct lines *l, struct set_record *r, struct err *err)
{
    const char *video = set_text_of(r->json, "video", ""), *name = text_file_name(video);
    const char *task = text_file_name(l->data.path), *dot = strrchr(name, '.');
    const int bare = (int)(dot ? dot - video : (ptrdiff_t)strlen(video));
    const char *own = scratch_printf(&r->scratch, "%s/%.*s/%.*s", l->folder,
                                     (int)strcspn(task, "."), task, bare, video);
    const char *shared = scratch_printf(&r->scratch, "%s/%.*s", l->folder, bare, video);
    int count = add_folder(r, own);
    if (!count) count = add_folder(r, shared);
    if (count > FRAMES)
        return err_set(err, "'%s' has more than %d frames: keep fewer, evenly spaced", video,
                       FRAMES);
    if (count) return 0;
    return err_set(err,
                   "'%s' has no frames of '%s', which vlmsh cannot decode itself: extract some "
                   "(ffmpeg -i VIDEO -vf fps=1 FOLDER/%%03d.jpg); --images names the folder of all "
                   "such folders",
                   shared, video);
}

// Replaces the text of MVBench's right choice with its letter: an answer such as "3" would be read
// as the number of a choice.
static void letter_of_text(struct set_record *r)
{
    const cJSON *choice;
    char letter[] = "A";
    cJSON_ArrayForEach(choice, json_get(r->json, "choices"))
    {
        const char *text = cJSON_GetStringValue(choice);
        if (text && !strcmp(set_text_of(r->json, "answer", ""), text)) break;
        if (++*letter > 'Z') return;
    }
    if (choice) set_put(r, "answer", letter);
}

static int lines_read(void *self, int64_t index, struct set_record *r, struct err *err)
{
    const struct lines *l = self;
    cJSON *row = dataset_json(&l->data, index, err);
    set_columns_rename(l->columns, row);
    if (set_record_of(r, row, names, err) < 0) return -1;
    // A box in Qwen-VL's files consists of two corners.
    if (json_get(r->json, "bbox")) set_put(r, "corners", "yes");
    if ((l->columns->count || set_text(r, "video")) && !json_get(r->json, "index"))
        set_put(r, "index", scratch_printf(&r->scratch, "%lld", (long long)index));
    take_turns(r);
    add_beside(l->beside, r->json);
    r->faults = l->beside->faults.data;
    const cJSON *image = json_get(r->json, "image"), *item;
    int status = 0;
    if (!cJSON_IsArray(image))
        status = set_add_item(r, image, l->folder, err);
    else
        cJSON_ArrayForEach(item, image)
        {
            if (status == 0) status = set_add_item(r, item, l->folder, err);
        }
    const char *file = set_text(r, "filename"); // HallusionBench
    if (!file) file = set_text(r, "imgname");   // ChartQA
    if (file && !image && strcmp(set_text_of(r->json, "visual_input", ""), "0") != 0)
        set_add_picture(r, file, l->folder);
    if (status < 0 || set_add_columns(r, l->columns, l->folder, err) < 0) return -1;
    if (set_text(r, "video") && !r->picture_count) {
        letter_of_text(r);
        return add_frames(l, r, err);
    }
    if (!l->world.ids.count) return 0;
    return annotated_record(&l->world, set_text_of(r->json, "index", ""), r->json, err);
}

const struct set_format set_format_lines = {
    .name = "JSON lines or a JSON list (LLaVA, POPE, HellaSwag)",
    .is = is_lines,
    .open = lines_open,
    .read = lines_read,
    .close = lines_close,
};
