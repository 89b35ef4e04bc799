// core/metrics/blind.c -- two sets on what models see: VLMs are blind (Rahmanzadehgervi et al.
// 2024) and VLMs are biased (Vo et al. 2025).
//
// Sources: tasks/vlmsareblind/utils.py and tasks/vlms_are_biased/utils.py of lmms-eval; VLMBlind in
// dataset/image_mcq.py of VLMEvalKit.
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/regex.h"
#include "core/base/text.h"
#include "core/metrics/metric.h"
#include "core/metrics/python.h"

// Returns the groups of the first match, with a comma between two; NULL: no match.
static const char *find(struct scratch *s, const char *pattern, const char *text)
{
    pcre2_code *re = regex_compile(pattern);
    pcre2_match_data *match = regex_match_data(re);
    const int n = pcre2_match(re, (PCRE2_SPTR)text, strlen(text), 0, 0, match, NULL);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(match);
    const char *found = n > 1 ? scratch_dup(s, text + at[2], at[3] - at[2]) : NULL;
    if (n > 2)
        found = scratch_printf(s, "%s,%s", found, scratch_dup(s, text + at[4], at[5] - at[4]));
    pcre2_match_data_free(match);
    pcre2_code_free(re);
    return found;
}

static const char *task_of(const struct metric_case *c)
{
    return python_lower(c->scratch, c->kind ? c->kind : "");
}

static bool is_grid(const char *task)
{
    return !strncmp(task, "counting grid", strlen("counting grid"));
}

// --- VLMs are blind ------------------------------------------------------------------------------

// Reads an answer in the form that its task asks for; NULL: the answer has another form.
static const char *read_strictly(struct scratch *s, const char *task, const char *answer)
{
    static const char *const grids[] = { "\\{(\\d+)\\}\\s*\\{(\\d+)\\}",
                                         "\\((\\d+)\\s*,\\s*(\\d+)\\)",
                                         "rows=\\{(\\d+)\\}\\scolumns=\\{(\\d+)\\}", NULL };
    static const char *const counts[] = { "line plot intersections",      "subway connections",
                                          "olympic counting - circles",   "nested squares",
                                          "olympic counting - pentagons", NULL };
    const char *found = NULL;
    if (!strcmp(task, "touching circles"))
        return !strcmp(answer, "yes") || !strcmp(answer, "no") ? answer : NULL;
    if (!strcmp(task, "circled letter")) return find(s, "([a-z])", answer);
    if (text_listed(counts, task)) return find(s, "(\\d+)", answer);
    for (size_t i = 0; is_grid(task) && grids[i] && !found; i++) found = find(s, grids[i], answer);
    return found;
}

static int score_lmms_eval(const struct metric *m, const struct metric_case *c,
                           struct metric_outcome *o, struct err *err)
{
    struct scratch *s = c->scratch;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    const char *answer = python_strip(s, python_lower(s, c->answer), NULL);
    const char *found = read_strictly(s, task_of(c), answer);
    const char *right = python_strip(s, python_lower(s, c->references[0]), NULL);
    *o = (struct metric_outcome){ .score = found && !strcmp(found, right),
                                  .class = found == NULL,
                                  .found = found };
    return 0;
}

static int count_unread(const struct metric_tally *t, struct metric_number *to)
{
    to[0] = (struct metric_number){ "unread", (double)t->classes[1] };
    return 1;
}

const struct metric metric_blind_lmms_eval = {
    .name = "blind-lmms-eval",
    .help = "Answers to VLMs are blind as lmms-eval scores them.",
    .rule = "reads the first number, the first letter, yes or no alone, or rows and columns in "
            "braces or brackets, as the task asks; other answers are unread and wrong",
    .suite = SUITE_LMMS_EVAL,
    .score = score_lmms_eval,
    .summary = count_unread,
};

// Returns whether the answer names the rows and columns of the reference "3,4".
static bool has_grid(struct scratch *s, const char *answer, const char *right)
{
    const char *rows = find(s, "[Rr]ows?[^{}]*\\{(\\d+)\\}", answer);
    const char *columns = find(s, "[Cc]olumns?[^{}]*\\{(\\d+)\\}", answer);
    const char *both = rows && columns ? scratch_printf(s, "%s,%s", rows, columns)
                                       : find(s, "\\((\\d+),\\s*(\\d+)\\)", answer);
    static const char numbers[] = "^\\s*0*(\\d+)\\s*,\\s*0*(\\d+)\\s*$";
    const char *said = both ? find(s, numbers, both) : NULL, *wanted = find(s, numbers, right);
    return said && wanted && !strcmp(said, wanted);
}

