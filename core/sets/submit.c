// core/sets/submit.c -- writes answers in the formats that the sets' servers and scripts read.
//
// The formats follow scripts/convert_vqav2_for_submission.py, convert_mmbench_for_submission.py and
// llava/eval/model_vqa_loader.py of LLaVA.
#include "core/sets/submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_out.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/names.h"
#include "core/data/dataset.h"
#include "core/metrics/python.h"
#include "core/metrics/vqa.h"
#include "core/sets/format.h"
#include "core/sets/set.h"

struct submission {
    struct {
        int64_t index; // of the sample
        char *answer;
    } * list; // [count]
    size_t count;
};

struct submission *submission_new(void)
{
    return xcalloc(1, sizeof(struct submission));
}

void submission_add(struct submission *s, int64_t index, const char *answer)
{
    if (s->count % 1024 == 0) s->list = xreallocarray(s->list, s->count + 1024, sizeof *s->list);
    s->list[s->count].index = index;
    s->list[s->count++].answer = answer ? xstrdup(answer) : NULL;
}

void submission_free(struct submission *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->count; i++) free(s->list[i].answer);
    free(s->list);
    free(s);
}

enum { COLUMNS = 9 }; // of MMBench's table

// The file being written, and the data for its rows.
struct writing {
    struct buf out;
    const struct dataset *data;
    const char *model;
    bool first;        // nothing has been written yet
    bool has[COLUMNS]; // the table has column i of `columns`
};

// Writes the id unchanged, as a number or a text: servers and scripts look up answers by id.
static void put_id(struct buf *b, struct set_record *r)
{
    const char *text = set_id(r), *id = text ? text : "";
    const bool digits = *id && strspn(id, "0123456789") == strlen(id) && (id[0] != '0' || !id[1]);
    if (r->number && digits)
        buf_puts(b, id);
    else
        json_put_text(b, id);
}

static void put_vqa(struct writing *w, struct set_record *r, const char *prompt, const char *answer)
{
    buf_puts(&w->out, w->first ? "[{\"question_id\": " : ", {\"question_id\": ");
    put_id(&w->out, r);
    buf_puts(&w->out, ", \"answer\": ");
    json_put_text(&w->out, vqa_clean_evalai(&r->scratch, answer ? answer : ""));
    buf_puts(&w->out, "}");
}

// MM-Vet's script expects an object that maps ids, such as "v1_17", to answers.
static void put_mmvet(struct writing *w, struct set_record *r, const char *prompt,
                      const char *answer)
{
    const char *id = set_text_of(r->json, "index", "");
    const bool whole = !strncmp(id, "v1_", 3);
    buf_puts(&w->out, w->first ? "{" : ", ");
    json_put_text(&w->out, whole ? id : scratch_printf(&r->scratch, "v1_%s", id));
    buf_puts(&w->out, ": ");
    json_put_text(&w->out, answer ? answer : "");
}

static void put_llava(struct writing *w, struct set_record *r, const char *prompt,
                      const char *answer)
{
    const char *id = set_id(r);
    char hex[HASH_HEX];
    if (!answer) return;
    buf_puts(&w->out, "{\"question_id\": ");
    put_id(&w->out, r);
    buf_puts(&w->out, ", \"prompt\": ");
    json_put_text(&w->out, prompt);
    buf_puts(&w->out, ", \"text\": ");
    json_put_text(&w->out, answer);
    // LLaVA uses 22 random characters; vlmsh hashes model, question and answer instead.
    const char *all = scratch_printf(&r->scratch, "%s\n%s\n%s", w->model, id ? id : "", answer);
    hash_hex(all, strlen(all), hex);
    buf_printf(&w->out, ", \"answer_id\": \"%.22s\", \"model_id\": ", hex);
    json_put_text(&w->out, w->model);
    buf_puts(&w->out, ", \"metadata\": {}}\n");
}

