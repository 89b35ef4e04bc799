// core/eval/answer_file.c -- matches the answers of a file with the questions of a data set.
//
// Three passes sort the unmatched lines and questions by id and a key, and pair equal keys in
// order. The key is the whole prompt in the first pass, its first line in the second, and empty in
// the third, which leaves out ids with a match.
#include "core/eval/answer_file.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/cancel.h"
#include "core/base/names.h"
#include "core/base/utf8.h"
#include "core/data/dataset.h"
#include "core/metrics/python.h"

enum {
    SHOWN = 60,  // bytes of a question in a message
    LOOK = 4096, // lines between two checks for Ctrl-C
};
static const size_t none = (size_t)-1;

struct answer_line {
    size_t id;            // index in ids
    char *prompt;         // NULL: none
    char *written, *text; // the id as in the file; the answer
    int64_t number;       // in the file, from 1
    bool used;
};

struct answer_question {
    size_t id;
    char *prompt;
    int64_t sample;
    size_t message;
    size_t line; // index of the line with its answer; `none`: unmatched
};

struct answer_file {
    struct names ids;
    struct answer_line *lines;
    size_t line_count, line_capacity;
    struct answer_question *questions; // in the order of samples
    size_t question_count, question_capacity;
    struct tally_of_id {
        size_t lines, questions;
        bool matched; // a prompt matched
    } * of_id;        // [ids.count] after answer_file_match
};

void answer_file_free(struct answer_file *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->line_count; i++) {
        free(f->lines[i].prompt);
        free(f->lines[i].written);
        free(f->lines[i].text);
    }
    for (size_t i = 0; i < f->question_count; i++) free(f->questions[i].prompt);
    free(f->lines);
    free(f->questions);
    free(f->of_id);
    names_release(&f->ids);
    free(f);
}

static size_t number_of_id(struct answer_file *f, const char *written)
{
    char *id = json_number_key(written);
    const size_t number = names_add(&f->ids, id, NULL);
    free(id);
    return number;
}

// Removes LLaVA's picture mark, and white space at both ends.
static char *plain_prompt(const char *prompt)
{
    static const char mark[] = "<image>\n";
    const size_t n = sizeof mark - 1;
    while (!strncmp(prompt, mark, n)) prompt += n;
    struct scratch s = { 0 };
    char *plain = xstrdup(python_strip(&s, prompt, NULL));
    scratch_release(&s);
    return plain;
}

// --- the file ------------------------------------------------------------------------------------

// Returns the value of the first key that the line has: a string, or a number as written.
static char *read_text(const cJSON *line, const char *const *keys)
{
    for (; *keys; keys++) {
        const cJSON *item = json_get(line, *keys);
        if (cJSON_IsString(item)) return xstrdup(item->valuestring);
        if (cJSON_IsNumber(item)) return json_number_text(item);
    }
    return NULL;
}

static int read_line(struct answer_file *f, const struct dataset *d, int64_t i, struct err *err)
{
    static const char *const ids[] = { "question_id", "id", "index", NULL },
                             *const texts[] = { "text", "prediction", "response", "answer", NULL },
                             *const prompts[] = { "prompt", "question", NULL };
    cJSON *json = dataset_json(d, i, err);
    if (!json) return -1;
    char *prompt = read_text(json, prompts);
    struct answer_line line = { .written = read_text(json, ids),
                                .text = read_text(json, texts),
                                .prompt = prompt ? plain_prompt(prompt) : NULL,
                                .number = d->entries[i].line };
    free(prompt);
    cJSON_Delete(json);
    f->lines = xgrow(f->lines, &f->line_capacity, f->line_count, sizeof *f->lines);
    if (line.written) line.id = number_of_id(f, line.written);
    f->lines[f->line_count++] = line;
    if (line.written && line.text) return 0;
    return err_set(err, "line %lld of '%s' needs \"question_id\" and \"text\"",
                   (long long)line.number, d->path);
}

struct answer_file *answer_file_read(const char *path, struct err *err)
{
    struct dataset d;
    if (dataset_open(&d, path, NULL, err) < 0) return NULL;
    struct answer_file *f = xcalloc(1, sizeof *f);
    int status = 0;
    for (int64_t i = 0; i < d.count && status == 0; i++)
        status = i % LOOK == LOOK - 1 && cancel_requested() ? err_set(err, "cancelled")
                                                            : read_line(f, &d, i, err);
    dataset_close(&d);
    if (status == 0) return f;
    answer_file_free(f);
    return NULL;
}

// --- matching ------------------------------------------------------------------------------------

void answer_file_add_question(struct answer_file *f, const char *id, const char *prompt,
                              int64_t sample, size_t message)
{
    f->questions =
        xgrow(f->questions, &f->question_capacity, f->question_count, sizeof *f->questions);
    f->questions[f->question_count++] = (struct answer_question){ .id = number_of_id(f, id),
                                                                  .prompt = plain_prompt(prompt),
                                                                  .sample = sample,
                                                                  .message = message,
                                                                  .line = none };
}

enum pass { BY_PROMPT, BY_FIRST_LINE, BY_ORDER };

// A line or a question without a partner, in one pass.
struct candidate {
    size_t id;
    char *key;
    bool question;
    size_t at; // index in lines or questions
};

