// core/sets/format_parquet.c -- Parquet, as `datasets` writes it and Hugging Face hosts it: the
// sets of lmms-lab and others. Pictures are structs of bytes and path. Shards
// (test-00000-of-00003.parquet) are read together; the user may name any of them.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/data/dialogue.h"
#include "core/files/parquet.h"
#include "core/picture/image.h"
#include "core/picture/source.h"
#include "core/sets/format.h"
#include "core/sets/prompt.h"

enum { SHOTS = 5, SHOT_ROWS = 10000 };

// Few-shot examples, which begin every prompt of their subject.
struct shots {
    struct buf text;
    int count;
};

struct shards {
    const char *path, *folder;
    const struct set_columns *columns;
    struct parquet *files; // [count]
    int64_t *first;        // index of each file's first row
    size_t count;
    cJSON *others; // has the names of the first file's columns that are not decoded
    size_t last;   // the file read last, the only one that keeps decoded pages
    // GQA's pictures are in separate files, whose rows follow those of the questions.
    int64_t question_rows;
    struct names image_ids; // ids of the picture rows, in order
    struct names subjects;
    struct shots *shots;  // [subjects.count]
    char hash[HASH_HEX];  // of all shards; "" before it is known
    pthread_mutex_t lock; // guards all but path, folder and first
};

static bool is_parquet(const char *path, const char *head, size_t size)
{
    return size >= 4 && !memcmp(head, "PAR1", 4);
}

static void shards_close(void *self)
{
    struct shards *s = self;
    for (size_t i = 0; i < s->count; i++) parquet_close(&s->files[i]);
    for (size_t i = 0; i < s->subjects.count; i++) buf_release(&s->shots[i].text);
    free(s->shots);
    names_release(&s->subjects);
    names_release(&s->image_ids);
    cJSON_Delete(s->others);
    free(s->files);
    free(s->first);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

// --- columns -------------------------------------------------------------------------------------

static const struct set_names names[] = {
    { "index", { "id", "question_id", "questionId", "idx", "ind", "img_id", "ID" } },
    { "question", { "text", "query", "prompt" } },
    { "answer", { "answers", "caption", "label", "groundtruth", "ground_truth" } },
    { "A", { "choice_a", "choice_A" } },
    { "B", { "choice_b", "choice_B" } },
    { "C", { "choice_c", "choice_C" } },
    { "D", { "choice_d", "choice_D" } },
    { "l2-category", { "L2-category" } },
    // Finer categories of VQAv2, SEED-Bench, MMLU and OCRBench.
    { "category", { "answer_type", "question_type_id", "subject", "question_type" } },
    { 0 },
};

// Returns the N of a column "image_N"; 0 for other names.
static int column_number(const char *name)
{
    static const char word[] = "image_";
    const char *digits = name + sizeof word - 1;
    if (strncmp(name, word, sizeof word - 1) != 0) return 0;
    const size_t n = strspn(digits, "0123456789");
    return n && n <= 2 && !digits[n] ? (int)strtol(digits, NULL, 10) : 0;
}

// True if prompts, references, groups or submissions read the column. Others (masks, embeddings,
// metadata) may be large and are not decoded.
static bool is_needed(const char *name)
{
    static const char *const read[] = {
        "hint",
        "choices",
        "options",
        "endings",
        "l2_category",
        "source_id",
        "split",
        "ctx",
        "ctx_a",
        "ctx_b",
        "image",
        "image_path",
        "ocr_tokens",
        "activity_label",
        "prompt",
        "answer_options",
        "multi-choice options",
        "bytes",
        "imageId",
        "type",
        "human_or_machine",
        "source",
        "data_source",
        "task",
        "topic",
        "expected_bias",
        "sub_task",
        "question_image_type",
        "visual_input",
        "subcategory",
        "set_id",
        "figure_id",
        "gt_answer",
        "filename",
        "capability",
        "bbox",
        "width",
        "height",
        NULL,
    };
    if ((name[0] >= 'A' && name[0] <= 'Z' && !name[1]) || text_listed(read, name) ||
        column_number(name))
        return true;
    for (const struct set_names *n = names; n->to; n++) {
        if (!strcmp(name, n->to)) return true;
        for (size_t i = 0; i < sizeof n->from / sizeof *n->from && n->from[i]; i++)
            if (!strcmp(name, n->from[i])) return true;
    }
    return false;
}

// Turns the number of the right choice into a letter (ScienceQA, AI2D, MMLU). HellaSwag's endings
// keep their numbers, as in its own file.
static void letter_answer(struct set_record *r)
{
    const cJSON *list = json_get(r->json, "choices");
    const char *answer = set_text_of(r->json, "answer", "");
    if (!list) list = json_get(r->json, "answer_options");
    if (!list) list = json_get(r->json, "options");
    if (!cJSON_IsArray(list) || !*answer || strspn(answer, "0123456789") != strlen(answer)) return;
    const unsigned long right = strtoul(answer, NULL, 10);
    if (right >= (unsigned long)cJSON_GetArraySize(list) || right > 25) return;
    set_put(r, "answer", (const char[]){ (char)('A' + right), 0 });
}

// Adds the subject that an id of MMMU contains: "Art_Theory" in "validation_Art_Theory_3".
static void add_subject(cJSON *row, const char *id)
{
    static const char *const splits[] = { "validation_", "dev_", "test_" };
    const char *end = strrchr(id, '_');
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        const size_t n = strlen(splits[i]);
        if (json_get(row, "category") || strncmp(id, splits[i], n) != 0 || end <= id + n) continue;
        char *subject = xstrndup(id + n, (size_t)(end - id) - n);
        cJSON_AddStringToObject(row, "category", subject);
        free(subject);
    }
}

