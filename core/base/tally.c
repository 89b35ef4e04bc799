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

const double normal_quantile = 1.959963984540054;

void share_interval(double share, double n, double *low, double *high)
{
    // The interval holds all shares p that differ from the observed share by at most z standard
    // errors of p. If the observed share is 0 or 1, so is one end, but for rounding.
    const double z = normal_quantile;
    const double base = 1 + z * z / n, centre = (share + z * z / (2 * n)) / base;
    const double half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / base;
    *low = share <= 0 ? 0 : fmax(0, centre - half);
    *high = share >= 1 ? 1 : fmin(1, centre + half);
    if (!(n > 0)) *low = *high = NAN;
}

// --- Student's t ---------------------------------------------------------------------------------

// Returns the regularised incomplete beta function I_x(a, b). Evaluates it as a continued fraction
// (by Lentz's method), which converges fast for x < (a + 1) / (a + b + 2) (Press et al., Numerical
// Recipes, section 6.4).
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double f = d;
    for (int m = 1; m < 10000; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double step = 1;
        for (int k = 0; k < 2; k++) {
            const double term = k ? odd : even;
            d = 1 + term * d, c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            if (fabs(c) < tiny) c = tiny;
            step = c * d;
            f *= step;
        }
        if (fabs(step - 1) < 1e-15) break;
    }
    return f * exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a;
}

double student_p(double t, double freedom)
{
    const double x = freedom / (freedom + t * t), a = freedom / 2, b = 0.5;
    if (isnan(t) || !(freedom > 0)) return NAN;
    if (x >= 1) return 1;
    if (x <= 0) return 0;
    return x < (a + 1) / (a + b + 2) ? beta_fraction(x, a, b) : 1 - beta_fraction(1 - x, b, a);
}

void tally_interval(const struct tally *t, double *low, double *high)
{
    *low = *high = NAN;
    if (t->count < 2) return;
    double from = 0, to = 13; // the quantile with one degree of freedom is 12.7
    for (int i = 0; i < 60; i++) {
        const double middle = (from + to) / 2;
        *(student_p(middle, (double)(t->count - 1)) > 0.05 ? &from : &to) = middle;
    }
    const double n = (double)t->count, half = to * sqrt(t->squares / (n - 1) / n);
    *low = t->mean - half;
    *high = t->mean + half;
}
