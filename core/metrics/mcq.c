// core/metrics/mcq.c -- multiple choice as VLMEvalKit scores it, and as LLaVA and lmms-eval score
// SEED-Bench, AI2D and ScienceQA, and CV-Bench as its authors score it.
//
// Sources: vlmeval/utils/matching_util.py (can_infer) and dataset/utils/multiple_choice.py of
// VLMEvalKit, with exact matching (no judge); scripts/convert_seed_for_submission.py and
// llava/eval/eval_science_qa.py of LLaVA; tasks/seedbench, ai2d and scienceqa of lmms-eval;
// eval/eval/{ade,coco,omni} of Cambrian.
#include <string.h>
#include <strings.h>

#include "core/metrics/choices.h"
#include "core/metrics/python.h"

enum { OTHER = LETTERS - 1 }; // Z: none of the choices

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

// Returns the letter of the first match of (?i)answer\s+is\s+\**([ABCD]), as in "answer is **B".
static int find_verbose(const char *answer)
{
    for (const char *p = answer; (p = strcasestr(p, "answer")); p++) {
        const char *word = p + strlen("answer"), *is = python_skip_space(word);
        if (is == word || strncasecmp(is, "is", 2) != 0) continue;
        const char *after = is + 2, *q = python_skip_space(after);
        if (q == after) continue;
        q += strspn(q, "*");
        if (*q && strchr("ABCDabcd", *q)) return (*q & ~0x20) - 'A';
    }
    return NO_LETTER;
}

// True if the letter is among the words of the answer; *from_end: number of words from the first
// such word on.
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
    char *no_marks = scratch_dup(c->scratch, c->answer, strlen(c->answer));
    for (char *p = no_marks; *p; p++)
        if (strchr(".()[],:;!*#{}", *p)) *p = ' ';
    const char *words = python_words(c->scratch, no_marks);
    int count = 0, found = NO_LETTER;
    size_t from_end;
    for (int i = 0; i < LETTERS; i++) {
        if (!choices_has(c, i) || !has_letter(words, i, &from_end)) continue;
        if (count++ == 0 && from_end < 5) found = i;
    }
    if (count > 1) found = NO_LETTER;
    if (count == 0 && has_letter(words, OTHER, &from_end)) found = OTHER;
    if (found != NO_LETTER) return found;
    const int verbose = find_verbose(c->answer);
    return verbose != NO_LETTER && choices_has(c, verbose) ? verbose : NO_LETTER;
}

static int infer(const struct metric_case *c)
{
    int found = NO_LETTER;
    size_t length = 0;
    if (!strstr(c->answer, "Failed to obtain answer via API"))
        found = declines(c->answer) ? OTHER : find_option(c);
    if (found != NO_LETTER) return found;
    const char *lower = python_lower(c->scratch, c->answer);
    for (size_t i = 0; i < c->choice_count; i++) length += python_length(c->choices[i]);
    return python_length(lower) > 2 * length ? NO_LETTER : choices_only_text(c, lower, LETTERS);
}

// Reads the letter like VLMEvalKit, whose table drops the choices "None" and "NA". VLMEvalKit
// treats an MMMU question without choice A as open.
static int infer_table(const struct metric_case *c, bool mmmu)
{
    const char *right = scratch_printf(c->scratch, "%c", 'A' + (c->right >= 0 ? c->right : 0));
    const char **kept = scratch_keep(c->scratch, xcalloc(c->choice_count + 2, sizeof *kept));
    struct metric_case table = *c;
    for (size_t i = 0; i < c->choice_count; i++)
        kept[i] = python_is_missing(c->choices[i]) ? "" : c->choices[i];
    if (mmmu && c->choice_count && !*kept[0]) {
        kept[0] = c->reference_count ? c->references[0] : right;
        kept[1] = other_answers;
        if (table.choice_count < 2) table.choice_count = 2;
    }
    table.choices = kept;
    return infer(&table);
}

// Returns the only capital of the last line "Answer: X", else the rest of that line; without such a
// line, the whole answer.
static char *take_last_line(struct scratch *s, const char *answer)
{
    static const char mark[] = "Answer:";
    char *rest = python_strip(s, answer, NULL), *last = NULL;
    for (char *line; (line = strsep(&rest, "\n"));) {
        line = python_strip(s, line, NULL);
        if (!strncmp(line, mark, strlen(mark))) last = line + strlen(mark);
    }
    if (!last) return scratch_dup(s, answer, strlen(answer));
    char found = 0;
    for (const char *p = last; *p; p++) {
        if (*p < 'A' || *p > 'Z') continue;
        if (found && found != *p) return last;
        found = *p;
    }
    return found ? scratch_dup(s, &found, 1) : last;
}

