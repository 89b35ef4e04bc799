// core/metrics/mcq.c -- multiple choice as VLMEvalKit, and SEED-Bench, AI2D and ScienceQA in LLaVA
// and lmms-eval score it.
//
// Sources: vlmeval/utils/matching_util.py (can_infer) and dataset/utils/multiple_choice.py of
// VLMEvalKit, with exact matching (no judge); scripts/convert_seed_for_submission.py and
// llava/eval/eval_science_qa.py of LLaVA; tasks/seedbench, ai2d and scienceqa of lmms-eval.
#include "core/metrics/mcq.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "core/metrics/choices.h"
#include "core/metrics/python.h"

enum { OTHER = LETTERS - 1 }; // Z: none of the choices

// --- what the rules share ------------------------------------------------------------------------

bool mcq_has(const struct metric_case *c, int letter)
{
    if (!c->choice_count) return letter < 4;
    return (size_t)letter < c->choice_count && *c->choices[letter];
}

static int whole_letter(const char *text)
{
    return text[0] >= 'A' && text[0] < 'A' + LETTERS && !text[1] ? text[0] - 'A' : MCQ_NONE;
}

// The letter itself is right where the choice has no text: a table's "None" reads as missing.
static int right_letter(const struct metric_case *c, struct err *err)
{
    const char *text = c->reference_count ? c->references[0] : "";
    const bool listed = c->choice_count && (c->right >= 0 || c->reference_count);
    int right = listed ? choices_right(c, err) : choices_letter(text, LETTERS);
    if (right < 0) right = whole_letter(text);
    if (right >= 0 || listed) return right;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    return err_set(err, "the answer '%.100s' is not a letter", text);
}

int mcq_score(const struct metric_case *c, int letter, struct metric_outcome *o, struct err *err)
{
    const int right = right_letter(c, err);
    if (right < 0) return -1;
    *o = (struct metric_outcome){ .score = letter == right, .class = letter == MCQ_NONE };
    if (letter != MCQ_NONE) o->found = xasprintf("%c", 'A' + letter);
    return 0;
}

int mcq_summary(const struct metric_tally *t, struct metric_number *to)
{
    to[0] = (struct metric_number){ "no letter", (double)t->classes[1] };
    return 1;
}

char *mcq_strip_each(const char *text, const char *letters)
{
    char *result = xstrdup(text);
    for (; *letters; letters++) {
        const char one[] = { *letters, 0 };
        char *less = python_strip_of(result, one);
        free(result);
        result = less;
    }
    return result;
}

int mcq_only_text(const struct metric_case *c, const char *lower, int most)
{
    int found = MCQ_NONE, n = 0;
    for (int i = 0; i < most && (size_t)i < c->choice_count; i++) {
        if (!mcq_has(c, i)) continue;
        char *choice = python_lower(c->choices[i]);
        if (strstr(lower, choice) && n++ == 0) found = i;
        free(choice);
    }
    return n == 1 ? found : MCQ_NONE;
}

// --- VLMEvalKit ----------------------------------------------------------------------------------

static const char other_answers[] = "Other Answers";

static bool declines(const char *answer)
{
    static const char *const texts[] = { "Sorry, I can't help with images of people yet.",
                                         "I can't process this file.",
                                         "I'm sorry, but without the image provided",
                                         "Cannot determine the answer" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strstr(answer, texts[i])) return true;
    return false;
}

static const char *skip_spaces(const char *p)
{
    size_t length;
    while (*p && python_is_space(python_char(p, &length))) p += length;
    return p;
}

// "answer is **B": (?i)answer\s+is\s+\**([ABCD]); the letter of the first such place.
static int find_verbose(const char *answer)
{
    for (const char *p = answer; (p = strcasestr(p, "answer")); p++) {
        const char *word = p + strlen("answer"), *is = skip_spaces(word);
        if (is == word || strncasecmp(is, "is", 2) != 0) continue;
        const char *after = is + 2, *q = skip_spaces(after);
        if (q == after) continue;
        q += strspn(q, "*");
        if (*q && strchr("ABCDabcd", *q)) return (*q & ~0x20) - 'A';
    }
    return MCQ_NONE;
}

// Words of the answer, its punctuation out, that are the letter; *from_end: the words from the
// first of them on.
static bool has_letter(const char *words, int letter, size_t *from_end)
{
    size_t count = 0, at = 0;
    bool found = false;
    for (const char *p = words; *p; count++) {
        const size_t n = strcspn(p, " ");
        if (!found && n == 1 && *p == 'A' + letter) {
            found = true;
            at = count;
        }
        p += n;
        p += *p == ' ';
    }
    *from_end = count - at;
    return found;
}

