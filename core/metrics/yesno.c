// core/metrics/yesno.c -- yes/no questions (POPE, Li et al. 2023): accuracy, precision, recall and
// F1 of "yes", share of yes. Each metric uses one rule: our own, or that of POPE's script (as in
// LLaVA), MME's script, lmms-eval or VLMEvalKit.
//
// The rules differ in which answers mean yes, and in how precision and recall count answers that
// are neither yes nor no. POPE's script reads an answer without "no" or "not" in its first sentence
// as yes; our own rule reads it as neither: wrong, not counted as yes, and reported. The sources:
// llava/eval/eval_pope.py of LLaVA; lmms_eval/tasks/pope/utils.py and mme/utils.py of lmms-eval;
// vlmeval/dataset/utils/yorn.py of VLMEvalKit.
#include <math.h>
#include <string.h>

#include "core/metrics/metric.h"
#include "core/metrics/python.h"
#include "core/metrics/vqa.h"
#include "core/metrics/words.h"

enum verdict { YES, NO, NEITHER };

// Classes of outcomes. In the first enum, a name gives the right answer, then the model's. Our own
// rule uses the second enum. Classes are saved with each answer, so neither enum may change.
enum { YES_YES, YES_NO, YES_NEITHER, NO_YES, NO_NO, NO_NEITHER };
enum { TRUE_YES, FALSE_YES, TRUE_NO, FALSE_NO, NONE_FOR_YES, NONE_FOR_NO };

// --- reading an answer ---------------------------------------------------------------------------

static int of_word(const char *word, const char *yes, const char *no)
{
    if (!strcmp(word, yes)) return YES;
    return !strcmp(word, no) ? NO : NEITHER;
}

// Reads the first yes or no among the words.
static int read_first(struct scratch *s, const char *answer)
{
    char *rest = words_split(s, answer);
    int verdict = NEITHER;
    for (char *word; verdict == NEITHER && (word = strsep(&rest, " "));)
        verdict = of_word(word, "yes", "no");
    return verdict;
}

// Reads the first sentence, without commas: no if "No", "no" or "not" is among its words, else yes.
static int read_pope(struct scratch *s, const char *answer)
{
    const char *sentence = scratch_dup(s, answer, strcspn(answer, "."));
    const char *words = python_replace(s, sentence, ",", "");
    const bool no = python_has_word(words, "No") || python_has_word(words, "not") ||
                    python_has_word(words, "no");
    return no ? NO : YES;
}

// Reads the whole answer, ignoring case.
static int read_whole(struct scratch *s, const char *answer)
{
    return of_word(python_strip(s, python_lower(s, answer), NULL), "yes", "no");
}

// MME's rule, after full stops are removed: the whole answer if it is yes or no; an answer of one
// character if that is y or n; otherwise yes or no within the first four characters.
static int read_prefix(struct scratch *s, const char *answer)
{
    const char *bare = python_strip(s, python_lower(s, answer), NULL);
    const char *word = python_replace(s, bare, ".", ""), *head = python_head(s, word, 4);
    const int verdict = of_word(word, "yes", "no");
    if (verdict != NEITHER) return verdict;
    if (python_length(word) == 1) return of_word(word, "y", "n");
    if (strstr(head, "yes")) return YES;
    return strstr(head, "no") ? NO : NEITHER;
}

// Reads yes or no if the answer contains exactly one of the words.
static int read_words(struct scratch *s, const char *answer)
{
    const struct vqa_punctuation rule = { .keep_after_digit = true };
    const char *words = python_words(s, vqa_drop_punctuation(s, python_lower(s, answer), rule));
    const bool yes = python_has_word(words, "yes"), no = python_has_word(words, "no");
    if (yes == no) return NEITHER;
    return yes ? YES : NO;
}

static int score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err)
{
    static const char *const words[] = { "yes", "no", NULL };
    static const int classes[][3] = { { YES_YES, YES_NO, YES_NEITHER },
                                      { NO_YES, NO_NO, NO_NEITHER } };
    static const int own_classes[][3] = { { TRUE_YES, FALSE_NO, NONE_FOR_YES },
                                          { FALSE_YES, TRUE_NO, NONE_FOR_NO } };
    const bool own = m == &metric_yesno;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    const int right = (own ? read_first : read_whole)(c->scratch, c->references[0]);
    const int said = m->verdict(c->scratch, c->answer);
    if (right == NEITHER) return err_set(err, "the reference is neither yes nor no");
    *o = (struct metric_outcome){ .score = said == right,
                                  .class = (own ? own_classes : classes)[right][said],
                                  .found = words[said] };
    return 0;
}

// --- totals --------------------------------------------------------------------------------------

