// core/base/tally.h -- running mean and standard deviation (Welford 1962).
//
//   struct tally t = { 0 };
//   tally_add(&t, x); ...
//   tally_mean(&t), tally_std(&t)
//
// Keeps the sum of squared deviations from the mean, not of squares: the difference of mean square
// and squared mean loses all digits when the deviation is much smaller than the mean.
#ifndef CORE_BASE_TALLY_H
#define CORE_BASE_TALLY_H

#include <stdint.h>

struct tally {
    int64_t count;
    double mean, squares; // sum of squared distances from the mean
};

void tally_add(struct tally *t, double x);
void tally_merge(struct tally *t, const struct tally *other);
double tally_mean(const struct tally *t); // NaN if empty
double tally_std(const struct tally *t);  // of the population; NaN if empty
// The 95% interval of the mean of independent numbers by Student's t; NaN for fewer than two.
void tally_interval(const struct tally *t, double *low, double *high);
extern const double normal_quantile; // 97.5% of the standard normal distribution lies below it
// The 95% interval of a share among n independent cases (Wilson 1927), with an end of exactly 0 or
// 1 if the share is 0 or 1. NaN if n is 0.
void share_interval(double share, double n, double *low, double *high);
// Returns the two-sided p-value of Student's t with `freedom` degrees of freedom.
double student_p(double t, double freedom);

#endif
