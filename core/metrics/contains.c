// core/metrics/contains.c -- does the answer say the reference somewhere?
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/metrics/metric.h"
#include "core/metrics/words.h"

static int score(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    char *answer = words_normal(c->answer);
    *o = (struct metric_outcome){ .class = -1 };
    for (size_t i = 0; i < c->reference_count && !o->found; i++) {
        char *reference = words_normal(c->references[i]);
        // A reference without any word ("?!") is looked for as it is.
        const bool there = *reference ? words_contain(answer, reference)
                                      : *c->references[i] && strstr(c->answer, c->references[i]);
        if (there) o->found = xstrdup(c->references[i]);
        free(reference);
    }
    o->score = o->found != NULL;
    free(answer);
    return 0;
}

const struct metric metric_contains = {
    .name = "contains",
    .help = "Share of answers that contain the reference (any of several).",
    .rule = "the words of the reference appear consecutively in the answer, both normalised as for "
            "exact; parts of words do not count",
    .way = METRIC_ANSWERS,
    .share = true,
    .score = score,
};