static int find_option(const struct metric_case *c)
{
    char *marks_out = xstrdup(c->answer);
    for (char *p = marks_out; *p; p++)
        if (strchr(".()[],:;!*#{}", *p)) *p = ' ';
    char *words = python_words(marks_out);
    int count = 0, found = MCQ_NONE;
    size_t from_end;
    for (int i = 0; i < LETTERS; i++) {
        if (!mcq_has(c, i) || !has_letter(words, i, &from_end)) continue;
        if (count++ == 0 && from_end < 5) found = i;
    }
    if (count > 1) found = MCQ_NONE;
    if (count == 0 && has_letter(words, OTHER, &from_end)) found = OTHER;
    free(words);
    free(marks_out);
    if (found != MCQ_NONE) return found;
    const int verbose = find_verbose(c->answer);
    return verbose != MCQ_NONE && mcq_has(c, verbose) ? verbose : MCQ_NONE;
}

static int find_text(const struct metric_case *c)
{
    size_t room = 0;
    char *lower = python_lower(c->answer);
    for (size_t i = 0; i < c->choice_count; i++) room += python_length(c->choices[i]);
    const int found = python_length(lower) > 2 * room ? MCQ_NONE : mcq_only_text(c, lower, LETTERS);
    free(lower);
    return found;
}

static int infer(const struct metric_case *c)
{
    int found = MCQ_NONE;
    if (!strstr(c->answer, "Failed to obtain answer via API"))
        found = declines(c->answer) ? OTHER : find_option(c);
    return found != MCQ_NONE ? found : find_text(c);
}

// Several right answers as the cell of a table has them, "['a', 'b']": VLMEvalKit looks for that
// text, which no answer contains.
static char *cell_of(const struct metric_case *c)
{
    struct buf b = { 0 };
    if (c->reference_count == 1) return xstrdup(c->references[0]);
    for (size_t i = 0; i < c->reference_count; i++)
        buf_printf(&b, "%s'%s'", i ? ", " : "[", c->references[i]);
    buf_putc(&b, ']');
    return buf_take(&b);
}

// The letter that is read, where the table that VLMEvalKit reads has no choice "None" or "NA".
// Without A, it takes a question of MMMU for an open one.
static int infer_table(const struct metric_case *c, bool mmmu)
{
    const char right[] = { (char)('A' + (c->right >= 0 ? c->right : 0)), 0 };
    const char **kept = xcalloc(c->choice_count + 2, sizeof *kept);
    struct metric_case table = *c;
    for (size_t i = 0; i < c->choice_count; i++)
        kept[i] = python_is_missing(c->choices[i]) ? "" : c->choices[i];
    if (mmmu && c->choice_count && !*kept[0]) {
        kept[0] = c->reference_count ? c->references[0] : right;
        kept[1] = other_answers;
        if (table.choice_count < 2) table.choice_count = 2;
    }
    table.choices = kept;
    const int letter = infer(&table);
    free(kept);
    return letter;
}

// An open question (MMMU) becomes one with the choices "the answer" and "Other Answers".
static int score_table(const struct metric_case *c, bool mmmu, struct metric_outcome *o,
                       struct err *err)
{
    if (c->choice_count || !c->reference_count || whole_letter(c->references[0]) >= 0)
        return mcq_score(c, infer_table(c, mmmu), o, err);
    char *right = cell_of(c);
    const char *const choices[] = { right, other_answers };
    struct metric_case closed = *c;
    closed.choices = choices;
    closed.choice_count = 2;
    closed.right = 0;
    const int status = mcq_score(&closed, infer(&closed), o, err);
    free(right);
    return status;
}

static int score_vlmevalkit(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return score_table(c, false, o, err);
}

static int score_mmmu_vlmevalkit(const struct metric_case *c, struct metric_outcome *o,
                                 struct err *err)
{
    return score_table(c, true, o, err);
}

// --- SEED-Bench ----------------------------------------------------------------------------------

static int score_letter(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return mcq_score(c, whole_letter(c->answer), o, err);
}

static int score_first(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    char *bare = python_strip(c->answer), *head = python_head(bare, 1);
    if (*head >= 'a' && *head <= 'z') *head = (char)(*head - 'a' + 'A');
    const int letter = whole_letter(head);
    free(head);
    free(bare);
    return mcq_score(c, letter, o, err);
}

// --- AI2D ----------------------------------------------------------------------------------------

// "B. ..." is "B"; before thinking is removed, in front of which no letter is found.
static char *extract_dot(const char *raw)
{
    const char *p = skip_spaces(raw);
    return *p >= 'A' && *p <= 'Z' && p[1] == '.' ? xstrndup(p, 1) : xstrdup(raw);
}

