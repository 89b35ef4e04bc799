// core/base/tally.h -- mean and standard deviation of numbers as they come (Welford 1962).
//
//   struct tally t = { 0 };
//   tally_add(&t, x); ...
//   tally_mean(&t), tally_std(&t)
//
// The sum of squared distances from the mean is kept, not that of squares: the difference of the
// mean of squares and the square of the mean has no digit left where a deviation is much smaller
// than the mean.
#ifndef CORE_BASE_TALLY_H
#define CORE_BASE_TALLY_H

#include <stdint.h>

struct tally {
    int64_t count;
    double mean, squares; // sum of squared distances from the mean
};

void tally_add(struct tally *t, double x);
void tally_merge(struct tally *t, const struct tally *other); // as if its numbers had come too
double tally_mean(const struct tally *t);                     // NaN of nothing
double tally_std(const struct tally *t);                      // of the population; NaN of nothing

#endif