// Makes a record from a row; without an id column, the row number is its id.
static int make_record(struct set_record *r, cJSON *row, int64_t number, struct err *err)
{
    char index[24];
    snprintf(index, sizeof index, "%" PRId64, number);
    // MME's question id is a picture file, which groups the questions of that picture.
    const char *question_id = set_text_of(row, "question_id", "");
    const bool picture = text_ends(question_id, ".png") || text_ends(question_id, ".jpg") ||
                         text_ends(question_id, ".jpeg");
    if (picture && !json_get(row, "image_path"))
        cJSON_AddStringToObject(row, "image_path", question_id);
    add_subject(row, set_text_of(row, "id", ""));
    if (set_record_of(r, row, names, err) < 0) return -1;
    set_put_answers(r, json_get(r->json, "answer"), "answer"); // VQAv2's [{"answer": "red", ...}]
    letter_answer(r);
    if (!json_get(r->json, "index")) set_put(r, "index", index);
    r->nan = true; // for lmms-eval's MMBench
    return 0;
}

// --- files ---------------------------------------------------------------------------------------

// Renames columns as --columns says. If it names columns of pictures, leaves out all other
// pictures.
static int name_columns(struct parquet *p, const struct set_columns *columns, struct err *err)
{
    struct names all = { 0 };
    for (size_t i = 1; i < p->node_count; i = p->nodes[i].end)
        names_add(&all, p->nodes[i].name, NULL);
    const int status = set_columns_check(columns, &all, p->path, err);
    names_release(&all);
    const bool picture = set_columns_of(columns, "image") != NULL;
    for (size_t i = 1; status == 0 && columns->count && i < p->node_count; i = p->nodes[i].end) {
        struct parquet_node *n = &p->nodes[i];
        const char *key = set_columns_key(columns, n->name);
        bool image = false;
        for (int k = 0; key && set_columns_picture(columns, k); k++)
            image |= !strcmp(key, set_columns_picture(columns, k));
        if (image && n->type == PARQUET_BYTES && !n->text) n->picture = true;
        for (size_t k = i; picture && !image && k < n->end; k++) p->nodes[k].picture = false;
        char *name = xstrdup(key ? key : "");
        free(n->name);
        n->name = name;
    }
    return status;
}