// LLaVA's script for ScienceQA recognises questions with a picture by "<image>" in their prompts.
static void put_scienceqa(struct writing *w, struct set_record *r, const char *prompt,
                          const char *answer)
{
    if (r->picture_count) prompt = scratch_printf(&r->scratch, "<image>\n%s", prompt);
    put_llava(w, r, prompt, answer);
}

// --- MMBench's table -----------------------------------------------------------------------------

// Writes a field, with quotes where pandas writes them.
static void put_field(struct buf *b, const char *text)
{
    if (!strpbrk(text, "\t\"\r\n")) {
        buf_puts(b, text);
        return;
    }
    buf_putc(b, '"');
    for (; *text; text++) {
        if (*text == '"') buf_putc(b, '"');
        buf_putc(b, *text);
    }
    buf_putc(b, '"');
}

// The columns that LLaVA's script writes, in its order; the last two only if the data has them.
static const char *const columns[COLUMNS] = { "index", "question",   "A",      "B",    "C",
                                              "D",     "prediction", "answer", "split" };

enum { PREDICTION = 6 };

static void put_table(struct writing *w, struct set_record *r, const char *prompt,
                      const char *answer)
{
    for (int i = 0; w->first && i < COLUMNS; i++) {
        w->has[i] = i <= PREDICTION || set_text(r, columns[i]);
        if (w->has[i]) buf_printf(&w->out, "%s%s", i ? "\t" : "", columns[i]);
    }
    if (w->first) buf_putc(&w->out, '\n');
    for (int i = 0; i < COLUMNS; i++) {
        const char *text = i == PREDICTION ? answer : set_text(r, columns[i]);
        const bool choice = i > 1 && i < PREDICTION;
        if (!w->has[i]) continue;
        if (i) buf_putc(&w->out, '\t');
        // pandas reads a choice such as "None" as a missing value and writes an empty field.
        put_field(&w->out, !text || (choice && python_is_missing(text)) ? "" : text);
    }
    buf_putc(&w->out, '\n');
}

// --- the file ------------------------------------------------------------------------------------

static const struct format {
    const char *set; // NULL: all others
    void (*put)(struct writing *w, struct set_record *r, const char *prompt, const char *answer);
    const char *end;
} formats[] = { { "vqav2", put_vqa, "]\n" },
                { "mmbench", put_table, "" },
                { "scienceqa", put_scienceqa, "" },
                { "mmvet", put_mmvet, "}\n" },
                { NULL, put_llava, "" } };

static int put_answer(struct writing *w, const struct format *f, const struct set_way *way,
                      int64_t index, const char *answer, struct err *err)
{
    struct set_record r;
    struct buf prompt = { 0 };
    const int status = eval_set_record(w->data, index, &r, err);
    if (status == 0) {
        set_way_ask(way, &r, &prompt);
        f->put(w, &r, prompt.data ? prompt.data : "", answer);
        w->first = false;
    }
    buf_release(&prompt);
    set_record_release(&r);
    // A sample without an answer may have a broken line, which is left out without an error.
    return answer ? status : 0;
}

int submission_write(const struct submission *s, const char *path, const struct dataset *data,
                     const struct eval_set *set, const struct set_way *way, const char *model,
                     struct err *err)
{
    const struct format *f = formats;
    struct writing w = { .data = data, .model = model, .first = true };
    int status = 0;
    while (f->set && strcmp(f->set, set->name) != 0) f++;
    for (size_t i = 0; i < s->count && status == 0; i++)
        status = put_answer(&w, f, way, s->list[i].index, s->list[i].answer, err);
    if (w.out.length) buf_puts(&w.out, f->end);
    if (status == 0) status = file_out_write(path, w.out.data, w.out.length, err);
    buf_release(&w.out);
    return status < 0 ? err_in(err, "--submit") : 0;
}

// --- predictions for the suites' own programs ----------------------------------------------------

