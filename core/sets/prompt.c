// core/sets/prompt.c -- writes a question as each suite words it.
//
// Sources: docs/Evaluation.md and llava/eval/model_vqa*.py of LLaVA; lmms_eval/tasks/*/utils.py;
// vlmeval/dataset/image_mcq.py, image_vqa.py and image_caption.py.
#include "core/sets/prompt.h"

#include <string.h>
#include <strings.h>

#include "core/base/err.h"
#include "core/base/text.h"
#include "core/metrics/python.h"
#include "core/sets/format.h"

static const char short_answer[] = "\nAnswer the question using a single word or phrase.";
static const char letter_answer[] =
    "\nAnswer with the option's letter from the given choices directly.";

enum { LETTERS = 26 };

static const char *question_of(const struct set_record *r)
{
    return set_text_of(r->json, "question", "");
}

static const char *stripped(struct set_record *r)
{
    return python_strip(&r->scratch, question_of(r), NULL);
}

// Appends the text unless the question already ends with it, as in LLaVA's files.
static void end_with(struct buf *to, const char *question, const char *text)
{
    buf_puts(to, question);
    if (!text_ends(question, text)) buf_puts(to, text);
}

// --- short answers -------------------------------------------------------------------------------

void prompt_nothing(struct set_record *r, struct buf *to)
{
}

void prompt_raw(struct set_record *r, struct buf *to)
{
    buf_puts(to, question_of(r));
}

void prompt_ready(struct set_record *r, struct buf *to)
{
    buf_puts(to, set_text_of(r->json, "prompt", question_of(r)));
}

void prompt_question(struct set_record *r, struct buf *to)
{
    buf_puts(to, stripped(r));
}

void prompt_short(struct set_record *r, struct buf *to)
{
    end_with(to, stripped(r), short_answer);
}

void prompt_mme(struct set_record *r, struct buf *to)
{
    end_with(to, python_replace(&r->scratch, stripped(r), " Please answer yes or no.", ""),
             short_answer);
}

void prompt_textvqa(struct set_record *r, struct buf *to)
{
    struct buf question = { 0 };
    const cJSON *token;
    const char *between = "\nReference OCR token: ";
    buf_puts(&question, question_of(r));
    cJSON_ArrayForEach(token, json_get(r->json, "ocr_tokens"))
    {
        if (!cJSON_IsString(token)) continue;
        buf_printf(&question, "%s%s", between, token->valuestring);
        between = ", ";
    }
    end_with(to, scratch_take(&r->scratch, &question), short_answer);
}

void prompt_capitalized(struct set_record *r, struct buf *to)
{
    buf_printf(to, "%s%s", python_capitalize(&r->scratch, question_of(r)), short_answer);
}

// --- captions ------------------------------------------------------------------------------------

void prompt_caption_lmms_eval(struct set_record *r, struct buf *to)
{
    buf_puts(to, "Provide a one-sentence caption for the provided image.");
}

void prompt_chair(struct set_record *r, struct buf *to)
{
    buf_puts(to, "Please describe this image in detail.");
}

void prompt_caption_vlmevalkit(struct set_record *r, struct buf *to)
{
    const char *own = set_text(r, "question");
    buf_puts(to,
             own ? own
                 : "Please describe this image in general. Directly provide the description, do "
                   "not include prefix like \"This image depicts\". ");
}

// --- multiple choice -----------------------------------------------------------------------------

// Removes marks in square brackets from HellaSwag's texts, as lm-evaluation-harness does.
static const char *hellaswag_plain(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    const char *titles = python_replace(s, python_strip(s, text, NULL), " [title]", ". ");
    const char *end = titles + strcspn(titles, "]\n"); // the next of them
    for (const char *p = titles; *p; p++) {
        if (end < p) end = p + strcspn(p, "]\n");
        if (*p == '[' && *end == ']')
            p = end;
        else
            buf_putc(&b, *p);
    }
    return python_replace(s, scratch_take(s, &b), "  ", " ");
}

// Returns the column that lists a question's choices, or NULL.
static const cJSON *list_of(const struct set_record *r)
{
    static const char *const keys[] = { "choices", "endings", "answer_options", "options" };
    const cJSON *list = NULL;
    for (size_t i = 0; !list && i < sizeof keys / sizeof *keys; i++)
        list = json_get(r->json, keys[i]);
    return list;
}

