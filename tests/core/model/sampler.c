// tests/core/model/sampler.c -- core/model/sampler.c: the spread of logits; repeat penalty, greedy
// choice, filters and draws against distributions computed here; seeds.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/model/sampler.h"
#include "core/settings/settings.h"

enum { VOCAB = 6, DRAWS = 20000 };
static const float LOGITS[VOCAB] = { 1.0f, 3.0f, 2.0f, 3.0f, -1.0f, 0.0f };

static struct settings *with(const char *key, const char *value, const char *key2,
                             const char *value2)
{
    struct settings *s = settings_new();
    struct err err;
    if (key) assert_int_equal(settings_set(s, key, value, &err), 0);
    if (key2) assert_int_equal(settings_set(s, key2, value2, &err), 0);
    return s;
}

static int32_t pick(const struct settings *s, const int32_t *history, size_t n, uint64_t place)
{
    float logits[VOCAB];
    memcpy(logits, LOGITS, sizeof logits);
    return sampler_pick(s, logits, VOCAB, history, n, place);
}

// The share of each id among DRAWS draws.
static void shares(const struct settings *s, double share[VOCAB])
{
    int count[VOCAB] = { 0 };
    for (uint64_t place = 0; place < DRAWS; place++) count[pick(s, NULL, 0, place)]++;
    for (int i = 0; i < VOCAB; i++) share[i] = (double)count[i] / DRAWS;
}

static void expect_shares(struct settings *s, const double weight[VOCAB])
{
    double share[VOCAB], sum = 0;
    shares(s, share);
    for (int i = 0; i < VOCAB; i++) sum += weight[i];
    for (int i = 0; i < VOCAB; i++) {
        double p = weight[i] / sum;
        // Five standard deviations of a share of DRAWS draws are allowed.
        if (fabs(share[i] - p) > 5 * sqrt(p * (1 - p) / DRAWS))
            fail_msg("token %d: share %.4f instead of %.4f", i, share[i], p);
    }
    settings_free(s);
}

// Compares with loops in float64; a logit of -Inf excludes its token.
static void spread_is_that_of_the_softmax(void **state)
{
    enum { N = 1003 };
    float logits[N], probs[N];
    for (int way = 0; way < 3; way++) {
        double sum = 0, entropy = 0;
        for (int i = 0; i < N; i++)
            logits[i] = i % 7 == 3 ? -INFINITY : (float)((i * 37 % 101) * (way + 1)) / 10 - 20;
        if (way == 2) logits[40] = 60; // nearly certain
        for (int i = 0; i < N; i++) sum += exp((double)logits[i]);
        for (int i = 0; i < N; i++) {
            const double p = exp((double)logits[i]) / sum;
            if (p > 0) entropy -= p * log(p);
        }
        const struct logits_spread s = logits_spread(logits, N, probs);
        assert_true(fabs(s.log_sum - log(sum)) < 1e-5);
        assert_true(fabs(s.entropy - entropy) < 2e-5);
        assert_true(fabs((double)probs[41] - exp((double)logits[41]) / sum) < 1e-6);
    }
}

static void the_penalty_leaves_the_logits_alone(void **state)
{
    struct settings *s = with("sample.repeat_penalty", "2", NULL, NULL);
    const int32_t history[] = { 1, 3 };
    float logits[VOCAB];
    memcpy(logits, LOGITS, sizeof logits);
    assert_int_equal(sampler_pick(s, logits, VOCAB, history, 2, 0), 2);
    assert_memory_equal(logits, LOGITS, sizeof logits);
    settings_free(s);
}

static void greedy_takes_the_lower_id_of_equals(void **state)
{
    struct settings *s = settings_new();
    assert_int_equal(pick(s, NULL, 0, 7), 1);
    settings_free(s);
}

static void penalty_pushes_seen_tokens_down(void **state)
{
    struct settings *s = with("sample.repeat_penalty", "2", NULL, NULL);
    assert_int_equal(pick(s, (int32_t[]){ 1 }, 1, 0), 3);
    assert_int_equal(pick(s, (int32_t[]){ 1, 3, 3, 99, -5 }, 5, 0), 2);
    settings_free(s);
}

static void temperature_draws_from_the_softmax(void **state)
{
    expect_shares(with("sample.temperature", "1", NULL, NULL),
                  (double[]){ exp(1), exp(3), exp(2), exp(3), exp(-1), exp(0) });
    expect_shares(with("sample.temperature", "2", NULL, NULL),
                  (double[]){ exp(.5), exp(1.5), exp(1), exp(1.5), exp(-.5), exp(0) });
}

static void filters_leave_out_the_tail(void **state)
{
    double e1 = exp(1), e2 = exp(2), e3 = exp(3);
    expect_shares(with("sample.temperature", "1", "sample.top_k", "3"),
                  (double[]){ 0, e3, e2, e3, 0, 0 });
    // The sorted probabilities are .389 .389 .143 .053 ...; with the third, their sum exceeds 0.9.
    expect_shares(with("sample.temperature", "1", "sample.top_p", "0.9"),
                  (double[]){ 0, e3, e2, e3, 0, 0 });
    expect_shares(with("sample.temperature", "1", "sample.min_p", "0.1"),
                  (double[]){ e1, e3, e2, e3, 0, 0 });
    expect_shares(with("sample.temperature", "1", "sample.top_p", "0"),
                  (double[]){ 0, 1, 0, 0, 0, 0 });
}

static void a_draw_depends_only_on_seed_and_position(void **state)
{
    struct settings *a = with("sample.temperature", "1", "sample.seed", "1");
    struct settings *b = with("sample.temperature", "1", "sample.seed", "2");
    int differ = 0;
    for (uint64_t place = 0; place < 100; place++) {
        assert_int_equal(pick(a, NULL, 0, place), pick(a, NULL, 0, place));
        differ += pick(a, NULL, 0, place) != pick(b, NULL, 0, place);
    }
    assert_true(differ > 20);
    settings_free(a);
    settings_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spread_is_that_of_the_softmax),
        cmocka_unit_test(the_penalty_leaves_the_logits_alone),
        cmocka_unit_test(greedy_takes_the_lower_id_of_equals),
        cmocka_unit_test(penalty_pushes_seen_tokens_down),
        cmocka_unit_test(temperature_draws_from_the_softmax),
        cmocka_unit_test(filters_leave_out_the_tail),
        cmocka_unit_test(a_draw_depends_only_on_seed_and_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
