// core/sets/total.h -- a suite's score of a whole set, if it is not a plain mean: MME adds up
// categories, POPE's F1 is the mean of three splits.
//
//   struct set_number numbers[SET_NUMBERS];
//   const int n = total->count(total, scores, count, metric, numbers);
//   set_total_interval(total, scores, count, metric, &low, &high);   // of numbers[0]
#ifndef CORE_SETS_TOTAL_H
#define CORE_SETS_TOTAL_H

#include "core/metrics/metric.h"

// A scored question. Texts are borrowed.
struct set_score {
    const char *kind, *group;
    double score;
    int class;
    double overlap; // as in struct metric_outcome
    int64_t sample; // its number, from 1; 0: unknown, a sample of its own
};

enum { SET_NUMBERS = 8 };

struct set_number {
    const char *name;
    double value; // NaN: undefined
    // Papers print a share in percent.
    enum { NUMBER_SHARE, NUMBER_PERCENT, NUMBER_OTHER } unit;
};

struct set_total {
    const char *name;
    const char *rule; // one sentence
    bool apart;       // the numbers belong to separate parts, so the first has no interval
    int quoted;       // index of the number that tables quote for the whole set
    const char *part; // the part whose number tables quote instead, if the file has it; NULL: none
    // The units of a bootstrap sample: groups (a question without a group is a unit), questions
    // even if they have groups, or sets of pictures with all their groups
    // ("SET_FIGURE\nSET_QUESTION").
    enum { UNIT_GROUP, UNIT_QUESTION, UNIT_SET } unit;
    // Computes at most SET_NUMBERS numbers, the most important first; returns how many.
    int (*count)(const struct set_total *t, const struct set_score *scores, size_t n,
                 const struct metric *m, struct set_number *numbers);
    // For totals that average over parts: the label, the parts, and the score of a part.
    const char *number;
    enum { BY_KIND, BY_KINDS, BY_GROUP } by; // BY_KINDS: a kind "a,b" counts for both
    double (*of_part)(const struct metric *m, const struct metric_tally *t);
};

// MME (Fu et al. 2023): accuracy plus the share of pictures with both answers right, in percent,
// summed over the categories of perception and of cognition.
extern const struct set_total set_total_mme;
// Mean over the kinds, equally weighted.
extern const struct set_total set_total_kinds;
// RefCOCO: mean over the splits of accuracy and of intersection over union.
extern const struct set_total set_total_boxes;
// Mean over the kinds of the metric's F1; a kind "a,b" counts for both.
extern const struct set_total set_total_f1;
// F1 over all questions; a question of several kinds ("a,b") counts once for each.
extern const struct set_total set_total_f1_all;
// A question counts if all its rotations (the questions of its group) are answered right.
extern const struct set_total set_total_circular;

// The mean of each group, if there are several; from number SET_NUMBERS on, one mean of all others.
extern const struct set_total set_total_splits;

// CV-Bench: the mean of 2D (mean of ADE20K and COCO) and 3D (Omni3D).
extern const struct set_total set_total_cvbench;

// HallusionBench: accuracy, and the shares of figures and of questions with all answers right.
extern const struct set_total set_total_hallusion;

// CHAIRi and CHAIRs (core/metrics/chair.c), and the mean number of objects mentioned in a caption.
extern const struct set_total set_total_chair;

enum { SET_DRAWS = 1000 }; // bootstrap samples

// Returns the number of the i-th of `count` units in a bootstrap sample. The seed is fixed, so that
// scores of the same units under several conditions have the same samples.
size_t set_draw(int draw, size_t count, size_t i);
// Sorts the values of the bootstrap samples, and computes their 95% interval: NaN if one of them is
// NaN.
void set_draws_interval(double *draws, double *low, double *high);
// Computes a number of the total, by index, for each bootstrap sample of the total's units: samples
// 1 to `samples`, including those without a score, or groups of scores. Returns a key of these
// units: draws with equal keys come from the same bootstrap samples. 0: fewer than two units; draws
// is unchanged.
uint64_t set_total_draws(const struct set_total *total, const struct set_score *scores, size_t n,
                         int64_t samples, const struct metric *m, int number,
                         double draws[SET_DRAWS]);
// Computes a 95% interval of the first number, without samples that have no score; NaN for fewer
// than two units, if `apart`, or if the number is undefined for a bootstrap sample.
void set_total_interval(const struct set_total *total, const struct set_score *scores, size_t n,
                        const struct metric *m, double *low, double *high);

#endif