int prompt_check_choices(const struct set_record *r, struct err *err)
{
    const cJSON *list = list_of(r), *item;
    const char *text = cJSON_GetStringValue(list);
    cJSON *parsed = text ? set_python_list(text) : NULL;
    const bool other = list && (text ? *text && !parsed : !cJSON_IsArray(list));
    cJSON_Delete(parsed);
    if (other && !*set_text_of(r->json, "A", ""))
        return err_set(err, "its \"%s\" is not a list: choices are a list, or columns A, B ...",
                       list->string);
    cJSON_ArrayForEach(item, list)
    {
        if (!text && (cJSON_IsObject(item) || cJSON_IsArray(item) || cJSON_IsBool(item)))
            return err_set(err, "a choice in its \"%s\" is neither a text nor a number",
                           list->string);
    }
    return 0;
}

const char **prompt_choices(struct set_record *r, size_t *count)
{
    const cJSON *endings = json_get(r->json, "endings"), *list = list_of(r), *item;
    cJSON *parsed = cJSON_IsArray(list) ? cJSON_Duplicate(list, true) : NULL;
    const char *options = cJSON_GetStringValue(list);
    if (!parsed && options) parsed = set_python_list(options);
    const bool listed = parsed != NULL;
    const size_t most = listed ? (size_t)cJSON_GetArraySize(parsed) : LETTERS;
    const char **texts = scratch_keep(&r->scratch, xcalloc(most + 1, sizeof *texts));
    *count = 0;
    cJSON_ArrayForEach(item, parsed)
    {
        const char *own = set_item_text(r, item), *text = own ? own : "";
        texts[(*count)++] = endings ? hellaswag_plain(&r->scratch, text)
                                    : scratch_dup(&r->scratch, text, strlen(text));
    }
    cJSON_Delete(parsed);
    for (size_t i = 0; !listed && i < LETTERS; i++) {
        const char key[] = { (char)('A' + i), 0 };
        const bool named =
            *count && json_get(r->json, key) && !strcmp(set_text_of(r->json, "answer", ""), key);
        texts[i] = set_text_of(r->json, key, "");
        if ((*texts[i] && !(r->nan && !strcmp(texts[i], "nan"))) || named) *count = i + 1;
    }
    return texts;
}

enum prompt_lost prompt_lost_of(const struct set_record *r, enum prompt_lost lost)
{
    return lost == LOST_MARKED && !r->nan ? LOST_MISSING : lost;
}

bool prompt_is_lost(const char *text, enum prompt_lost lost)
{
    if (lost == LOST_MARKED) return !*text || !strcmp(text, "nan");
    return lost == LOST_MISSING && python_is_missing(text);
}

// Returns the index of the first choice that LLaVA leaves out, or `count`.
static size_t first_missing(const char *const *texts, size_t count)
{
    size_t i = 0;
    // LLaVA tests values that pandas has read, and treats "none" as missing too.
    while (i < count && !python_is_missing(texts[i]) && strcasecmp(texts[i], "none") != 0 &&
           strcasecmp(texts[i], "nan") != 0)
        i++;
    return i;
}

int prompt_count_lost(const char *const *texts, size_t count, enum prompt_lost lost)
{
    size_t n = 0;
    if (lost == LOST_REST) return (int)(count - first_missing(texts, count));
    for (size_t i = 0; i < count; i++) n += prompt_is_lost(texts[i], lost);
    return (int)n;
}

// Returns the letter of a choice; beyond Z, the suites write the next Unicode characters.
static const char *letter_of(struct set_record *r, size_t i)
{
    struct buf b = { 0 };
    python_put_char(&b, 'A' + (int32_t)i);
    return scratch_take(&r->scratch, &b);
}

