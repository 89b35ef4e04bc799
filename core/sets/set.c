// core/sets/set.c -- rows of an evaluation set as samples of a data set.
#include "core/sets/set.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cancel.h"
#include "core/base/csv.h"
#include "core/base/hash.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/data/dataset.h"
#include "core/data/dialogue.h"
#include "core/data/keys.h"
#include "core/metrics/box.h"
#include "core/metrics/python.h"
#include "core/metrics/suite.h"
#include "core/picture/image.h"
#include "core/picture/source.h"
#include "core/sets/format.h"
#include "core/settings/settings.h"
#include "core/template/message.h"

enum { LETTERS = 26, ROTATION = 1000000 };

// --- the table -----------------------------------------------------------------------------------

const struct eval_set *eval_set_need(const char *name, struct err *err)
{
    struct buf b = { 0 };
    for (const struct eval_set *s = eval_sets; s->name; s++)
        if (!strcmp(s->name, name)) return s;
    for (const struct eval_set *s = eval_sets; s->name; s++)
        buf_printf(&b, "%s%s", s == eval_sets ? "" : ", ", s->name);
    err_set(err, "no evaluation set '%s': choose one of %s", name, b.data);
    buf_release(&b);
    return NULL;
}

const struct set_way *eval_set_way(const struct eval_set *set, const char *suite, struct err *err)
{
    struct buf b = { 0 };
    for (const struct set_way *w = set->ways; w->ask; w++)
        if (!suite || !strcmp(w->suite, suite)) return w;
    for (const struct set_way *w = set->ways; w->ask; w++)
        buf_printf(&b, "%s%s", w == set->ways ? "" : ", ", w->suite);
    err_set(err, "no suite '%s' for the set '%s': choose one of %s", suite, set->name, b.data);
    buf_release(&b);
    return NULL;
}

void set_way_ask(const struct set_way *way, struct set_record *r, struct buf *to)
{
    if (way->before) buf_puts(to, way->before);
    way->ask(r, to);
    if (way->after) buf_puts(to, way->after);
}

void eval_set_limit_answers(struct settings *to, const struct settings *own, const struct sample *s)
{
    char text[16];
    if (s->max_tokens <= 0) return;
    if (settings_changed(own, "sample.max_tokens") &&
        settings_integer(own, "sample.max_tokens") <= s->max_tokens)
        return;
    snprintf(text, sizeof text, "%d", s->max_tokens);
    if (settings_set(to, "sample.max_tokens", text, NULL) < 0)
        BUG("a set asks for %d tokens", s->max_tokens);
}

int eval_set_check(const char *path, const char *columns, struct err *err)
{
    struct set_columns c;
    if (set_columns_parse(&c, columns, err) < 0) return -1;
    const bool good = set_folder_is(path) ? set_folder_check(path, &c, err) == 0
                                          : set_format_of(path, &c, err) != NULL;
    set_columns_release(&c);
    return good ? 0 : -1;
}

struct opened {
    const struct eval_set *set;
    const struct set_way *way;
    const struct set_format *format;
    void *self; // of the format
    struct set_columns columns;
    bool choices; // the set uses choices
    struct part {
        int64_t row;
        int part;
    } * parts; // [count of samples] the row and expression of each sample; NULL: one sample per row
    struct names keys; // of the samples read so far: hashes made by find_repeat
    struct place {
        int64_t index, row; // of the sample: index in the set; row in its file
        const char *file;   // the sample's file, if the set has several; else NULL
    } * first;              // [keys.count] the first sample of each key
    size_t room;
    pthread_mutex_t lock; // guards keys, first and room
};

// --- questions -----------------------------------------------------------------------------------

// Returns the index of the picture with the mark "<image NUMBER>"; -1: none.
static int find_picture(const struct set_record *r, long number)
{
    for (size_t i = 0; i < r->picture_count; i++)
        if ((r->numbers ? r->numbers[i] : (long)i + 1) == number) return (int)i;
    return -1;
}