static int compare(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    const int c = strcmp(x->key, y->key);
    if (c) return c;
    if (x->question != y->question) return x->question ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

static const char *first_line(struct scratch *s, const char *prompt)
{
    const char *first = scratch_dup(s, prompt, strcspn(prompt, "\n"));
    return python_strip(s, python_lower(s, first), NULL);
}

static char *key_of(const char *prompt, enum pass pass)
{
    struct scratch s = { 0 };
    if (pass == BY_ORDER) return xstrdup("");
    if (pass == BY_PROMPT) return xstrdup(prompt);
    char *key = xstrdup(first_line(&s, prompt));
    scratch_release(&s);
    return key;
}

static void match_by(struct answer_file *f, enum pass pass)
{
    struct candidate *all = xcalloc(f->line_count + f->question_count + 1, sizeof *all);
    size_t count = 0;
    for (size_t i = 0; i < f->line_count; i++) {
        const struct answer_line *l = &f->lines[i];
        if (!l->used && (pass == BY_ORDER ? !f->of_id[l->id].matched : l->prompt != NULL))
            all[count++] = (struct candidate){ l->id, key_of(l->prompt, pass), false, i };
    }
    for (size_t i = 0; i < f->question_count; i++) {
        const struct answer_question *q = &f->questions[i];
        if (q->line == none && (pass != BY_ORDER || !f->of_id[q->id].matched))
            all[count++] = (struct candidate){ q->id, key_of(q->prompt, pass), true, i };
    }
    if (count) qsort(all, count, sizeof *all, compare);
    for (size_t i = 0, end; i < count; i = end) {
        size_t lines = 0;
        for (end = i; end < count && all[end].id == all[i].id && !strcmp(all[end].key, all[i].key);
             end++)
            lines += !all[end].question;
        // Pairs lines and questions of one id and key. Equal answers (of a program that was run
        // twice) count as one.
        const struct candidate *c = &all[i];
        const size_t questions = end - i - lines;
        bool same = pass != BY_ORDER || questions == 1;
        for (size_t k = 1; k < lines; k++)
            same &= !strcmp(f->lines[c[k].at].text, f->lines[c[0].at].text);
        if (!lines || !questions || (lines != questions && !same)) continue;
        for (size_t k = 0; k < questions; k++)
            f->questions[c[lines + k].at].line = c[lines == questions ? k : 0].at;
        for (size_t k = 0; k < lines; k++) f->lines[c[k].at].used = true;
        f->of_id[c->id].matched = true;
    }
    for (size_t i = 0; i < count; i++) free(all[i].key);
    free(all);
}

void answer_file_match(struct answer_file *f)
{
    f->of_id = xcalloc(f->ids.count + 1, sizeof *f->of_id);
    for (size_t i = 0; i < f->line_count; i++) f->of_id[f->lines[i].id].lines++;
    for (size_t i = 0; i < f->question_count; i++) f->of_id[f->questions[i].id].questions++;
    for (enum pass pass = BY_PROMPT; pass <= BY_ORDER; pass++) match_by(f, pass);
}

// --- answers -------------------------------------------------------------------------------------

static int compare_place(const void *a, const void *b)
{
    const struct answer_question *x = a, *y = b;
    if (x->sample != y->sample) return x->sample < y->sample ? -1 : 1;
    return (x->message > y->message) - (x->message < y->message);
}

const char *answer_file_find(const struct answer_file *f, int64_t sample, size_t message,
                             struct err *err)
{
    const struct answer_question wanted = { .sample = sample, .message = message };
    const struct answer_question *q =
        f->question_count
            ? bsearch(&wanted, f->questions, f->question_count, sizeof wanted, compare_place)
            : NULL;
    const size_t first = q ? strcspn(q->prompt, "\n") : 0;
    const struct tally_of_id *of = q ? &f->of_id[q->id] : NULL;
    if (q && q->line != none) return f->lines[q->line].text;
    if (of && of->lines && (of->questions > 1 || of->lines > 1))
        err_set(err,
                "the file of --answers has %zu line%s for the %zu question%s with its id, and no "
                "unique match for the question \"%.*s\"",
                of->lines, of->lines == 1 ? "" : "s", of->questions, of->questions == 1 ? "" : "s",
                utf8_head(q->prompt, SHOWN < first ? SHOWN : (int)first), q->prompt);
    else
        err_set(err, "the file of --answers has no answer for this question");
    return NULL;
}

char *answer_file_unused(const struct answer_file *f)
{
    const struct answer_line *first = NULL;
    size_t unused = 0;
    for (size_t i = f->line_count; i-- > 0;)
        if (!f->lines[i].used) {
            unused++;
            first = &f->lines[i];
        }
    if (!first) return NULL;
    return xasprintf("%zu of %zu lines, the first: line %lld (%s)", unused, f->line_count,
                     (long long)first->number, first->written);
}

// True if one prompt contains the other's first line: programs add words around a question.
static bool alike(const char *a, const char *b)
{
    struct scratch s = { 0 };
    const bool is = strstr(python_lower(&s, b), first_line(&s, a)) ||
                    strstr(python_lower(&s, a), first_line(&s, b));
    scratch_release(&s);
    return is;
}

char *answer_file_differ(const struct answer_file *f)
{
    const struct answer_line *first = NULL;
    size_t differ = 0;
    for (size_t i = 0; i < f->question_count; i++) {
        const struct answer_question *q = &f->questions[i];
        const struct answer_line *l = q->line != none ? &f->lines[q->line] : NULL;
        if (!l || !l->prompt || !*l->prompt || alike(l->prompt, q->prompt)) continue;
        differ++;
        if (!first) first = l;
    }
    if (!first) return NULL;
    const int shown = (int)strcspn(first->prompt, "\n");
    return xasprintf("%zu of %zu answers have a prompt that is not the question with their id, the "
                     "first: line %lld (%s), \"%.*s\"",
                     differ, f->question_count, (long long)first->number, first->written,
                     utf8_head(first->prompt, shown < SHOWN ? shown : SHOWN), first->prompt);
}
