// core/metrics/exact.c -- checks whether the answer equals or contains a reference.
//
// The normalisation follows that of the VQA evaluation (Antol et al. 2015), which lmms-eval and
// others use for short answers: it converts number words up to ten and drops articles. Contractions
// only lose their apostrophe.
#include <string.h>

#include "core/base/scratch.h"
#include "core/metrics/metric.h"
#include "core/metrics/words.h"

static int score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err)
{
    const bool whole = m == &metric_exact;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    const char *words = words_normal(c->scratch, c->answer);
    *o = (struct metric_outcome){ .class = -1, .found = whole ? words : NULL };
    for (size_t i = 0; i < c->reference_count && o->score == 0; i++) {
        const char *reference = c->references[i], *other = words_normal(c->scratch, reference);
        // Texts without any word ("?!") are compared as they are.
        if (whole)
            o->score = *words || *other ? !strcmp(words, other) : !strcmp(c->answer, reference);
        else
            o->score =
                *other ? words_contain(words, other) : *reference && strstr(c->answer, reference);
        if (!whole && o->score > 0) o->found = reference;
    }
    return 0;
}

const struct metric metric_exact = {
    .name = "exact",
    .help = "Share of answers that equal the reference (any of several).",
    .rule = "the whole answer equals the reference after VQA normalisation (case, punctuation "
            "and articles do not count; number words up to ten become digits)",
    .score = score,
};

const struct metric metric_contains = {
    .name = "contains",
    .help = "Share of answers that contain the reference (any of several).",
    .rule = "the words of the reference appear consecutively in the answer, both normalised as for "
            "exact; parts of words do not count",
    .score = score,
};
