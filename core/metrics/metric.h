// core/metrics/metric.h -- scores answers: one constant struct per metric.
//
//   const struct metric *m = metric_find("yesno");
//   struct metric_outcome o;
//   if (m->score(m, &sample, &o, &err) < 0) ...     // this sample cannot be scored; err says why
//   metric_tally_add(&tally, &o);
//   metric_interval(m, &tally, &low, &high);        // 95%
//
// To add a metric NAME: core/metrics/NAME.c with `const struct metric metric_NAME`, X(ID, NAME) in
// list.h, hand-computed cases in tests/core/metrics/metrics.c. Commands, help and jobs read the
// table.
//
// Room core/metrics/: scoring of answers. Uses base and template.
#ifndef CORE_METRICS_METRIC_H
#define CORE_METRICS_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/tally.h"

struct scratch;

// What the metric needs from the model.
enum metric_way {
    METRIC_ANSWERS, // a generated answer to every question
    METRIC_RANKS,   // the log-likelihood of each choice
    METRIC_LOSS,    // the loss of the reference answers
};

// Owner of a rule: suites prepare an answer differently before their rules read it
// (core/metrics/suite.h).
// SUITE_OFFICIAL: the program of a benchmark's or a model's authors.
enum suite { SUITE_OWN, SUITE_OFFICIAL, SUITE_LLAVA, SUITE_LMMS_EVAL, SUITE_VLMEVALKIT };

// One question with its references. All borrowed.
struct metric_case {
    const char *question;
    const char *kind;   // of the sample; NULL or "": none
    const char *answer; // generated; METRIC_ANSWERS
    const char *const *references;
    size_t reference_count;
    const char *const *choices;
    size_t choice_count;
    int right;               // the right choice by number, or -1
    const double *loglik;    // [choice_count] METRIC_RANKS
    const int64_t *lengths;  // [choice_count] characters in each ranked choice
    double loss;             // METRIC_LOSS
    const void *corpus;      // made by corpus_new
    struct scratch *scratch; // holds the texts that the rule makes, including the outcome's
};

enum { METRIC_CLASSES = 14, METRIC_NUMBERS = 8 };

struct metric_outcome {
    double score;
    int class;         // the metric's own class (true positive, ...), or -1
    double overlap;    // of boxes: intersection over union; 0 for other metrics
    const char *found; // the extracted answer, owned by the case or its scratch; NULL: none
};

// Sums over scored answers; zero-initialised is empty.
struct metric_tally {
    struct tally scores;
    int64_t classes[METRIC_CLASSES];
    double overlap; // sum
};

struct metric_number {
    const char *name;
    double value; // NaN: undefined (no positives for a precision)
};

struct metric {
    const char *name, *help;
    const char *rule;    // how the answer is extracted and compared, one sentence
    enum metric_way way; // default: METRIC_ANSWERS
    enum suite suite;    // default: SUITE_OWN
    bool loses;   // the suite reads choices from a table, in which the texts None and NA count as
                  // missing
    bool graded;  // scores other than 0 and 1 occur: the total is a mean, not a share with a Wilson
                  // interval
    bool beyond;  // scores above 1 occur: papers print 100 times the score, but never average it
                  // with shares
    bool smaller; // a lower score is better: use metric_better
    bool none;    // a case with choices but no reference is valid: no choice is right
    // Statistics of all references, collected before the first score; NULL: not needed.
    void *(*corpus_new)(void);
    void (*corpus_add)(const struct metric *m, void *corpus, const char *const *references,
                       size_t count);
    void (*corpus_free)(void *corpus);
    int (*score)(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err);
    // Steps of a score function that several metrics share: read an answer as a letter (0: A) or as
    // yes or no, normalise texts before comparing them.
    int (*letter)(const struct metric_case *c);
    int (*verdict)(struct scratch *s, const char *answer);
    char *(*clean)(struct scratch *s, const char *text);
    // Extracts a part of the raw answer before vlmsh removes thinking; NULL: takes the whole
    // answer.
    char *(*extract)(struct scratch *s, const char *raw);
    // Computes further numbers beside the score; returns how many (at most METRIC_NUMBERS). NULL:
    // none.
    int (*summary)(const struct metric_tally *t, struct metric_number *numbers);
};

#define X(id, name) extern const struct metric metric_##id;
#include "core/metrics/list.h"
#undef X
extern const struct metric *const metrics[]; // [METRIC_COUNT], and NULL

enum {
    METRIC_COUNT = 0
#define X(id, name) +1
#include "core/metrics/list.h"
#undef X
};

const struct metric *metric_find(const char *name);
// Like metric_find, but sets an error that lists the metrics if the name is unknown.
const struct metric *metric_need(const char *name, struct err *err);
int metric_index(const struct metric *m); // in metrics[]

// True if score a is better than b in the metric's direction. NaN is never better.
bool metric_better(const struct metric *m, double a, double b);

void metric_tally_add(struct metric_tally *t, const struct metric_outcome *o);
void metric_tally_merge(struct metric_tally *t, const struct metric_tally *other);
// Sets the 95% interval: for shares the Wilson interval, with an end of exactly 0 or 1 if the share
// is 0 or 1; otherwise the mean +- 1.96 standard errors, at least 0, and NaN for fewer than two
// scores.
void metric_interval(const struct metric *m, const struct metric_tally *t, double *low,
                     double *high);

#endif