// Returns the index of the picture that a mark at p shows, and the mark's length; -1: no mark, or a
// numbered one without a picture. `next`: the index for a plain "<image>", which may be past the
// last.
static int picture_mark(const char *p, const struct set_record *r, enum set_marks marks, int next,
                        size_t *length)
{
    static const char plain[] = "<image>";
    char *end;
    *length = strlen(plain);
    if (marks == MARKS_IN_ORDER) return strncmp(p, plain, *length) ? -1 : next;
    if (strncmp(p, "<image ", 7) != 0 || !isdigit((unsigned char)p[7])) return -1;
    const long n = strtol(p + 7, &end, 10);
    if (*end != '>' || n < 1 || n > 99) return -1;
    *length = (size_t)(end + 1 - p);
    return find_picture(r, n);
}

static void add_text(struct message *m, const char *text, size_t length)
{
    if (!length) return;
    char *part = xstrndup(text, length);
    message_add_text(m, part);
    free(part);
}

// Adds a question's pictures and text to the message, and treats picture marks as the suite does.
static void write_message(struct message *m, const char *text, const struct set_record *r,
                          enum set_marks marks)
{
    const size_t pictures = r->picture_count;
    const bool placed = marks == MARKS_ARE_PICTURES || marks == MARKS_IN_ORDER;
    bool *marked = xcalloc(pictures + 1, sizeof *marked), any = false;
    int n = 0, next = 0;
    size_t length;
    for (const char *p = text; (p = strstr(p, "<image")) && marks != MARKS_ARE_TEXT; p++) {
        n = picture_mark(p, r, marks, next, &length);
        if (n < 0 || (size_t)n >= pictures) continue;
        any = marked[n] = true;
        next++;
    }
    for (size_t i = 0; i < pictures && !(any && placed); i++)
        if (marked[i] || !any) message_add_picture(m, (int)i);
    const char *from = text;
    next = 0;
    for (const char *p = text; any && placed && (p = strstr(p, "<image")); p++) {
        n = picture_mark(p, r, marks, next, &length);
        // A numbered mark without a picture stays in the text; a plain mark without one is dropped.
        if (n < 0 || ((size_t)n >= pictures && marks != MARKS_IN_ORDER)) continue;
        add_text(m, from, (size_t)(p - from));
        if ((size_t)n < pictures) message_add_picture(m, n);
        next++;
        from = p + length;
        p = from - 1;
    }
    add_text(m, from, strlen(from));
    free(marked);
}

static void take_question(struct sample *s, const struct opened *o, struct set_record *r)
{
    struct dialogue *d = &s->dialogue;
    struct buf text = { 0 };
    set_way_ask(o->way, r, &text);
    d->messages = xcalloc(1, sizeof *d->messages);
    d->messages[0].role = ROLE_USER;
    d->messages[0].from_data = true;
    d->count = 1;
    write_message(&d->messages[0], text.data ? text.data : "", r, o->way->marks);
    d->paths = r->pictures;
    d->path_count = r->picture_count;
    s->blind = !o->set->plain && !r->picture_count;
    r->pictures = NULL;
    r->picture_count = 0;
    buf_release(&text);
}

// --- answers -------------------------------------------------------------------------------------

static void add_reference(struct sample *s, const char *text)
{
    s->references = xreallocarray(s->references, s->reference_count + 1, sizeof *s->references);
    s->references[s->reference_count++] = xstrdup(text);
}

