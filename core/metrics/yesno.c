// core/metrics/yesno.c -- questions of yes and no (POPE, Li et al. 2023): accuracy, precision,
// recall and F1 of "yes", share of yes.
//
// POPE's own script reads an answer without "no" or "not" in its first sentence as yes. Here it is
// neither: wrong, not counted as yes, and told.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/metrics/metric.h"
#include "core/metrics/words.h"

enum { TRUE_YES, FALSE_YES, TRUE_NO, FALSE_NO, NONE_FOR_YES, NONE_FOR_NO };

// 1 yes, 0 no, -1 neither.
static int read_verdict(const char *text)
{
    char *words = words_split(text), *rest = words;
    int verdict = -1;
    for (char *word; verdict < 0 && (word = strsep(&rest, " "));)
        verdict = !strcmp(word, "yes") ? 1 : !strcmp(word, "no") ? 0 : -1;
    free(words);
    return verdict;
}

static int score(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    static const int classes[2][3] = { { NONE_FOR_NO, TRUE_NO, FALSE_YES },
                                       { NONE_FOR_YES, FALSE_NO, TRUE_YES } };
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    const int truth = read_verdict(c->references[0]), said = read_verdict(c->answer);
    if (truth < 0) return err_set(err, "the reference is neither yes nor no");
    *o = (struct metric_outcome){ .score = said == truth, .class = classes[truth][said + 1] };
    if (said >= 0) o->found = xstrdup(said ? "yes" : "no");
    return 0;
}

static double ratio(int64_t part, int64_t all)
{
    return all ? (double)part / (double)all : NAN;
}

static int summary(const struct metric_tally *t, struct metric_number *to)
{
    const int64_t *k = t->classes;
    const int64_t said_yes = k[TRUE_YES] + k[FALSE_YES];
    const int64_t is_yes = k[TRUE_YES] + k[FALSE_NO] + k[NONE_FOR_YES];
    to[0] = (struct metric_number){ "precision", ratio(k[TRUE_YES], said_yes) };
    to[1] = (struct metric_number){ "recall", ratio(k[TRUE_YES], is_yes) };
    to[2] = (struct metric_number){ "F1", ratio(2 * k[TRUE_YES], said_yes + is_yes) };
    to[3] = (struct metric_number){ "share of yes", ratio(said_yes, t->scores.count) };
    to[4] = (struct metric_number){ "no yes/no", (double)(k[NONE_FOR_YES] + k[NONE_FOR_NO]) };
    return 5;
}

const struct metric metric_yesno = {
    .name = "yesno",
    .help = "Share of right answers to yes/no questions, with precision, recall and F1 of yes.",
    .rule = "the first yes or no in the answer, in any case; an answer with neither is wrong and "
            "counts as not yes",
    .way = METRIC_ANSWERS,
    .share = true,
    .score = score,
    .summary = summary,
};