// The answer without ASCII punctuation, in any case.
static int score_bare(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    static const char marks[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    struct buf b = { 0 };
    for (const char *p = c->answer; *p; p++)
        if (!strchr(marks, *p)) buf_putc(&b, *p >= 'a' && *p <= 'z' ? (char)(*p & ~0x20) : *p);
    char *bare = buf_take(&b);
    const int letter = whole_letter(bare);
    free(bare);
    return mcq_score(c, letter, o, err);
}

// --- ScienceQA -----------------------------------------------------------------------------------

enum { LLAVA_LETTERS = 5 };

// The letter of the only "The answer is X" that one more character follows.
static int find_sentence(const char *text)
{
    static const char words[] = "The answer is ";
    int found = MCQ_NONE, n = 0;
    for (const char *p = text; (p = strstr(p, words));) {
        p += strlen(words);
        if (*p < 'A' || *p > 'Z' || !p[1] || p[1] == '\n') continue;
        if (n++ == 0) found = *p - 'A';
        p += 2;
    }
    return n == 1 ? found : MCQ_NONE;
}

static int score_scienceqa_llava(const struct metric_case *c, struct metric_outcome *o,
                                 struct err *err)
{
    const char *text = c->answer;
    int letter = whole_letter(text);
    if (letter >= LLAVA_LETTERS) letter = MCQ_NONE;
    const bool labelled =
        text[0] >= 'A' && text[0] < 'A' + LLAVA_LETTERS && text[1] == '.' && text[2] == ' ';
    if (letter == MCQ_NONE) letter = labelled ? text[0] - 'A' : find_sentence(text);
    const int count = c->choice_count ? (int)c->choice_count : LLAVA_LETTERS;
    if (letter >= count || letter >= LLAVA_LETTERS) letter = MCQ_NONE;
    return mcq_score(c, letter, o, err);
}

static int score_scienceqa_lmms_eval(const struct metric_case *c, struct metric_outcome *o,
                                     struct err *err)
{
    char *bare = python_strip(c->answer);
    const bool one = bare[0] && !bare[1];
    char *upper = xstrdup(bare);
    if (one && *upper >= 'a' && *upper <= 'z') *upper = (char)(*upper & ~0x20);
    int letter = whole_letter(upper);
    if (letter == MCQ_NONE && bare[0] >= 'A' && bare[0] <= 'Z' && bare[1] == '.')
        letter = bare[0] - 'A';
    free(upper);
    free(bare);
    return mcq_score(c, letter, o, err);
}

// --- the table -----------------------------------------------------------------------------------

const struct metric metric_mcq_vlmevalkit = {
    .name = "mcq-vlmevalkit",
    .help = "Multiple choice as VLMEvalKit scores it, without a judge.",
    .rule = "the only choice letter among the words, if at most four follow it; else the letter of "
            "\"answer is X\"; else the only choice whose text is in the answer, if that is not "
            "longer than twice all choices; otherwise wrong",
    .way = METRIC_ANSWERS,
    .suite = SUITE_VLMEVALKIT,
    .loses = true,
    .share = true,
    .score = score_vlmevalkit,
    .summary = mcq_summary,
};

const struct metric metric_mmmu_vlmevalkit = {
    .name = "mmmu-vlmevalkit",
    .help = "Multiple choice and open questions as VLMEvalKit scores MMMU, without a judge.",
    .rule = "as mcq-vlmevalkit; an open question has the choices \"the answer\" and \"Other "
            "Answers\", and so has one whose choice A its table reads as missing",
    .way = METRIC_ANSWERS,
    .suite = SUITE_VLMEVALKIT,
    .loses = true,
    .share = true,
    .score = score_mmmu_vlmevalkit,
    .summary = mcq_summary,
};

const struct metric metric_mcq_exact = {
    .name = "mcq-exact",
    .help = "Multiple choice as LLaVA scores SEED-Bench.",
    .rule = "the answer is the capital letter and nothing else",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LLAVA,
    .share = true,
    .score = score_letter,
    .summary = mcq_summary,
};

const struct metric metric_seed_lmms_eval = {
    .name = "seed-lmms-eval",
    .help = "Multiple choice as lmms-eval scores SEED-Bench.",
    .rule = "the first character of the answer is the letter, in any case",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .share = true,
    .score = score_first,
    .summary = mcq_summary,
};

const struct metric metric_ai2d_lmms_eval = {
    .name = "ai2d-lmms-eval",
    .help = "Multiple choice as lmms-eval scores AI2D.",
    .rule = "the answer begins with \"X.\", or is the letter once case and punctuation are dropped",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .share = true,
    .extract = extract_dot,
    .score = score_bare,
    .summary = mcq_summary,
};

const struct metric metric_scienceqa_llava = {
    .name = "scienceqa-llava",
    .help = "Multiple choice as LLaVA scores ScienceQA.",
    .rule = "the answer is the letter, begins with \"X. \", or has \"The answer is X\" once",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LLAVA,
    .share = true,
    .score = score_scienceqa_llava,
    .summary = mcq_summary,
};

const struct metric metric_scienceqa_lmms_eval = {
    .name = "scienceqa-lmms-eval",
    .help = "Multiple choice as lmms-eval scores ScienceQA.",
    .rule = "the answer is the letter, in any case, or begins with \"X.\"",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .share = true,
    .score = score_scienceqa_lmms_eval,
    .summary = mcq_summary,
};
