// tests/core/probes/consistency.c -- core/probes/consistency.c and core/picture/change.c: answers
// that cannot differ count as the same, different ones are counted; the conversation does not
// change; changed pictures keep their size.
#include "core/picture/change.h"
#include "core/probes/kit.h"
#include "tests/core/probes/probe.h"

static double number(const struct results *r, const char *table, const char *row,
                     const char *column)
{
    const double *v = results_value(r, table, row, column);
    if (!v) fail_msg("no %s, %s, %s", table, row, column);
    return *v;
}

// At a temperature near 0, every sample is the greedy answer.
static void cold_samples_are_the_same(void **state)
{
    struct golden g;
    struct results r = { 0 };
    struct probe_options o = probe_defaults;
    ask(&g, "llava-1.5", 4);
    o.samples = 3;
    o.temperature = 1e-6;
    run_probe(&g, &probe_consistency, &o, &r);
    assert_true(number(&r, "consistency", "samples", "same") == 1);
    assert_true(number(&r, "consistency", "samples", "overlap") == 1);
    assert_true(number(&r, "consistency.distinct", "different answers among samples", "value") ==
                1);
    // Wilson's interval of 3 of 3.
    near(&g, "low", number(&r, "consistency.bounds", "samples", "low"), 0.438503, 1e-5);
    near(&g, "high", number(&r, "consistency.bounds", "samples", "high"), 1, 1e-9);
    assert_int_equal(results_find(&r, "consistency.answers")->row_count, 3 + image_change_count);
    results_release(&r);
    golden_close(&g);
}

// A measurement is refused if its samples would need seeds beyond the setting's maximum: samples
// with equal seeds would agree.
static void seeds_must_differ(void **state)
{
    struct golden g;
    struct results r = { 0 };
    struct err err = { 0 };
    struct measure_request request = { .probe = &probe_consistency, .options = probe_defaults };
    ask(&g, "llava-1.5", 2);
    must(engine_set(g.engine, "sample.seed", "9007199254740991", &err), &err);
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "sample.seed cannot be"));
    results_release(&r);
    golden_close(&g);
}

// At a high temperature, samples of random weights differ. The measurement leaves no trace: a
// second one gives the same answers, and the regenerated answer is unchanged.
static void nothing_remains(void **state)
{
    struct golden g;
    struct results r[2] = { { 0 } };
    struct probe_options o = probe_defaults;
    struct err err = { 0 };
    ask(&g, "qwen2.5-vl", 4);
    const struct ids before = engine_talk(g.engine).messages[1].ids;
    o.samples = 4;
    o.temperature = 50;
    for (int i = 0; i < 2; i++) run_probe(&g, &probe_consistency, &o, &r[i]);
    const struct result_table *a = results_find(&r[0], "consistency.answers");
    const struct result_table *b = results_find(&r[1], "consistency.answers");
    assert_int_equal(a->row_count, b->row_count);
    for (size_t i = 0; i < a->row_count; i++) assert_string_equal(a->rows[i].key, b->rows[i].key);
    assert_true(number(&r[0], "consistency", "samples", "same") < 1);
    assert_true(number(&r[0], "consistency.distinct", "different answers among samples", "value") >
                2);
    int32_t ids[4];
    const size_t count = before.count;
    memcpy(ids, before.data, count * sizeof *ids);
    must(engine_regenerate(g.engine, &err), &err);
    assert_int_equal(engine_talk(g.engine).messages[1].ids.count, count);
    assert_memory_equal(engine_talk(g.engine).messages[1].ids.data, ids, count * sizeof *ids);
    for (int i = 0; i < 2; i++) results_release(&r[i]);
    golden_close(&g);
}

static void text_models_are_sampled(void **state)
{
    struct golden g;
    struct results r = { 0 };
    struct err err = { 0 };
    golden_open(&g, "llama-3.2");
    must(engine_set(g.engine, "sample.max_tokens", "4", &err), &err);
    must(engine_ask(g.engine, "hello", &err), &err);
    run_probe(&g, &probe_consistency, NULL, &r);
    assert_int_equal(results_find(&r, "consistency")->row_count, 1);
    assert_int_equal(results_find(&r, "consistency.answers")->row_count, 5);
    results_release(&r);
    golden_close(&g);
}

// --- changes to pictures -------------------------------------------------------------------------

enum { W = 40, H = 30 };

static int change_named(const char *name)
{
    for (int i = 0; i < image_change_count; i++)
        if (!strcmp(image_changes[i], name)) return i;
    fail_msg("no change '%s'", name);
    return -1;
}

static double distance(const struct image *a, const struct image *b)
{
    double sum = 0;
    for (int64_t i = 0; i < 3 * W * H; i++) sum += abs(a->pixels[i] - b->pixels[i]);
    return sum / (3 * W * H);
}

static void changes_are_small_and_keep_the_size(void **state)
{
    struct image image = { .width = W, .height = H, .channels = 3 }, to;
    struct err err = { 0 };
    image.pixels = xcalloc(3 * W * H, 1);
    for (int i = 0; i < 3 * W * H; i++)
        image.pixels[i] = (uint8_t)(60 + 2 * (i / 3 % W) + 2 * (i / 3 / W) + i % 3);
    for (int i = 0; i < image_change_count; i++) {
        must(image_change(&to, &image, i, &err), &err);
        assert_true(to.width == W && to.height == H && to.channels == 3);
        const double d = distance(&to, &image);
        if (!(d > 0 && d < 40)) fail_msg("%s changes a level by %.3g", image_changes[i], d);
        image_release(&to);
    }
    // Single pixels.
    must(image_change(&to, &image, change_named("shift right 3%"), &err), &err);
    assert_int_equal(to.pixels[3 * (5 * W + 7)], image.pixels[3 * (5 * W + 6)]);
    assert_int_equal(to.pixels[3 * (5 * W)], image.pixels[3 * (5 * W)]);
    image_release(&to);
    must(image_change(&to, &image, change_named("shift down 3%"), &err), &err);
    assert_int_equal(to.pixels[3 * (5 * W + 7)], image.pixels[3 * (4 * W + 7)]);
    image_release(&to);
    must(image_change(&to, &image, change_named("brightness 80%"), &err), &err);
    assert_int_equal(to.pixels[9], lround(0.8 * image.pixels[9]));
    image_release(&to);
    must(image_change(&to, &image, change_named("JPEG quality 20"), &err), &err);
    struct image finer;
    must(image_change(&finer, &image, change_named("JPEG quality 50"), &err), &err);
    assert_true(distance(&finer, &image) < distance(&to, &image));
    image_release(&finer);
    image_release(&to);
    image_release(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cold_samples_are_the_same),
        cmocka_unit_test(seeds_must_differ),
        cmocka_unit_test(nothing_remains),
        cmocka_unit_test(text_models_are_sampled),
        cmocka_unit_test(changes_are_small_and_keep_the_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
