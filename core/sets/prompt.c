// core/sets/prompt.c -- how the suites write a question.
//
// Sources: docs/Evaluation.md and llava/eval/model_vqa*.py of LLaVA; lmms_eval/tasks/*/utils.py;
// vlmeval/dataset/image_mcq.py, image_vqa.py and image_caption.py.
#include "core/sets/prompt.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/json.h"
#include "core/metrics/python.h"
#include "core/sets/form.h"

static const char short_answer[] = "\nAnswer the question using a single word or phrase.";
static const char letter_answer[] =
    "\nAnswer with the option's letter from the given choices directly.";

enum { LETTERS = 26 };

static const char *question_of(const struct set_record *r)
{
    const char *text = cJSON_GetStringValue(json_get(r->json, "question"));
    return text ? text : "";
}

// Appends the text unless the question ends with it: LLaVA's files contain it.
static void end_with(struct buf *to, const char *question, const char *text)
{
    const size_t n = strlen(question), m = strlen(text);
    buf_puts(to, question);
    if (n < m || strcmp(question + n - m, text) != 0) buf_puts(to, text);
}

// --- short answers -------------------------------------------------------------------------------

void prompt_question(const struct set_record *r, struct buf *to)
{
    char *question = python_strip(question_of(r));
    buf_puts(to, question);
    free(question);
}

void prompt_short(const struct set_record *r, struct buf *to)
{
    char *question = python_strip(question_of(r));
    end_with(to, question, short_answer);
    free(question);
}

void prompt_mme(const struct set_record *r, struct buf *to)
{
    char *question = python_strip(question_of(r));
    char *plain = python_replace(question, " Please answer yes or no.", "");
    end_with(to, plain, short_answer);
    free(plain);
    free(question);
}

static void put_tokens(const struct set_record *r, struct buf *to)
{
    const cJSON *tokens = json_get(r->json, "ocr_tokens"), *token;
    const char *between = "\nReference OCR token: ";
    cJSON_ArrayForEach(token, tokens)
    {
        if (!cJSON_IsString(token)) continue;
        buf_printf(to, "%s%s", between, token->valuestring);
        between = ", ";
    }
}

void prompt_textvqa(const struct set_record *r, struct buf *to)
{
    struct buf question = { 0 };
    buf_puts(&question, question_of(r));
    put_tokens(r, &question);
    end_with(to, question.data, short_answer);
    buf_release(&question);
}

static void put_capitalized(struct buf *to, const char *text)
{
    char *capitalized = python_capitalize(text);
    buf_puts(to, capitalized);
    free(capitalized);
}

void prompt_capitalized(const struct set_record *r, struct buf *to)
{
    put_capitalized(to, question_of(r));
    buf_puts(to, short_answer);
}

// --- captions ------------------------------------------------------------------------------------

void prompt_caption_lmms_eval(const struct set_record *r, struct buf *to)
{
    (void)r;
    buf_puts(to, "Provide a one-sentence caption for the provided image.");
}

void prompt_chair(const struct set_record *r, struct buf *to)
{
    (void)r;
    buf_puts(to, "Please describe this image in detail.");
}

void prompt_caption_vlmevalkit(const struct set_record *r, struct buf *to)
{
    const char *own = set_text(r, "question");
    buf_puts(to,
             own ? own
                 : "Please describe this image in general. Directly provide the description, do "
                   "not include prefix like \"This image depicts\". ");
}

// --- multiple choice -----------------------------------------------------------------------------

static char **texts_of(const cJSON *list, size_t *count)
{
    const cJSON *item;
    char **texts = xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *texts);
    *count = 0;
    cJSON_ArrayForEach(item, list) texts[(*count)++] =
        xstrdup(cJSON_IsString(item) ? item->valuestring : "");
    return texts;
}

char **prompt_choices(const struct set_record *r, size_t *count)
{
    const cJSON *list = json_get(r->json, "choices");
    const char *options = cJSON_GetStringValue(json_get(r->json, "options"));
    if (!list) list = json_get(r->json, "endings");
    if (!list) list = json_get(r->json, "options");
    *count = 0;
    if (cJSON_IsArray(list)) return texts_of(list, count);
    cJSON *parsed = options ? set_python_list(options) : NULL;
    char **texts = parsed ? texts_of(parsed, count) : xcalloc(LETTERS + 1, sizeof *texts);
    cJSON_Delete(parsed);
    if (*count || parsed) return texts;
    const char *answer = cJSON_GetStringValue(json_get(r->json, "answer"));
    for (size_t i = 0; i < LETTERS; i++) {
        const char key[] = { (char)('A' + i), 0 };
        const char *text = cJSON_GetStringValue(json_get(r->json, key));
        const bool named = answer && !strcmp(answer, key) && json_get(r->json, key) && *count;
        texts[i] = xstrdup(text ? text : "");
        if ((*texts[i] && !(r->nan && !strcmp(texts[i], "nan"))) || named) *count = i + 1;
    }
    for (size_t i = *count; i < LETTERS; i++) {
        free(texts[i]);
        texts[i] = NULL;
    }
    return texts;
}

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++) free(texts[i]);
    free(texts);
}

// The first of the choices that are lost; count: none is.
static size_t first_missing(const char *const *texts, size_t count, enum prompt_lost lost)
{
    size_t i = 0;
    if (lost == LOST_NONE) return count;
    // LLaVA's own test comes after pandas' and takes "none" too.
    while (i < count && !python_is_missing(texts[i]) &&
           (lost != LOST_REST ||
            (strcasecmp(texts[i], "none") != 0 && strcasecmp(texts[i], "nan") != 0)))
        i++;
    return i;
}