static double ratio(int64_t part, int64_t all, double undefined)
{
    return all ? (double)part / (double)all : undefined;
}

static int put_numbers(double precision, double recall, double f1, double share, int64_t neither,
                       struct metric_number *to)
{
    to[0] = (struct metric_number){ "precision", precision };
    to[1] = (struct metric_number){ "recall", recall };
    to[2] = (struct metric_number){ "F1", f1 };
    to[3] = (struct metric_number){ "share of yes", share };
    to[4] = (struct metric_number){ "no yes/no", (double)neither };
    return 5;
}

static int summary_own(const struct metric_tally *t, struct metric_number *to)
{
    const int64_t *k = t->classes, said_yes = k[TRUE_YES] + k[FALSE_YES];
    const int64_t is_yes = k[TRUE_YES] + k[FALSE_NO] + k[NONE_FOR_YES];
    return put_numbers(ratio(k[TRUE_YES], said_yes, NAN), ratio(k[TRUE_YES], is_yes, NAN),
                       ratio(2 * k[TRUE_YES], said_yes + is_yes, NAN),
                       ratio(said_yes, t->scores.count, NAN), k[NONE_FOR_YES] + k[NONE_FOR_NO], to);
}

// `missed`: questions whose right answer is yes and that recall counts as missed. `yes`: numerator
// of the share of yes. Undefined ratios are 0, as in the suites.
static int put_suite(const struct metric_tally *t, int64_t missed, int64_t yes,
                     struct metric_number *to)
{
    const int64_t *k = t->classes;
    const double precision = ratio(k[YES_YES], k[YES_YES] + k[NO_YES], 0);
    const double recall = ratio(k[YES_YES], k[YES_YES] + missed, 0), sum = precision + recall;
    const double f1 = sum > 0 ? 2 * precision * recall / sum : 0;
    return put_numbers(precision, recall, f1, ratio(yes, t->scores.count, 0),
                       k[YES_NEITHER] + k[NO_NEITHER], to);
}

static int summary(const struct metric_tally *t, struct metric_number *to)
{
    const int64_t *k = t->classes;
    return put_suite(t, k[YES_NO] + k[YES_NEITHER], k[YES_YES] + k[NO_YES], to);
}

// For recall, lmms-eval ignores answers that are neither yes nor no; as the share of yes, it
// reports that of the references instead of that of the answers. Both are bugs, reproduced to match
// its numbers.
static int summary_lmms_eval(const struct metric_tally *t, struct metric_number *to)
{
    const int64_t *k = t->classes;
    return put_suite(t, k[YES_NO], k[YES_YES] + k[YES_NO] + k[YES_NEITHER], to);
}

const struct metric metric_yesno = {
    .name = "yesno",
    .help = "Share of right answers to yes/no questions, with precision, recall and F1 of yes.",
    .rule = "the first yes or no in the answer, ignoring case; an answer without either is wrong "
            "and does not count as yes",
    .verdict = read_first,
    .score = score,
    .summary = summary_own,
};

const struct metric metric_pope_llava = {
    .name = "pope-llava",
    .help = "Yes/no questions as POPE's script and LLaVA score them.",
    .rule =
        "no if the first sentence, without commas, contains the word No, no or not; otherwise yes",
    .suite = SUITE_LLAVA,
    .verdict = read_pope,
    .score = score,
    .summary = summary,
};

const struct metric metric_pope_lmms_eval = {
    .name = "pope-lmms-eval",
    .help = "Yes/no questions as lmms-eval scores POPE.",
    .rule = "the whole answer is yes or no, ignoring case; other answers are wrong and do not "
            "count for recall. The share of yes is counted over the references",
    .suite = SUITE_LMMS_EVAL,
    .verdict = read_whole,
    .score = score,
    .summary = summary_lmms_eval,
};

const struct metric metric_mme_lmms_eval = {
    .name = "mme-lmms-eval",
    .help = "Yes/no questions as MME's script and lmms-eval score MME.",
    .rule =
        "the whole answer without full stops if it is yes, no, y or n; else the yes or no in its "
        "first four characters",
    .suite = SUITE_LMMS_EVAL,
    .verdict = read_prefix,
    .score = score,
    .summary = summary,
};

const struct metric metric_yesno_vlmevalkit = {
    .name = "yesno-vlmevalkit",
    .help = "Yes/no questions as VLMEvalKit scores POPE and MME, without a judge.",
    .rule = "the answer contains the word yes or the word no, but not both; other answers are "
            "wrong",
    .suite = SUITE_VLMEVALKIT,
    .verdict = read_words,
    .score = score,
    .summary = summary,
};
