// core/metrics/loglik.c -- scores the likelihood of a question's choices, or of the reference
// answers.
//
// acc_norm divides log-likelihoods by the length of the choice, as lm-evaluation-harness does for
// HellaSwag (Zellers et al. 2019): otherwise long endings would lose by length alone. For letters
// (MMLU, Hendrycks et al. 2021), which all have length one, acc_norm and acc are equal.
#include <math.h>

#include "core/metrics/choices.h"

enum { PLAIN_WRONG, PLAIN_RIGHT };

// Returns the most likely choice, the first on ties.
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

static int score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err)
{
    const int right = choices_right(c, err);
    if (right < 0) return -1;
    const int plain = best(c, false), normed = best(c, true);
    *o = (struct metric_outcome){ .score = normed == right,
                                  .class = plain == right ? PLAIN_RIGHT : PLAIN_WRONG,
                                  .found = c->choices[normed] };
    return 0;
}

static int summary(const struct metric_tally *t, struct metric_number *to)
{
    const struct tally *all = &t->scores;
    const struct metric_tally plain = {
        .scores = { .count = all->count,
                    .mean =
                        all->count ? (double)t->classes[PLAIN_RIGHT] / (double)all->count : NAN }
    };
    double low, high;
    metric_interval(&metric_loglik, &plain, &low, &high);
    to[0] = (struct metric_number){ "acc_norm", all->mean };
    to[1] = (struct metric_number){ "acc", plain.scores.mean };
    to[2] = (struct metric_number){ "acc low", low };
    to[3] = (struct metric_number){ "acc high", high };
    return 4;
}

static int score_loss(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                      struct err *err)
{
    *o = (struct metric_outcome){ .score = c->loss, .class = -1 };
    return 0;
}

const struct metric metric_loglik = {
    .name = "loglik",
    .help = "Share of samples whose right choice is the most likely answer (MMLU, HellaSwag).",
    .rule = "generates nothing; ranks the choices by log-likelihood per character (acc_norm, the "
            "score) and in total (acc); the end-of-sequence token does not count",
    .way = METRIC_RANKS,
    .score = score,
    .summary = summary,
};

const struct metric metric_loss = {
    .name = "loss",
    .help = "Loss of the reference answers; lower is better.",
    .rule = "generates nothing; mean of -log p over the trained tokens of a sample (natural "
            "logarithm, including the end of each answer), then over samples",
    .way = METRIC_LOSS,
    .graded = true,
    .smaller = true,
    .score = score_loss,
};