// Reads the references from the answer: a list, a Python list as text, or a text.
static void take_references(struct sample *s, struct set_record *r)
{
    const cJSON *answer = json_get(r->json, "answer"), *item;
    const char *text = cJSON_GetStringValue(answer);
    cJSON *parsed = text && *text == '[' ? set_python_list(text) : NULL;
    const cJSON *list = parsed ? parsed : cJSON_IsArray(answer) ? answer : NULL;
    cJSON_ArrayForEach(item, list)
    {
        const char *reference = set_item_text(r, item);
        if (reference) add_reference(s, reference);
    }
    // VLMEvalKit's table loses the answer "None".
    const bool lost = suite_find(s->suite) == SUITE_VLMEVALKIT && text && python_is_missing(text) &&
                      !metric_find(s->metric)->loses;
    if (!list && text && *text) add_reference(s, lost ? "nan" : text);
    // For VLMs are biased, the second reference is the wrong answer that prior knowledge suggests.
    const char *bias = set_text_of(r->json, "expected_bias", "");
    const bool biased = metric_find(s->metric) == &metric_biased_lmms_eval;
    if (biased && s->reference_count == 1 && *bias) add_reference(s, bias);
    const bool other = answer && !cJSON_IsNull(answer) && !text && (!list || list->child);
    const char *why =
        other ? "an \"answer\" is neither a text, a number nor a list of these" : r->faults;
    if (!s->reference_count && why) s->unanswered = xstrdup(why);
    cJSON_Delete(parsed);
}

static void take_choices(struct sample *s, struct set_record *r, enum prompt_lost way)
{
    const enum prompt_lost lost = prompt_lost_of(r, way);
    const char **texts = prompt_choices(r, &s->choice_count);
    s->choices = xcalloc(s->choice_count + 1, sizeof *s->choices);
    for (size_t i = 0; i < s->choice_count; i++)
        s->choices[i] =
            xstrdup(way == LOST_MARKED && prompt_is_lost(texts[i], lost) ? "nan" : texts[i]);
    s->endings = json_get(r->json, "endings") != NULL;
    s->lost = prompt_count_lost(texts, s->choice_count, lost);
    // The right choice: a letter, or a number from 0 (HellaSwag).
    const char *text = s->reference_count == 1 ? s->references[0] : "";
    long right = -1;
    if (text[0] == '(' && text[1] && text[2] == ')' && !text[3]) // BLINK, CV-Bench
        right = text[1] - 'A';
    else if (text[0] >= 'A' && text[0] < 'A' + LETTERS && !text[1])
        right = text[0] - 'A';
    else if (*text && strspn(text, "0123456789") == strlen(text))
        right = strtol(text, NULL, 10);
    if (right >= 0 && (size_t)right < s->choice_count) s->right = (int)right;
}

// Refuses a text such as "2" that is the number of one choice and the text of another.
static int check_number(const struct sample *s, const struct set_record *r, struct err *err)
{
    const char *text = s->reference_count == 1 ? s->references[0] : "";
    if (s->right < 0 || r->numbered || !isdigit((unsigned char)*text) ||
        !strcmp(text, s->choices[s->right]))
        return 0;
    for (size_t i = 0; i < s->choice_count; i++)
        if (!strcmp(text, s->choices[i]))
            return err_set(err,
                           "the answer '%s' is the text of choice %zu and the number of choice %d "
                           "(from 0): write a letter",
                           text, i, s->right);
    return 0;
}

// --- pictures ------------------------------------------------------------------------------------

static char *read_picture(void *self, const char *name, size_t limit, size_t *size, struct err *err)
{
    const struct opened *o = self;
    if (!o->format->picture) return picture_source_read(name, limit, size, err);
    return o->format->picture(o->self, name, size, err);
}

// --- boxes ---------------------------------------------------------------------------------------

static bool is_number(const char *text, double *value)
{
    return text && csv_number(text, value) && isfinite(*value);
}

// Reads four numbers from a list, or from a list written as text.
static bool take_numbers(const cJSON *value, double numbers[4])
{
    const char *text = cJSON_GetStringValue(value);
    int n = 0;
    const cJSON *item;
    if (text) return box_numbers(text, numbers, 4);
    cJSON_ArrayForEach(item, value)
    {
        if (n == 4) return false;
        numbers[n] = item->valuedouble;
        if (!cJSON_IsNumber(item) && !is_number(cJSON_GetStringValue(item), &numbers[n]))
            return false;
        n++;
    }
    return n == 4;
}