// Writes each choice that the prompt keeps as "A. text", between `before` and `after`. Returns the
// number of all choices.
static size_t put_choices(struct set_record *r, struct buf *to, const char *before,
                          const char *after, enum prompt_lost lost)
{
    size_t count;
    const char **texts = prompt_choices(r, &count);
    const size_t rest = lost == LOST_REST ? first_missing(texts, count) : count;
    lost = prompt_lost_of(r, lost);
    for (size_t i = 0; i < rest; i++)
        if (!prompt_is_lost(texts[i], lost))
            buf_printf(to, "%s%s. %s%s", before, letter_of(r, i), texts[i], after);
    return count;
}

static void put_letter(struct set_record *r, struct buf *to, enum prompt_lost lost)
{
    const char *hint = set_text(r, "hint"), *question = question_of(r);
    struct buf text = { 0 };
    if (hint) buf_printf(&text, "%s\n", hint);
    buf_puts(&text, question);
    // Adds no choices to a question that already lists them (LLaVA's files).
    if (!strstr(question, "\nA. ")) put_choices(r, &text, "\n", "", lost);
    end_with(to, scratch_take(&r->scratch, &text), letter_answer);
}

void prompt_letter(struct set_record *r, struct buf *to)
{
    put_letter(r, to, LOST_NONE);
}

void prompt_mmbench_llava(struct set_record *r, struct buf *to)
{
    put_letter(r, to, LOST_REST);
}

void prompt_mmbench_lmms_eval(struct set_record *r, struct buf *to)
{
    const char *hint = set_text(r, "hint");
    if (hint) buf_printf(to, "%s ", hint);
    buf_printf(to, "%s There are several options:", question_of(r));
    put_choices(r, to, "\n", "", LOST_MARKED);
    buf_printf(to, "\n%s", letter_answer);
}

void prompt_mmstar_lmms_eval(struct set_record *r, struct buf *to)
{
    size_t count;
    const char **texts = prompt_choices(r, &count), *question = stripped(r);
    buf_puts(to, question);
    // Questions of the set on Hugging Face already contain the choices in this form.
    for (size_t i = 0; i < count && !strstr(question, "Options:"); i++)
        buf_printf(to, "%s%s: %s", i ? ", " : "\nOptions: ", letter_of(r, i), texts[i]);
    buf_puts(to, "\nAnswer with the option's letter from the given choices directly");
}

void prompt_scienceqa_lmms_eval(struct set_record *r, struct buf *to)
{
    const char *hint = set_text(r, "hint");
    if (hint) buf_printf(to, "Context: %s\n", hint);
    buf_puts(to, question_of(r));
    put_choices(r, to, "\n", "", LOST_NONE);
    buf_puts(to, letter_answer);
}

void prompt_mmmu_lmms_eval(struct set_record *r, struct buf *to)
{
    buf_puts(to, question_of(r));
    const size_t count = put_choices(r, to, "\n", "", LOST_NONE);
    buf_printf(to, "\n%s", count ? letter_answer : short_answer);
}

void prompt_lettered(struct set_record *r, struct buf *to)
{
    buf_puts(to, question_of(r));
    put_choices(r, to, "\n", "", LOST_NONE);
}

void prompt_seed2_lmms_eval(struct set_record *r, struct buf *to)
{
    buf_puts(to, question_of(r));
    for (char letter[] = "A"; *letter <= 'D'; ++*letter) {
        const char *text = set_text_of(r->json, letter, "");
        const bool file = strstr(text, "jpg") || strstr(text, "png");
        buf_printf(to, "\n%s. %s", letter, file ? "<image>" : text);
    }
}

void prompt_options_vlmevalkit(struct set_record *r, struct buf *to)
{
    buf_printf(to, "Question: %s\nOptions:\n", question_of(r));
    put_choices(r, to, "", "\n", LOST_MISSING);
}

void prompt_muirbench_vlmevalkit(struct set_record *r, struct buf *to)
{
    buf_printf(to, "%s", question_of(r));
    if (put_choices(r, to, "\n", "", LOST_MISSING))
        buf_puts(to, letter_answer);
    else
        buf_putc(to, '\n');
}

void prompt_mvbench(struct set_record *r, struct buf *to)
{
    size_t count;
    const char **texts = prompt_choices(r, &count);
    buf_printf(to, "Question:%s\nOption:\n", question_of(r));
    for (size_t i = 0; i < count; i++) buf_printf(to, "(%s) %s\n", letter_of(r, i), texts[i]);
}