// An open question (MMMU) becomes one with the choices "the answer" and "Other Answers".
static int score_table(const struct metric *m, const struct metric_case *given,
                       struct metric_outcome *o, struct err *err)
{
    struct metric_case whole = *given;
    const struct metric_case *c = &whole;
    if (m->clean) whole.answer = m->clean(given->scratch, given->answer);
    if (c->choice_count || !c->reference_count || choices_whole_letter(c->references[0]) >= 0)
        return choices_score_letter(c, infer_table(c, m != &metric_mcq_vlmevalkit), o, err);
    // Writes several right answers as a table cell, "['a', 'b']". VLMEvalKit searches for that
    // text, which no answer contains.
    struct buf cell = { 0 };
    for (size_t i = 0; c->reference_count > 1 && i < c->reference_count; i++)
        buf_printf(&cell, "%s'%s'", i ? ", " : "[", c->references[i]);
    if (c->reference_count == 1)
        buf_puts(&cell, c->references[0]);
    else
        buf_putc(&cell, ']');
    const char *const choices[] = { scratch_take(c->scratch, &cell), other_answers };
    struct metric_case closed = *c;
    closed.choices = choices;
    closed.choice_count = 2;
    closed.right = 0;
    return choices_score_letter(&closed, infer(&closed), o, err);
}

// --- SEED-Bench ----------------------------------------------------------------------------------

static int read_whole(const struct metric_case *c)
{
    return choices_whole_letter(c->answer);
}

static int read_first(const struct metric_case *c)
{
    const char *bare = python_strip(c->scratch, c->answer, NULL);
    return choices_letter_ignoring_case(python_head(c->scratch, bare, 1));
}

// --- AI2D ----------------------------------------------------------------------------------------

// Reads the answer as a letter, ignoring case and ASCII punctuation.
static int read_bare(const struct metric_case *c)
{
    return choices_letter_ignoring_case(python_drop_punctuation(c->scratch, c->answer));
}

// --- ScienceQA -----------------------------------------------------------------------------------

enum { LLAVA_LETTERS = 5 };

// Returns the letter of "The answer is X" if this, followed by another character of its line,
// occurs exactly once.
static int find_sentence(const char *text)
{
    static const char words[] = "The answer is ";
    int found = NO_LETTER, n = 0;
    for (const char *p = text; (p = strstr(p, words));) {
        p += strlen(words);
        if (*p < 'A' || *p > 'Z' || !p[1] || p[1] == '\n') continue;
        if (n++ == 0) found = *p - 'A';
        p += 2;
    }
    return n == 1 ? found : NO_LETTER;
}

static int read_scienceqa_llava(const struct metric_case *c)
{
    const char *text = c->answer;
    int letter = choices_whole_letter(text);
    if (letter >= LLAVA_LETTERS) letter = NO_LETTER;
    const bool labelled =
        text[0] >= 'A' && text[0] < 'A' + LLAVA_LETTERS && text[1] == '.' && text[2] == ' ';
    if (letter == NO_LETTER) letter = labelled ? text[0] - 'A' : find_sentence(text);
    const int count = c->choice_count ? (int)c->choice_count : LLAVA_LETTERS;
    return letter < count && letter < LLAVA_LETTERS ? letter : NO_LETTER;
}

static int read_scienceqa_lmms_eval(const struct metric_case *c)
{
    char *bare = python_strip(c->scratch, c->answer, NULL);
    if (bare[0] >= 'A' && bare[0] <= 'Z' && bare[1] == '.') return bare[0] - 'A';
    return choices_letter_ignoring_case(bare);
}

// --- CV-Bench ------------------------------------------------------------------------------------

