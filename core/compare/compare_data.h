// core/compare/compare_data.h -- a data set under two sets of settings: both scores, how sure their
// difference is, how far the answers are apart.
//
//   struct compare_data_request r = { .request = { model, backend, .settings = {a, b}, ... },
//                                     .data = &dataset, .limit = 100 };
//   struct compared_data d;
//   if (compare_data_run(&r, &d, &err) < 0) ...
//   compared_data_release(&d);
//
// The two evaluations (core/train/evaluate.h) go side by side, sample by sample; a generated answer
// of the first is then fed to the second as in core/compare/compare.h. The difference is paired:
// means over questions that both could score, 95% interval by a bootstrap over these pairs (2000
// resamples of a seeded generator, 2.5th and 97.5th percentile) for every metric; for shares
// McNemar's exact test of the questions on which the two disagree besides.
#ifndef CORE_COMPARE_COMPARE_DATA_H
#define CORE_COMPARE_COMPARE_DATA_H

#include "core/compare/compare.h"
#include "core/train/evaluate.h"

struct compare_data_request {
    struct compare_request request; // `from` and `question` are not read
    const struct dataset *data;
    int64_t limit;               // samples, 0: all
    const struct metric *metric; // NULL: the one each sample names
    const struct hooks *hooks;   // who listens besides; NULL: nobody
    // For jobs: a file that gets a line for each sample; a resumed one goes on behind the last.
    // NULL: none.
    const char *state;
    const struct provenance *provenance; // of both sides
    bool resumed;
    // Told (with request.self) when both sides are through with a sample; false stops. May be NULL.
    bool (*sampled)(void *self, int64_t done, int64_t count);
};

// A question that both sides were scored on.
struct compared_question {
    char *id, *kind, *prompt, *reference;
    const struct metric *metric;
    char *answer[2];
    double score[2];
    bool generated; // what follows holds
    int64_t first;  // as in struct comparison
    int64_t steps, agreed;
    double mean, most; // Hellinger distance
    struct compare_cost cost[2];
};

struct compare_mean {
    double mean, low, high; // 95%; NaN where there are too few
};

struct compared_data {
    struct evaluation evaluation[2];
    bool stopped; // the rest is of what was compared until then
    struct compared_question *list;
    size_t count;
    // Of the pairs of the metric with most questions.
    const struct metric *metric;
    int64_t pairs;
    struct compare_mean difference; // second - first
    int64_t only[2];                // pairs in which this side has the better score
    double mcnemar;                 // p of the two-sided exact test; NaN: no share, or no such pair
    // Of generated answers.
    int64_t generated, same;       // how many, and how many with the same tokens on both sides
    struct compare_mean hellinger; // mean over questions of the mean over steps
    int64_t steps, agreed;
    // Hellinger distance by step, over the answers that have so many.
    struct compared_step {
        double sum;
        int64_t answers;
    } * by_step; // [step_count]
    int64_t step_count;
};

// -1 when either side could score nothing. When it is cancelled, evaluation[k].cancelled says so
// and the rest is of what was compared until then.
int compare_data_run(const struct compare_data_request *r, struct compared_data *d,
                     struct err *err);
void compared_data_release(struct compared_data *d);

// --- statistics ----------------------------------------------------------------------------------

// Percentile interval of the mean of n numbers by resampling them.
struct compare_mean bootstrap_mean(const double *x, size_t n);
// p of seeing counts at least as unequal as a and b when both are equally likely.
double mcnemar_exact(int64_t a, int64_t b);

#endif
