// core/metrics/exact.c -- is the answer the reference?
//
// The normalisation is that of the VQA evaluation (Antol et al. 2015), which lmms-eval and others
// use for short answers; number words reach to ten, contractions only lose their apostrophe.
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/metrics/metric.h"
#include "core/metrics/words.h"

static bool same(const char *answer, const char *words, const char *reference)
{
    char *other = words_normal(reference);
    // Texts without any word ("?!") are compared as they are.
    const bool equal = *words || *other ? !strcmp(words, other) : !strcmp(answer, reference);
    free(other);
    return equal;
}

static int score(const struct metric_case *c, struct metric_outcome *o, struct err *err)
{
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    *o = (struct metric_outcome){ .class = -1, .found = words_normal(c->answer) };
    for (size_t i = 0; i < c->reference_count && o->score == 0; i++)
        o->score = same(c->answer, o->found, c->references[i]);
    return 0;
}

const struct metric metric_exact = {
    .name = "exact",
    .help = "Share of answers that equal the reference (any of several).",
    .rule = "the whole answer equals the reference after VQA normalisation (case, punctuation and "
            "articles do not count, number words up to ten are digits)",
    .way = METRIC_ANSWERS,
    .share = true,
    .score = score,
};
