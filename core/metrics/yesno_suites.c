// core/metrics/yesno_suites.c -- yes/no questions as the suites score them: POPE's own script (that
// of LLaVA), lmms-eval and VLMEvalKit.
//
// They differ in what they take for a yes, and in what precision and recall are of answers that are
// neither. The sources: llava/eval/eval_pope.py of LLaVA; lmms_eval/tasks/pope/utils.py and
// mme/utils.py of lmms-eval; vlmeval/dataset/utils/yorn.py of VLMEvalKit.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/metrics/metric.h"
#include "core/metrics/python.h"
#include "core/metrics/vqa_text.h"

// The right answer, then what was said.
enum { YES_YES, YES_NO, YES_NEITHER, NO_YES, NO_NO, NO_NEITHER };
enum said { SAID_YES, SAID_NO, SAID_NEITHER };

// --- what was said -------------------------------------------------------------------------------

// The first sentence, without commas: no if "No", "no" or "not" is among its words, else yes.
static enum said read_pope(const char *answer)
{
    char *sentence = xstrndup(answer, strcspn(answer, "."));
    char *words = python_replace(sentence, ",", "");
    const bool no = python_has_word(words, "No") || python_has_word(words, "not") ||
                    python_has_word(words, "no");
    free(words);
    free(sentence);
    return no ? SAID_NO : SAID_YES;
}

static enum said of_word(const char *word)
{
    if (!strcmp(word, "yes")) return SAID_YES;
    return !strcmp(word, "no") ? SAID_NO : SAID_NEITHER;
}

// The whole answer, in lower case.
static enum said read_whole(const char *answer)
{
    char *lower = python_lower(answer), *word = python_strip(lower);
    const enum said said = of_word(word);
    free(word);
    free(lower);
    return said;
}

// MME: the whole answer without full stops, or the letter; else what its first four characters
// contain.
static enum said read_prefix(const char *answer)
{
    char *lower = python_lower(answer), *bare = python_strip(lower);
    char *word = python_replace(bare, ".", "");
    enum said said = of_word(word);
    if (said == SAID_NEITHER && python_length(word) == 1) {
        said = !strcmp(word, "y") ? SAID_YES : !strcmp(word, "n") ? SAID_NO : SAID_NEITHER;
    } else if (said == SAID_NEITHER) {
        char *head = python_head(word, 4);
        said = strstr(head, "yes") ? SAID_YES : strstr(head, "no") ? SAID_NO : SAID_NEITHER;
        free(head);
    }
    free(word);
    free(bare);
    free(lower);
    return said;
}

// One of the words yes and no, and not the other.
static enum said read_words(const char *answer)
{
    const struct vqa_text_rule rule = { .keep_after_digit = true };
    char *lower = python_lower(answer), *marks_out = vqa_text_punctuation(lower, rule);
    char *words = python_words(marks_out);
    const bool yes = python_has_word(words, "yes"), no = python_has_word(words, "no");
    free(words);
    free(marks_out);
    free(lower);
    return yes == no ? SAID_NEITHER : yes ? SAID_YES : SAID_NO;
}

// --- one answer ----------------------------------------------------------------------------------

static int score(const struct metric_case *c, enum said (*read)(const char *),
                 struct metric_outcome *o, struct err *err)
{
    static const char *const words[] = { "yes", "no", NULL };
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    const enum said right = read_whole(c->references[0]), said = read(c->answer);
    if (right == SAID_NEITHER) return err_set(err, "the reference is neither yes nor no");
    *o = (struct metric_outcome){ .score = said == right,
                                  .class = (int)said + (right == SAID_NO ? NO_YES : YES_YES) };
    if (words[said]) o->found = xstrdup(words[said]);
    return 0;
}

static int score_pope(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return score(c, read_pope, o, err);
}

static int score_whole(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return score(c, read_whole, o, err);
}

static int score_prefix(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return score(c, read_prefix, o, err);
}

static int score_words(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    return score(c, read_words, o, err);
}

// --- totals --------------------------------------------------------------------------------------

static double ratio(int64_t part, int64_t all)
{
    return all ? (double)part / (double)all : 0;
}

// `missed`: right answers yes that were not said. Undefined ratios are 0, as in the suites.
static int put_numbers(const struct metric_tally *t, int64_t missed, int64_t yes,
                       struct metric_number *to)
{
    const int64_t *k = t->classes;
    const double precision = ratio(k[YES_YES], k[YES_YES] + k[NO_YES]);
    const double recall = ratio(k[YES_YES], k[YES_YES] + missed), sum = precision + recall;
    to[0] = (struct metric_number){ "precision", precision };
    to[1] = (struct metric_number){ "recall", recall };
    to[2] = (struct metric_number){ "F1", sum > 0 ? 2 * precision * recall / sum : 0 };
    to[3] = (struct metric_number){ "share of yes", ratio(yes, t->scores.count) };
    to[4] = (struct metric_number){ "no yes/no", (double)(k[YES_NEITHER] + k[NO_NEITHER]) };
    return 5;
}

static int summary(const struct metric_tally *t, struct metric_number *to)
{
    const int64_t *k = t->classes;
    return put_numbers(t, k[YES_NO] + k[YES_NEITHER], k[YES_YES] + k[NO_YES], to);
}

// An answer that is neither counts neither as found nor as missed, and the share of yes is that of
// the right answers: both are slips of that program, kept so that its numbers come out.
static int summary_lmms_eval(const struct metric_tally *t, struct metric_number *to)
{
    const int64_t *k = t->classes;
    return put_numbers(t, k[YES_NO], k[YES_YES] + k[YES_NO] + k[YES_NEITHER], to);
}

const struct metric metric_pope_llava = {
    .name = "pope-llava",
    .help = "Yes/no questions as POPE's script and LLaVA score them.",
    .rule = "of the first sentence without commas: no if No, no or not is among its words, "
            "otherwise yes",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LLAVA,
    .share = true,
    .score = score_pope,
    .summary = summary,
};

const struct metric metric_pope_lmms_eval = {
    .name = "pope-lmms-eval",
    .help = "Yes/no questions as lmms-eval scores POPE.",
    .rule = "the whole answer is yes or no, in any case; others are wrong and do not count for "
            "recall; its share of yes is that of the right answers",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .share = true,
    .score = score_whole,
    .summary = summary_lmms_eval,
};

const struct metric metric_mme_lmms_eval = {
    .name = "mme-lmms-eval",
    .help = "Yes/no questions as MME's script and lmms-eval score MME.",
    .rule =
        "the answer without full stops is yes, no, y or n, otherwise the yes or no in its first "
        "four characters",
    .way = METRIC_ANSWERS,
    .suite = SUITE_LMMS_EVAL,
    .share = true,
    .score = score_prefix,
    .summary = summary,
};

const struct metric metric_yesno_vlmevalkit = {
    .name = "yesno-vlmevalkit",
    .help = "Yes/no questions as VLMEvalKit scores POPE and MME, without a judge.",
    .rule = "yes or no is among the words of the answer, and not both; others are wrong",
    .way = METRIC_ANSWERS,
    .suite = SUITE_VLMEVALKIT,
    .share = true,
    .score = score_words,
    .summary = summary,
};