int prompt_count_lost(const char *const *texts, size_t count, enum prompt_lost lost)
{
    size_t n = 0, i = first_missing(texts, count, lost);
    if (lost == LOST_REST) return (int)(count - i);
    for (; i < count; i++) n += python_is_missing(texts[i]) && lost == LOST_MISSING;
    return (int)n;
}

// "A. text" of each choice that is not lost, with `before` and `after`.
static size_t put_choices(const struct set_record *r, struct buf *to, const char *before,
                          const char *after, enum prompt_lost lost)
{
    size_t count, rest;
    char **texts = prompt_choices(r, &count);
    rest = lost == LOST_REST ? first_missing((const char *const *)texts, count, lost) : count;
    for (size_t i = 0; i < rest; i++)
        if (lost != LOST_MISSING || !python_is_missing(texts[i]))
            buf_printf(to, "%s%c. %s%s", before, (char)('A' + i), texts[i], after);
    free_texts(texts, count);
    return count;
}

static void put_letter(const struct set_record *r, struct buf *to, enum prompt_lost lost)
{
    const char *hint = set_text(r, "hint"), *question = question_of(r);
    struct buf text = { 0 };
    if (hint) buf_printf(&text, "%s\n", hint);
    buf_puts(&text, question);
    // A question that lists its choices (LLaVA's files) does not get them twice.
    if (!strstr(question, "\nA. ")) put_choices(r, &text, "\n", "", lost);
    end_with(to, text.data, letter_answer);
    buf_release(&text);
}

void prompt_letter(const struct set_record *r, struct buf *to)
{
    put_letter(r, to, LOST_NONE);
}

void prompt_mmbench_llava(const struct set_record *r, struct buf *to)
{
    put_letter(r, to, LOST_REST);
}

void prompt_mmbench_lmms_eval(const struct set_record *r, struct buf *to)
{
    const char *hint = set_text(r, "hint");
    if (hint) buf_printf(to, "%s ", hint);
    buf_printf(to, "%s There are several options:", question_of(r));
    put_choices(r, to, "\n", "", LOST_MISSING);
    buf_printf(to, "\n%s", letter_answer);
}

void prompt_mmstar_lmms_eval(const struct set_record *r, struct buf *to)
{
    size_t count;
    char **texts = prompt_choices(r, &count), *question = python_strip(question_of(r));
    buf_puts(to, question);
    // The texts of the set on Hugging Face contain the choices so.
    for (size_t i = 0; i < count && !strstr(question, "Options:"); i++)
        buf_printf(to, "%s%c: %s", i ? ", " : "\nOptions: ", (char)('A' + i), texts[i]);
    buf_puts(to, "\nAnswer with the option's letter from the given choices directly");
    free(question);
    free_texts(texts, count);
}

void prompt_scienceqa_lmms_eval(const struct set_record *r, struct buf *to)
{
    const char *hint = set_text(r, "hint");
    if (hint) buf_printf(to, "Context: %s\n", hint);
    buf_puts(to, question_of(r));
    put_choices(r, to, "\n", "", LOST_NONE);
    buf_puts(to, letter_answer);
}

void prompt_mmmu_lmms_eval(const struct set_record *r, struct buf *to)
{
    buf_puts(to, question_of(r));
    const size_t count = put_choices(r, to, "\n", "", LOST_NONE);
    buf_printf(to, "\n%s", count ? letter_answer : short_answer);
}

void prompt_mcq_vlmevalkit(const struct set_record *r, struct buf *to)
{
    const char *hint = set_text(r, "hint");
    struct buf options = { 0 };
    if (hint) buf_printf(to, "Hint: %s\n", hint);
    buf_printf(to, "Question: %s\n", question_of(r));
    put_choices(r, &options, "", "\n", LOST_MISSING);
    if (options.length)
        buf_printf(to, "Options:\n%sPlease select the correct answer from the options above. \n",
                   options.data);
    buf_release(&options);
}

// --- text only -----------------------------------------------------------------------------------

void prompt_mmlu(const struct set_record *r, struct buf *to)
{
    const char *shots = set_text(r, "shots");
    char *question = python_strip(question_of(r));
    if (shots) buf_puts(to, shots);
    buf_puts(to, question);
    put_choices(r, to, "\n", "", LOST_NONE);
    buf_puts(to, "\nAnswer:");
    free(question);
}

char *hellaswag_plain(const char *text)
{
    char *bare = python_strip(text), *titles = python_replace(bare, " [title]", ". ");
    struct buf b = { 0 };
    for (const char *p = titles; *p; p++) {
        const char *end = *p == '[' ? strpbrk(p, "]\n") : NULL;
        if (end && *end == ']')
            p = end;
        else
            buf_putc(&b, *p);
    }
    char *out = buf_take(&b), *result = python_replace(out, "  ", " ");
    free(out);
    free(titles);
    free(bare);
    return result;
}

void prompt_hellaswag(const struct set_record *r, struct buf *to)
{
    const char *a = set_text(r, "ctx_a"), *b = set_text(r, "ctx_b");
    const char *activity = set_text(r, "activity_label"), *whole = set_text(r, "ctx");
    struct buf text = { 0 };
    if (activity) buf_printf(&text, "%s: ", activity);
    if (a) {
        buf_printf(&text, "%s ", a);
        put_capitalized(&text, b ? b : "");
    } else {
        buf_puts(&text, whole ? whole : "");
    }
    char *plain = hellaswag_plain(text.data ? text.data : "");
    buf_puts(to, plain);
    free(plain);
    buf_release(&text);
}