// Reads the size of the picture from the row, else from its first picture.
static bool take_size(const struct opened *o, const struct set_record *r, int64_t *wide,
                      int64_t *high)
{
    struct err err;
    size_t size;
    *wide = strtoll(set_text_of(r->json, "width", "0"), NULL, 10);
    *high = strtoll(set_text_of(r->json, "height", "0"), NULL, 10);
    if (*wide > 0 && *high > 0) return true;
    char *bytes = r->picture_count ? read_picture((void *)(uintptr_t)o, r->pictures[0],
                                                  IMAGE_MAX_FILE, &size, &err)
                                   : NULL;
    const bool good =
        bytes && image_size(bytes, size, r->pictures[0], wide, high, &err) == 0 && *wide && *high;
    free(bytes);
    return good;
}

// Makes the reference answer from the row's box. In "answer", and in "bbox" of Qwen-VL's files, the
// numbers are two corners; in "bbox" on Hugging Face they are a corner, the width and the height.
// Converts normalised coordinates to pixels.
static int take_box(struct sample *s, const struct opened *o, const struct set_record *r,
                    struct err *err)
{
    const cJSON *box = json_get(r->json, "bbox");
    double n[4];
    int64_t wide, high;
    bool columns = true;
    for (int i = 0; i < 4; i++) { // VLMEvalKit's table may have a column for each number
        static const char *const keys[] = { "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2" };
        columns &= is_number(set_text(r, keys[i]), &n[i]);
    }
    if (!columns && !take_numbers(box ? box : json_get(r->json, "answer"), n))
        return err_set(err, "it has no box of four numbers in \"%s\"", box ? "bbox" : "answer");
    if (!take_size(o, r, &wide, &high))
        return err_set(err,
                       "the size of its picture is unknown: it needs the picture, or \"width\" "
                       "and \"height\"");
    if (!columns && box && !json_get(r->json, "corners")) {
        n[2] += n[0];
        n[3] += n[1];
    }
    const bool shares = n[0] <= 1.5 && n[1] <= 1.5 && n[2] <= 1.5 && n[3] <= 1.5;
    for (int i = 0; i < 4 && shares; i++) n[i] *= (double)(i % 2 ? high : wide);
    char *text = xasprintf("[%.9g, %.9g, %.9g, %.9g] of %lldx%lld", n[0], n[1], n[2], n[3],
                           (long long)wide, (long long)high);
    add_reference(s, text);
    free(text);
    return 0;
}

// --- names ---------------------------------------------------------------------------------------

static const char *kind_of(const struct eval_set *set, const struct set_record *r)
{
    const char *keys = set->kind ? set->kind : "category", *kind = NULL;
    while (*keys && !kind) {
        const size_t n = strcspn(keys, " ");
        char *key = xstrndup(keys, n);
        kind = set_text(r, key);
        free(key);
        keys += n + (keys[n] == ' ');
    }
    return kind ? kind : r->file ? r->file : "";
}

// Returns HallusionBench's group "SUBCATEGORY_SET_FIGURE\nSUBCATEGORY_SET_QUESTION". The numbers
// are the fourth to sixth parts of VLMEvalKit's index: "..._SET_FIGURE_QUESTION".
static char *figure_of(const struct set_record *r)
{
    const char *sub = set_text(r, "l2-category"), *index = set_text(r, "index");
    const char *part[6] = { "", "", "", "", "", "" };
    size_t size[6] = { 0 };
    for (int i = 0; index && i < 6; i++) {
        part[i] = index;
        size[i] = strcspn(index, "_");
        index = index[size[i]] ? index + size[i] + 1 : NULL;
    }
    if (!sub) sub = "";
    return xasprintf("%s_%.*s_%.*s\n%s_%.*s_%.*s", sub, (int)size[3], part[3], (int)size[4],
                     part[4], sub, (int)size[3], part[3], (int)size[5], part[5]);
}

