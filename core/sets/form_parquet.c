// core/sets/form_parquet.c -- Parquet, as `datasets` writes it and Hugging Face keeps it: the sets
// of lmms-lab and others. Pictures are structs of bytes and path. Shards
// (test-00000-of-00003.parquet) are read together, whichever of them is named.
//
// Columns are renamed to what the prompts read (core/sets/form.h). MMLU's examples are those of
// dev-00000-of-00001.parquet beside the file.
#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/names.h"
#include "core/data/dialogue.h"
#include "core/files/parquet.h"
#include "core/sets/form.h"
#include "core/sets/prompt.h"

enum { SHOTS = 5, SHOT_ROWS = 10000 };

// Questions with their answers, to stand before a question of that subject.
struct shots {
    struct names subjects;
    struct {
        struct buf text;
        int count;
    } * of; // [subjects.count]
};

struct shards {
    char *path, *folder;
    struct parquet *files; // [count]
    int64_t *first;        // of their rows
    size_t count;
    size_t last; // the file read last: only one keeps decoded pages
    struct shots shots;
    char hash[HASH_HEX];  // of all; "" before it is known
    pthread_mutex_t lock; // of all but path, folder and first
};

static bool is_parquet(const char *path, const char *head, size_t size)
{
    return size >= 4 && !memcmp(head, "PAR1", 4);
}

static void shards_close(void *self)
{
    struct shards *s = self;
    for (size_t i = 0; i < s->count; i++) parquet_close(&s->files[i]);
    for (size_t i = 0; i < s->shots.subjects.count; i++) buf_release(&s->shots.of[i].text);
    free(s->shots.of);
    names_release(&s->shots.subjects);
    free(s->files);
    free(s->first);
    free(s->path);
    free(s->folder);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

// --- files ---------------------------------------------------------------------------------------

static bool digits(const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isdigit((unsigned char)text[i])) return false;
    return true;
}

// "NAME-00001-of-00003.parquet": 3, and the length of "NAME-". 1 for any other name.
static size_t shard_count(const char *path, size_t *stem)
{
    static const char end[] = "00001-of-00003.parquet";
    const size_t n = strlen(path), m = sizeof end - 1;
    *stem = n > m ? n - m : 0;
    const char *p = path + *stem;
    if (!*stem || p[-1] != '-' || !digits(p, 5) || strncmp(p + 5, "-of-", 4) != 0 ||
        !digits(p + 9, 5) || strcmp(p + 14, ".parquet") != 0)
        return 1;
    const unsigned long count = strtoul(p + 9, NULL, 10);
    return count ? count : 1;
}

static bool is_needed(const char *name);

static int open_file(struct shards *s, const char *path, struct err *err)
{
    struct parquet p;
    if (parquet_open(&p, path, err) < 0) return -1;
    parquet_leave_out(&p, is_needed);
    s->files = xreallocarray(s->files, s->count + 1, sizeof *s->files);
    s->first = xreallocarray(s->first, s->count + 2, sizeof *s->first);
    if (!s->count) s->first[0] = 0;
    s->files[s->count] = p;
    s->first[s->count + 1] = s->first[s->count] + p.rows;
    s->count++;
    return 0;
}

static int open_files(struct shards *s, const char *path, struct err *err)
{
    size_t stem;
    const size_t count = shard_count(path, &stem);
    if (count == 1) return open_file(s, path, err);
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        char *file = xasprintf("%.*s%05zu-of-%05zu.parquet", (int)stem, path, i, count);
        status = open_file(s, file, err);
        free(file);
    }
    return status < 0 ? err_in(err, "'%s' is one of %zu files", path, count) : 0;
}

// A set asks something, or shows a picture.
static int check_columns(const struct parquet *p, struct err *err)
{
    static const char *const known[] = { "question", "text", "ctx", "caption" };
    struct buf b = { 0 };
    bool good = false;
    for (size_t i = 1; i < p->node_count; i++) good |= p->nodes[i].picture;
    for (size_t i = 1; i < p->node_count; i = p->nodes[i].end) {
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            good |= !strcmp(p->nodes[i].name, known[k]);
        if (b.length < 200) buf_printf(&b, "%s%.40s", b.length ? ", " : "", p->nodes[i].name);
    }
    if (!good)
        err_set(err, "'%s' has no column question, text, ctx or caption and no pictures, only: %s",
                p->path, b.data);
    buf_release(&b);
    return good ? 0 : -1;
}

static int open_shots(struct shards *s, struct err *err);

