// tests/core/probes/recurrence.c -- core/probes/recurrence.c against a float64 loop of the
// recurrence, to which each row's value is given alone.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/random.h"
#include "core/model/decoder.h"
#include "core/probes/recurrence.h"

enum { ROWS = 23, HK = 2, H = 6, DK = 5, DV = 3 };
enum { WIDE = 2 * HK * DK + H * DV + 2 * H };

static float x[ROWS * WIDE], log_a[H], bias[H];

static double length(const float *k)
{
    double sum = 1e-6;
    for (int e = 0; e < DK; e++) sum += (double)k[e] * (double)k[e];
    return sqrt(sum);
}

// Returns the output at row `row` of a head whose value is 1 at row `only` and 0 elsewhere.
static double output(int head, int key, int row, int only)
{
    double S[DK] = { 0 }, o = 0;
    for (int n = 0; n <= row; n++) {
        const float *q = x + n * WIDE + key * DK, *k = q + HK * DK;
        const float *gates = x + n * WIDE + 2 * HK * DK + H * DV;
        const double z = (double)gates[head] + (double)bias[head];
        const double alpha = exp(-exp((double)log_a[head]) * log(1 + exp(z)));
        const double beta = 1 / (1 + exp(-(double)gates[H + head]));
        double known = 0;
        for (int e = 0; e < DK; e++) S[e] *= alpha, known += S[e] * (double)k[e] / length(k);
        const double u = beta * ((n == only) - known);
        o = 0;
        for (int e = 0; e < DK; e++) {
            S[e] += (double)k[e] / length(k) * u;
            o += S[e] * (double)q[e] / length(q) / sqrt(DK);
        }
    }
    return o;
}

static void weights_are_those_of_the_values(void **state)
{
    for (int i = 0; i < ROWS * WIDE; i++)
        x[i] = (float)(2 * random_unit(1, RANDOM_WEIGHTS, (uint64_t)i) - 1);
    for (int h = 0; h < H; h++) log_a[h] = 0.3F * (float)h - 2, bias[h] = 0.1F * (float)h - 1;
    for (int alternate = 0; alternate < 2; alternate++) {
        const struct delta_config config = {
            .key_heads = HK, .key_width = DK, .heads = H, .width = DV, .alternate = alternate
        };
        const struct recurrence r = { &config, x, log_a, bias };
        for (int h = 0; h < H; h++) {
            double w[ROWS];
            const int row = ROWS - 1 - h;
            recurrence_weights(&r, h, row, w);
            for (int i = 0; i <= row; i++) {
                const double want = output(h, alternate ? h % HK : h / (H / HK), row, i);
                if (!(fabs(w[i] - want) <= 1e-12)) fail_msg("%d: %g, %g", i, w[i], want);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(weights_are_those_of_the_values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