static char *group_of(const struct eval_set *set, const struct set_record *r)
{
    const char *group = set->group, *index = set_text(r, "index"), *text = NULL;
    if (!group) return xstrdup("");
    if (!strcmp(group, "rotation") && index)
        return xasprintf("%lld", strtoll(index, NULL, 10) % ROTATION);
    if (!strcmp(group, "figure")) return figure_of(r);
    if (!strcmp(group, "split")) {
        text = set_text(r, "split");
    } else {
        text = set_text(r, "image_path");
        if (!text && r->picture_count) text = r->pictures[0];
    }
    return xstrdup(text ? text : "");
}

// Checks that a row's texts are UTF-8, which tables and Parquet files do not ensure. `name`: the
// column.
static int check_utf8(const cJSON *item, const char *name, struct err *err)
{
    const char *text = cJSON_GetStringValue(item);
    const cJSON *each;
    if (text && text_check_part(text, strlen(text), 0, err) < 0) return err_in(err, "\"%s\"", name);
    cJSON_ArrayForEach(each, item) if (check_utf8(each, each->string ? each->string : name, err) <
                                       0) return -1;
    return 0;
}

// Makes one of a row's expressions the question (lmms-lab's RefCOCO).
static void take_expression(struct set_record *r, int64_t part)
{
    const cJSON *answer = json_get(r->json, "answer");
    const char *text = cJSON_GetStringValue(
        cJSON_IsArray(answer) ? cJSON_GetArrayItem(answer, (int)part) : answer);
    if (text && json_get(r->json, "bbox") && !json_get(r->json, "corners"))
        set_put(r, "question", scratch_dup(&r->scratch, text, strlen(text)));
}

static void put_place(struct buf *b, const struct place *p)
{
    buf_printf(b, "row %" PRId64, p->row + 1);
    if (p->file) buf_printf(b, " of '%s'", p->file);
}

// True if the sample's id is the name of its picture, as in LLaVA's TextVQA, where two questions
// about a picture may be identical.
static bool id_is_picture(const struct opened *o, const struct sample *s)
{
    const char *picture = s->dialogue.path_count ? text_file_name(s->dialogue.paths[0]) : "";
    const size_t stem = strcspn(picture, ".");
    return !o->set->needs && strlen(s->id) == stem && !strncmp(s->id, picture, stem);
}

// Fills s->repeats if an earlier sample has the same id, kind, group, question and picture files,
// because joined files may overlap. Different questions may share an id (MME's pairs).
static void find_repeat(struct opened *o, struct sample *s, const struct place *here, int64_t part)
{
    const struct dialogue *d = &s->dialogue;
    char *question = message_text(&d->messages[0]), hex[HASH_HEX];
    struct buf key = { 0 };
    bool known;
    const char *kind = here->file && !strcmp(s->kind, here->file) ? "" : s->kind;
    buf_printf(&key, "%s\n%s\n%s\n%" PRId64 "\n%s", s->id, kind, s->group, part, question);
    for (size_t i = 0; i < d->path_count; i++) // "FILE#ROW.NUMBER" names a row
        if (!strrchr(d->paths[i], '#')) buf_printf(&key, "\n%s", d->paths[i]);
    hash_hex(key.data, key.length, hex);
    pthread_mutex_lock(&o->lock);
    const size_t i = names_add(&o->keys, hex, &known);
    o->first = xgrow(o->first, &o->room, i, sizeof *o->first);
    if (!known || here->index < o->first[i].index) o->first[i] = *here;
    const struct place first = o->first[i];
    pthread_mutex_unlock(&o->lock);
    if (first.index < here->index) {
        struct buf b = { 0 };
        buf_printf(&b, "'%s', ", s->id);
        put_place(&b, here);
        buf_puts(&b, " after ");
        put_place(&b, &first);
        s->repeats = buf_take(&b);
        s->repeated = first.index;
    }
    free(question);
    buf_release(&key);
}