static cJSON *others_of(const struct parquet *p)
{
    cJSON *others = cJSON_CreateObject();
    for (size_t i = 1; i < p->node_count; i = p->nodes[i].end)
        if (p->nodes[i].unread && *p->nodes[i].name)
            cJSON_AddTrueToObject(others, p->nodes[i].name);
    return others;
}

static int open_file(struct shards *s, const char *path, const struct set_columns *columns,
                     struct err *err)
{
    struct parquet p;
    if (parquet_open(&p, path, err) < 0) return -1;
    if (name_columns(&p, columns, err) < 0) {
        parquet_close(&p);
        return -1;
    }
    parquet_leave_out(&p, is_needed);
    if (!s->count) s->others = others_of(&p);
    s->files = xreallocarray(s->files, s->count + 1, sizeof *s->files);
    s->first = xreallocarray(s->first, s->count + 2, sizeof *s->first);
    if (!s->count) s->first[0] = 0;
    s->files[s->count] = p;
    s->first[s->count + 1] = s->first[s->count] + p.rows;
    s->count++;
    return 0;
}

static int open_files(struct shards *s, const char *path, const struct set_columns *columns,
                      struct err *err)
{
    struct text_shard all;
    int status = 0;
    if (!text_shard(path, ".parquet", &all) || all.count < 2)
        return open_file(s, path, columns, err);
    for (size_t i = 0; i < all.count && status == 0; i++) {
        char *file = xasprintf("%.*s-%05zu-of-%05zu.parquet", (int)all.stem, path, i, all.count);
        status = open_file(s, file, columns, err);
        free(file);
    }
    return status < 0 ? err_in(err, "'%s' is one of %zu files", path, all.count) : 0;
}

static bool has_column(const struct parquet *p, const char *name)
{
    for (size_t i = 1; i < p->node_count; i = p->nodes[i].end)
        if (!strcmp(p->nodes[i].name, name)) return true;
    return false;
}

static bool has_pictures(const struct parquet *p)
{
    for (size_t i = 1; i < p->node_count; i++)
        if (p->nodes[i].picture) return true;
    return false;
}

// Refuses files with neither questions nor pictures.
static int check_columns(const struct parquet *p, struct err *err)
{
    struct buf b = { 0 };
    if (has_pictures(p) || has_column(p, "question") || has_column(p, "text") ||
        has_column(p, "ctx") || has_column(p, "caption") || has_column(p, "options"))
        return 0;
    for (size_t i = 1; i < p->node_count && b.length < 200; i = p->nodes[i].end)
        buf_printf(&b, "%s%.40s", b.length ? ", " : "", p->nodes[i].name);
    err_set(err, "'%s' has no column question, text, ctx or caption and no pictures, only: %s",
            p->path, b.data);
    buf_release(&b);
    return -1;
}

// Reads MMLU's examples from dev-00000-of-00001.parquet in the same folder. Only MMLU has a subject
// and choices but no pictures.
static int read_shots(struct shards *s, struct err *err)
{
    const struct parquet *first = s->files;
    struct parquet p = { 0 };
    if (has_pictures(first) || !has_column(first, "question") || !has_column(first, "subject") ||
        !has_column(first, "choices") || !has_column(first, "answer"))
        return 0;
    char *folder = path_folder(s->path), *file = xasprintf("%s/dev-00000-of-00001.parquet", folder);
    const bool exists = access(file, F_OK) == 0;
    int status = exists ? parquet_open(&p, file, err) : 0;
    if (exists && status == 0) parquet_leave_out(&p, is_needed);
    for (int64_t i = 0; status == 0 && i < p.rows && i < SHOT_ROWS; i++) {
        struct parquet_row row;
        struct set_record r = { 0 };
        bool known;
        status = parquet_row_read(&p, i, PARQUET_ALL, &row, err);
        if (status == 0) {
            status = make_record(&r, row.json, i, err);
            row.json = NULL; // the record owns it
        }
        const char *subject = status == 0 ? set_text(&r, "category") : NULL;
        if (subject && set_text(&r, "answer")) {
            const size_t number = names_add(&s->subjects, subject, &known);
            if (!known) {
                s->shots = xreallocarray(s->shots, number + 1, sizeof *s->shots);
                s->shots[number] = (struct shots){ 0 };
            }
            if (s->shots[number].count++ < SHOTS) prompt_add_shot(&r, &s->shots[number].text);
        }
        set_record_release(&r);
        parquet_row_release(&row);
    }
    parquet_close(&p);
    free(file);
    free(folder);
    return status;
}

