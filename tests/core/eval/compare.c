// tests/core/eval/compare.c -- core/eval/compare.c, core/eval/compare_data.c,
// core/probes/hellinger.c: distances equal the reference, a comparison does not change state,
// costs equal their formulas, statistics equal numbers computed by hand.
#include "core/adapter/adapters.h"
#include "core/eval/compare_data.h"
#include "core/eval/grid.h"
#include "core/probes/hellinger.h"
#include "tests/core/model/families/golden.h"

static const char *const models[] = { GOLDEN_SEEING };

static struct settings *with(const struct golden *g, const char *const (*pairs)[2])
{
    struct err err = { 0 };
    struct settings *s = settings_copy(engine_settings(g->engine));
    for (; (*pairs)[0]; pairs++) must(settings_set(s, (*pairs)[0], (*pairs)[1], &err), &err);
    return s;
}

static void compare_with(struct golden *g, const char *const (*pairs)[2], struct comparison *c)
{
    struct err err = { 0 };
    static const char *const nothing[][2] = { { NULL } };
    const struct conversation *from = engine_conversation(g->engine);
    struct grid grid = grid_of_engine(g->engine);
    grid_add(&grid, "A", with(g, nothing));
    grid_add(&grid, "B", with(g, pairs));
    const struct compare_request r = { .grid = &grid,
                                       .from = from,
                                       .messages = from->message_count };
    must(compare_run(&r, c, &err), &err);
    grid_release(&grid);
}

