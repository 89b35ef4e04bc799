// core/eval/compare_data.h -- compares two sets of settings on a data set: both scores, the
// confidence interval of their difference, and the distance of the answers.
//
//   struct compare_work w = { .options = options };          // a plan of a grid of two cells
//   g.self = &w;
//   int status = grid_run(&g, &compare_plan, &err);
//   compared_data_release(&w.result);
//
// The two evaluations (core/eval/evaluate.h) run side by side, sample by sample; each answer that
// the first generates is then fed to the second, as in core/eval/compare.h. Differences are paired:
// their mean is over the questions that both sides scored with the first side's main metric, with a
// 95% bootstrap interval over the pairs (2000 resamples, drawn with a seeded generator; 2.5th and
// 97.5th percentile). If that metric's scores are only 0 or 1, also computes McNemar's exact test
// on the questions where the sides disagree.
#ifndef CORE_EVAL_COMPARE_DATA_H
#define CORE_EVAL_COMPARE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/tally.h"
#include "core/eval/compare.h"
#include "core/eval/evaluate_job.h"
#include "core/probes/hellinger.h"

// A question as one side processed it.
struct compared_answer {
    struct evaluated outcome; // owns its texts; .answer may be the choice that was ranked first
    size_t message;           // index of the question in the sample's messages
    bool scored;
    bool answered; // the model generated a text; if true, the fields below are set
    struct ids ids;
    struct step_logits full; // only on the first side, until the second has answered
    struct compare_cost cost;
    struct compare_distance distance; // set only on the second side
};

// A question that both sides scored.
struct compared_question {
    struct compared_answer side[2];
    bool generated; // both sides generated an answer
    int64_t first;  // as in struct comparison
};

struct compare_mean {
    double mean, low, high; // low, high: 95% interval; NaN: too few values
};

struct compared_data {
    struct evaluation evaluation[2];
    bool stopped; // if true, the fields below cover only the samples before the stop
    struct compared_question *list;
    size_t count;
    // These fields are for the metric with which the first side scored the most questions. A pair
    // is a question that both sides scored with it.
    const struct metric *metric;
    int64_t pairs;
    struct compare_mean difference; // second - first
    int64_t only[2];                // pairs in which this side scores better
    double mcnemar; // p of the two-sided exact test; NaN: scores are not only 0 or 1, or no pair
                    // differs
    // These fields are for questions with two generated answers.
    int64_t generated, same; // questions, and questions whose two answers have the same tokens
    struct compare_mean hellinger; // mean over questions of the mean over steps
    int64_t steps, agreed;
    // Hellinger distance at each step, over the answers that reach the step.
    struct tally *by_step; // [step_count]
    int64_t step_count;
};

struct compare_work {
    struct evaluate_options options; // borrowed
    struct compared_data result;     // set also if the comparison was stopped
};
// The cells are "A" and "B". A job keeps a line for each sample that both cells have processed.
extern const struct grid_plan compare_plan;
void compared_data_release(struct compared_data *d);
// Reads a job's state file: sets list, by_step and the tallies of both evaluations, and leaves the
// rest of *d zero.
int compare_data_read(const char *state, struct compared_data *d, struct err *err);

// --- statistics ----------------------------------------------------------------------------------

// Computes the mean of n numbers and its bootstrap percentile interval.
struct compare_mean bootstrap_mean(const double *x, size_t n);
// Returns p: the probability of counts at least as unequal as a and b if each of the a + b pairs is
// equally likely to favour either side. NaN if a + b is 0.
double mcnemar_exact(int64_t a, int64_t b);

#endif