// Reads a row from the file that has it; the caller holds the lock.
static int read_row(struct shards *s, int64_t index, enum parquet_part part, struct parquet_row *r,
                    struct err *err)
{
    size_t i = s->last;
    if (index < s->first[i] || index >= s->first[i + 1])
        for (i = 0; index >= s->first[i + 1];) i++;
    if (i != s->last) parquet_release_pages(&s->files[s->last]);
    s->last = i;
    return parquet_row_read(&s->files[i], index - s->first[i], part, r, err);
}

// Opens testdev_balanced_images/NAME beside testdev_balanced_instructions/NAME, if it exists.
static int open_pictures(struct shards *s, struct err *err)
{
    static const char words[] = "_instructions/", instead[] = "_images/";
    static const struct set_columns own = { 0 };
    const char *at = strstr(s->path, words);
    int status = 0;
    s->question_rows = s->first[s->count];
    if (!at || !has_column(s->files, "imageId")) return 0;
    char *path = xasprintf("%.*s%s%s", (int)(at - s->path), s->path, instead, at + strlen(words));
    if (access(path, F_OK) == 0) status = open_files(s, path, &own, err);
    for (int64_t i = s->question_rows; status == 0 && i < s->first[s->count]; i++) {
        struct parquet_row row;
        status = read_row(s, i, PARQUET_TEXTS, &row, err);
        // A row without an id gets its number as id, so that an id's index in image_ids gives its
        // row.
        const char *id = status == 0 ? set_text_of(row.json, "id", NULL) : NULL;
        char *place = id ? xstrdup(id) : xasprintf("%" PRId64, i);
        bool known;
        names_add(&s->image_ids, place, &known);
        if (status == 0 && known) status = err_set(err, "'%s' has '%s' twice", path, place);
        free(place);
        parquet_row_release(&row);
    }
    free(path);
    return status;
}

static void *shards_open(const char *path, const char *folder, const struct set_columns *columns,
                         int64_t *count, struct err *err)
{
    struct shards *s = xcalloc(1, sizeof *s);
    s->path = path;
    s->folder = folder;
    s->columns = columns;
    pthread_mutex_init(&s->lock, NULL);
    int status = open_files(s, path, columns, err);
    if (status == 0) status = check_columns(s->files, err);
    if (status == 0 && !s->first[s->count]) status = err_set(err, "'%s' contains no rows", path);
    if (status == 0) status = read_shots(s, err);
    if (status == 0) status = open_pictures(s, err);
    if (status < 0) {
        shards_close(s);
        return NULL;
    }
    *count = s->question_rows;
    return s;
}

// Returns the hash over the hashes of several shards, in order; NULL for a single file.
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

// --- rows ----------------------------------------------------------------------------------------

// Numbers the pictures by their columns, because a column between two of them may be empty.
static void number_pictures(const struct parquet_row *row, struct set_record *r)
{
    if (!row->picture_count) return;
    r->numbers = xcalloc(row->picture_count, sizeof *r->numbers);
    for (size_t i = 0; i < row->picture_count; i++) {
        const int n = column_number(row->pictures[i].column);
        r->numbers[i] = n ? n : (int)i + 1;
    }
}

