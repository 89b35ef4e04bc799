// core/base/tally.c -- running mean and standard deviation.
#include "core/base/tally.h"

#include <math.h>

void tally_add(struct tally *t, double x)
{
    const double before = x - t->mean;
    t->count++;
    t->mean += before / (double)t->count;
    t->squares += before * (x - t->mean);
}

void tally_merge(struct tally *t, const struct tally *other)
{
    const double n = (double)t->count, m = (double)other->count, apart = other->mean - t->mean;
    if (!other->count) return;
    t->count += other->count;
    t->mean += apart * m / (n + m);
    t->squares += other->squares + apart * apart * n * m / (n + m);
}

double tally_mean(const struct tally *t)
{
    return t->count ? t->mean : NAN;
}

double tally_std(const struct tally *t)
{
    return t->count ? sqrt(t->squares / (double)t->count) : NAN;
}