static int score_vlmevalkit(const struct metric *m, const struct metric_case *c,
                            struct metric_outcome *o, struct err *err)
{
    static const char *const braced[] = { "subway connections", "nested squares",
                                          "line plot intersections", "circled letter", NULL };
    struct scratch *s = c->scratch;
    const char *task = task_of(c), *answer = c->answer;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    const char *right = c->references[0], *inside = find(s, "\\{(.*?)\\}", answer);
    bool good = false;
    if (text_listed(braced, task))
        good = !strcmp(inside ? inside : "", right);
    else if (!strcmp(task, "touching circles"))
        good = strstr(python_lower(s, answer), python_lower(s, right)) != NULL;
    else if (is_grid(task))
        good = has_grid(s, answer, right);
    else if (!strncmp(task, "olympic counting", strlen("olympic counting")))
        good = strstr(answer, right) != NULL;
    *o = (struct metric_outcome){ .score = good, .class = -1, .found = answer };
    return 0;
}

const struct metric metric_blind_vlmevalkit = {
    .name = "blind-vlmevalkit",
    .help = "Answers to VLMs are blind as VLMEvalKit scores them.",
    .rule = "the first text in braces equals the reference; for circles that touch and rings, the "
            "answer contains it; for grids, the numbers in braces after \"rows\" and \"columns\", "
            "or in round brackets",
    .suite = SUITE_VLMEVALKIT,
    .score = score_vlmevalkit,
};

// --- VLMs are biased -----------------------------------------------------------------------------

enum { RIGHT = 1, BIASED = 2 }; // bits of an outcome's class

// Removes case, braces and the white space around them.
static char *bare(struct scratch *s, const char *text)
{
    const char *lower = python_lower(s, python_strip(s, text, NULL));
    return python_strip(s, python_strip(s, lower, "{}"), NULL);
}

// Returns all digits of a text as one word.
static const char *digits_of(struct scratch *s, const char *text)
{
    struct buf digits = { 0 };
    size_t length;
    for (; *text; text += length)
        if (python_is_digit(python_char(text, &length))) buf_add(&digits, text, length);
    return scratch_take(s, &digits);
}

// The references are the right answer and, if the file has it, the one that prior knowledge
// suggests.
static int score_biased(const struct metric *m, const struct metric_case *c,
                        struct metric_outcome *o, struct err *err)
{
    struct scratch *s = c->scratch;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    const char *said = bare(s, c->answer), *digits = digits_of(s, said);
    int class = 0;
    for (size_t i = 0; i < c->reference_count && i < 2; i++)
        if (!strcmp(said, bare(s, c->references[i]))) class |= RIGHT << i;
    // Only an answer that equals neither text is compared by its digits.
    for (size_t i = 0, none = !class; none && *digits && i < c->reference_count && i < 2; i++)
        if (!strcmp(digits, digits_of(s, bare(s, c->references[i])))) class |= RIGHT << i;
    *o = (struct metric_outcome){ .score = class & RIGHT, .class = class, .found = said };
    return 0;
}

static int share_biased(const struct metric_tally *t, struct metric_number *to)
{
    const double count = t->scores.count ? (double)t->scores.count : NAN;
    to[0] =
        (struct metric_number){ "bias ratio",
                                (double)(t->classes[BIASED] + t->classes[RIGHT | BIASED]) / count };
    return 1;
}

const struct metric metric_biased_lmms_eval = {
    .name = "biased-lmms-eval",
    .help = "Answers to VLMs are biased as lmms-eval scores them.",
    .rule = "the answer equals the reference, ignoring case and braces, or all its digits, as one "
            "number, equal those of the reference; the bias ratio is the share of answers that "
            "equal the expected wrong one",
    .suite = SUITE_LMMS_EVAL,
    .score = score_biased,
    .summary = share_biased,
};
