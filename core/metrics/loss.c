// core/metrics/loss.c -- how likely the model finds the data's own answers.
#include "core/metrics/metric.h"

static int score(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    *o = (struct metric_outcome){ .score = c->loss, .class = -1 };
    return 0;
}

const struct metric metric_loss = {
    .name = "loss",
    .help = "Loss of the reference answers; lower is better.",
    .rule = "generates nothing; mean of -log p over the trained tokens of a sample (natural "
            "logarithm, including the end of each answer), then over samples",
    .way = METRIC_LOSS,
    .smaller = true,
    .score = score,
};