// Cambrian's three programs read the first character after "answer is" or "answer:". The program
// for Omni3D also strips colons and commas, and accepts a choice of one character.
static int score_cvbench(const struct metric *m, const struct metric_case *c,
                         struct metric_outcome *o, struct err *err)
{
    static const char *const announce[] = { "answer is", "answer is:", "answer:" };
    struct scratch *s = c->scratch;
    const bool omni = c->kind && !strcmp(c->kind, "Omni3D");
    char *text = python_strip(s, python_lower(s, c->answer), NULL);
    for (size_t i = 0; i < sizeof announce / sizeof *announce; i++) {
        const size_t at = python_find_last(text, announce[i]);
        if (at != SIZE_MAX) text += at + strlen(announce[i]);
    }
    text = python_strip(s, text, NULL);
    size_t n = strlen(text);
    while (n && strchr(omni ? ".:," : ".", text[n - 1])) text[--n] = 0;
    text += strspn(text, "(");
    for (n = strlen(text); n && text[n - 1] == ')';) text[--n] = 0;
    const char *first = python_head(s, text, 1);
    const int right = choices_right(c, err);
    if (right < 0) return -1;
    *o = choices_outcome(c, choices_letter_ignoring_case(first), right);
    if (omni && !strcmp(first, c->choices[right])) o->score = 1;
    return 0;
}

// --- the table -----------------------------------------------------------------------------------

const struct metric metric_mcq_vlmevalkit = {
    .name = "mcq-vlmevalkit",
    .help = "Multiple choice as VLMEvalKit scores it, without a judge.",
    .rule = "the only choice letter among the words, if at most three words follow it; else the "
            "letter of \"answer is X\"; else the only choice whose text is in the answer, if the "
            "answer is at most twice as long as all choices together; otherwise wrong",
    .suite = SUITE_VLMEVALKIT,
    .loses = true,
    .score = score_table,
    .summary = choices_summary,
};

const struct metric metric_mmmu_vlmevalkit = {
    .name = "mmmu-vlmevalkit",
    .help = "Multiple choice and open questions as VLMEvalKit scores MMMU, without a judge.",
    .rule = "as mcq-vlmevalkit. An open question has two choices, the reference and \"Other "
            "Answers\"; so has a question whose choice A VLMEvalKit's table reads as missing (NA)",
    .suite = SUITE_VLMEVALKIT,
    .loses = true,
    .score = score_table,
    .summary = choices_summary,
};

const struct metric metric_mmmu_cot_vlmevalkit = {
    .name = "mmmu-cot-vlmevalkit",
    .help = "Multiple choice as VLMEvalKit scores MMMU-Pro with chain of thought, without a judge.",
    .rule = "the only capital letter in the last line \"Answer: ...\"; else as mmmu-vlmevalkit, "
            "applied to the text after that \"Answer:\", or to the whole answer",
    .suite = SUITE_VLMEVALKIT,
    .loses = true,
    .clean = take_last_line,
    .score = score_table,
    .summary = choices_summary,
};

const struct metric metric_mcq_exact = {
    .name = "mcq-exact",
    .help = "Multiple choice as LLaVA scores SEED-Bench.",
    .rule = "the answer is the capital letter and nothing else",
    .suite = SUITE_LLAVA,
    .letter = read_whole,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_seed_lmms_eval = {
    .name = "seed-lmms-eval",
    .help = "Multiple choice as lmms-eval scores SEED-Bench.",
    .rule = "the first character of the answer is the letter, ignoring case",
    .suite = SUITE_LMMS_EVAL,
    .letter = read_first,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_ai2d_lmms_eval = {
    .name = "ai2d-lmms-eval",
    .help = "Multiple choice as lmms-eval scores AI2D.",
    .rule = "the answer begins with \"X.\", or is the letter once case and punctuation are dropped",
    .suite = SUITE_LMMS_EVAL,
    .extract = choices_extract_dot,
    .letter = read_bare,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_scienceqa_llava = {
    .name = "scienceqa-llava",
    .help = "Multiple choice as LLaVA scores ScienceQA.",
    .rule = "the answer is the letter, begins with \"X. \", or contains \"The answer is X\", "
            "followed by another character, exactly once",
    .suite = SUITE_LLAVA,
    .letter = read_scienceqa_llava,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_scienceqa_lmms_eval = {
    .name = "scienceqa-lmms-eval",
    .help = "Multiple choice as lmms-eval scores ScienceQA.",
    .rule = "the answer is the letter, ignoring case, or begins with \"X.\"",
    .suite = SUITE_LMMS_EVAL,
    .letter = read_scienceqa_lmms_eval,
    .score = choices_score,
    .summary = choices_summary,
};

const struct metric metric_cvbench_official = {
    .name = "cvbench-official",
    .help = "Multiple choice as the authors' programs score CV-Bench.",
    .rule = "the first character of the answer, or of the text after its last \"answer is\" or "
            "\"answer:\", ignoring case and brackets",
    .suite = SUITE_OFFICIAL,
    .score = score_cvbench,
    .summary = choices_summary,
};