// Adds the keys that a set for any file does not read: a picture or choices may be under another
// name than the set's. The sets of the papers have columns that no suite reads.
static void find_unread(const struct opened *o, const struct set_record *r, struct names *unread)
{
    static const char keys[] =
        "index question answer answers hint image image_2 image_3 image_4 image_5 image_6 image_7 "
        "image_8 image_path bbox corners conversations video visual_input filename imgname ";
    static const char choices[] = "choices endings answer_options options "
                                  "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z";
    char *read = xasprintf("%s%s", keys, o->choices ? choices : "");
    keys_unread_row(r->json, read, unread);
    keys_unread_row(r->others, read, unread);
    free(read);
}

static int read_sample(void *self, int64_t index, struct sample *s, struct err *err)
{
    struct opened *o = self;
    const int64_t row = o->parts ? o->parts[index].row : index,
                  part = o->parts ? o->parts[index].part : 0;
    const char *needs = o->set->needs ? o->set->needs : "question";
    struct set_record r;
    *s = (struct sample){ .right = -1, .index = index, .line = index + 1 };
    int status = o->format->read(o->self, row, &r, err);
    if (status == 0) status = check_utf8(r.json, "its row", err);
    if (status == 0 && *needs &&
        !set_text(&r, needs)) // files of other sets often have different keys
        status = err_set(err, "it has no \"%s\": is this a file of %s?", needs, o->set->name);
    if (status == 0 && o->choices) status = prompt_check_choices(&r, err);
    const char *id = set_id(&r);
    if (id) s->id = xstrdup(id);
    s->kind = xstrdup(kind_of(o->set, &r));
    if (status == 0 && o->set->boxes) take_expression(&r, part);
    s->broken = status < 0;
    if (status == 0) {
        s->metric = xstrdup(o->way->metric);
        s->suite = o->way->suite;
        s->group = group_of(o->set, &r);
        if (r.shared && *s->group) {
            char *group = xasprintf("%s\n%s", r.file, s->group);
            free(s->group);
            s->group = group;
        }
        s->max_tokens = o->way->max_tokens;
        if (o->set->boxes)
            status = take_box(s, o, &r, err);
        else
            take_references(s, &r);
        take_choices(s, &r, o->way->lost);
        if (status == 0 && o->set->any) status = check_number(s, &r, err);
        take_question(s, o, &r);
        if (o->set->any) find_unread(o, &r, &s->unread);
        const struct place here = { index, r.file ? r.row : row, r.file };
        if (status == 0 && s->id && !id_is_picture(o, s)) find_repeat(o, s, &here, part);
    }
    set_record_release(&r);
    return status;
}

// --- the data set --------------------------------------------------------------------------------

// Finds out whether the prompt shows a key by writing the prompt of a record with a mark in this
// key.
static bool shows(const struct set_way *way, const char *key)
{
    static const char mark[] = "marked";
    static const char *const texts[] = { "question", "hint", "A", "B" };
    struct set_record r = { .json = cJSON_CreateObject() };
    struct buf prompt = { 0 };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) set_put(&r, texts[i], "text");
    set_put(&r, key, mark);
    if (!strcmp(key, "choices")) set_put(&r, key, "['marked', 'b']");
    set_way_ask(way, &r, &prompt);
    const bool shown = prompt.length && strstr(prompt.data, mark);
    buf_release(&prompt);
    set_record_release(&r);
    return shown;
}

// Returns whether the metric reads choices, or the prompt shows them.
static bool uses_choices(const struct set_way *way)
{
    const struct metric *m = metric_find(way->metric);
    return m->letter || m->loses || m->way == METRIC_RANKS || shows(way, "choices");
}

// Returns whether the set reads a key that the user named (--columns).
static bool reads(const void *self, const char *key)
{
    const struct opened *o = self;
    const bool choice = !strcmp(key, "choices") || !key[1];
    if (!strcmp(key, "category")) return !o->set->kind || strstr(o->set->kind, key);
    if (choice) return o->choices || shows(o->way, key);
    if (!strcmp(key, "hint") || !strcmp(key, "question")) return shows(o->way, key);
    return true; // index, answer, image
}