// Returns lmms-eval's task for a set; NULL if lmms-eval has no task for it, or several tasks for
// its file.
static const char *task_of(const struct eval_set *set)
{
    static const struct {
        const char *set, *task;
    } tasks[] = {
        { "pope", "pope" },
        { "mme", "mme" },
        { "vqav2", "vqav2_val" },
        { "textvqa", "textvqa_val" },
        { "coco", "coco2014_cap_val" },
        { "flickr30k", "flickr30k_test" },
        { "mmbench", "mmbench_en_dev_static" },
        { "mmstar", "mmstar" },
        { "seed", "seedbench" },
        { "ocrbench", "ocrbench" },
        { "scienceqa", "scienceqa_img" },
        { "ai2d", "ai2d" },
        { "mmmu", "mmmu_val" },
        { "chartqa", "chartqa" },
        { "docvqa", "docvqa_val" },
        { "infovqa", "infovqa_val" },
        { "okvqa", "ok_vqa_val2014" },
        { "gqa", "gqa" },
        { "hallusionbench", "hallusion_bench_image" },
        { "realworldqa", "realworldqa" },
        { "mmmu-pro", "mmmu_pro_standard" },
        { "mmmu-pro-vision", "mmmu_pro_vision" },
        { "muirbench", "muirbench" },
        { "cv-bench", "cv_bench" },
        { "embspatial", "embspatial" },
        { "seed2-plus", "seedbench_2_plus" },
        { "mme-realworld", "mmerealworld" },
        { "mme-realworld-cn", "mmerealworld_cn" },
        { "mmvet", "mmvet" },
        { "refcoco", "refcoco_bbox_rec_val" },
    };
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (!strcmp(tasks[i].set, set->name)) return tasks[i].task;
    return NULL;
}

const char *predictions_check(const char *suite, const struct eval_set *set, struct err *err)
{
    if (!strcmp(suite, "vlmevalkit")) return ".tsv";
    if (strcmp(suite, "lmms-eval") != 0)
        err_set(err, "--export-predictions is lmms-eval or vlmevalkit, not '%s'", suite);
    else if (!task_of(set))
        err_set(err, "--export-predictions lmms-eval: it has no task for the file of --set %s",
                set->name);
    else
        return ".json";
    return NULL;
}

static void put_log(struct writing *w, int64_t index, const char *answer)
{
    buf_printf(&w->out, "%s{\"doc_id\": %lld, \"resps\": [[", w->first ? "" : ",\n",
               (long long)index);
    json_put_text(&w->out, answer);
    buf_puts(&w->out, "]]}");
    w->first = false;
}

// Writes the answers in the order of the rows; "" for a row that could not be answered. A row that
// repeats an earlier row gets the answer of that row, because lmms-eval looks up every row.
static void put_logs(struct writing *w, const struct submission *s)
{
    const char **answers = xcalloc((size_t)w->data->count, sizeof *answers);
    int64_t rows = 0;
    for (size_t i = 0; i < s->count; i++) {
        const int64_t row = s->list[i].index;
        if (row < 0 || row >= w->data->count) continue; // the database is damaged
        answers[row] = s->list[i].answer ? s->list[i].answer : "";
        if (row >= rows) rows = row + 1;
    }
    for (int64_t row = 0; row < rows; row++) {
        struct sample again;
        if (!answers[row]) {
            dataset_read(w->data, row, &again, NULL);
            if (again.repeats) answers[row] = answers[again.repeated];
            sample_release(&again);
        }
        if (answers[row]) put_log(w, row, answers[row]);
    }
    free(answers);
}

static void put_cell(struct buf *b, const cJSON *cell)
{
    const char *text = cJSON_GetStringValue(cell);
    char *json = text || !cell || cJSON_IsNull(cell) ? NULL : cJSON_PrintUnformatted(cell);
    put_field(b, text ? text : json ? json : "");
    cJSON_free(json);
}

