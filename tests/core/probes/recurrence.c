// tests/core/probes/recurrence.c -- core/probes/recurrence.c against a float64 loop of the
// recurrence in which one row's value is 1 and all others are 0; a measured conversation.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/random.h"
#include "core/probes/recurrence.h"
#include "tests/core/probes/probe.h"

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

// The measurement keeps the cached rows; the picture's share lies between 0 and 1.
static void a_conversation_is_measured(void **state)
{
    struct golden g;
    struct results r = { 0 };
    ask(&g, "qwen3.5", 4);
    const int64_t cached = engine_conversation(g.engine)->cached.n;
    run_probe(&g, &probe_recurrence, NULL, &r);
    const struct result_table *t = results_find(&r, "recurrence");
    assert_non_null(t);
    assert_true(t->row_count > 0);
    for (size_t i = 0; i < t->row_count; i++)
        assert_true(t->rows[i].value[1] > 0 && t->rows[i].value[1] < 1); // to the pictures
    assert_int_equal(engine_conversation(g.engine)->cached.n, cached);
    results_release(&r);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(weights_are_those_of_the_values),
                                        cmocka_unit_test(a_conversation_is_measured) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