// Puts the user's columns of pictures in the user's order.
static void order_pictures(const struct parquet_row *row, struct set_record *r)
{
    const size_t n = row->picture_count;
    char **ordered = xcalloc(n + 1, sizeof *ordered);
    size_t count = 0;
    // "image" counts as number 0, so it is the first.
    for (int number = 0; number < 100; number++)
        for (size_t i = 0; i < n; i++)
            if (column_number(row->pictures[i].column) == number) ordered[count++] = r->pictures[i];
    memcpy(r->pictures, ordered, count * sizeof *ordered);
    free(ordered);
}

// Names embedded pictures "FILE#ROW.NUMBER", others by path.
static int name_pictures(const struct shards *s, int64_t index, const struct parquet_row *row,
                         struct set_record *r, struct err *err)
{
    for (size_t i = 0; i < row->picture_count; i++) {
        const struct parquet_picture *p = &row->pictures[i];
        char *name = p->bytes ? xasprintf("%s#%" PRId64 ".%zu", s->path, index, i)
                              : xstrndup(p->path, p->path_size);
        set_add_picture(r, name, p->bytes ? "." : s->folder);
        free(name);
    }
    if (set_columns_of(s->columns, "image"))
        order_pictures(row, r);
    else
        number_pictures(row, r);
    size_t number;
    const char *file = row->picture_count ? NULL : set_text(r, "image");
    const char *base64 = row->picture_count ? NULL : set_text(r, "bytes");       // MME-RealWorld
    const char *id = row->picture_count || file ? NULL : set_text(r, "imageId"); // GQA
    if (file) set_add_picture(r, file, s->folder);
    if (set_add_columns(r, s->columns, s->folder, err) < 0) return -1;
    if (id && names_find(&s->image_ids, id, &number))
        set_add_picture(r,
                        scratch_printf(&r->scratch, "%s#%" PRId64 ".0", s->path,
                                       s->question_rows + (int64_t)number),
                        ".");
    else if (id)
        set_add_picture(r, scratch_printf(&r->scratch, "%s.jpg", id), s->folder);
    if (base64)
        set_add_picture(r, scratch_printf(&r->scratch, "data:image/jpeg;base64,%s", base64), ".");
    return 0;
}

static int read_part(struct shards *s, int64_t index, enum parquet_part part, struct set_record *r,
                     struct err *err)
{
    struct parquet_row row;
    size_t number;
    *r = (struct set_record){ 0 };
    pthread_mutex_lock(&s->lock);
    int status = read_row(s, index, part, &row, err);
    if (status == 0) {
        status = make_record(r, row.json, index, err);
        row.json = NULL; // the record owns it
    }
    const char *subject = status == 0 ? set_text(r, "category") : NULL;
    if (subject && names_find(&s->subjects, subject, &number))
        set_put(r, "shots", s->shots[number].text.data);
    r->others = s->others;
    if (status == 0) status = name_pictures(s, index, &row, r, err);
    parquet_row_release(&row);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static int shards_read(void *self, int64_t index, struct set_record *r, struct err *err)
{
    return read_part(self, index, PARQUET_ALL, r, err);
}

static int shards_read_texts(void *self, int64_t index, struct set_record *r, struct err *err)
{
    return read_part(self, index, PARQUET_TEXTS, r, err);
}

static char *shards_picture(void *self, const char *name, size_t *size, struct err *err)
{
    struct shards *s = self;
    int64_t index;
    long number;
    char *bytes = NULL;
    if (!set_picture_is_in(name, s->path))
        return picture_source_read(name, IMAGE_MAX_FILE, size, err);
    if (!set_picture_number(name, s->first[s->count], &index, &number, err)) return NULL;
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
        err_set(err, "no picture '%s'", name);
    }
    parquet_row_release(&row);
    pthread_mutex_unlock(&s->lock);
    return bytes;
}

const struct set_format set_format_parquet = {
    .name = "Parquet (datasets, Hugging Face)",
    .is = is_parquet,
    .open = shards_open,
    .read = shards_read,
    .read_texts = shards_read_texts,
    .picture = shards_picture,
    .hash = shards_hash,
    .close = shards_close,
};