static void put_note(struct set_record *r, struct buf *to)
{
    size_t count;
    prompt_choices(r, &count);
    buf_puts(to, "Note: You only need to respond with ");
    for (size_t i = 0; i < count; i++) buf_printf(to, "%s%s", i ? ", " : "", letter_of(r, i));
    buf_puts(to, " without providing any additional information.\n");
}

void prompt_blink_lmms_eval(struct set_record *r, struct buf *to)
{
    put_note(r, to);
    prompt_ready(r, to);
}

void prompt_cvbench_lmms_eval(struct set_record *r, struct buf *to)
{
    put_note(r, to);
    buf_putc(to, '\n');
    prompt_ready(r, to);
}

void prompt_embspatial_lmms_eval(struct set_record *r, struct buf *to)
{
    size_t count;
    const char **texts = prompt_choices(r, &count);
    buf_puts(to, question_of(r));
    for (size_t i = 0; i < count; i++) buf_printf(to, "\n%s) %s", letter_of(r, i), texts[i]);
}

void prompt_embspatial_vlmevalkit(struct set_record *r, struct buf *to)
{
    size_t count;
    const char **texts = prompt_choices(r, &count);
    buf_printf(to, "Question: %s\nOptions:", question_of(r));
    for (size_t i = 0; i < count; i++) buf_printf(to, "\n%s: %s", letter_of(r, i), texts[i]);
}

// Writes question and choices. The column is a list of "(A) ...", such a list as text, or
// VLMEvalKit's text, which already has the title.
static void put_listed(struct set_record *r, struct buf *to, const char *title)
{
    const cJSON *column = json_get(r->json, "multi-choice options"), *item;
    const char *text = cJSON_GetStringValue(column);
    cJSON *parsed = text ? set_python_list(text) : NULL;
    const cJSON *list = parsed ? parsed : cJSON_IsArray(column) ? column : NULL;
    buf_printf(to, "%s ", question_of(r));
    if (!list) buf_printf(to, "%s\n", text ? text : "");
    if (list) buf_puts(to, title);
    cJSON_ArrayForEach(item, list) if (cJSON_IsString(item))
        buf_printf(to, "%s\n", item->valuestring);
    cJSON_Delete(parsed);
}

void prompt_mmerealworld(struct set_record *r, struct buf *to)
{
    put_listed(r, to, "The choices are listed below:\n");
}

void prompt_mmerealworld_cn(struct set_record *r, struct buf *to)
{
    put_listed(r, to,
               "\xE9\x80\x89\xE9\xA1\xB9\xE5\xA6\x82\xE4\xB8\x8B\xE6\x89\x80\xE7\xA4\xBA:\n");
}

void prompt_mcq_vlmevalkit(struct set_record *r, struct buf *to)
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

void prompt_mmlu(struct set_record *r, struct buf *to)
{
    const char *shots = set_text(r, "shots");
    buf_printf(to, "%s%s", shots ? shots : "", stripped(r));
    put_choices(r, to, "\n", "", LOST_NONE);
    buf_puts(to, "\nAnswer:");
}

void prompt_add_shot(struct set_record *r, struct buf *to)
{
    const char *subject = set_text_of(r->json, "category", "");
    if (!to->length)
        buf_printf(to, "The following are multiple choice questions (with answers) about %s.\n\n",
                   python_replace(&r->scratch, subject, "_", " "));
    prompt_mmlu(r, to);
    buf_printf(to, " %s\n\n", set_text_of(r->json, "answer", ""));
}

void prompt_hellaswag(struct set_record *r, struct buf *to)
{
    const char *a = set_text(r, "ctx_a"), *b = set_text(r, "ctx_b");
    const char *activity = set_text(r, "activity_label"), *whole = set_text(r, "ctx");
    struct buf text = { 0 };
    if (activity) buf_printf(&text, "%s: ", activity);
    if (a)
        buf_printf(&text, "%s %s", a, python_capitalize(&r->scratch, b ? b : ""));
    else
        buf_puts(&text, whole ? whole : "");
    buf_puts(to, hellaswag_plain(&r->scratch, scratch_take(&r->scratch, &text)));
}