static void close_set(void *self)
{
    struct opened *o = self;
    o->format->close(o->self);
    set_columns_release(&o->columns);
    names_release(&o->keys);
    free(o->first);
    free(o->parts);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

static const struct dataset_reader reader = { read_sample, read_picture, close_set };

// Turns every expression of every row into a sample.
static int count_parts(struct dataset *d, struct opened *o, struct err *err)
{
    enum { LOOK = 256, MOST = 1 << 24 }; // a small Parquet file can have many expressions
    size_t count = 0, room = 0;
    for (int64_t row = 0; row < d->count; row++) {
        struct set_record r;
        if (row % LOOK == LOOK - 1 && cancel_requested()) return err_set(err, "cancelled");
        const int status = o->format->read_texts(o->self, row, &r, err);
        const cJSON *answer = json_get(r.json, "answer");
        const int n =
            cJSON_IsArray(answer) && json_get(r.json, "bbox") ? cJSON_GetArraySize(answer) : 1;
        if (count + (size_t)n > MOST) {
            set_record_release(&r);
            return err_set(err, "'%s' has more than %d questions", d->path, MOST);
        }
        for (int i = 0; i < n || !i; i++) {
            o->parts = xgrow(o->parts, &room, count, sizeof *o->parts);
            o->parts[count++] = (struct part){ row, i };
        }
        set_record_release(&r);
        if (status < 0) return -1;
    }
    d->count = (int64_t)count;
    return 0;
}

int eval_set_open(struct dataset *d, const struct eval_set *set, const struct set_way *way,
                  const char *path, const char *images, const char *columns, struct err *err)
{
    struct opened *o = xcalloc(1, sizeof *o);
    const bool several = set_folder_is(path);
    o->set = set;
    o->way = way;
    o->choices = uses_choices(way);
    pthread_mutex_init(&o->lock, NULL);
    const int parsed = set_columns_parse(&o->columns, columns, err);
    o->columns.reads = reads;
    o->columns.self = o;
    if (parsed == 0)
        o->format = several ? &set_format_folder : set_format_of(path, &o->columns, err);
    if (!o->format) {
        set_columns_release(&o->columns);
        free(o);
        return -1;
    }
    *d = (struct dataset){ .path = xstrdup(path),
                           .folder = images    ? xstrdup(images)
                                     : several ? xstrdup("")
                                               : path_folder(path),
                           .file = -1 };
    o->self = o->format->open(d->path, d->folder, &o->columns, &d->count, err);
    if (!o->self) {
        set_columns_release(&o->columns);
        free(o);
        dataset_close(d);
        return -1;
    }
    d->self = o;
    d->reader = &reader;
    if (set->boxes && o->format->read_texts && count_parts(d, o, err) < 0) {
        dataset_close(d);
        return -1;
    }
    return 0;
}

static const struct opened *opened_of(const struct dataset *d)
{
    return d->reader == &reader ? d->self : NULL;
}

const char *eval_set_hash(const struct dataset *d)
{
    const struct opened *o = opened_of(d);
    return o && o->format->hash ? o->format->hash(o->self) : NULL;
}

int eval_set_record(const struct dataset *d, int64_t index, struct set_record *r, struct err *err)
{
    const struct opened *o = opened_of(d);
    *r = (struct set_record){ 0 };
    if (!o) return err_set(err, "'%s' is not an evaluation set", d->path);
    if (index < 0 || index >= d->count) // in a damaged database
        return err_set(err, "no sample %" PRId64, index);
    const struct part part = o->parts ? o->parts[index] : (struct part){ index, 0 };
    const int status = o->format->read(o->self, part.row, r, err);
    if (status == 0 && o->set->boxes) take_expression(r, part.part);
    return status;
}