// Returns VLMEvalKit's id for a row of RefCOCO; the id begins with the split
// ("RefCOCO+_testA_7").
static const char *vlmevalkit_id(struct set_record *r)
{
    const char *split = set_text(r, "split"), *category = set_text(r, "category");
    if (!split && category) split = python_replace(&r->scratch, category, " ", "_");
    return scratch_printf(&r->scratch, "%s_%s", split ? split : "RefCOCO",
                          set_text_of(r->json, "index", ""));
}

// Gives a row the index (RefCOCO) or question (MMMU-Pro, vision) that VLMEvalKit's dataset has for
// it.
static void as_vlmevalkit(const struct eval_set *set, struct set_record *r)
{
    if (!strcmp(set->name, "refcoco")) set_put(r, "index", vlmevalkit_id(r));
    if (!strcmp(set->name, "mmmu-pro-vision")) set_put(r, "question", "placeholder");
}

static bool is_left_out(const char *column)
{
    return !strcmp(column, "image") || !strcmp(column, "prediction");
}

// First writes each row with cells for the columns found so far. Once all columns are known,
// appends empty cells for the columns found later.
static int put_predictions(struct writing *w, const struct submission *s,
                           const struct eval_set *set, struct err *err)
{
    struct names found = { 0 };
    struct buf rows = { 0 };
    struct row {
        size_t end, cells; // end of the row's text in `rows`; number of its cells
    } *list = xcalloc(s->count + 1, sizeof *list);
    int status = 0;
    for (size_t i = 0; i < s->count && status == 0; i++) {
        struct set_record r;
        const bool read = eval_set_record(w->data, s->list[i].index, &r, err) == 0;
        if (read) as_vlmevalkit(set, &r);
        for (const cJSON *c = read ? r.json->child : NULL; c; c = c->next)
            if (!is_left_out(c->string)) names_add(&found, c->string, NULL);
        for (size_t k = 0; read && k < found.count; k++) {
            put_cell(&rows, json_get(r.json, found.list[k]));
            buf_putc(&rows, '\t');
        }
        list[i] = (struct row){ rows.length, read ? found.count : 0 };
        if (!read && s->list[i].answer) status = -1; // rows without an answer may be broken
        set_record_release(&r);
    }
    for (size_t k = 0; k < found.count; k++) buf_printf(&w->out, "%s\t", found.list[k]);
    buf_puts(&w->out, "prediction\n");
    for (size_t i = 0, at = 0; i < s->count && status == 0; at = list[i++].end) {
        if (!list[i].cells) continue;
        buf_add(&w->out, rows.data + at, list[i].end - at);
        for (size_t k = list[i].cells; k < found.count; k++) buf_putc(&w->out, '\t');
        put_field(&w->out, s->list[i].answer ? s->list[i].answer : "");
        buf_putc(&w->out, '\n');
    }
    free(list);
    buf_release(&rows);
    names_release(&found);
    return status;
}

int predictions_write(const struct submission *s, const char *path, const char *suite,
                      const struct dataset *data, const struct eval_set *set, const char *model,
                      struct err *err)
{
    struct writing w = { .data = data, .model = model, .first = true };
    int status = 0;
    if (!strcmp(suite, "vlmevalkit")) {
        status = put_predictions(&w, s, set, err);
    } else {
        buf_puts(&w.out, "{\"args\": {\"model\": \"vlmsh\", \"model_args\": ");
        json_put_text(&w.out, model);
        buf_puts(&w.out, ", \"limit\": null}, \"model_configs\": {\"task\": ");
        json_put_text(&w.out, task_of(set));
        buf_puts(&w.out, "}, \"logs\": [\n");
        put_logs(&w, s);
        buf_puts(&w.out, "\n]}\n");
    }
    if (status == 0) status = file_out_write(path, w.out.data, w.out.length, err);
    buf_release(&w.out);
    return status < 0 ? err_in(err, "--export-predictions") : 0;
}
