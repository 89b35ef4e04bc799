// core/metrics/cider.c -- CIDEr-D of a caption against reference captions (Vedantam, Zitnick,
// Parikh 2015).
//
// For n = 1..4, c (caption) and r (reference) are vectors over n-grams w, with the elements
// count(w) * log(samples / samples whose references contain w):
//   sim_n = sum_w min(c_w, r_w) r_w / (|c| |r|) * exp(-(words of c - words of r)^2 / (2 * 6^2))
// The score is 10 times the mean over the references and n. As in the authors' program, counts are
// not divided by the text's length; the paper divides them, which matters only because of the min.
// Words are those of core/metrics/ptb.h, or separated by white space (VLMEvalKit); they are not
// stemmed. An n-gram that no reference contains counts as if one sample had it. The corpus is the
// references of all samples of the request.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/names.h"
#include "core/metrics/metric.h"
#include "core/metrics/ptb.h"
#include "core/metrics/python.h"

enum { GRAMS = 4 };

static const double sigma = 6;

// Distinct n-grams, each with a count.
struct counts {
    struct names names;
    double *count; // [names.capacity]
};

static void counts_release(struct counts *c)
{
    names_release(&c->names);
    free(c->count);
}

static void counts_add(struct counts *c, const char *gram)
{
    const size_t capacity = c->names.capacity;
    bool known;
    const size_t i = names_add(&c->names, gram, &known);
    if (c->names.capacity != capacity)
        c->count = xreallocarray(c->count, c->names.capacity, sizeof *c->count);
    c->count[i] = known ? c->count[i] + 1 : 1;
}

// Counts the n-grams of `words`, which single spaces separate; returns the number of words.
static int64_t count_grams(struct counts *c, const char *words, int n)
{
    int64_t seen = 0;
    const char *starts[GRAMS] = { NULL }; // of the last n words
    for (const char *p = words; *p;) {
        const char *end = strchrnul(p, ' ');
        memmove(starts, starts + 1, (size_t)(n - 1) * sizeof *starts);
        starts[n - 1] = p;
        if (++seen >= n) {
            char *gram = xstrndup(starts[0], (size_t)(end - starts[0]));
            counts_add(c, gram);
            free(gram);
        }
        p = *end ? end + 1 : end;
    }
    return seen;
}

// --- the corpus ----------------------------------------------------------------------------------

struct corpus {
    struct counts have; // for each n-gram, the number of samples whose references contain it
    int64_t samples;
};

static void *corpus_new(void)
{
    return xcalloc(1, sizeof(struct corpus));
}

static void corpus_free(void *self)
{
    struct corpus *c = self;
    if (c) counts_release(&c->have);
    free(c);
}

static void corpus_add(const struct metric *m, void *self, const char *const *references,
                       size_t count)
{
    struct corpus *c = self;
    struct counts sample = { 0 };
    struct scratch scratch = { 0 };
    for (size_t i = 0; i < count; i++) {
        const char *words = m->clean(&scratch, references[i]);
        for (int n = 1; n <= GRAMS; n++) count_grams(&sample, words, n);
    }
    for (size_t i = 0; i < sample.names.count; i++) counts_add(&c->have, sample.names.list[i]);
    counts_release(&sample);
    scratch_release(&scratch);
    c->samples++;
}

static double rarity(const struct corpus *c, const char *gram)
{
    size_t i;
    const double have = names_find(&c->have.names, gram, &i) ? c->have.count[i] : 1;
    return log((double)(c->samples > 0 ? c->samples : 1)) - log(have);
}

// --- one caption ---------------------------------------------------------------------------------

// Multiplies each count by the rarity of its n-gram; returns the norm of the resulting vector.
static double weigh(struct counts *c, const struct corpus *corpus)
{
    double sum = 0;
    for (size_t i = 0; i < c->names.count; i++) {
        c->count[i] *= rarity(corpus, c->names.list[i]);
        sum += c->count[i] * c->count[i];
    }
    return sqrt(sum);
}

static double similarity(const char *caption, const char *reference, int n,
                         const struct corpus *corpus)
{
    struct counts a = { 0 }, b = { 0 };
    const double apart = (double)(count_grams(&a, caption, n) - count_grams(&b, reference, n));
    const double lengths = weigh(&a, corpus) * weigh(&b, corpus);
    double sum = 0;
    for (size_t i = 0, k; a.count && b.count && i < a.names.count; i++)
        if (names_find(&b.names, a.names.list[i], &k))
            sum += fmin(a.count[i], b.count[k]) * b.count[k];
    counts_release(&a);
    counts_release(&b);
    if (lengths > 0) sum /= lengths;
    return sum * exp(-apart * apart / (2 * sigma * sigma));
}

static int score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err)
{
    if (!c->reference_count) return err_set(err, "the sample has no caption to compare with");
    const char *caption = m->clean(c->scratch, c->answer);
    double sum = 0;
    for (size_t i = 0; i < c->reference_count; i++) {
        const char *reference = m->clean(c->scratch, c->references[i]);
        for (int n = 1; n <= GRAMS; n++) sum += similarity(caption, reference, n, c->corpus);
    }
    *o = (struct metric_outcome){ .score = 10 * sum / GRAMS / (double)c->reference_count,
                                  .class = -1,
                                  .found = caption };
    return 0;
}

const struct metric metric_cider = {
    .name = "cider",
    .help = "CIDEr-D of captions against the references, 0 to 10.",
    .rule = "tf-idf of the answer's 1- to 4-grams against every reference (sigma 6; words as "
            "Stanford's PTBTokenizer splits them, in lower case, without punctuation or "
            "stemming); idf counts the references of all samples",
    .graded = true,
    .beyond = true,
    .clean = ptb_words,
    .corpus_new = corpus_new,
    .corpus_add = corpus_add,
    .corpus_free = corpus_free,
    .score = score,
};

const struct metric metric_cider_vlmevalkit = {
    .name = "cider-vlmevalkit",
    .help =
        "CIDEr-D of captions as VLMEvalKit scores COCO, 0 to 10 (VLMEvalKit multiplies it by 100).",
    .rule = "as cider, but splits words at white space: case and punctuation count",
    .suite = SUITE_VLMEVALKIT,
    .graded = true,
    .beyond = true,
    .clean = python_words,
    .corpus_new = corpus_new,
    .corpus_add = corpus_add,
    .corpus_free = corpus_free,
    .score = score,
};