static void *shards_open(const char *path, const char *folder, int64_t *count, struct err *err)
{
    struct shards *s = xcalloc(1, sizeof *s);
    s->path = xstrdup(path);
    s->folder = xstrdup(folder);
    pthread_mutex_init(&s->lock, NULL);
    int status = open_files(s, path, err);
    if (status == 0) status = check_columns(s->files, err);
    if (status == 0 && !s->first[s->count]) status = err_set(err, "'%s' contains no rows", path);
    if (status == 0) status = open_shots(s, err);
    if (status < 0) {
        shards_close(s);
        return NULL;
    }
    *count = s->first[s->count];
    return s;
}

// Of several files: the hash of their hashes in order. A single file is like any other.
static const char *shards_hash(const void *self)
{
    struct shards *s = (struct shards *)(uintptr_t)self;
    if (s->count == 1) return NULL;
    pthread_mutex_lock(&s->lock);
    struct hash all;
    struct err ignored;
    char one[HASH_HEX];
    bool good = !*s->hash;
    hash_start(&all);
    for (size_t i = 0; i < s->count && good; i++) {
        good = hash_file(s->files[i].path, one, &ignored) == 0;
        if (good) hash_add(&all, one, HASH_HEX - 1);
    }
    if (good) hash_end(&all, s->hash);
    pthread_mutex_unlock(&s->lock);
    return *s->hash ? s->hash : NULL;
}

// Locked. The row of the file that has it.
static int read_row(struct shards *s, int64_t index, enum parquet_part part, struct parquet_row *r,
                    struct err *err)
{
    size_t i = s->last;
    if (index < s->first[i] || index >= s->first[i + 1])
        for (i = 0; index >= s->first[i + 1];) i++;
    if (i != s->last) parquet_forget(&s->files[s->last]);
    s->last = i;
    return parquet_row_read(&s->files[i], index - s->first[i], part, r, err);
}

// --- columns -------------------------------------------------------------------------------------

static void set_string(cJSON *json, const char *key, const char *text)
{
    cJSON_DeleteItemFromObjectCaseSensitive(json, key);
    cJSON_AddStringToObject(json, key, text);
}

static void rename_key(cJSON *json, const char *from, const char *to)
{
    if (json_get(json, to) || !json_get(json, from)) return;
    cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(json, from);
    cJSON_DeleteItemFromObjectCaseSensitive(json, to); // null
    cJSON_AddItemToObject(json, to, item);
}

// Numbers as texts, as everything is in a table.
static void number_texts(cJSON *json)
{
    for (cJSON *item = json->child, *after; item; item = after) {
        after = item->next;
        if (!cJSON_IsNumber(item)) continue;
        char *text = json_number_text(item);
        cJSON *string = cJSON_CreateString(text);
        string->string = xstrdup(item->string);
        cJSON_ReplaceItemViaPointer(json, item, string);
        free(text);
    }
}

