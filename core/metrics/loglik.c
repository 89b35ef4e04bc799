// core/metrics/loglik.c -- which of the given choices does the model find likeliest?
//
// acc_norm divides by the length of the choice, as it is done for HellaSwag (Zellers et al. 2019)
// by lm-evaluation-harness: long endings lose otherwise for their length alone. For letters (MMLU,
// Hendrycks et al. 2021) all lengths are one, and both numbers are the same.
#include <math.h>

#include "core/base/mem.h"
#include "core/metrics/choices.h"

enum { PLAIN_WRONG, PLAIN_RIGHT };

// The first of the largest.
static int best(const struct metric_case *c, bool by_length)
{
    double most = -INFINITY;
    int found = 0;
    for (size_t i = 0; i < c->choice_count; i++) {
        const double length = by_length && c->lengths[i] > 0 ? (double)c->lengths[i] : 1;
        if (c->loglik[i] / length <= most) continue;
        most = c->loglik[i] / length;
        found = (int)i;
    }
    return found;
}

static int score(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    const int right = choices_right(c, err);
    if (right < 0) return -1;
    const int plain = best(c, false), normed = best(c, true);
    *o = (struct metric_outcome){ .score = normed == right,
                                  .class = plain == right ? PLAIN_RIGHT : PLAIN_WRONG,
                                  .found = xstrdup(c->choices[normed]) };
    return 0;
}

static int summary(const struct metric_tally *t, struct metric_number *to)
{
    const struct metric_tally plain = { .scores.count = t->scores.count,
                                        .scores.mean = t->scores.count
                                                           ? (double)t->classes[PLAIN_RIGHT] /
                                                                 (double)t->scores.count
                                                           : NAN };
    const struct metric share = { .share = true };
    double low, high;
    metric_interval(&share, &plain, &low, &high);
    to[0] = (struct metric_number){ "acc_norm", t->scores.mean };
    to[1] = (struct metric_number){ "acc", plain.scores.mean };
    to[2] = (struct metric_number){ "acc low", low };
    to[3] = (struct metric_number){ "acc high", high };
    return 4;
}

const struct metric metric_loglik = {
    .name = "loglik",
    .help = "Share of samples whose right choice is the most likely answer (MMLU, HellaSwag).",
    .rule = "generates nothing; ranks the choices by log-likelihood per character (acc_norm, the "
            "score) and in total (acc); the end-of-sequence token does not count",
    .way = METRIC_RANKS,
    .share = true,
    .score = score,
    .summary = summary,
};