// Writes alpha of the approximated layers, 1 and 2.
static void write_alpha(const struct golden *g, const char *path)
{
    struct err err = { 0 };
    const struct safetensor *a = safetensors_find(g->tensors, "ffn.alpha"); // [2,D]
    const int64_t shape[] = { 4, a->shape[1] };
    float *alpha = calloc(4, a->bytes / 2);
    memcpy(alpha + shape[1], a->data, a->bytes);
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_declare(w, "ffn.alpha", DTYPE_F32, 2, shape);
    must(safetensors_writer_data(w, alpha, 2 * a->bytes, &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
    free(alpha);
}

static void distances_equal_the_reference(void **state)
{
    static const char *const contribution[][2] = { { "prune.score", "contribution" },
                                                   { "prune.layer", "1" },
                                                   { NULL } };
    static const char *const attention[][2] = { { "prune.score", "attention" },
                                                { "prune.layer", "1" },
                                                { NULL } };
    static char alpha[300];
    const char *const hadamard[][2] = { { "ffn.approx", "hadamard" },
                                        { "ffn.layers", "1-2" },
                                        { "ffn.calibration", alpha },
                                        { NULL } };
    const struct {
        const char *name;
        const char *const (*pairs)[2];
    } cases[] = { { "hellinger.contribution", contribution },
                  { "hellinger.attention", attention },
                  { "hellinger.hadamard", hadamard } };
    for (size_t m = 0; m < 2; m++) {
        struct golden g;
        struct err err = { 0 };
        golden_open(&g, models[m]);
        snprintf(alpha, sizeof alpha, "%.280s.alpha", g.dump);
        write_alpha(&g, alpha);
        must(engine_set(g.engine, "sample.max_tokens", "8", &err), &err);
        say(&g, chat_named(&g, "single"));
        for (size_t k = 0; k < 3; k++) {
            const struct safetensor *want = safetensors_find(g.tensors, cases[k].name);
            struct comparison c;
            compare_with(&g, cases[k].pairs, &c);
            assert_int_equal(c.distance.steps, 8);
            for (int t = 0; t < 8; t++)
                assert_float_equal(c.distance.hellinger[t], ((const float *)want->data)[t], 2e-5);
            comparison_release(&c);
        }
        unlink(alpha);
        golden_close(&g);
    }
}

// Equal settings on both sides give distance 0. The conversation, its cache and the adapter do not
// change; a later answer is the same.
static void equal_settings_have_distance_zero(void **state)
{
    static const char *const nothing[][2] = { { NULL } };
    static const char *const other[][2] = { { "adapter", "tests/goldens/llava-1.5/adapters/lora" },
                                            { NULL } };
    struct golden g;
    struct err err = { 0 };
    struct comparison c;
    golden_open(&g, models[0]);
    must(engine_set(g.engine, "sample.max_tokens", "6", &err), &err);
    say(&g, chat_named(&g, "single"));
    must(engine_answer(g.engine, &err), &err);
    struct ids before = { 0 };
    ids_append(&before, g.answer.data, g.answer.count);
    const struct conversation *from = engine_conversation(g.engine);
    const int64_t cached = from->cached.n;
    struct message *last = &from->messages[from->message_count - 1];
    assert_int_equal(last->role, ROLE_ASSISTANT);
    ((struct conversation *)(uintptr_t)from)->message_count--;
    compare_with(&g, nothing, &c);
    assert_int_equal(c.first, -1);
    assert_true(c.distance.most == 0);
    assert_int_equal(c.distance.agreed, c.distance.steps);
    assert_int_equal(c.side[0].ids.count, before.count);
    assert_memory_equal(c.side[0].ids.data, before.data, before.count * sizeof(int32_t));
    assert_memory_equal(c.side[1].ids.data, before.data, before.count * sizeof(int32_t));
    comparison_release(&c);
    compare_with(&g, other, &c);
    assert_true(c.distance.mean > 0.01);
    comparison_release(&c);
    assert_null(engine_adapters(g.engine)->active);
    assert_int_equal(from->cached.n, cached);
    ((struct conversation *)(uintptr_t)from)->message_count++;
    must(engine_regenerate(g.engine, &err), &err);
    assert_int_equal(g.answer.count, before.count);
    assert_memory_equal(g.answer.data, before.data, before.count * sizeof(int32_t));
    ids_release(&before);
    golden_close(&g);
}

// Compares the first token of an answer to the chat "single" without and with these settings.
static void compare_first_token(struct golden *g, const char *const (*pairs)[2],
                                struct comparison *c)
{
    struct err err = { 0 };
    golden_open(g, models[0]);
    must(engine_set(g->engine, "sample.max_tokens", "1", &err), &err);
    say(g, chat_named(g, "single"));
    compare_with(g, pairs, c);
}

// Counts 2 FLOPs per multiply-add, as CAPA's paper does.
static void the_cost_is_that_of_the_formula(void **state)
{
    static const char *const pairs[][2] = { { "prune.score", "contribution" },
                                            { "prune.layer", "1" },
                                            { NULL } };
    struct golden g;
    struct comparison c;
    compare_first_token(&g, pairs, &c);
    const struct decoder_config *d = &engine_model(g.engine)->decoder.config;
    const double N = c.side[0].cost.of[COST_PROMPT_TOKENS], D = (double)d->hidden;
    const double Hd = (double)(d->heads * d->dim), kv = (double)(d->kv_heads * d->dim);
    const double dropped = c.side[1].cost.of[COST_VISUAL_TOKENS] - c.side[1].cost.of[COST_KEPT];
    double want[2] = { 2 * D * (double)d->vocab, 2 * D * (double)d->vocab };
    for (int l = 0; l < d->layers; l++)
        for (int k = 0; k < 2; k++) {
            const double n = k && l > 1 ? N - dropped : N;
            want[k] +=
                4 * n * D * Hd + 4 * n * D * kv + 6 * n * D * (double)d->ffn + 2 * n * (n + 1) * Hd;
        }
    assert_true(dropped > 0);
    for (int k = 0; k < 2; k++) {
        assert_float_equal(c.side[k].cost.of[COST_PREFILL_FLOPS], want[k], 1e-6 * want[k]);
        assert_float_equal(c.side[k].cost.of[COST_DECODE_FLOPS], 0, 0);
    }
    // One row for each token in each layer, keys and values of f32.
    const double row = 2 * 4 * kv;
    assert_float_equal(c.side[0].cost.of[COST_KV_BYTES], N * d->layers * row, 0.5);
    assert_float_equal(c.side[1].cost.of[COST_KV_BYTES],
                       (N * d->layers - dropped * (d->layers - 2)) * row, 0.5);
    comparison_release(&c);
    golden_close(&g);
}

// Skipped FFNs of visual tokens cost nothing.
static void skipped_ffns_are_not_counted(void **state)
{
    static const char *const pairs[][2] = { { "ffn.approx", "skip" },
                                            { "ffn.layers", "0-1" },
                                            { NULL } };
    struct golden g;
    struct comparison c;
    compare_first_token(&g, pairs, &c);
    const struct decoder_config *d = &engine_model(g.engine)->decoder.config;
    const struct compare_cost *full = &c.side[0].cost, *now = &c.side[1].cost;
    const double left = 2 * 6 * full->of[COST_VISUAL_TOKENS] * (double)d->hidden * (double)d->ffn;
    assert_true(left > 0);
    assert_float_equal(full->of[COST_PREFILL_FLOPS] - now->of[COST_PREFILL_FLOPS], left,
                       1e-9 * left);
    comparison_release(&c);
    golden_close(&g);
}

static void distances_of_known_distributions(void **state)
{
    const float same[] = { 1, 2, 3 }, shifted[] = { 101, 102, 103 };
    const float half[] = { 0, 0 }, sure[] = { 0, -1e30f }, other[] = { -1e30f, 0 };
    const float quarter[] = { 0, 1.0986123f }; // 1/4, 3/4
    assert_float_equal(hellinger(same, shifted, 3), 0, 1e-7);
    assert_float_equal(hellinger(sure, other, 2), 1, 1e-12);
    assert_float_equal(hellinger(half, sure, 2), sqrt(1 - sqrt(0.5)), 1e-9);
    assert_float_equal(hellinger(half, quarter, 2), sqrt(1 - sqrt(0.125) - sqrt(0.375)), 1e-7);
}

static void statistics_of_known_numbers(void **state)
{
    assert_float_equal(mcnemar_exact(1, 9), 22.0 / 1024, 1e-12); // 2 (1 + 10) / 2^10
    assert_float_equal(mcnemar_exact(9, 1), 22.0 / 1024, 1e-12);
    assert_float_equal(mcnemar_exact(5, 5), 1, 1e-12);
    assert_true(isnan(mcnemar_exact(0, 0)));
    double x[400], squares = 0;
    for (int i = 0; i < 400; i++) x[i] = i % 4 == 0; // a share of 1/4
    struct compare_mean m = bootstrap_mean(x, 400);
    for (int i = 0; i < 400; i++) squares += (x[i] - 0.25) * (x[i] - 0.25);
    const double half = 1.96 * sqrt(squares / 400 / 400); // by the normal approximation
    assert_float_equal(m.mean, 0.25, 1e-12);
    assert_float_equal(m.low, 0.25 - half, 0.01);
    assert_float_equal(m.high, 0.25 + half, 0.01);
    const struct compare_mean again = bootstrap_mean(x, 400);
    assert_true(m.low == again.low && m.high == again.high);
    assert_true(isnan(bootstrap_mean(x, 0).mean) && isnan(bootstrap_mean(x, 1).low));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_equal_the_reference),
        cmocka_unit_test(equal_settings_have_distance_zero),
        cmocka_unit_test(the_cost_is_that_of_the_formula),
        cmocka_unit_test(skipped_ffns_are_not_counted),
        cmocka_unit_test(distances_of_known_distributions),
        cmocka_unit_test(statistics_of_known_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