// VQAv2's [{"answer": "red", ...}, ...] as texts.
static void plain_answers(cJSON *json)
{
    cJSON *list = cJSON_CreateArray(), *item;
    cJSON_ArrayForEach(item, json_get(json, "answer"))
    {
        const char *text = cJSON_GetStringValue(json_get(item, "answer"));
        if (cJSON_IsObject(item) && text) cJSON_AddItemToArray(list, cJSON_CreateString(text));
    }
    if (!cJSON_GetArraySize(list)) {
        cJSON_Delete(list);
        return;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(json, "answer");
    cJSON_AddItemToObject(json, "answer", list);
}

// The number of the right choice as a letter: ScienceQA, AI2D, MMLU. HellaSwag's endings stay
// numbered, as they are in its own file.
static void letter_answer(cJSON *json)
{
    const cJSON *list = json_get(json, "choices");
    const char *answer = cJSON_GetStringValue(json_get(json, "answer"));
    if (!list) list = json_get(json, "options");
    if (!cJSON_IsArray(list) || !answer || !*answer || !digits(answer, strlen(answer))) return;
    const unsigned long right = strtoul(answer, NULL, 10);
    if (right >= (unsigned long)cJSON_GetArraySize(list) || right > 25) return;
    const char letter[] = { (char)('A' + right), 0 };
    set_string(json, "answer", letter);
}

// MMMU's "validation_Art_Theory_3": the subject "Art_Theory".
static void subject_of_id(cJSON *json)
{
    const char *id = cJSON_GetStringValue(json_get(json, "id"));
    const char *from = id ? strchr(id, '_') : NULL, *to = id ? strrchr(id, '_') : NULL;
    const bool known = id && (!strncmp(id, "validation_", 11) || !strncmp(id, "dev_", 4) ||
                              !strncmp(id, "test_", 5));
    if (!known || to <= from + 1 || json_get(json, "category")) return;
    char *subject = xstrndup(from + 1, (size_t)(to - from - 1));
    set_string(json, "category", subject);
    free(subject);
}

// A question id that names a picture file (MME) joins the questions of that picture.
static void take_id(cJSON *json, int64_t row)
{
    const char *id = cJSON_GetStringValue(json_get(json, "question_id"));
    const char *dot = id ? strrchr(id, '.') : NULL;
    if (dot && (!strcmp(dot, ".png") || !strcmp(dot, ".jpg") || !strcmp(dot, ".jpeg"))) {
        rename_key(json, "question_id", "image_path");
        if (!json_get(json, "id") || !strcmp(cJSON_GetStringValue(json_get(json, "id")), id)) {
            char *number = xasprintf("%" PRId64, row);
            if (!json_get(json, "index")) set_string(json, "index", number);
            free(number);
        }
    }
}

// The row's number is one where no column holds an id.
static bool id_is_number(const cJSON *json)
{
    static const char *const names[] = { "index", "id", "question_id", "ind", "img_id" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cJSON *id = json_get(json, names[i]);
        if (id) return cJSON_IsNumber(id);
    }
    return true;
}

static const char *const renamed[][2] = {
    { "id", "index" },
    { "question_id", "index" },
    { "ind", "index" },
    { "img_id", "index" },
    { "text", "question" },
    { "answers", "answer" },
    { "caption", "answer" },
    { "label", "answer" },
    { "choice_a", "A" },
    { "choice_b", "B" },
    { "choice_c", "C" },
    { "choice_d", "D" },
    { "L2-category", "l2-category" },
    // The finer kind, where a set has no column of that name: VQAv2, SEED-Bench, MMLU,
    // OCRBench.
    { "answer_type", "category" },
    { "question_type_id", "category" },
    { "subject", "category" },
    { "question_type", "category" },
};

// What prompts, references, groups and submissions read beside these and the choices "A" to "Z".
static const char *const read_as_named[] = {
    "index",    "question",    "hint",        "answer",     "choices",        "options", "endings",
    "category", "l2_category", "l2-category", "source_id",  "split",          "ctx",     "ctx_a",
    "ctx_b",    "image",       "image_path",  "ocr_tokens", "activity_label",
};

// Other columns stay unread: masks, embeddings and metadata may be large.
static bool is_needed(const char *name)
{
    if (name[0] >= 'A' && name[0] <= 'Z' && !name[1]) return true;
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (!strcmp(name, renamed[i][0])) return true;
    for (size_t i = 0; i < sizeof read_as_named / sizeof *read_as_named; i++)
        if (!strcmp(name, read_as_named[i])) return true;
    return false;
}

static void rename_columns(cJSON *json, int64_t row)
{
    number_texts(json);
    subject_of_id(json);
    take_id(json, row);
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        rename_key(json, renamed[i][0], renamed[i][1]);
    plain_answers(json);
    letter_answer(json);
    if (json_get(json, "index")) return;
    char *number = xasprintf("%" PRId64, row);
    set_string(json, "index", number);
    free(number);
}

// --- MMLU's examples -----------------------------------------------------------------------------

// As lm-evaluation-harness writes them.
static void add_shot(struct shots *shots, const struct set_record *r)
{
    const char *subject = set_text(r, "category"), *answer = set_text(r, "answer");
    bool known;
    if (!subject || !answer) return;
    const size_t i = names_add(&shots->subjects, subject, &known);
    if (!known) {
        shots->of = xreallocarray(shots->of, i + 1, sizeof *shots->of);
        memset(&shots->of[i], 0, sizeof *shots->of);
        char *words = xstrdup(subject);
        for (char *p = words; *p; p++)
            if (*p == '_') *p = ' ';
        buf_printf(&shots->of[i].text,
                   "The following are multiple choice questions (with answers) about %s.\n\n",
                   words);
        free(words);
    }
    if (shots->of[i].count++ >= SHOTS) return;
    prompt_mmlu(r, &shots->of[i].text);
    buf_printf(&shots->of[i].text, " %s\n\n", answer);
}

static bool has_column(const struct parquet *p, const char *name)
{
    for (size_t i = 1; i < p->node_count; i = p->nodes[i].end)
        if (!strcmp(p->nodes[i].name, name)) return true;
    return false;
}

// MMLU alone has a subject, choices and no pictures.
static bool is_mmlu(const struct parquet *p)
{
    for (size_t i = 1; i < p->node_count; i++)
        if (p->nodes[i].picture) return false;
    return has_column(p, "question") && has_column(p, "subject") && has_column(p, "choices") &&
           has_column(p, "answer");
}

static int read_shots(struct shards *s, const char *file, struct err *err)
{
    struct parquet p;
    int status = parquet_open(&p, file, err);
    if (status == 0) parquet_leave_out(&p, is_needed);
    for (int64_t i = 0; status == 0 && i < p.rows && i < SHOT_ROWS; i++) {
        struct parquet_row row;
        status = parquet_row_read(&p, i, PARQUET_ALL, &row, err);
        struct set_record r = { .json = row.json };
        if (status == 0) rename_columns(r.json, i);
        if (status == 0) add_shot(&s->shots, &r);
        parquet_row_release(&row);
    }
    parquet_close(&p);
    return status;
}

static int open_shots(struct shards *s, struct err *err)
{
    if (!is_mmlu(s->files)) return 0;
    char *folder = path_folder(s->path);
    char *file = xasprintf("%s/dev-00000-of-00001.parquet", folder);
    const int status = access(file, F_OK) == 0 ? read_shots(s, file, err) : 0;
    free(file);
    free(folder);
    return status;
}

static void add_shots(const struct shards *s, struct set_record *r)
{
    const char *subject = s->shots.subjects.count ? set_text(r, "category") : NULL;
    size_t i;
    if (subject && names_find(&s->shots.subjects, subject, &i))
        cJSON_AddStringToObject(r->json, "shots", s->shots.of[i].text.data);
}

// --- rows ----------------------------------------------------------------------------------------

// "FILE#ROW.NUMBER" for bytes, otherwise the path.
static void name_pictures(const struct shards *s, int64_t index, const struct parquet_row *row,
                          struct set_record *r)
{
    for (size_t i = 0; i < row->picture_count; i++) {
        const struct parquet_picture *p = &row->pictures[i];
        char *name = p->bytes ? xasprintf("%s#%" PRId64 ".%zu", s->path, index, i)
                              : xstrndup(p->path, p->path_size);
        set_add_picture(r, name, p->bytes ? "." : s->folder);
        free(name);
    }
    const char *file = row->picture_count ? NULL : set_text(r, "image");
    if (file) set_add_picture(r, file, s->folder);
}

static int shards_read(void *self, int64_t index, struct set_record *r, struct err *err)
{
    struct shards *s = self;
    struct parquet_row row;
    *r = (struct set_record){ 0 };
    pthread_mutex_lock(&s->lock);
    const int status = read_row(s, index, PARQUET_ALL, &row, err);
    if (status == 0) {
        r->json = row.json;
        row.json = NULL;
        r->number = id_is_number(r->json);
        r->nan = true; // lmms-eval's MMBench
        rename_columns(r->json, index);
        add_shots(s, r);
        name_pictures(s, index, &row, r);
    }
    parquet_row_release(&row);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static char *shards_picture(void *self, const char *name, size_t *size, struct err *err)
{
    struct shards *s = self;
    const char *place = strrchr(name, '#');
    char *end = NULL, *bytes = NULL;
    const long long index = place ? strtoll(place + 1, &end, 10) : -1;
    const long number = end && *end == '.' ? strtol(end + 1, NULL, 10) : -1;
    if (index < 0 || index >= s->first[s->count] || number < 0) {
        err_set(err, "there is no picture '%s'", name);
        return NULL;
    }
    struct parquet_row row;
    pthread_mutex_lock(&s->lock);
    const int status = read_row(s, index, PARQUET_PICTURES, &row, err);
    if (status == 0 && (size_t)number < row.picture_count && row.pictures[number].bytes) {
        const struct parquet_picture *p = &row.pictures[number];
        *size = p->size;
        bytes = xmalloc(p->size + 1);
        memcpy(bytes, p->bytes, p->size);
        bytes[p->size] = 0;
    } else if (status == 0) {
        err_set(err, "there is no picture '%s'", name);
    }
    parquet_row_release(&row);
    pthread_mutex_unlock(&s->lock);
    return bytes;
}

const struct set_form set_form_parquet = {
    .name = "Parquet (datasets, Hugging Face)",
    .is = is_parquet,
    .open = shards_open,
    .read = shards_read,
    .picture = shards_picture,
    .hash = shards_hash,
    .close = shards_close,
};
